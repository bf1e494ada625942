"""From the hiddens of the masks to drafts: the largest logit of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from attrs import field, frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import DraftDistribution, DraftRow, Proposal
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary


@frozen
class RowDrafts:
    """One row's drafts.

    Attributes:
        ids: As many as the row's limit, at most K.
        candidates: int64 [len(ids), C], what each was drawn from; ``None`` for drafts that are certain.
        law: float32 [len(ids), C]: q of each candidate.
    """

    ids: tuple[int, ...]
    candidates: NDArray[np.int64] | None = field(default=None, eq=False)
    law: NDArray[np.float32] | None = field(default=None, eq=False)


class Choice(Protocol):
    """How a kind of drafter chooses its drafts."""

    def choose(self, rows: Sequence[DraftRow], hidden: Tensor) -> list[RowDrafts]:
        """Drafts of rows whose limit is at least 1, from their masks' hiddens [N, K, H]."""


class Candidates:
    """The target's logits of what may be drafted: no padding row, no FORBIDDEN token.

    Args:
        target: Its output matrix.
        vocabulary: Its tokens.
    """

    def __init__(self, target: TargetModel, vocabulary: Vocabulary) -> None:
        self.target = target
        self.size = vocabulary.size
        forbidden = vocabulary.ids(TokenClass.FORBIDDEN)
        self.count = vocabulary.size - len(forbidden)
        self._forbidden = torch.tensor(forbidden, dtype=torch.int64, device=target.device)
        self._generable = np.ones(vocabulary.size, dtype=bool)
        self._generable[list(forbidden)] = False

    def logits(self, hidden: Tensor) -> Tensor:
        """float32 [R, V] of hidden [R, H]; what may not be drafted has -inf."""
        logits = self.target.lm_head(hidden)[:, : self.size]
        if len(self._forbidden):
            logits = logits.index_fill(1, self._forbidden, float("-inf"))
        return logits

    def best(self, hidden: Tensor) -> list[int]:
        """The largest logit of each of hidden [R, H], ties to the smaller id."""
        logits = self.target.lm_head(hidden)[:, : self.size]
        if logits.device.type == "cpu":
            # Mostly the largest of all may be drafted, and nothing has to be copied.
            ids = logits.numpy().argmax(axis=-1)
            if self._generable[ids].all():
                found: list[int] = ids.tolist()
                return found
        if len(self._forbidden):
            logits = logits.index_fill(1, self._forbidden, float("-inf"))
        found = logits.argmax(dim=-1).tolist()
        return found


class Largest:
    """Implements :class:`Choice`: the largest logit, ties to the smaller id. Such drafts are certain.

    Args:
        candidates: What may be drafted.
    """

    def __init__(self, candidates: Candidates) -> None:
        self.candidates = candidates

    def choose(self, rows: Sequence[DraftRow], hidden: Tensor) -> list[RowDrafts]:
        """See :class:`Choice`."""
        count, drafts = hidden.shape[:2]
        ids = self.candidates.best(hidden.reshape(count * drafts, -1))
        return [
            RowDrafts(tuple(ids[at * drafts : at * drafts + row.limit]))
            for at, row in enumerate(rows)
        ]


def as_proposal(drafted: Sequence[RowDrafts], width: int) -> Proposal:
    """Rows' drafts as the engine takes them, K columns wide. Without any that was drawn, all are certain."""
    # A tensor of a list costs less than filling one row by row.
    padded = [[*row.ids, *[0] * (width - len(row.ids))] for row in drafted]
    ids = torch.tensor(padded, dtype=torch.int64).view(len(drafted), width)
    extents = tuple(len(row.ids) for row in drafted)
    sizes = [row.candidates.shape[1] for row in drafted if row.candidates is not None]
    if not sizes:
        return Proposal(ids, extents)
    # Where nothing was drawn, any law does.
    candidates = np.broadcast_to(np.arange(max(sizes)), (len(drafted), width, max(sizes))).copy()
    law = np.zeros(candidates.shape, dtype=np.float32)
    law[..., 0] = 1
    for index, row in enumerate(drafted):
        if row.candidates is not None and row.law is not None:
            candidates[index, : len(row.ids)] = row.candidates
            law[index, : len(row.ids)] = row.law
    distribution = DraftDistribution(
        torch.from_numpy(candidates),
        torch.from_numpy(law),
        tuple(row.candidates is not None for row in drafted),
    )
    return Proposal(ids, extents, distribution)
