"""What is kept of one sequence: a function of its prompt and its committed output."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field

from infernix_ngram.backoff import BackOff
from infernix_ngram.index import WindowIndex


@define(eq=False)
class CopySource:
    """Index and back-off of one lane.

    Args:
        index: Of its tokens.
        backoff: Of its output.
        most: Most tokens of a copy.
    """

    index: WindowIndex
    backoff: BackOff
    most: int
    _prompt_length: int | None = field(default=None, init=False)

    def clear(self) -> None:
        """For a new sequence."""
        self.index.clear()
        self.backoff.clear()
        self._prompt_length = None

    def foresee(self, tokens: Sequence[int], start: int) -> None:
        """Tokens that will be history, from this position on; early, so that a long prompt is not indexed at once.

        Where the prompt ends is not known yet: :meth:`advance` starts over if this went past it.
        """
        if start == 0:
            self.clear()
        if self._prompt_length is None and start == len(self.index):
            self.index.extend(tokens)

    def advance(self, history: Sequence[int], prompt_length: int) -> None:
        """Takes in what came since, up to the whole history."""
        if self._prompt_length is None:
            if len(self.index) > prompt_length:
                self.clear()
            self.index.extend(history[len(self.index) : prompt_length])
            self.index.end_part()
            self._prompt_length = prompt_length
        for token in history[len(self.index) :]:
            self.index.append(token)
            self.backoff.after(token, self._offered)

    def copy(self, limit: int) -> Sequence[int]:
        """The copy for the tail. A smaller limit cuts it and chooses no other."""
        copy = self.backoff.begun
        if copy is None:
            copy = self._offered(self.backoff.required)
        return copy[:limit]

    def _offered(self, required: int) -> list[int]:
        return self.index.copy(required, self.most)
