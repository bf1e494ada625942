"""Candidates with weights: draws by inverse CDF, probabilities, residuals.

Every draw walks the candidates in ascending token id, whichever way they were found.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from attrs import field, frozen
from torch import Tensor

BLOCK = 64
"""Tokens per block of the dense form. The block sums of a row are its coarse CDF."""

LOG2_E = math.log2(math.e)
"""Passes over the vocabulary use exp2: on CPUs exp takes a slow path at -inf and at underflow."""

VANISHED = 1e-6
"""Residual mass that is rounding of q (fp32, normalised to about 1e-7 per candidate) and nothing else."""


def cumulate(weights: Tensor) -> Tensor:
    """Inclusive prefix sums of fp64 [N, C] weights >= 0, constant over every weight of 0.

    A parallel scan need not be monotone in its last bit; without the running maximum, such a step could
    make a candidate of weight 0 appear to own a piece of the interval.
    """
    sums = torch.where(weights > 0, weights.cumsum(-1), 0.0)
    return sums.cummax(-1).values


def locate(cumulated: Tensor, target: Tensor) -> Tensor:
    """int64 [N]: the candidate whose piece (cum[i-1], cum[i]] lies just above ``target`` fp64 [N].

    It never has weight 0: the sums rise only at positive weights, and a target that rounding or u -> 1
    puts at the total falls to the last of them.
    """
    index = torch.searchsorted(cumulated, target[:, None].contiguous(), right=True)
    last = torch.searchsorted(cumulated, cumulated[:, -1:].contiguous(), right=False)
    return torch.minimum(index, last.clamp_(max=cumulated.shape[-1] - 1))[:, 0]


def blocked(values: Tensor) -> Tensor:
    """A contiguous [N, P] as its blocks: [N, P / BLOCK, BLOCK]."""
    return values.view(values.shape[0], -1, BLOCK)


class Candidates(Protocol):
    """Non-normalised distributions of N columns."""

    def draw(self, uniforms: Tensor) -> Tensor:
        """int64 [N]: the token at each of the fp64 [N] uniforms; always one of positive weight."""

    def probability(self, tokens: Tensor) -> Tensor:
        """fp64 [N]: p of one token per column, int64 [N]; 0 for any id outside the vocabulary."""

    def residual(self, index: Tensor, ids: Tensor, probabilities: Tensor) -> Candidates:
        """max(p - q, 0) of some columns; p itself where that vanishes by rounding.

        Args:
            index: The columns, int64 [S].
            ids: int64 [S, C], distinct in a column. q is 0 elsewhere.
            probabilities: q of each, fp64 [S, C].
        """

    def table(self, column: int) -> tuple[Tensor, Tensor]:
        """Ascending ids int64 [C] with p > 0, and their p fp64 [C], of one column."""


@frozen
class Listed:
    """Candidates as short lists.

    Attributes:
        ids: int64 [N, C], ascending and distinct in a column.
        weights: fp64 [N, C], 0 for a dropped candidate.
    """

    ids: Tensor = field(eq=False)
    weights: Tensor = field(eq=False)

    def draw(self, uniforms: Tensor) -> Tensor:
        """See :class:`Candidates`."""
        cumulated = cumulate(self.weights)
        index = locate(cumulated, uniforms * cumulated[:, -1])
        return self.ids.gather(1, index[:, None])[:, 0]

    def probability(self, tokens: Tensor) -> Tensor:
        """See :class:`Candidates`."""
        hit = torch.where(self.ids == tokens[:, None], self.weights, 0.0).sum(-1)
        return hit / self.weights.sum(-1)

    def residual(self, index: Tensor, ids: Tensor, probabilities: Tensor) -> Listed:
        """See :class:`Candidates`."""
        own, weights = self.ids[index], self.weights[index]
        p = weights / weights.sum(-1, keepdim=True)
        place = torch.searchsorted(own, ids).clamp_(max=own.shape[-1] - 1)
        q = torch.where(own.gather(1, place) == ids, probabilities, 0.0)
        rest = p.scatter_add(1, place, -q).clamp_(min=0)
        return Listed(own, torch.where(rest.sum(-1, keepdim=True) > VANISHED, rest, p))

    def table(self, column: int) -> tuple[Tensor, Tensor]:
        """See :class:`Candidates`."""
        weights = self.weights[column]
        kept = weights > 0
        return self.ids[column][kept], weights[kept] / weights.sum()


@frozen
class Dense:
    """Candidates as one weight per token of the padded vocabulary, in fp32 with fp64 sums.

    Attributes:
        weights: fp32 [N, P], P a multiple of :data:`BLOCK`; largest weight near 1; 0 beyond the vocabulary.
    """

    weights: Tensor = field(eq=False)

    def _blocks(self) -> Tensor:
        """Sums of the blocks, fp64 [N, P / BLOCK]."""
        return blocked(self.weights).sum(-1).double()

    def _places(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Columns of the weights for these ids, and which of them are really theirs."""
        last = self.weights.shape[-1] - 1
        return ids.clamp(min=0, max=last), (ids >= 0) & (ids <= last)

    def draw(self, uniforms: Tensor) -> Tensor:
        """See :class:`Candidates`."""
        coarse = cumulate(self._blocks())
        target = uniforms * coarse[:, -1]
        block = locate(coarse, target)
        before = torch.where(
            block > 0, coarse.gather(1, (block - 1).clamp_(min=0)[:, None])[:, 0], 0.0
        )
        rows = torch.arange(len(block), device=block.device)
        fine = cumulate(blocked(self.weights)[rows, block].double())
        return block * BLOCK + locate(fine, target - before)

    def probability(self, tokens: Tensor) -> Tensor:
        """See :class:`Candidates`."""
        place, inside = self._places(tokens[:, None])
        weight = torch.where(inside, self.weights.gather(1, place), 0.0)[:, 0].double()
        return weight / self._blocks().sum(-1)

    def residual(self, index: Tensor, ids: Tensor, probabilities: Tensor) -> Dense:
        """See :class:`Candidates`."""
        weights = self.weights[index]
        total = Dense(weights)._blocks().sum(-1, keepdim=True)
        place, inside = self._places(ids)
        q = torch.where(inside, probabilities * total, 0.0).float()
        rest = weights.scatter_add(1, place, -q).clamp_(min=0)
        mass = Dense(rest)._blocks().sum(-1, keepdim=True)
        return Dense(torch.where(mass > VANISHED * total, rest, weights))

    def table(self, column: int) -> tuple[Tensor, Tensor]:
        """See :class:`Candidates`."""
        weights = self.weights[column].double()
        ids = weights.nonzero()[:, 0]
        return ids, weights[ids] / weights.sum()
