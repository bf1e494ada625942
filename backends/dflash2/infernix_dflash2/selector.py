"""The candidate selector: the best tokens of each place, scored in pairs with those of the place before, and a walk.

For place j = 1 … K with hidden h_j, candidates C_j are the tokens of the largest logits (16 in published drafters)::

    U_j(b) = f(logit of b), f = times output_multiplier, then tanh(v / cap) * cap
    S_j(a, b) = U_j(b) + <predecessor[a] * hidden_projection(h_j), successor[b]>

with a among C_{j-1}, and the anchor alone for j = 1. The walk goes from place to place: at temperature 0 to the
largest score of the row of where it stands, else by a draw from ``q_j = softmax(S_j(a, .) / temperature)``. The
softmax alone knows the temperature; everything else of a request's law acts where the target verifies.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.interfaces.speculative import DraftRow
from infernix_core.random import Purpose, uniform
from infernix_dflash.choice import Candidates, RowDrafts
from infernix_dflash2.config import DFlash2Config
from infernix_dflash2.weights import SelectorWeights

#: What stands for scores that are no numbers: a softmax knows neither NaN nor two infinities.
_LARGEST = float(np.finfo(np.float32).max)


class Selector:
    """Implements ``infernix_dflash.choice.Choice``.

    Args:
        config: Sizes.
        weights: See ``SelectorWeights``.
        candidates: What may be drafted. Where that is fewer than ``top_k`` tokens, it is all of them.
    """

    def __init__(
        self, config: DFlash2Config, weights: SelectorWeights, candidates: Candidates
    ) -> None:
        self.config = config
        self.weights = weights
        self.candidates = candidates
        self.count = min(config.top_k, candidates.count)

    def choose(self, rows: Sequence[DraftRow], hidden: Tensor) -> list[RowDrafts]:
        """See ``Choice``."""
        ids, scores = self.tables([row.history[-1] for row in rows], hidden)
        return [walk(row, *tables) for row, *tables in zip(rows, ids, scores, strict=True)]

    def tables(
        self, anchors: Sequence[int], hidden: Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """What :meth:`scores` gives, on the host."""
        ids, scores = self.scores(torch.tensor(anchors, device=hidden.device), hidden)
        return ids.cpu().numpy(), scores.cpu().numpy()

    def scores(self, anchors: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Candidates and the scores of all pairs.

        Args:
            anchors: int64 [N].
            hidden: [N, K, H].

        Returns:
            C_j as int64 [N, K, C], the largest logit first; S_j(a, b) as float32 [N, K, C, C], whose rows a are all
            the anchor's at the first place.
        """
        c, w = self.config, self.weights
        rows, drafts = hidden.shape[:2]
        logits = self.candidates.logits(hidden.reshape(rows * drafts, -1))
        best, ids = top(logits, self.count)
        best = best.view(rows, drafts, 1, -1) * c.output_multiplier
        if c.softcap is not None:
            best = torch.tanh(best / c.softcap) * c.softcap
        ids = ids.view(rows, drafts, -1)
        before = torch.cat((anchors.view(-1, 1, 1).expand(-1, 1, self.count), ids[:, :-1]), dim=1)
        mixed = F.linear(hidden, w.hidden).float().unsqueeze(2)
        left = F.embedding(before, w.predecessors).float() * mixed
        right = F.embedding(ids, w.successors).float()
        return ids, best + left @ right.transpose(2, 3)


def top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` largest of each row of logits [R, V], descending, ties by the smaller id: values and ids."""
    values, ids = logits.topk(count, dim=-1)
    least = values[:, -1:]
    if bool(((logits >= least).sum(dim=-1) > count).any()):
        # Which of equal logits topk takes is not said.
        values, ids = logits.sort(dim=-1, descending=True, stable=True)
        return values[:, :count], ids[:, :count]
    # By id, then by value without changing the order of equal ones.
    ids = ids.sort(dim=-1).values
    values, order = logits.gather(1, ids).sort(dim=-1, descending=True, stable=True)
    return values, ids.gather(1, order)


def walk(row: DraftRow, ids: NDArray[np.int64], scores: NDArray[np.float32]) -> RowDrafts:
    """From place to place, up to the row's limit.

    A draw is the inverse of q's distribution function at the uniform number of the token's own position, so it does
    not depend on where the round began. q is what was drawn from, to the last bit: float32, and its sum what it is.

    Args:
        row: Gives temperature, seed and limit; its history ends with the anchor.
        ids: [K, C].
        scores: [K, C, C].
    """
    places = min(row.limit, len(ids))
    scores = np.nan_to_num(scores[:places], nan=-_LARGEST, posinf=_LARGEST, neginf=-_LARGEST)
    at, path = 0, []
    if row.temperature == 0:
        for best in scores.argmax(axis=-1).tolist():
            at = best[at]
            path.append(at)
        return RowDrafts(tuple(ids[range(places), path].tolist()))
    # Of all pairs, though the walk meets one row of each place: many small calls cost more.
    law = softmax(scores, row.temperature)
    sums = np.cumsum(law, axis=-1, dtype=np.float64)
    met, position = [], len(row.history)
    for place in range(places):
        met.append(at)
        at = drawn(sums[place, at], uniform(row.seed, position + place, Purpose.DRAFT))
        path.append(at)
    return RowDrafts(
        tuple(ids[range(places), path].tolist()), ids[:places], law[range(places), met]
    )


def softmax(scores: NDArray[np.float32], temperature: float) -> NDArray[np.float32]:
    """``softmax(scores / temperature)`` of finite scores [..., C], computed in float64."""
    wide = scores.astype(np.float64)
    wide -= wide.max(axis=-1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        np.divide(wide, temperature, out=wide)
        np.exp(wide, out=wide)
        wide /= wide.sum(axis=-1, keepdims=True)
        return wide.astype(np.float32)


def drawn(sums: NDArray[np.float64], number: float) -> int:
    """The first index whose cumulated share ``sums`` [C] is more than ``number``, which is inside (0, 1), of the whole.

    Its q is not 0: there the cumulated share grows.
    """
    whole = float(sums[-1])
    # A product that is rounded up to the whole would lie behind the last one.
    threshold = min(number * whole, math.nextafter(whole, 0))
    return int(sums.searchsorted(threshold, side="right"))
