"""Stop strings, found in text that arrives in pieces."""

from __future__ import annotations

from attrs import field, frozen

from infernix_core.errors import InvalidOption, Location


def _checked(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not isinstance(value, str) or not value:
            raise InvalidOption(
                "a stop string is not empty text", location=Location(field="stop")
            )
    return tuple(dict.fromkeys(values))


@frozen
class StopStrings:
    """Strings that end an output before they are published."""

    values: tuple[str, ...] = field(default=(), converter=_checked)

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
        longest = max(len(value) for value in self.values) - 1
        for size in range(min(longest, len(text)), 0, -1):
            tail = text[-size:]
            if any(value.startswith(tail) for value in self.values):
                return text[:-size], tail, None
        return text, "", None
