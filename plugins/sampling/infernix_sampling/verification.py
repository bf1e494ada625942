"""Acceptance on the host: from the verdicts on a row's columns to its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attrs import frozen

from infernix_core import random
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import (
    MaskState,
    PendingRowFailure,
    SampledRow,
    SamplingConfig,
)
from infernix_core.random import Purpose
from infernix_sampling.columns import Column


@frozen
class Verdict:
    """What the device found for one column.

    Attributes:
        column: What was computed.
        failure: Why the column has no distribution; the rest then has no meaning.
        token: The draw from p with the position's SAMPLE key, or the largest when greedy.
        replacement: The draw from the residual with the RESAMPLE key; only for a sparse column.
        target: p of the draft; only for a sparse column.
        proposal: q of the draft; only for a sparse column.
        kept_mass: See SampledRow; ``None`` when it is not asked for.
    """

    column: Column
    failure: PendingRowFailure | None
    token: int
    replacement: int
    target: float
    proposal: float
    kept_mass: float | None


def failure_of(legal: bool, finite: bool) -> PendingRowFailure | None:
    """Nothing legal is a dead end; legal tokens without a finite maximum are the model's fault."""
    if not legal:
        return PendingRowFailure.DEAD_END
    return None if finite else PendingRowFailure.NON_FINITE_LOGITS


def clean_mass(mass: float) -> float:
    """The mass within [0, 1]; 0 where NaN or infinity among illegal logits leaves it undefined."""
    return min(max(mass, 0.0), 1.0) if math.isfinite(mass) else 0.0


def settle(
    verdicts: Sequence[Verdict],
    states: Sequence[MaskState],
    config: SamplingConfig,
    position: int,
    end_ids: frozenset[int],
) -> SampledRow:
    """Walks a row's columns until a draft falls, the output ends, or the bonus is drawn.

    Args:
        verdicts: The reachable columns from 0 on.
        states: Mask states of the row; they say what ended the reachable columns.
        config: The row's law; its seed keys the ACCEPT draws.
        position: Absolute position that column 0 decides.
        end_ids: Tokens that end an output.
    """
    tokens: list[int] = []
    masses: list[float] = []
    accepted = 0
    for index, verdict in enumerate(verdicts):
        if verdict.failure is not None:
            return SampledRow((), 0, verdict.failure)
        stands = _stands(verdict, config, position + index)
        if verdict.column.sparse and not stands:
            tokens.append(verdict.replacement)
        else:
            tokens.append(verdict.column.draft if stands else verdict.token)
        if verdict.kept_mass is not None:
            masses.append(verdict.kept_mass)
        accepted += stands
        if not stands or tokens[-1] in end_ids:
            break
    else:
        if states[len(tokens)] is MaskState.DEAD_END:
            return SampledRow((), 0, PendingRowFailure.DEAD_END)
    return SampledRow(tuple(tokens), accepted, None, tuple(masses))


def _stands(verdict: Verdict, config: SamplingConfig, position: int) -> bool:
    """Whether the column's draft is accepted; False for the bonus column.

    Sparse q: u * q(d) < p(d), strictly, so that p(d) = 0 is rejected at every u. One-hot: the draft
    equals the column's own draw, which is the same law and the same text as ordinary decoding.
    """
    column = verdict.column
    if not column.sparse:
        return column.draft == verdict.token
    if verdict.proposal <= 0:
        raise IntegrityError(
            f"row {column.row}: draft {column.index} has probability 0 under its own q"
        )
    return random.uniform(config.seed, position, Purpose.ACCEPT) * verdict.proposal < verdict.target
