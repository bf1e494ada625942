"""Copies in front of a drafter: a row's longer copy takes the place of its drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import evolve, frozen
from torch import Tensor

from infernix_core.interfaces.model import StateSpec, StateViews
from infernix_core.interfaces.speculative import (
    BoundBackend,
    DraftDistribution,
    DraftRow,
    Proposal,
)


@frozen(eq=False)
class CopyFirst:
    """Two bound backends as one; implements ``BoundBackend``.

    A row takes the copy where it is longer than what the drafter gives, and never parts of both. A copy that no
    drafts of the drafter can match spares it the work; it takes part in the round nevertheless, so its state moves
    on with the row.

    Args:
        copies: One-hot drafts.
        drafter: Any drafts.
    """

    copies: BoundBackend
    drafter: BoundBackend

    @property
    def width(self) -> int:
        """See ``BoundBackend``."""
        return max(self.copies.width, self.drafter.width)

    def states(self) -> Sequence[StateSpec]:
        """See ``BoundBackend``."""
        return (*self.copies.states(), *self.drafter.states())

    def features(self) -> Sequence[str]:
        """See ``BoundBackend``."""
        return tuple(dict.fromkeys((*self.copies.features(), *self.drafter.features())))

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.prefilled(lane, ids, start, features, views)

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """See ``BoundBackend``."""
        asked = [evolve(row, limit=min(row.limit, self.copies.width)) for row in rows]
        copied = self.copies.propose(asked, views)
        most = [min(row.limit, self.drafter.width) for row in rows]
        # Who cannot win is not asked to draft.
        limits = [
            0 if copy > limit else limit for copy, limit in zip(copied.extents, most, strict=True)
        ]
        asked = [evolve(row, limit=limit) for row, limit in zip(rows, limits, strict=True)]
        drafted = self.drafter.propose(asked, views)
        taken = [copy > draft for copy, draft in zip(copied.extents, drafted.extents, strict=True)]
        if not any(taken):
            return drafted
        extents = tuple(
            copied.extents[row] if copy else drafted.extents[row] for row, copy in enumerate(taken)
        )
        ids = torch.zeros((len(rows), max(extents)), dtype=torch.int64)
        for row, extent in enumerate(extents):
            source = copied if taken[row] else drafted
            ids[row, :extent] = source.ids[row, :extent]
        return Proposal(ids, extents, _without(drafted.distribution, taken, max(extents)))

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.prepare_commit(counts, features, views)

    def commit(self) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.commit()

    def abort(self) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.abort()

    def rebuild(
        self, lane: int, history: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.rebuild(lane, history, features, views)

    def release(self, lane: int) -> None:
        """See ``BoundBackend``."""
        for each in (self.copies, self.drafter):
            each.release(lane)


def _without(
    distribution: DraftDistribution | None, copied: Sequence[bool], width: int
) -> DraftDistribution | None:
    """The distribution of the rows that were not copied, wide enough for those that were."""
    if distribution is None:
        return None
    sampled = distribution.sampled or (True,) * len(copied)
    missing = width - distribution.ids.shape[1]
    ids, probabilities = distribution.ids, distribution.probabilities
    if missing > 0:
        rows, _, candidates = ids.shape
        ids = torch.cat((ids, ids.new_zeros(rows, missing, candidates)), dim=1)
        nothing = probabilities.new_zeros(rows, missing, candidates)
        probabilities = torch.cat((probabilities, nothing), dim=1)
    flags = tuple(drawn and not copy for drawn, copy in zip(sampled, copied, strict=True))
    return DraftDistribution(ids[:, :width], probabilities[:, :width], flags)
