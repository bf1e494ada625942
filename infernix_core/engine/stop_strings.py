"""Stop strings, found in text that arrives in pieces."""

from __future__ import annotations

from attrs import field, frozen

from infernix_core.errors import InvalidOption, Location

#: Every token of a request is searched for every stop string, on the thread that serves all requests.
MOST_STRINGS = 64
MOST_CHARACTERS = 1024


def _checked(values: tuple[str, ...]) -> tuple[str, ...]:
    where = Location(field="stop")
    if len(values) > MOST_STRINGS:
        raise InvalidOption(
            f"{len(values)} stop strings are too many",
            location=where,
            hint=f"at most {MOST_STRINGS}",
        )
    for value in values:
        if not isinstance(value, str) or not value:
            raise InvalidOption(
                f"{value!r} is no stop string", location=where, hint="non-empty text"
            )
        if len(value) > MOST_CHARACTERS:
            raise InvalidOption(
                f"a stop string has {len(value)} characters",
                location=where,
                hint=f"at most {MOST_CHARACTERS}",
            )
    return tuple(dict.fromkeys(values))


@frozen
class StopStrings:
    """Strings that end an output before they are published."""

    values: tuple[str, ...] = field(default=(), converter=_checked)
    _longest: int = field(init=False)

    @_longest.default
    def _length_of_longest(self) -> int:
        return max(map(len, self.values), default=0)

    def scan(self, text: str) -> tuple[str, str, str | None]:
        """Splits text into what may be published, what must be held back, and the stop that was hit.

        The earliest occurrence wins, and of those that begin there the first in order. What is held back is
        the longest end of the text that may still become a stop string.
        """
        if not self.values:
            return text, "", None
        hits = [(text.find(value), order) for order, value in enumerate(self.values)]
        found = min((hit for hit in hits if hit[0] >= 0), default=None)
        if found is not None:
            return text[: found[0]], "", self.values[found[1]]
        for size in range(min(self._longest - 1, len(text)), 0, -1):
            tail = text[-size:]
            if any(value.startswith(tail) for value in self.values):
                return text[:-size], tail, None
        return text, "", None
