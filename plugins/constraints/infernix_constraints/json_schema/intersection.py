"""The intersection of assertions, type by type: from one alternative to its shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

from attrs import define, field

from infernix_constraints.json_schema.assertions import KINDS, Assertions
from infernix_constraints.json_schema.conjunction import Conjunction, Conjunctions
from infernix_constraints.json_schema.graph import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    Member,
    NullShape,
    NumberShape,
    ObjectShape,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.numbers import highest, integer_shape, lowest, number_range
from infernix_constraints.json_schema.values import Identity, Value, identity
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Greatest length of strings and arrays that is counted.
MAX_COUNT = 8192

Alternative = tuple[Assertions, ...]


@define(eq=False)
class Intersection:
    """Intersects alternatives.

    Attributes:
        conjunctions: Where children are normalised and values checked.
        node: Gives the index of a child conjunction's node.
        reasons: Why types that were admitted hold no value after all.
    """

    conjunctions: Conjunctions
    node: Callable[[Conjunction], int]
    reasons: list[UnsatisfiableSchema] = field(init=False, factory=list)

    def shapes(self, alternative: Alternative) -> list[Shape]:
        """The shapes of the values that satisfy all assertions; none when there is no such value.

        Raises:
            UnsupportedSchema: The intersection cannot be expressed.
        """
        if any(each.finite for each in alternative):
            return self._finite(alternative)
        kinds = frozenset(KINDS).intersection(*(each.kinds for each in alternative))
        if not kinds:
            narrowing = next(each for each in reversed(alternative) if len(each.kinds) < len(KINDS))
            self.reasons.append(
                UnsatisfiableSchema("no type is left", location=narrowing.location("type"))
                if narrowing.kinds
                else UnsatisfiableSchema("nothing is admitted", location=narrowing.location())
            )
        found: list[Shape] = []
        for kind in KINDS:
            if kind in kinds:
                try:
                    found.append(_SHAPES[kind](self, alternative))
                except UnsatisfiableSchema as reason:
                    self.reasons.append(reason)
        return found

    def _finite(self, alternative: Alternative) -> list[Shape]:
        owner = next(each for each in alternative if each.finite)
        candidates = owner.finite[0]
        distinct: dict[Identity, Value] = {}
        for value in candidates.values:
            distinct.setdefault(identity(value), value)
        satisfied = self.conjunctions.satisfied
        left = [value for value in distinct.values() if satisfied(value, alternative)]
        if left:
            return [FiniteShape(tuple(left))]
        what = "no value of it satisfies the assertions beside it"
        self.reasons.append(UnsatisfiableSchema(what, location=owner.location(candidates.keyword)))
        return []

    def _null(self, _alternative: Alternative) -> Shape:
        return NullShape()

    def _boolean(self, _alternative: Alternative) -> Shape:
        return BooleanShape()

    def _number(self, alternative: Alternative) -> Shape:
        lower = highest(chain.from_iterable(each.lower for each in alternative))
        upper = lowest(chain.from_iterable(each.upper for each in alternative))
        if any(each.integral for each in alternative):
            return integer_shape(lower, upper)
        return NumberShape(number_range(lower, upper))

    def _string(self, alternative: Alternative) -> Shape:
        counts = _Counts.of(
            ((each.min_length, each.max_length, each) for each in alternative), "Length"
        )
        counts.check("characters")
        return StringShape(counts.least, counts.greatest)

    def _array(self, alternative: Alternative) -> Shape:
        counts = _Counts.of(
            ((each.min_items, each.max_items, each) for each in alternative), "Items"
        )
        counts.check("items")
        items = self._child(each.items for each in alternative)
        return ArrayShape((), items, counts.least, counts.greatest)

    def _object(self, alternative: Alternative) -> Shape:
        required = dict.fromkeys(chain.from_iterable(each.required for each in alternative))
        # A required name that nothing declares is a declared one under the schema of the others.
        declared = dict.fromkeys(chain.from_iterable(each.properties for each in alternative))
        members = tuple(
            Member(
                name,
                self._child(each.properties.get(name, each.additional) for each in alternative),
                name in required,
            )
            for name in declared | required
        )
        additional = self._child(each.additional for each in alternative)
        return ObjectShape(members, frozenset(declared | required), additional)

    def _child(self, positions: Iterable[str | None]) -> int:
        asserted = (position for position in positions if position is not None)
        return self.node(self.conjunctions.document.conjunction(asserted))


_SHAPES: dict[str, Callable[[Intersection, Alternative], Shape]] = {
    "null": Intersection._null,
    "boolean": Intersection._boolean,
    "object": Intersection._object,
    "array": Intersection._array,
    "string": Intersection._string,
    "number": Intersection._number,
}


@define
class _Counts:
    """The tightest limits of a length, and where they are set."""

    least: int = 0
    greatest: int | None = None
    least_at: Location | None = None
    greatest_at: Location | None = None

    @classmethod
    def of(cls, limits: Iterable[tuple[int, int | None, Assertions]], what: str) -> _Counts:
        counts = cls()
        for least, greatest, owner in limits:
            if least > counts.least:
                counts.least, counts.least_at = least, owner.location(f"min{what}")
            if greatest is not None and (counts.greatest is None or greatest < counts.greatest):
                counts.greatest, counts.greatest_at = greatest, owner.location(f"max{what}")
        return counts

    def check(self, what: str) -> None:
        if self.greatest is not None and self.least > self.greatest:
            raise UnsatisfiableSchema(
                f"at least {self.least} and at most {self.greatest} {what}",
                location=self.greatest_at,
            )
        for count, location in ((self.least, self.least_at), (self.greatest, self.greatest_at)):
            if count is not None and count > MAX_COUNT:
                raise UnsupportedSchema(
                    f"more than {MAX_COUNT} {what} are not counted",
                    location=location,
                    hint=f"a limit of at most {MAX_COUNT}, or none",
                )
