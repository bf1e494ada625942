"""Masks of one row's columns: lookahead along the drafts, always back at the committed state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.mask_provider import GrammarMatcher, MaskRow
from infernix_core.interfaces.sampling import MaskState


def is_legal(row: MaskRow, token: int) -> bool:
    """Whether ``token``'s bit is set."""
    return 0 <= token < 32 * len(row) and bool((int(row[token >> 5]) >> (token & 31)) & 1)


class NotReady(Exception):
    """A mask is no look-up."""


def fill_columns(
    matcher: GrammarMatcher,
    drafts: Sequence[int],
    columns: NDArray[np.int32],
    *,
    looking_up: bool = False,
    filled: Callable[[MaskState], None] | None = None,
) -> tuple[MaskState, ...]:
    """Fills the masks of ``len(drafts) + 1`` columns and says what each one means.

    Column j's mask is the legal set after the committed prefix and drafts 0 … j-1. The first illegal draft's
    own column is READY, with the mask that refuses it; columns after it, or after an end token, are
    UNREACHABLE and left as they are.

    Args:
        matcher: Not terminated. It is back at its state when this returns or raises.
        drafts: Draft token ids.
        columns: int32 [at least len(drafts) + 1, ceil(V / 32)].
        looking_up: Give up where a mask is more than a look-up. Without drafts the caller has asked.
        filled: Told of each column when its mask is written.

    Raises:
        NotReady: It gave up; what it wrote has no meaning.
    """
    if not drafts:
        return (MaskState.READY if matcher.fill(columns[0]) else MaskState.DEAD_END,)
    states = [MaskState.UNREACHABLE] * (len(drafts) + 1)
    mark = matcher.mark()
    try:
        for column in range(len(drafts) + 1):
            if looking_up and not matcher.ready:
                raise NotReady
            legal = matcher.fill(columns[column])
            states[column] = MaskState.READY if legal else MaskState.DEAD_END
            if filled is not None:
                filled(states[column])
            if not legal:
                break
            if column == len(drafts) or not is_legal(columns[column], drafts[column]):
                break
            if not matcher.accept(drafts[column]):
                raise IntegrityError(f"the matcher refuses token {drafts[column]} of its own mask")
            if matcher.terminated:
                break
    finally:
        matcher.rollback(mark)
    return tuple(states)
