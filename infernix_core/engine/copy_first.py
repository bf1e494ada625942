"""Copies in front of a drafter: a row's longer copy takes the place of its drafts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import evolve, frozen
from torch import Tensor
from torch.nn.functional import pad

from infernix_core.errors import IntegrityError
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

    Drafts that were drawn from q are kept, however few: where a drafter stops may follow from what it drew, and
    to drop some draws for their values would bias the others. A longer copy takes their place where it is longer than
    any drafts could be, or there are none.

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
        if copied.distribution is not None:
            raise IntegrityError("copies are certain, and these come with a distribution")
        most = [min(row.limit, self.drafter.width) for row in rows]
        # Who cannot win is not asked to draft.
        limits = [
            0 if copy > limit else limit for copy, limit in zip(copied.extents, most, strict=True)
        ]
        asked = [evolve(row, limit=limit) for row, limit in zip(rows, limits, strict=True)]
        drafted = self.drafter.propose(asked, views)
        drawn = _drawn(drafted)
        taken = [
            copy > draft and not (draft and drawn[row])
            for row, (copy, draft) in enumerate(zip(copied.extents, drafted.extents, strict=True))
        ]
        if not any(taken):
            return drafted
        sources = [copied if copy else drafted for copy in taken]
        extents = tuple(source.extents[row] for row, source in enumerate(sources))
        width = max(extents)
        ids = torch.zeros((len(rows), width), dtype=torch.int64)
        for row, (source, extent) in enumerate(zip(sources, extents, strict=True)):
            # A proposal narrower than it says is an error here; assigned, one column would be repeated.
            ids[row, :extent] = source.ids[row].narrow(0, 0, extent)
        kept = tuple(flag and not copy for flag, copy in zip(drawn, taken, strict=True))
        return Proposal(ids, extents, _of_rows(drafted.distribution, kept, width))

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


def _drawn(proposal: Proposal) -> tuple[bool, ...]:
    """Per row, whether its drafts were drawn from q."""
    if proposal.distribution is None:
        return (False,) * len(proposal.extents)
    return proposal.distribution.sampled or (True,) * len(proposal.extents)


def _of_rows(
    distribution: DraftDistribution | None, rows: tuple[bool, ...], width: int
) -> DraftDistribution | None:
    """The distribution for some rows alone, of ``width`` drafts: a copy may be wider than all that was drawn."""
    if distribution is None or not any(rows):
        return None
    # Whoever reads q does so within the extents of these rows, which the missing columns are beyond.
    missing = max(width - distribution.ids.shape[1], 0)
    ids = pad(distribution.ids, (0, 0, 0, missing))[:, :width]
    probabilities = pad(distribution.probabilities, (0, 0, 0, missing))[:, :width]
    return DraftDistribution(ids, probabilities, rows)
