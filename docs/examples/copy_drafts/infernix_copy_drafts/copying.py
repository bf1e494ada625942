"""The rule: find the last tokens earlier in the history and take what came next."""

from __future__ import annotations

from collections.abc import Sequence


def copied(history: Sequence[int], window: int, limit: int) -> list[int]:
    """At most ``limit`` tokens that followed the most recent earlier occurrence of the last ``window``.

    Looks through the whole history, so its cost grows with it; an index per sequence would not.
    """
    tokens = list(history)
    key = tokens[-window:]
    for start in range(len(tokens) - window - 1, -1, -1):
        if tokens[start : start + window] == key:
            return tokens[start + window : start + window + limit]
    return []


def copyable(history: Sequence[int], window: int) -> int:
    """How many tokens a draft of one token would have got right, each from what stood before it."""
    return sum(
        copied(history[:end], window, 1) == [history[end]] for end in range(window, len(history))
    )
