"""Samplers: penalised, masked, truncated distributions, and the choice of tokens from them."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

from attrs import field, frozen, validators
from torch import Tensor

from infernix_core.interfaces.model import StateSpec, StateViews
from infernix_core.interfaces.speculative import DraftDistribution


@frozen
class SamplingOptions:
    """What a caller asks for; ``None`` takes the checkpoint's or the family's value. See SamplingConfig."""

    greedy: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None


@frozen
class SamplingConfig:
    """A resolved sampling law.

    Attributes:
        temperature: At least 0; 0 is greedy, ties to the smaller id.
        top_k: Candidates kept; 0 keeps all.
        min_p: Candidates below this fraction of the largest probability are dropped; 0 keeps all.
        top_p: The smallest set of survivors with at least this much of their mass is kept; 1 keeps all.
        presence_penalty: Subtracted from the logit of each token that the output already holds.
        frequency_penalty: Subtracted from it once per occurrence.
        seed: Key of all draws, 64 bits.
    """

    temperature: float = field(default=1.0, validator=validators.ge(0))
    top_k: int = field(default=0, validator=validators.ge(0))
    top_p: float = field(default=1.0, validator=[validators.gt(0), validators.le(1)])
    min_p: float = field(default=0.0, validator=[validators.ge(0), validators.le(1)])
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0

    @property
    def penalised(self) -> bool:
        """Whether the output's own tokens shift the logits."""
        return self.presence_penalty != 0 or self.frequency_penalty != 0


class MaskState(enum.IntEnum):
    """What a column of a row's masks means.

    Attributes:
        UNCONSTRAINED: No grammar: every generable token is legal.
        READY: The prefix is legal and the mask is built.
        DEAD_END: The prefix is legal and nothing may follow. Fails the row only when verification reaches it.
        UNREACHABLE: An earlier draft was illegal or ended the output; the column has no meaning.
    """

    UNCONSTRAINED = 0
    READY = 1
    DEAD_END = 2
    UNREACHABLE = 3


class PendingRowFailure(enum.Enum):
    """Why a row yields nothing this round.

    Attributes:
        DEAD_END: A column was reached where no generable token is legal.
        NON_FINITE_LOGITS: A column was reached whose logits leave no finite candidate: NaN or +inf at a legal
            token, or -inf at all of them.
    """

    DEAD_END = "dead end"
    NON_FINITE_LOGITS = "non-finite logits"


@frozen
class SamplerSpec:
    """The fixed sizes of one engine, known at start.

    Attributes:
        rows: Most rows B of a round.
        width: Most columns W of a row: drafts plus one.
        vocabulary_size: V. Logits beyond it are never candidates.
        logits_width: Columns of the logits, at least V.
        generable: bool [V]: tokens that may be generated at all, constrained or not. It lies on the device
            where the sampler computes, that of the logits and the counts.
        end_ids: Tokens that end an output.
        deterministic: Rows are computed one by one, so that a row's result does not depend on the batch.
    """

    rows: int
    width: int
    vocabulary_size: int
    logits_width: int
    generable: Tensor = field(eq=False)
    end_ids: frozenset[int] = frozenset()
    deterministic: bool = False


@frozen
class SamplingRound:
    """One round's input. Row n has ``extents[n]`` drafts and ``extents[n] + 1`` valid columns.

    Attributes:
        logits: float32 [B, W, logits_width]. Not modified. Beyond a row's valid columns undefined.
        drafts: int64 [B, W - 1] on the host (any W, also 1); beyond a row's extent undefined.
        extents: Drafts per row.
        distribution: How the drafts were drawn, or ``None``: one-hot (each draft was certain).
        masks: int32 [B, W, ceil(V / 32)], bit ``t % 32`` of word ``t // 32``; ``None`` when no row is
            constrained. Only READY columns are read. On the host or on the device.
        states: One :class:`MaskState` per row and valid column. Column 0 is never UNREACHABLE.
        configs: The sampling law per row.
        positions: Absolute position of the token that column 0 decides, per row.
        counts: Occurrences in the committed output, int32 [B, V]; ``None`` when no row is penalised.
        kept_mass: Per row, whether its kept mass is asked for, see :class:`SampledRow`; empty: no row's.
            It is a softmax over the vocabulary that nothing else needs, so it is computed on request only,
            and it changes no token.
    """

    logits: Tensor = field(eq=False)
    drafts: Tensor = field(eq=False)
    extents: tuple[int, ...]
    distribution: DraftDistribution | None
    masks: Tensor | None = field(eq=False)
    states: tuple[tuple[MaskState, ...], ...]
    configs: tuple[SamplingConfig, ...]
    positions: tuple[int, ...]
    counts: Tensor | None = field(eq=False)
    kept_mass: tuple[bool, ...] = ()


@frozen
class SampledRow:
    """One row's outcome.

    Attributes:
        tokens: Accepted drafts, then the correction or the bonus; 1 … extent + 1 tokens. It stops early
            after an end token, and before an UNREACHABLE column. Empty exactly when the row failed.
        accepted: How many of ``tokens`` are accepted drafts.
        failure: Why the row yields nothing.
        kept_mass: Where the round asks for it, per token, the probability that the unmasked, untruncated,
            untempered distribution (softmax of the penalised logits over the generable tokens) gives to the
            legal tokens: how little the constraint had to bend the model. 1.0 where the column is
            unconstrained. Empty where it was not asked for.
    """

    tokens: tuple[int, ...]
    accepted: int
    failure: PendingRowFailure | None = None
    kept_mass: tuple[float, ...] = ()


class SamplerPlan(Protocol):
    """A sampler with its buffers planned for one engine. Used by the worker thread only."""

    def states(self) -> Sequence[StateSpec]:
        """SLOT state per sequence, such as penalty counts."""

    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        """Chooses or verifies, row by row in law, batched in execution.

        The law at column j, given the committed prefix and drafts 0 … j-1: logits of generable tokens →
        minus presence and frequency penalties at that hypothetical prefix → mask → top-k → divided by the
        temperature → min-p → top-p over the survivors → normalised. At temperature 0 the largest masked,
        penalised logit wins, ties to the smaller id. One-hot drafts are verified by sample-and-match: the
        column's token is drawn with the very key that ordinary decoding would use at that position, and a
        draft stands while it equals the draw. Sparse q: draft accepted when u * q < p with u in (0, 1),
        else drawn from max(p - q, 0), renormalised.

        A column that is reached with state DEAD_END (or READY without a generable token), or whose logits
        leave no finite candidate (NaN or +inf at a legal token, or only -inf), fails its row alone. What
        columns that are not reached hold is of no consequence. Draws are functions of (seed, position,
        purpose) only (see infernix_core.random).

        Raises:
            IntegrityError: The round contradicts itself: a READY column without masks, a penalised row
                without counts, a draft with q = 0 that was reached.
        """

    def commit(
        self, lanes: Sequence[int], tokens: Sequence[Sequence[int]], views: StateViews
    ) -> None:
        """Counts committed tokens into the penalty state. Cannot fail.

        Lanes whose config is not penalised may be left out: nobody reads their counts.
        """

    def counts(self, lanes: Sequence[int], views: StateViews) -> Tensor:
        """int32 [N, V]: occurrences in the committed outputs, for :attr:`SamplingRound.counts`."""


class Sampler(Protocol):
    """The sampler family's root object."""

    def plan(self, spec: SamplerSpec) -> SamplerPlan:
        """Plans fixed buffers. Called once at engine start."""
