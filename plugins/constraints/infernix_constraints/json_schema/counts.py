"""The tightest of several limits of a length, and where they are set."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import define

from infernix_constraints.json_schema.assertions import Assertions
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Greatest least length of strings, arrays and objects: more would fill no answer of a sensible size.
MAX_COUNT = 8192


@define
class Counts:
    """The tightest limits.

    Attributes:
        least: Least length.
        greatest: Greatest length, or None.
        least_at: Where the least is set, if it is.
        greatest_at: Where the greatest is set, if it is.
    """

    least: int = 0
    greatest: int | None = None
    least_at: Location | None = None
    greatest_at: Location | None = None

    @classmethod
    def of(cls, limits: Iterable[tuple[int, int | None, Assertions]], what: str) -> Counts:
        """Combines limits; ``what`` is the end of their keywords."""
        counts = cls()
        for least, greatest, owner in limits:
            if least > counts.least:
                counts.least, counts.least_at = least, owner.location(f"min{what}")
            if greatest is not None and (counts.greatest is None or greatest < counts.greatest):
                counts.greatest, counts.greatest_at = greatest, owner.location(f"max{what}")
        return counts

    def check(self, what: str) -> None:
        """Raises when nothing can have such a length, or when it is not counted."""
        if self.greatest is not None and self.least > self.greatest:
            raise UnsatisfiableSchema(
                f"at least {self.least} and at most {self.greatest} {what}",
                location=self.greatest_at,
            )
        if self.least > MAX_COUNT:
            raise UnsupportedSchema(
                f"more than {MAX_COUNT} {what} are not generated",
                location=self.least_at,
                hint=f"a least number of at most {MAX_COUNT}",
            )
