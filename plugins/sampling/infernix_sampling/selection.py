"""Truncation: which tokens stay candidates, and with which weights.

The order is top-k, temperature, min-p, top-p over the survivors. Ties go to the smaller token id
everywhere. Nothing here waits for the device, except two checks per piece of columns that min-p or top-p
cut out of the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import field, frozen
from torch import Tensor

from infernix_sampling.candidates import BLOCK, LOG2_E, Candidates, Dense, Listed, blocked, cumulate
from infernix_sampling.columns import Column, Method, rank_limit, safe_temperature
from infernix_sampling.scores import Scores

HEAD = 256
"""Candidates that are ranked for a cut of the whole vocabulary before a full sort is tried."""


@frozen
class Laws:
    """The sampling law of N columns on the device; fp64 [N, 1] each, ``top_k`` int64 (V when it is off).

    Attributes:
        deepest: The largest top-k.
        floored: Whether any column has a min-p.
    """

    temperature: Tensor = field(eq=False)
    top_k: Tensor = field(eq=False)
    min_p: Tensor = field(eq=False)
    top_p: Tensor = field(eq=False)
    deepest: int
    floored: bool

    @classmethod
    def of(cls, columns: Sequence[Column], vocabulary_size: int, device: torch.device) -> Laws:
        """Uploads the laws of these columns at once."""
        limits = [rank_limit(column.config, vocabulary_size) for column in columns]
        table = torch.tensor(
            [
                (safe_temperature(column.config), limit, column.config.min_p, column.config.top_p)
                for column, limit in zip(columns, limits, strict=True)
            ],
            dtype=torch.float64,
        ).to(device)
        temperature, top_k, min_p, top_p = table.unsqueeze(-1).unbind(1)
        floored = any(column.config.min_p > 0 for column in columns)
        return cls(temperature, top_k.long(), min_p, top_p, max(limits), floored)


@frozen
class Part:
    """Candidates of some columns of a piece: ``index`` int64 [S], or ``None`` for all in order."""

    index: Tensor | None = field(eq=False)
    candidates: Candidates = field(eq=False)


def select(
    method: Method, scores: Scores, laws: Laws, weights: Tensor, vocabulary_size: int
) -> list[Part]:
    """The candidates of every column. Columns without a finite score get arbitrary ones.

    Args:
        method: How they are found; one for the whole piece.
        scores: What may be chosen.
        laws: The columns' sampling laws.
        vocabulary_size: V.
        weights: Scratch like ``scores.values``; dense candidates stay there.
    """
    if method is Method.RANKED:
        return [Part(None, _ranked(scores, laws))]
    if method is Method.WHOLE:
        return [Part(None, Dense(_softened(scores, laws, weights)))]
    return _cut_whole(scores, laws, weights, vocabulary_size)


def best_tokens(values: Tensor, maxima: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The ``count`` best tokens by (score descending, id ascending): scores fp32, ids int64 [N, count].

    The ``count`` best tokens lie in the ``count`` best blocks by (maximum descending, block ascending):
    were one elsewhere, each of those blocks would hold a better token. So after one pass for the maxima,
    which the caller has made, ranking touches count * BLOCK tokens only.
    """
    columns, width = values.shape
    count = min(count, width)
    blocks = maxima.shape[-1]
    if count < blocks:
        chosen = _ordered(maxima, torch.arange(blocks, device=values.device)).topk(count).indices
        rows = torch.arange(columns, device=values.device)[:, None]
        pool = blocked(values)[rows, chosen].flatten(1)
        tokens = chosen[:, :, None] * BLOCK + torch.arange(BLOCK, device=values.device)
        ids = tokens.flatten(1)
    else:
        pool = values
        ids = torch.arange(width, device=values.device).expand(columns, -1)
    place = _ordered(pool, ids).topk(count).indices
    return pool.gather(1, place), ids.gather(1, place)


def _ordered(values: Tensor, ids: Tensor) -> Tensor:
    """int64 keys that sort like (value, -id): distinct, so that no selection depends on tie order."""
    bits = (values + 0.0).view(torch.int32)  # -0.0 + 0.0 is 0.0: equal numbers get equal bits
    bits.bitwise_xor_((bits >> 31).bitwise_and_(0x7FFFFFFF))
    return bits.long().bitwise_left_shift_(32).bitwise_or_(0xFFFFFFFF - ids)


def _ranked(scores: Scores, laws: Laws) -> Listed:
    """Top-k first; everything else happens among those few, in fp64."""
    values, ids = best_tokens(scores.values, scores.maxima, laws.deepest)
    weights = _weights(values, laws)
    weights = torch.where(torch.arange(ids.shape[-1], device=ids.device) < laws.top_k, weights, 0.0)
    return _by_id(ids, _cut(weights, laws.top_p, weights.sum(-1, keepdim=True)))


def _weights(values: Tensor, laws: Laws) -> Tensor:
    """exp((z - max z) / T) in fp64 over scores in descending order, 0 below min-p and for -inf."""
    exact = values.double()
    weights = ((exact - exact[:, :1]) / laws.temperature).exp()
    return torch.where(weights >= laws.min_p, weights, 0.0)


def _cut(weights: Tensor, top_p: Tensor, mass: Tensor) -> Tensor:
    """Keeps the shortest prefix with at least ``top_p`` of ``mass``; ``weights`` fp64 descend.

    A candidate stays while what precedes it falls short. ``top_p`` 1 keeps all, also when the sums round.
    """
    before = torch.nn.functional.pad(cumulate(weights)[:, :-1], (1, 0))
    return torch.where((before < top_p * mass) | (top_p >= 1), weights, 0.0)


def _by_id(ids: Tensor, weights: Tensor) -> Listed:
    ids, order = ids.sort(-1)
    return Listed(ids, weights.gather(1, order))


def _softened(scores: Scores, laws: Laws, weights: Tensor) -> Tensor:
    """exp((z - max z) / T) of the whole vocabulary in fp32, into ``weights``."""
    torch.sub(scores.values, scores.best[:, None], out=weights)
    return weights.mul_((LOG2_E / laws.temperature).float()).exp2_()


def _cut_whole(scores: Scores, laws: Laws, weights: Tensor, vocabulary_size: int) -> list[Part]:
    """Min-p and top-p without top-k: the head mostly holds all survivors; else a column is sorted whole."""
    values, ids = best_tokens(scores.values, scores.maxima, HEAD)
    head = _weights(values, laws)
    mass = head.sum(-1, keepdim=True)
    complete = (head[:, -1:] == 0) | ~scores.best.isfinite()[:, None]
    if ids.shape[-1] >= vocabulary_size or bool(complete.all()):
        return [Part(None, _by_id(ids, _cut(head, laws.top_p, mass)))]
    dense = _softened(scores, laws, weights)
    if laws.floored:
        dense.mul_(dense >= laws.min_p.float())
    total = torch.where(complete, mass, blocked(dense).sum(-1).double().sum(-1, keepdim=True))
    covered = (complete | ((mass >= laws.top_p * total) & (laws.top_p < 1)))[:, 0]
    listed = _by_id(ids, _cut(head, laws.top_p, total))
    flat = (~covered).nonzero()[:, 0]
    if not len(flat):
        return [Part(None, listed)]
    kept = covered.nonzero()[:, 0]
    sorted_weights, order = dense[flat].sort(dim=-1, descending=True, stable=True)
    cut = _cut(sorted_weights.double(), laws.top_p[flat], total[flat]).float()
    parts = [Part(flat, Dense(torch.zeros_like(cut).scatter_(1, order, cut)))]
    if len(kept):
        parts.append(Part(kept, Listed(listed.ids[kept], listed.weights[kept])))
    return parts
