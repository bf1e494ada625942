"""Runs a target model as the program does, over state of its own, for the frontend suite."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field
from torch import Tensor

from infernix_core.engine.state import LaneState
from infernix_core.interfaces.model import (
    ForwardBatch,
    StateKind,
    StateSpec,
    StepKind,
    StepOutput,
    TargetModel,
)


@define(eq=False)
class Runner:
    """A target with lanes.

    Attributes:
        extra: State of others in the same transaction, such as a drafter's.
    """

    target: TargetModel
    lanes: int = 3
    capacity: int = 256
    width: int = 6
    extra: tuple[StateSpec, ...] = ()
    state: LaneState = field(init=False)

    def __attrs_post_init__(self) -> None:
        specs = (*self.target.states(), *self.extra)
        self.state = LaneState(specs, self.lanes, self.capacity, self.width, self.target.device)

    def prefill(
        self, lane: int, ids: Sequence[int], chunk: int | None = None, features: Sequence[str] = ()
    ) -> list[tuple[int, StepOutput]]:
        """Clears the lane and executes a prompt; gives each chunk's start and output."""
        self.state.clear(lane)
        chunk = len(ids) if chunk is None else chunk
        outputs = []
        for start in range(0, len(ids), chunk):
            part = ids[start : start + chunk]
            batch = ForwardBatch(
                StepKind.PREFILL, self._ids([part]), (start,), (len(part),), (lane,)
            )
            outputs.append((start, self.target.forward(batch, self.state, features)))
        return outputs

    def verify(
        self,
        lanes: Sequence[int],
        starts: Sequence[int],
        columns: Sequence[Sequence[int]],
        features: Sequence[str] = (),
    ) -> StepOutput:
        """One verify; rows may differ in width."""
        return self.target.forward(self.batch(lanes, starts, columns), self.state, features)

    def batch(
        self, lanes: Sequence[int], starts: Sequence[int], columns: Sequence[Sequence[int]]
    ) -> ForwardBatch:
        """The batch of a verify, padded."""
        width = max(map(len, columns))
        padded = [[*row, *[0] * (width - len(row))] for row in columns]
        return ForwardBatch(
            StepKind.VERIFY,
            self._ids(padded),
            tuple(starts),
            tuple(map(len, columns)),
            tuple(lanes),
        )

    def fold(self, lanes: Sequence[int], counts: Sequence[int]) -> None:
        """Makes the first columns of the last verify real."""
        self.target.fold(lanes, counts, self.state)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of hidden [..., H]."""
        flat = self.target.lm_head(hidden.reshape(-1, hidden.shape[-1]))
        return flat.view(*hidden.shape[:-1], -1)

    def last(self, lane: int, ids: Sequence[int], chunk: int | None = None) -> Tensor:
        """Logits after a prompt."""
        return self.logits(self.prefill(lane, ids, chunk)[-1][1].hidden[0, -1])

    def slots(self, lane: int) -> dict[str, Tensor]:
        """The lane's SLOT state."""
        return {
            spec.name: self.state.read_slot(spec.name, (lane,))
            for spec in self.target.states()
            if spec.kind is StateKind.SLOT
        }

    def _ids(self, rows: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor(
            [list(row) for row in rows], dtype=torch.int64, device=self.target.device
        )


def rubbish(value: Tensor) -> float:
    """What a tensor holds where nobody may look."""
    return torch.nan if value.is_floating_point() else 1_000_003
