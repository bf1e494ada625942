"""A toy with a draft head that is exactly known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from infernix_core.interfaces.model import (
    DraftHead,
    ForwardBatch,
    StateKind,
    StateSpec,
    StateViews,
    StepOutput,
)
from infernix_core.testing.toy import ToyTarget

CELLS = "toy.cells"


class ToyHead:
    """Implements ``DraftHead``: a cell is a number, and what it predicts is a row of the toy's table."""

    def states(self) -> Sequence[StateSpec]:
        """See ``DraftHead``."""
        return (StateSpec(CELLS, StateKind.PAGED, (), torch.int64),)

    def forward(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> Tensor:
        """See ``DraftHead``."""
        self.keep(batch, hidden, views)
        outputs = []
        for lane, start, width in zip(batch.lanes, batch.starts, batch.widths, strict=True):
            seen = views.read_pages(CELLS, lane, start + width)
            outputs.append((seen * torch.arange(1, start + width + 1)).sum() % 509)
        return torch.stack(outputs)[:, None]

    def store(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> None:
        """See ``DraftHead``."""
        self.keep(batch, hidden, views)

    def keep(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> None:
        """Writes the valid cells."""
        for row, (lane, start) in enumerate(zip(batch.lanes, batch.starts, strict=True)):
            width = batch.widths[row]
            cells = 31 * batch.ids[row, :width] + hidden[row, :width, 0]
            views.write_pages(CELLS, lane, start, cells)


class HeadedTarget(ToyTarget):
    """The toy with such a head, and a feature that is not ``final``."""

    head: type[ToyHead] = ToyHead

    @property
    def features(self) -> Mapping[str, int]:
        """See ``TargetModel``."""
        return {"final": 1, "block:0": 2}

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """See ``TargetModel``."""
        if unknown := set(features) - self.features.keys():
            raise ValueError(f"unknown features {sorted(unknown)}")
        hidden = super().forward(batch, views).hidden
        every = {"final": hidden, "block:0": torch.cat((hidden, -hidden), -1)}
        return StepOutput(hidden, {name: every[name] for name in features})

    def draft_head(self, name: str) -> DraftHead | str:  # type: ignore[override]
        """See ``TargetModel``."""
        return self.head() if name == "mtp" else super().draft_head(name)
