"""Small sampling rounds, and the law of a column by its definition in plain Python numbers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import torch
from attrs import field, frozen

from infernix_core.interfaces.sampling import (
    MaskState,
    PendingRowFailure,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_core.interfaces.speculative import DraftDistribution

#: Tokens of the small vocabulary, logit columns beyond it, and what is special in it.
SIZE, PADDING = 37, 3
NEVER = frozenset((5, 11))
ENDS = frozenset((35, 36))
ORDINARY = tuple(token for token in range(SIZE) if token not in NEVER | ENDS)


def spec(rows: int, width: int, *, deterministic: bool = False) -> SamplerSpec:
    """The small vocabulary, for that many rows and columns."""
    generable = torch.ones(SIZE, dtype=torch.bool)
    generable[list(NEVER)] = False
    return SamplerSpec(
        rows=rows,
        width=width,
        vocabulary_size=SIZE,
        logits_width=SIZE + PADDING,
        generable=generable,
        end_ids=ENDS,
        deterministic=deterministic,
    )


def logits(seed: int, columns: int = 1) -> list[list[float]]:
    """Random logits on a grid of 1/8, so that sums are exact and ties occur.

    What is never generable or beyond the vocabulary is large, so that a sampler that looks at it is found out.
    """
    generator = torch.Generator().manual_seed(seed)
    table = (torch.randn((columns, SIZE + PADDING), generator=generator) * 12).round() / 8
    table[:, list(NEVER)] = 1e4
    table[:, SIZE:] = 1e4
    rows: list[list[float]] = table.tolist()
    return rows


@frozen
class Row:
    """One row of a round.

    Attributes:
        logits: [columns][SIZE + PADDING]; one column more than drafts.
        legal: The mask of each column; ``None`` where the row is unconstrained.
        states: Overrides what ``legal`` says about the columns.
        counts: Occurrences in the committed output.
        q: Candidates and probabilities that each draft was drawn from; empty: one-hot drafts.
        kept_mass: Whether the row's kept mass is asked for.
    """

    logits: Sequence[Sequence[float]]
    config: SamplingConfig = field(factory=SamplingConfig)
    drafts: tuple[int, ...] = ()
    position: int = 9
    legal: Sequence[frozenset[int]] | None = None
    states: tuple[MaskState, ...] | None = None
    counts: Mapping[int, int] = field(factory=dict)
    q: Sequence[Mapping[int, float]] = ()
    kept_mass: bool = False

    def columns(self) -> tuple[MaskState, ...]:
        """One state per valid column, as the mask service gives them."""
        if self.states is not None:
            return self.states
        if self.legal is None:
            return (MaskState.UNCONSTRAINED,) * len(self.logits)
        found: list[MaskState] = []
        for column, tokens in enumerate(self.legal):
            found.append(MaskState.READY if tokens else MaskState.DEAD_END)
            if not tokens or (column < len(self.drafts) and self.drafts[column] not in tokens):
                break
        return (*found, *(MaskState.UNREACHABLE,) * (len(self.logits) - len(found)))


def sampling_round(rows: Sequence[Row]) -> SamplingRound:
    """A round of these rows. What must not be read holds rubbish."""
    width = max(len(row.logits) for row in rows)
    table = torch.full((len(rows), width, SIZE + PADDING), torch.nan)
    drafts = torch.full((len(rows), width - 1), -7, dtype=torch.int64)
    masks = torch.full((len(rows), width, -(-SIZE // 32)), 0x5A5A5A5A, dtype=torch.int32)
    counts = torch.zeros((len(rows), SIZE), dtype=torch.int32)
    for index, row in enumerate(rows):
        table[index, : len(row.logits)] = torch.tensor(row.logits)
        drafts[index, : len(row.drafts)] = torch.tensor(row.drafts, dtype=torch.int64)
        for token, count in row.counts.items():
            counts[index, token] = count
        for column, tokens in enumerate(row.legal or ()):
            masks[index, column] = packed(tokens)
    return SamplingRound(
        logits=table,
        drafts=drafts,
        extents=tuple(len(row.drafts) for row in rows),
        distribution=_distribution(rows, width),
        masks=masks if any(row.legal is not None for row in rows) else None,
        states=tuple(row.columns() for row in rows),
        configs=tuple(row.config for row in rows),
        positions=tuple(row.position for row in rows),
        counts=counts if any(row.config.penalised for row in rows) else None,
        kept_mass=tuple(row.kept_mass for row in rows),
    )


def packed(tokens: frozenset[int]) -> torch.Tensor:
    """Mask words of a set of tokens."""
    words = [0] * -(-SIZE // 32)
    for token in tokens:
        words[token >> 5] |= 1 << (token & 31)
    return torch.tensor([word - (1 << 32) if word >> 31 else word for word in words]).to(
        torch.int32
    )


def _distribution(rows: Sequence[Row], width: int) -> DraftDistribution | None:
    if not any(row.q for row in rows):
        return None
    size = max(len(q) for row in rows for q in row.q)
    # Candidates are distinct: the padding takes ids that the row's own do not.
    ids = torch.zeros((len(rows), width - 1, size), dtype=torch.int64)
    probabilities = torch.zeros((len(rows), width - 1, size))
    for index, row in enumerate(rows):
        for column in range(width - 1):
            q = row.q[column] if column < len(row.q) else {}
            spare = [token for token in range(SIZE) if token not in q]
            ids[index, column] = torch.tensor([*q, *spare[: size - len(q)]])
            probabilities[index, column, : len(q)] = torch.tensor([*q.values()])
    return DraftDistribution(ids, probabilities, tuple(bool(row.q) for row in rows))


def law(row: Row, column: int = 0) -> dict[int, float] | PendingRowFailure:
    """The distribution of a column after the drafts before it, or why there is none."""
    config = row.config
    candidates = [token for token in range(SIZE) if token not in NEVER]
    if row.legal is not None:
        candidates = [token for token in candidates if token in row.legal[column]]
    if not candidates:
        return PendingRowFailure.DEAD_END
    score = penalised(row, column, candidates)
    if any(math.isnan(value) or value == math.inf for value in score.values()):
        return PendingRowFailure.NON_FINITE_LOGITS
    order = sorted((t for t in score if score[t] > -math.inf), key=lambda t: (-score[t], t))
    if not order:
        return PendingRowFailure.NON_FINITE_LOGITS
    if config.temperature == 0:
        return {order[0]: 1.0}
    order = order[: config.top_k] if config.top_k else order
    weight = {t: math.exp((score[t] - score[order[0]]) / config.temperature) for t in order}
    order = [token for token in order if weight[token] >= config.min_p]
    total = math.fsum(weight[token] for token in order)
    kept: dict[int, float] = {}
    for token in order:
        if kept and config.top_p < 1 and math.fsum(kept.values()) >= config.top_p * total:
            break
        kept[token] = weight[token]
    mass = math.fsum(kept.values())
    return {token: value / mass for token, value in kept.items()}


def penalised(row: Row, column: int, tokens: Sequence[int]) -> dict[int, float]:
    """Logits of these tokens minus penalties at the column's hypothetical prefix."""
    score = {}
    for token in tokens:
        seen = row.counts.get(token, 0) + row.drafts[:column].count(token)
        value = row.logits[column][token]
        if seen:
            value -= row.config.presence_penalty + row.config.frequency_penalty * seen
        score[token] = value
    return score


def kept_mass(row: Row, column: int = 0) -> float:
    """What a column's mask leaves of the model's probability after the drafts before it."""
    score = penalised(row, column, [token for token in range(SIZE) if token not in NEVER])
    weight = {token: math.exp(value - max(score.values())) for token, value in score.items()}
    legal = weight if row.legal is None else row.legal[column] & weight.keys()
    return math.fsum(weight[token] for token in legal) / math.fsum(weight.values())


def follows(observed: Counter[int], expected: Mapping[int, float]) -> None:
    """Asserts that counts come from a distribution: nothing outside, and chi-square within 4 sigma."""
    outside = set(observed) - {token for token, p in expected.items() if p > 0}
    assert not outside, f"tokens {sorted(outside)} have probability 0"
    total = observed.total()
    large = {token: p for token, p in expected.items() if p * total >= 8}
    cells = [(observed[token], p * total) for token, p in large.items()]
    rest = total - sum(seen for seen, _ in cells), total - sum(wanted for _, wanted in cells)
    if rest[1] >= 8:
        cells.append(rest)
    freedom = max(len(cells) - 1, 1)
    statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
    # Wilson and Hilferty's approximation of the quantile at 4 sigma.
    limit = freedom * (1 - 2 / (9 * freedom) + 4 * math.sqrt(2 / (9 * freedom))) ** 3
    assert statistic < limit, (
        f"counts of {total} draws do not follow the law: chi-square {statistic:.1f}, at most {limit:.1f} at 4 sigma "
        f"with {freedom} degrees of freedom; "
        + ", ".join(
            f"token {token}: {observed[token]} drawn, {p * total:.1f} expected"
            for token, p in sorted(expected.items())
        )
    )
