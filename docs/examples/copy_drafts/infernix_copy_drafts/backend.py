"""The rule as a speculative backend. It needs no state: a history says it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import frozen
from torch import Tensor

from infernix_copy_drafts.copying import copied
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.model import StateSpec, StateViews, TargetModel
from infernix_core.interfaces.speculative import DraftRow, DraftSetup, Proposal
from infernix_core.interfaces.vocabulary import Vocabulary

WINDOW = 3

#: Where the engine does not say how many.
MOST_DRAFTS = 8


class CopyBackend:
    """Implements ``SpeculativeBackend``."""

    def bind(
        self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup
    ) -> BoundCopyBackend:
        """Any target will do. What can have no effect is refused."""
        if setup.drafter is not None:
            location = Location(field="drafter")
            raise InvalidOption("copies need no drafter", location=location, hint="leave it out")
        return BoundCopyBackend(width=setup.drafts or MOST_DRAFTS)


@frozen
class BoundCopyBackend:
    """Implements ``BoundBackend``."""

    width: int

    def states(self) -> Sequence[StateSpec]:
        """None."""
        return ()

    def features(self) -> Sequence[str]:
        """None."""
        return ()

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """Nothing: the prompt is in the history."""

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """One-hot drafts, as many as were found."""
        drafts = [copied(row.history, WINDOW, row.limit) for row in rows]
        ids = torch.zeros((len(rows), max(map(len, drafts), default=0)), dtype=torch.int64)
        for index, tokens in enumerate(drafts):
            ids[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
        return Proposal(ids, tuple(map(len, drafts)))

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """Nothing."""

    def commit(self) -> None:
        """Nothing."""

    def abort(self) -> None:
        """Nothing."""

    def rebuild(
        self,
        lane: int,
        history: Sequence[int],
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """Nothing."""

    def release(self, lane: int) -> None:
        """Nothing."""
