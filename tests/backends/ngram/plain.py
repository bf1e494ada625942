"""The rule by its definition, over a whole history: what the index and its back-off are compared with."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from attrs import frozen


@frozen
class Rule:
    """What is fixed for all histories."""

    special: Collection[int]
    min_match: int
    most: int

    def drafts(self, history: Sequence[int], prompt_length: int, limit: int) -> list[int]:
        """The proposal after a history that holds some output."""
        required = min(64, self.min_match * (1 + self.level(history, prompt_length)))
        return self.copy(history, prompt_length, required)[:limit]

    def level(self, history: Sequence[int], prompt_length: int) -> int:
        """By rounds from the first output token on: each takes the right tokens of its copy, and one more."""
        level, end = 0, prompt_length + 1
        while end <= len(history):
            required = min(64, self.min_match * (1 + level))
            copy = self.copy(history[:end], prompt_length, required)
            coming = history[end : end + len(copy) + 1]
            right = next(
                (n for n, (a, b) in enumerate(zip(copy, coming, strict=False)) if a != b),
                min(len(copy), len(coming)),
            )
            if right == len(coming):  # not over yet, or nothing to come
                return level
            if copy:
                level += 1 if right < min(len(copy), 4) else -1
                level = min(max(level, 0), 2)
            end += right + 1
        return level

    def copy(self, history: Sequence[int], prompt_length: int, required: int) -> list[int]:
        """What followed the longest match of the history's end."""
        pieces = self._pieces(history, prompt_length)
        size = len(history)
        candidates = []
        for end in self._occurrences(history, pieces):
            match = 0
            while (
                match < 64
                and end - match >= 0
                and history[end - match] == history[size - 1 - match]
                and pieces[end - match] == pieces[end] is not None
                and pieces[size - 1 - match] == pieces[size - 1]
            ):
                match += 1
            copy = []
            for place in range(end + 1, min(size, end + 1 + self.most)):
                if pieces[place] != pieces[end]:
                    break
                copy.append(history[place])
            if match >= required and copy:
                candidates.append((match, len(copy), end, copy))
        return max(candidates)[-1] if candidates else []

    def _occurrences(self, history: Sequence[int], pieces: Sequence[int | None]) -> set[int]:
        """Where the windows that end the history end too: of each width the newest four."""
        size = len(history)
        found: set[int] = set()
        for width in (16, 8, 4):
            tail = pieces[-width:]
            if size < width or tail[0] is None or len(set(tail)) > 1:
                continue
            window = history[-width:]
            ends = [
                end
                for end in range(width - 1, size - 1)
                if history[end - width + 1 : end + 1] == window
                and len(set(pieces[end - width + 1 : end + 1])) == 1
            ]
            found.update(ends[-4:])
        return found

    def _pieces(self, history: Sequence[int], prompt_length: int) -> list[int | None]:
        """The piece between two boundaries that each token lies in; special tokens lie in none."""
        pieces: list[int | None] = []
        piece = 0
        for place, token in enumerate(history):
            if place == prompt_length or token in self.special:
                piece += 1
            pieces.append(None if token in self.special else piece)
        return pieces


def random_history(rng: random.Random, special: Sequence[int], size: int) -> list[int]:
    """Few different tokens, chunks that come again with a mistake here and there, and special tokens."""
    alphabet = list(range(rng.randint(1, 4)))
    rare = rng.choice([0.0, 0.01, 0.1])
    history: list[int] = []
    while len(history) < size:
        if len(history) > 8 and rng.random() < 0.7:
            start = rng.randrange(len(history))
            history += history[start : start + rng.randint(1, 40)] * rng.choice([1, 1, 1, 3])
        else:
            history += rng.choices(alphabet, k=rng.randint(1, 12))
        if rng.random() < rare:
            history.append(rng.choice(special))
    return history[:size]
