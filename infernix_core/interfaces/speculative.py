"""Speculative backends: drafts ahead of the target, never constrained, always verified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen
from torch import Tensor

from infernix_core.interfaces.model import StateSpec, StateViews, TargetModel

if TYPE_CHECKING:
    from infernix_core.interfaces.vocabulary import Vocabulary


@frozen
class DraftDistribution:
    """The distribution that sampled drafts were really drawn from, sparse.

    Attributes:
        ids: int64 [B, K, C]: distinct candidate ids.
        probabilities: float32 [B, K, C]: q of each; sums to 1 over C.
        sampled: Per row: True when its drafts were drawn from q, so each has q > 0; False when they are
            one-hot (a greedy walk), and q is not read. Empty: every row was sampled.
    """

    ids: Tensor = field(eq=False)
    probabilities: Tensor = field(eq=False)
    sampled: tuple[bool, ...] = ()


@frozen
class Proposal:
    """Drafts of one round.

    Attributes:
        ids: int64 [B, K] on the host, K >= max(extents); undefined beyond a row's extent.
        extents: Drafts per row, at most the width that was asked for.
        distribution: ``None`` when every draft is one-hot.
    """

    ids: Tensor = field(eq=False)
    extents: tuple[int, ...]
    distribution: DraftDistribution | None = None


@frozen
class DraftRow:
    """What a backend may know of one decode row. Committed facts only.

    Attributes:
        lane: The sequence.
        history: Prompt and committed output, the anchor (last token, not yet executed) included.
        prompt_length: How many of them are the prompt.
        limit: Most drafts wanted.
        temperature: The row's temperature: what a sampled draft should be drawn at.
        seed: Key of its draws.
    """

    lane: int
    history: Sequence[int] = field(eq=False, repr=False)
    prompt_length: int
    limit: int
    temperature: float
    seed: int


@frozen
class DraftSetup:
    """What an engine fixes for its backend when it starts.

    Attributes:
        lanes: Most rows of a round.
        drafts: Most drafts of a row, as it was asked for; ``None`` leaves it to the backend.
        capacity: Most positions of a sequence.
        deterministic: A row's drafts must not depend on the other rows, bit for bit, wherever its text depends on
            them: where they are drawn from q.
        checkpoint: The target's directory, which may bring drafters along; ``None`` when the model has none.
        drafter: A directory to load the drafter from, as it was asked for.
        min_match: Fewest tokens that have to be the same before a backend copies what followed them; ``None`` leaves
            it to the backend.
        copies: Most drafts of a copy, in whose place a backend behind it drafts nothing. A commit may be as long.
    """

    lanes: int
    drafts: int | None
    capacity: int
    deterministic: bool = False
    checkpoint: Path | None = None
    drafter: Path | None = None
    min_match: int | None = None
    copies: int = 0


class BoundBackend(Protocol):
    """A backend bound to one target. Used by the worker thread only."""

    @property
    def width(self) -> int:
        """Most drafts of a row, at least 1: what the setup asks for, or the backend's own number."""

    def states(self) -> Sequence[StateSpec]:
        """State of the drafter, kept in the program's transaction."""

    def features(self) -> Sequence[str]:
        """Target features wanted from every forward."""

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """Tokens were executed that nobody drafted, and are history at once: a chunk of the prompt, or later, between
        two rounds, of a fixed text that became output. Each feature is [count, width].

        Args:
            lane: The sequence.
            ids: The tokens.
            start: Position of the first: as many as were executed before. Behind the prompt it is on no grid.
            features: Of these tokens.
            views: The program's state.
        """

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """Drafts for these rows. A row with limit 0 gets none."""

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """Everything of a commit that may fail, for the rows of the last ``propose``.

        Args:
            counts: Executed columns per row that become history (0: the row takes no part).
            features: [B, W, width]; only the first ``counts[n]`` columns of row n may ever be used.
            views: The program's state.
        """

    def commit(self) -> None:
        """Makes the prepared commit real. Cannot fail."""

    def abort(self) -> None:
        """Drops the round."""

    def rebuild(
        self, lane: int, history: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """Rebuilds a sequence's drafter state from its history, for a replay."""

    def release(self, lane: int) -> None:
        """The sequence is gone."""


class SpeculativeBackend(Protocol):
    """The backend family's root object."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """Binds to a target.

        Raises:
            InvalidOption: The target lacks what the backend needs, or the setup asks for what it cannot do,
                such as too many drafts; says what, and what would do.
            CheckpointError: A drafter's files cannot be used, or were made for another target.
        """


@frozen
class RowStatistics:
    """How one row's drafts fared so far.

    Attributes:
        by_position: Of the rounds that drafted a first, a second, … token: how many there were, and in how many
            it became output.
    """

    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    by_position: tuple[tuple[int, int], ...] = ()

    def after(self, drafted: int, accepted: int) -> RowStatistics:
        """With one more round."""
        places = list(self.by_position) + [(0, 0)] * (drafted - len(self.by_position))
        for index in range(drafted):
            rounds, stood = places[index]
            places[index] = rounds + 1, stood + (index < accepted)
        return RowStatistics(
            self.rounds + 1, self.drafted + drafted, self.accepted + accepted, tuple(places)
        )


class DraftPolicy(Protocol):
    """How many drafts each row of a round gets."""

    def plan(self, limits: Sequence[int], statistics: Sequence[RowStatistics]) -> tuple[int, ...]:
        """Drafts per row, 0 … ``limits[n]``. A function of committed history alone."""
