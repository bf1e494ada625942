"""A plain sampler: slow, obviously right, one column after the other in Python's own numbers.

It follows the words of ``SamplerPlan.run`` and nothing else: no batch, no blocks, no partial sorts. It stands in for a
real sampler where a test is about something else, and is a second opinion on those that are fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from attrs import define, field, frozen
from torch import Tensor

from infernix_core import random
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import StateKind, StateSpec, StateViews
from infernix_core.interfaces.sampling import (
    MaskState,
    PendingRowFailure,
    SampledRow,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_core.random import Purpose

COUNTS = "plain.counts"

#: A distribution or weights: token ids, ascending, and numbers above 0.
Law = dict[int, float]

VANISHED = 1e-6
"""Residual mass that comes from q being rounded to fp32, and from nothing else."""


@frozen
class PlainSampler:
    """Implements ``Sampler``."""

    def plan(self, spec: SamplerSpec) -> PlainSamplerPlan:
        """See ``Sampler``. There is nothing to plan."""
        return PlainSamplerPlan(spec)


@define(eq=False)
class PlainSamplerPlan:
    """Implements ``SamplerPlan``."""

    spec: SamplerSpec
    _generable: tuple[int, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._generable = tuple(self.spec.generable.nonzero()[:, 0].tolist())

    def states(self) -> Sequence[StateSpec]:
        """The committed output's token counts."""
        return (StateSpec(COUNTS, StateKind.SLOT, (self.spec.vocabulary_size,), torch.int32),)

    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        """See ``SamplerPlan``."""
        return tuple(self._row(round, row) for row in range(len(round.extents)))

    def commit(
        self, lanes: Sequence[int], tokens: Sequence[Sequence[int]], views: StateViews
    ) -> None:
        """See ``SamplerPlan``."""
        counts = views.read_slot(COUNTS, lanes)
        for row, chosen in enumerate(tokens):
            for token in chosen:
                counts[row, token] += 1
        views.write_slot(COUNTS, lanes, counts)

    def counts(self, lanes: Sequence[int], views: StateViews) -> Tensor:
        """See ``SamplerPlan``."""
        return views.read_slot(COUNTS, lanes)

    def _row(self, round: SamplingRound, row: int) -> SampledRow:
        config, extent = round.configs[row], round.extents[row]
        drafts: list[int] = round.drafts[row, :extent].tolist()
        sampled = config.temperature > 0 and _sampled(round, row)
        measured = bool(round.kept_mass) and round.kept_mass[row]
        tokens: list[int] = []
        masses: list[float] = []
        accepted = 0
        for column in range(extent + 1):
            state = round.states[row][column]
            if state is MaskState.DEAD_END:
                return SampledRow((), 0, PendingRowFailure.DEAD_END)
            if state is MaskState.UNREACHABLE:
                if column == 0:
                    raise IntegrityError(f"row {row}: the first column cannot be unreachable")
                break
            scores = self._scores(round, row, column, drafts[:column])
            legal = self._legal(round, row, column)
            law = _law({token: scores[token] for token in legal}, config)
            if isinstance(law, PendingRowFailure):
                return SampledRow((), 0, law)
            position = round.positions[row] + column
            draft = drafts[column] if column < extent else None
            if draft is not None and sampled:
                q = _proposal(round, row, column)
                stands = _accepted(law, q, draft, config.seed, position)
                token = draft if stands else _redrawn(law, q, config.seed, position)
            else:
                token = draw(law, random.uniform(config.seed, position, Purpose.SAMPLE))
                stands = token == draft
            tokens.append(token)
            if measured:
                masses.append(_kept(scores, legal))
            accepted += stands
            if not stands or token in self.spec.end_ids:
                break
        return SampledRow(tuple(tokens), accepted, None, tuple(masses))

    def _scores(
        self, round: SamplingRound, row: int, column: int, before: Sequence[int]
    ) -> dict[int, float]:
        """Penalised logits of the generable tokens after the drafts before the column."""
        config = round.configs[row]
        logits: list[float] = round.logits[row, column, : self.spec.vocabulary_size].tolist()
        if not config.penalised:
            return {token: logits[token] for token in self._generable}
        if round.counts is None:
            raise IntegrityError(f"row {row} is penalised but the round has no counts")
        seen: list[int] = round.counts[row].tolist()
        for token in before:
            # A draft that is no token is never accepted, so no column that matters comes after it.
            if 0 <= token < len(seen):
                seen[token] += 1
        return {token: logits[token] - _penalty(config, seen[token]) for token in self._generable}

    def _legal(self, round: SamplingRound, row: int, column: int) -> Sequence[int]:
        """The generable tokens that the column's mask allows."""
        if round.states[row][column] is MaskState.UNCONSTRAINED:
            return self._generable
        if round.masks is None:
            raise IntegrityError(f"row {row}: a column is READY but the round has no masks")
        words: list[int] = round.masks[row, column].tolist()
        return [token for token in self._generable if words[token // 32] >> token % 32 & 1]


def draw(law: Mapping[int, float], uniform: float) -> int:
    """The token at a number in (0, 1), by the inverse of the CDF over ascending ids.

    Args:
        law: Weights above 0, ids ascending; they need not sum to 1.
        uniform: Where in the interval.
    """
    target = uniform * math.fsum(law.values())
    reached = 0.0
    for token, weight in law.items():
        reached += weight
        if target < reached:
            return token
    return token


def _penalty(config: SamplingConfig, count: int) -> float:
    """What a token that occurred so often loses."""
    return config.presence_penalty + config.frequency_penalty * count if count else 0.0


def _law(scores: Mapping[int, float], config: SamplingConfig) -> Law | PendingRowFailure:
    """The distribution over legal tokens with these penalised logits, or why there is none."""
    if not scores:
        return PendingRowFailure.DEAD_END
    best = max(scores.values(), key=lambda score: math.inf if math.isnan(score) else score)
    if not math.isfinite(best):
        return PendingRowFailure.NON_FINITE_LOGITS
    order = sorted(scores, key=lambda token: (-scores[token], token))
    if config.temperature == 0:
        return {order[0]: 1.0}
    if config.top_k:
        order = order[: config.top_k]
    weights = {token: math.exp((scores[token] - best) / config.temperature) for token in order}
    order = [token for token in order if weights[token] >= config.min_p and weights[token] > 0]
    if config.top_p < 1:
        order = _nucleus(order, weights, config.top_p)
    total = math.fsum(weights[token] for token in order)
    return {token: weights[token] / total for token in sorted(order)}


def _nucleus(order: Sequence[int], weights: Mapping[int, float], top_p: float) -> list[int]:
    """The shortest beginning of ``order`` that holds at least ``top_p`` of its mass."""
    total = math.fsum(weights[token] for token in order)
    kept: list[int] = []
    for token in order:
        if math.fsum(weights[other] for other in kept) >= top_p * total:
            break
        kept.append(token)
    return kept


def _sampled(round: SamplingRound, row: int) -> bool:
    """Whether the row's drafts were drawn from the recorded q."""
    if round.distribution is None:
        return False
    return round.distribution.sampled[row] if round.distribution.sampled else True


def _proposal(round: SamplingRound, row: int, column: int) -> Law:
    """The q that a draft was drawn from."""
    assert round.distribution is not None
    ids: list[int] = round.distribution.ids[row, column].tolist()
    probabilities: list[float] = round.distribution.probabilities[row, column].tolist()
    return dict(zip(ids, probabilities, strict=True))


def _accepted(p: Law, q: Law, draft: int, seed: int, position: int) -> bool:
    if q.get(draft, 0.0) <= 0:
        raise IntegrityError(f"draft {draft} has probability 0 under its own q")
    return random.uniform(seed, position, Purpose.ACCEPT) * q[draft] < p.get(draft, 0.0)


def _redrawn(p: Law, q: Law, seed: int, position: int) -> int:
    """A token from max(p - q, 0)."""
    residual = {token: share - q.get(token, 0.0) for token, share in p.items()}
    residual = {token: share for token, share in residual.items() if share > 0}
    if math.fsum(residual.values()) <= VANISHED:
        residual = p
    return draw(residual, random.uniform(seed, position, Purpose.RESAMPLE))


def _kept(scores: Mapping[int, float], legal: Sequence[int]) -> float:
    """Softmax mass of the legal among the generable tokens; 0 where illegal logits leave it undefined."""
    if len(legal) == len(scores):
        return 1.0
    best = max(scores.values(), key=lambda score: math.inf if math.isnan(score) else score)
    if not math.isfinite(best):
        return 0.0
    weights = {token: math.exp(score - best) for token, score in scores.items()}
    return math.fsum(weights[token] for token in legal) / math.fsum(weights.values())
