"""What exact targets have in common: a prefix is an integer, and its logits are a row of a table."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from attrs import define, field
from torch import Tensor

from infernix_core.interfaces.model import (
    ForwardBatch,
    StateKind,
    StateSpec,
    StateViews,
    StepKind,
    StepOutput,
)
from infernix_core.interfaces.vocabulary import Vocabulary

DIGEST = "toy.digest"
COLUMN = "toy.column"


@define(eq=False)
class TableTarget(ABC):
    """Implements ``TargetModel``; subclasses fill the table.

    The prefix's integer is recurrent SLOT state, which each token advances; the RECORDs are the tokens. A hidden is
    the number of a row.

    Args:
        vocabulary: Its tokens.
        grid: Where chunks of a prompt may start.
        device: Where it computes.
    """

    vocabulary: Vocabulary
    grid: int = field(default=4, kw_only=True)
    device: torch.device = field(factory=lambda: torch.device("cpu"), kw_only=True)
    table: Tensor = field(init=False)

    @abstractmethod
    def absorb(self, digest: int, token: int) -> int:
        """The integer of a prefix with one token more; that of the empty one is 0."""

    @abstractmethod
    def rows(
        self, digests: Sequence[int], batch: ForwardBatch, row: int, views: StateViews
    ) -> Tensor:
        """The table's rows after each column of a row of the batch, int64 [W].

        Args:
            digests: The prefixes' integers after these columns.
            batch: What is executed.
            row: Which of its rows.
            views: For further state.
        """

    @property
    def logits_width(self) -> int:
        """See ``TargetModel``."""
        return self.vocabulary.size

    @property
    def features(self) -> Mapping[str, int]:
        """See ``TargetModel``."""
        return {"final": 1}

    def states(self) -> Sequence[StateSpec]:
        """See ``TargetModel``."""
        return (
            StateSpec(DIGEST, StateKind.SLOT, (), torch.int64),
            StateSpec(COLUMN, StateKind.RECORD, (), torch.int64),
        )

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """See ``TargetModel``. The only feature is ``final``."""
        if unknown := set(features) - self.features.keys():
            raise ValueError(f"unknown features {sorted(unknown)}")
        hidden = torch.zeros((*batch.ids.shape, 1), dtype=torch.int64)
        last = views.read_slot(DIGEST, batch.lanes).tolist()
        for row, (start, width) in enumerate(zip(batch.starts, batch.widths, strict=True)):
            if batch.kind is StepKind.PREFILL and start % self.grid:
                raise ValueError(f"a prefill chunk starts at {start}, off the grid")
            digests = []
            for token in batch.ids[row, :width].tolist():
                last[row] = self.absorb(last[row], token)
                digests.append(last[row])
            hidden[row, :width, 0] = self.rows(digests, batch, row, views)
        if batch.kind is StepKind.PREFILL:
            views.write_slot(DIGEST, batch.lanes, torch.tensor(last))
        else:
            views.write_records(COLUMN, batch.ids)
        return StepOutput(hidden, dict.fromkeys(features, hidden))

    def fold(self, lanes: Sequence[int], counts: Sequence[int], views: StateViews) -> None:
        """See ``TargetModel``."""
        digests = views.read_slot(DIGEST, lanes).tolist()
        records = views.read_records(COLUMN, len(lanes)).tolist()
        for row, count in enumerate(counts):
            for token in records[row][:count]:
                digests[row] = self.absorb(digests[row], token)
        views.write_slot(DIGEST, lanes, torch.tensor(digests))

    def embed(self, ids: Tensor) -> Tensor:
        """See ``TargetModel``."""
        return ids[..., None]

    def lm_head(self, hidden: Tensor) -> Tensor:
        """See ``TargetModel``."""
        return self.table[hidden[:, 0]]

    def draft_head(self, name: str) -> str:
        """See ``TargetModel``."""
        return f"a toy has no draft head {name!r}"
