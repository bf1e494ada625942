"""A bound block drafter: the engine's side of it, for every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from attrs import evolve
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import StateSpec, StateViews
from infernix_core.interfaces.speculative import DraftRow, Proposal
from infernix_dflash.block import BlockForward
from infernix_dflash.choice import Choice, RowDrafts, as_proposal
from infernix_dflash.context import Context


class BlockDrafter:
    """Implements ``BoundBackend``.

    All state is PAGED: a commit writes the positions that become history, which nobody reads before they do. So
    nothing has to be undone, and a proposal is a function of the committed history.

    Args:
        context: The state.
        block: The forward.
        choice: From its hiddens to drafts.
        width: K: each block is an anchor and so many masks.
        deterministic: Compute each row alone, so that its bits do not depend on the others.
    """

    def __init__(
        self,
        context: Context,
        block: BlockForward,
        choice: Choice,
        *,
        width: int,
        deterministic: bool = False,
    ) -> None:
        self.width = width
        self._context = context
        self._block = block
        self._choice = choice
        self._deterministic = deterministic
        self._open: tuple[tuple[int, int], ...] | None = None

    def states(self) -> Sequence[StateSpec]:
        """See ``BoundBackend``."""
        return self._context.states

    def features(self) -> Sequence[str]:
        """See ``BoundBackend``."""
        return tuple(dict.fromkeys(self._context.names))

    @torch.inference_mode()
    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        self._context.write(lane, start, features, len(ids), views)

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """See ``BoundBackend``."""
        self._open = tuple((row.lane, len(row.history) - 1) for row in rows)
        live = [index for index, row in enumerate(rows) if row.limit > 0]
        drafted = [RowDrafts(())] * len(rows)
        pieces = [[index] for index in live] if self._deterministic else [live] if live else []
        for piece in pieces:
            asked = [rows[index] for index in piece]
            if any(row.limit > self.width for row in asked):
                asked = [evolve(row, limit=min(row.limit, self.width)) for row in asked]
            for index, row in zip(piece, self._draft(asked, views), strict=True):
                drafted[index] = row
        return as_proposal(drafted, self.width if live else 0)

    @torch.inference_mode()
    def _draft(self, rows: Sequence[DraftRow], views: StateViews) -> list[RowDrafts]:
        anchors = [row.history[-1] for row in rows]
        lanes = [row.lane for row in rows]
        starts = [len(row.history) - 1 for row in rows]
        # Numbers that overflow make bad drafts at worst; numpy would warn of each.
        with np.errstate(all="ignore"):
            hidden = self._block.run(anchors, self.width, lanes, starts, views)
            return self._choice.choose(rows, hidden)

    @torch.inference_mode()
    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        if self._open is None or len(self._open) != len(counts):
            raise IntegrityError("a commit follows the proposal for the same rows")
        rows = [
            (lane, start, count)
            for (lane, start), count in zip(self._open, counts, strict=True)
            if count
        ]
        if not rows:
            return
        self._context.write_rows(rows, self._context.gather(features, counts), views)

    def commit(self) -> None:
        """See ``BoundBackend``."""
        self._open = None

    def abort(self) -> None:
        """See ``BoundBackend``."""
        self._open = None

    @torch.inference_mode()
    def rebuild(
        self, lane: int, history: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        self._context.write(lane, 0, features, len(history) - 1, views)

    def release(self, lane: int) -> None:
        """See ``BoundBackend``."""
