"""Target models: mathematics over state that the program owns.

A model declares its state as :class:`StateSpec`; the program allocates it for all lanes, and hands it to
``forward`` and ``fold`` through :class:`StateViews`. A model keeps no per-sequence state of its own.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Protocol

import torch
from attrs import field, frozen
from torch import Tensor


class StateKind(enum.Enum):
    """How a piece of state relates to a sequence.

    Attributes:
        PAGED: One record per position: [position, *shape]. Rewinding is free: later positions are overwritten.
        SLOT: One record per sequence: [*shape]. Changed only by prefill and by ``fold``.
        RECORD: One record per column of a verify: [column, *shape]. What ``fold`` replays; dropped afterwards.
    """

    PAGED = "paged"
    SLOT = "slot"
    RECORD = "record"


@frozen
class StateSpec:
    """A piece of state that a model, a backend or a sampler needs.

    Attributes:
        name: Unique in the program, by convention ``owner.what``.
        shape: The shape of one record (see :class:`StateKind`).
    """

    name: str
    kind: StateKind
    shape: tuple[int, ...]
    dtype: torch.dtype


class StateViews(Protocol):
    """Access to the state of the rows of one batch. Row n of the batch is sequence ``lanes[n]``."""

    def read_slot(self, name: str, lanes: Sequence[int]) -> Tensor:
        """The SLOT records of these lanes: [N, *shape]. A copy; writing into it changes nothing."""

    def peek_slot(self, name: str, lanes: Sequence[int]) -> Tensor:
        """What ``read_slot`` gives, but not to be written, and only good until the slots change: a view
        where the lanes lie side by side in order.
        """

    def spare_slot(self, name: str, rows: int) -> Tensor:
        """A buffer [rows, *shape] for what the SLOT records of these lanes are to become; its content is
        lost with the next call, or with the write. ``write_slot`` takes it over without a copy where it covers every lane.
        """

    def write_slot(self, name: str, lanes: Sequence[int], value: Tensor) -> None:
        """Overwrites the SLOT records of these lanes with ``value`` [N, *shape]."""

    def read_pages(self, name: str, lane: int, length: int) -> Tensor:
        """The first ``length`` PAGED records of one lane: [length, *shape], contiguous, not to be written."""

    def write_pages(self, name: str, lane: int, start: int, value: Tensor) -> None:
        """Writes ``value`` [count, *shape] at positions ``start`` … of one lane."""

    def read_records(self, name: str, rows: int) -> Tensor:
        """The RECORD buffer of the batch's first ``rows`` rows: [rows, W, *shape]."""

    def write_records(self, name: str, value: Tensor) -> None:
        """Stores ``value`` [N, W', *shape] for rows 0 … N-1, columns 0 … W'-1 of the batch."""


class StepKind(enum.Enum):
    """Which form of the recurrent layers runs.

    Attributes:
        PREFILL: One row of prompt tokens. SLOT state is advanced in place. ``start`` is a multiple of the model's
            grid.
        VERIFY: W columns per row from the committed state. SLOT state is only read; RECORDs are written.
    """

    PREFILL = "prefill"
    VERIFY = "verify"


@frozen
class ForwardBatch:
    """The input of one forward.

    Attributes:
        ids: int64 [N, W]; columns at or beyond a row's width hold a valid id and are ignored.
        starts: Absolute position of column 0, per row.
        widths: Valid columns per row, 1 … W. Column w of row n sees positions 0 … starts[n] + w.
        lanes: The sequence of each row; distinct.
    """

    kind: StepKind
    ids: Tensor = field(eq=False)
    starts: tuple[int, ...]
    widths: tuple[int, ...]
    lanes: tuple[int, ...]


@frozen
class StepOutput:
    """The output of one forward.

    Attributes:
        hidden: [N, W, H], what ``lm_head`` takes. Undefined beyond a row's width.
        features: The named features that were asked for, each [N, W, width].
    """

    hidden: Tensor = field(eq=False)
    features: Mapping[str, Tensor] = field(factory=dict, eq=False)


class DraftHead(Protocol):
    """A checkpoint's own draft layer, built by the frontend; recursion and catch-up are a backend's.

    Of a cell it keeps what follows from the cell's own token and hidden. So cells can be stored in any order, as long
    as all before one are there when it is run.
    """

    def states(self) -> Sequence[StateSpec]:
        """State that the head needs."""

    def forward(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> Tensor:
        """Runs the draft layer over cells. A cell at position t joins the hidden of position t with the token at
        t + 1 and predicts the token at t + 2.

        Args:
            batch: ``ids`` are the tokens at t + 1, ``starts`` the positions t of column 0. Cells see the cells 0 …
                t of their sequence, whose state is PAGED alone: later ones are overwritten when their turn comes.
            hidden: [N, W, H]: the target's ``final`` feature at t, or what this gave for the cell before. Undefined
                beyond a row's width.
            views: The program's state.

        Returns:
            [N, H], what ``lm_head`` takes, of each row's last cell.
        """

    def store(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> None:
        """Keeps of cells what ``forward`` would, for later cells to see, where nobody asks what they predict.

        Args:
            batch: As for ``forward``: ``ids`` int64 [N, W], the tokens at t + 1; ``starts`` the positions t of column
                0. Columns beyond a row's width are not kept.
            hidden: [N, W, H], of the dtype that ``forward`` takes and gives: the target's ``final`` feature at t, or
                what ``forward`` gave for the cell before. Undefined beyond a row's width.
            views: The program's state.
        """


class TargetModel(Protocol):
    """A causal language model as mathematics."""

    @property
    def logits_width(self) -> int:
        """Columns of the logits: at least the vocabulary's size."""

    @property
    def grid(self) -> int:
        """Prefill chunks start at multiples of this many tokens (1 when the model does not care)."""

    @property
    def device(self) -> torch.device:
        """Where weights, state and tensors of a batch live."""

    @property
    def features(self) -> Mapping[str, int]:
        """The named features of ``forward``, each with its width. By convention ``final`` is what ``lm_head`` takes,
        and ``block:i`` the whole residual stream behind decoder block i, counted from 0.
        """

    def states(self) -> Sequence[StateSpec]:
        """The state of one sequence."""

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """Runs the batch; see :class:`StepKind` for what it does to the state.

        Raises:
            ValueError: An unknown feature name.
        """

    def fold(self, lanes: Sequence[int], counts: Sequence[int], views: StateViews) -> None:
        """Replays the first ``counts[n]`` columns of the last VERIFY's records into row n's SLOT state.

        Uses the very step function that verified, so the state equals that trajectory exactly. Rows are
        those of that forward, in order; a count of 0 leaves the row untouched.
        """

    def embed(self, ids: Tensor) -> Tensor:
        """Input embeddings [..., H] of int64 ids [...]."""

    def lm_head(self, hidden: Tensor) -> Tensor:
        """Logits, float32 [R, logits_width], of hidden rows [R, H]."""

    def draft_head(self, name: str) -> DraftHead | str:
        """The draft layer of that name, or the reason why there is none."""
