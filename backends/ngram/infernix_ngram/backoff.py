"""How far copies are trusted after those that went before, as a function of the output alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import define, field

from infernix_ngram.index import LONGEST_MATCH

#: The match that a copy needs is at most this many times as long as at first, and once more.
MOST_LEVEL = 2

#: A copy of at least so many right tokens was worth it, however long it was.
ENOUGH = 4


@define(eq=False)
class BackOff:
    """Follows imagined copies through the output and asks for longer matches after bad ones.

    Wherever none is under way, the copy is imagined that the history so far offers. The tokens that come are compared
    with it up to the first that differs, or the one behind it: what a round would commit whose drafts are this
    copy. So the level is what it would be if every round had had room for a whole copy, whatever rounds there were.

    Args:
        min_match: Tokens of a match at first.
    """

    min_match: int
    level: int = field(default=0, init=False)
    _copy: Sequence[int] = field(default=(), init=False)
    _right: int = field(default=0, init=False)

    @property
    def required(self) -> int:
        """Fewest tokens of a match, for now."""
        return min(LONGEST_MATCH, self.min_match * (1 + self.level))

    @property
    def begun(self) -> Sequence[int] | None:
        """The copy that was imagined at the last token, maybe empty; ``None`` while an earlier one is under way."""
        return None if self._right else self._copy

    def clear(self) -> None:
        """For a new sequence."""
        self.level, self._copy, self._right = 0, (), 0

    def after(self, token: int, offered: Callable[[int], Sequence[int]]) -> None:
        """One more token of the output.

        Args:
            token: The token.
            offered: The copy that the history offers, this token included, for a match of at least so many tokens.
        """
        copy, right = self._copy, self._right
        if right < len(copy) and token == copy[right]:
            self._right += 1
            return
        if copy:
            bad = right < min(len(copy), ENOUGH)
            self.level = min(self.level + 1, MOST_LEVEL) if bad else max(self.level - 1, 0)
        self._copy, self._right = offered(self.required), 0
