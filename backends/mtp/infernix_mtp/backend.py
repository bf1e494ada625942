"""The backend ``mtp``: drafts by recursion over a checkpoint's own draft layer.

The anchor, the last token of a history, has position L and is not executed. The draft layer's cell t joins the target's
hidden of position t with the token at t + 1. After the cells 0 … L-1, the last of which takes the anchor, it gives the first
draft; a further draft comes from a cell of the draft before it and of the layer's own output in place of the target's
hidden, one position on. Such cells lie at positions that no committed hidden has reached; the next round's cells of
true hiddens overwrite them before anything reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from attrs import define, field, frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.errors import IntegrityError, InvalidOption, Location
from infernix_core.interfaces.model import (
    DraftHead,
    ForwardBatch,
    StateKind,
    StateSpec,
    StateViews,
    StepKind,
    TargetModel,
)
from infernix_core.interfaces.speculative import BoundBackend, DraftRow, DraftSetup, Proposal
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

#: The name of the draft layer, and of the backend.
HEAD = "mtp"

#: The feature that the draft layer takes.
HIDDEN = "final"

#: SLOT state: hiddens of executed tokens whose cells have not been run for good.
PENDING = "mtp.pending"

#: Drafts that are possible; the layer was trained for the first, and each is less likely right than the one before.
MOST_DRAFTS = 5
DEFAULT_DRAFTS = 3

#: Cells that are stored at once.
STORED_AT_ONCE = 1024


class MtpBackend:
    """Implements ``SpeculativeBackend``."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``."""
        if setup.drafter is not None:
            raise InvalidOption(
                "the backend mtp drafts with the checkpoint's own layer",
                location=Location(field="drafter"),
                hint="leave it out",
            )
        drafts = DEFAULT_DRAFTS if setup.drafts is None else setup.drafts
        if not 1 <= drafts <= MOST_DRAFTS:
            raise InvalidOption(
                f"the backend mtp cannot draft {drafts} tokens",
                location=Location(field="draft_tokens"),
                hint=f"1 to {MOST_DRAFTS}",
            )
        if HIDDEN not in getattr(target, "features", ()):
            raise InvalidOption(
                f"the backend mtp reads the target's feature {HIDDEN!r}, and this target does not give it",
                location=Location(field="spec"),
                hint="choose another backend, or none",
            )
        # Last, as it may read the layer's weights.
        head = target.draft_head(HEAD)
        if isinstance(head, str):
            raise InvalidOption(
                f"the backend mtp cannot draft: {head}",
                location=Location(field="spec"),
                hint="choose another backend, or a checkpoint with its MTP layer",
            )
        return MtpDrafter(
            head=head,
            target=target,
            width=drafts,
            columns=1 + max(drafts, setup.copies),
            bans=_bans(target, vocabulary),
        )


def _bans(target: TargetModel, vocabulary: Vocabulary) -> Tensor:
    """What is added to logits, so that neither padding nor a token that is never generated is chosen."""
    bans = torch.zeros(target.logits_width)
    bans[vocabulary.size :] = -torch.inf
    bans[list(vocabulary.ids(TokenClass.FORBIDDEN))] = -torch.inf
    return bans.to(target.device)


@frozen(eq=False)
class Cells:
    """Cells of one lane, side by side.

    Attributes:
        start: The first one's position.
        tokens: At the positions behind each.
        hidden: [W, H].
    """

    lane: int
    start: int
    tokens: Sequence[int]
    hidden: Tensor

    @property
    def end(self) -> int:
        """The last one's position."""
        return self.start + len(self.tokens) - 1


@frozen(eq=False)
class Commit:
    """What a commit is going to write.

    Attributes:
        lanes: Those that take part.
        cells: Of each, the positions of the cells that are pending then.
        hidden: Their hiddens, [N, R, H].
    """

    lanes: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]
    hidden: Tensor
    views: StateViews


@define(eq=False)
class MtpDrafter:
    """A bound :class:`MtpBackend`.

    A lane's pending cells are those whose hidden is known and whose place in the layer's KV is not settled: after a commit
    the cells of its columns. The slot holds their hiddens in the order of positions; the last is always that of the last
    executed token. The next round runs them, now that their tokens are history; they stay pending until it commits,
    so a dropped round leaves nothing behind.

    A text that is appended in between lets the last cell be stored at once, with the text's own. What was pending before that
    cell then remains so, apart from the new last cell.

    Attributes:
        columns: Most tokens of a commit, and most pending cells.
        bans: float32 [logits_width]: -inf where a token is never generated, else 0.
    """

    head: DraftHead
    target: TargetModel
    width: int
    columns: int
    bans: Tensor
    _cells: dict[int, tuple[int, ...]] = field(factory=dict, init=False)
    _round: tuple[DraftRow, ...] = field(default=(), init=False)
    _prepared: Commit | None = field(default=None, init=False)
    _host_bans: NDArray[np.float32] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._host_bans = self.bans.cpu().numpy()

    def states(self) -> Sequence[StateSpec]:
        """See ``BoundBackend``."""
        embedding = self.target.embed(torch.zeros(1, dtype=torch.int64, device=self.target.device))
        shape = (self.columns, self.target.features[HIDDEN])
        return (
            *self.head.states(),
            StateSpec(PENDING, StateKind.SLOT, shape, embedding.dtype),
        )

    def features(self) -> Sequence[str]:
        """See ``BoundBackend``."""
        return (HIDDEN,)

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        hidden = features[HIDDEN]
        pending = views.read_slot(PENDING, (lane,))
        before: tuple[int, ...] = ()
        if start:
            cells = self._pending(lane, start)
            before, last = cells[:-1], cells[-1]
            known = torch.cat((pending[0, len(before) : len(before) + 1], hidden[:-1]))
            self._store_run(Cells(lane, last, ids, known), views)
        elif len(ids) > 1:
            self._store_run(Cells(lane, 0, ids[1:], hidden[:-1]), views)
        pending[0, len(before)] = hidden[-1]
        views.write_slot(PENDING, (lane,), pending)
        self._cells[lane] = (*before, start + len(ids) - 1)

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """See ``BoundBackend``."""
        self._round = tuple(rows)
        earlier, last = self._due(rows, views)
        self._store(earlier, views)
        self._store([cells for row, cells in zip(rows, last, strict=True) if not row.limit], views)
        extents = tuple(min(row.limit, self.width) for row in rows)
        if all(extents):
            return Proposal(self._draft(last, extents, views), extents)
        ids = torch.zeros((len(rows), max(extents)), dtype=torch.int64)
        drafting = [index for index, extent in enumerate(extents) if extent]
        if drafting:
            most = [extents[index] for index in drafting]
            ids[drafting] = self._draft([last[index] for index in drafting], most, views)
        return Proposal(ids, extents)

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        if max(counts) > self.columns:
            raise IntegrityError(f"{max(counts)} columns are committed of {self.columns}")
        live = [index for index, count in enumerate(counts) if count]
        given = features[HIDDEN]
        hidden = given.new_zeros((len(live), self.columns, given.shape[-1]))
        cells = []
        for place, index in enumerate(live):
            count, first = counts[index], len(self._round[index].history) - 1
            hidden[place, :count] = given[index, :count]
            cells.append(tuple(range(first, first + count)))
        lanes = tuple(self._round[index].lane for index in live)
        self._prepared = Commit(lanes, tuple(cells), hidden, views)

    def commit(self) -> None:
        """See ``BoundBackend``."""
        prepared = self._prepared
        if prepared is not None and prepared.lanes:
            prepared.views.write_slot(PENDING, prepared.lanes, prepared.hidden)
            self._cells.update(zip(prepared.lanes, prepared.cells, strict=True))
        self.abort()

    def abort(self) -> None:
        """See ``BoundBackend``."""
        self._round, self._prepared = (), None

    def rebuild(
        self, lane: int, history: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        self.prefilled(lane, history[:-1], 0, features, views)

    def release(self, lane: int) -> None:
        """See ``BoundBackend``."""
        self._cells.pop(lane, None)

    def _pending(self, lane: int, executed: int) -> tuple[int, ...]:
        """The lane's pending cells, of which there is always the last executed token's."""
        cells = self._cells.get(lane, ())
        if not cells or cells[-1] != executed - 1:
            raise IntegrityError(
                f"lane {lane} has executed {executed} tokens; the drafter's last is {cells[-1:]}"
            )
        return cells

    def _due(self, rows: Sequence[DraftRow], views: StateViews) -> tuple[list[Cells], list[Cells]]:
        """Pending cells: those before an appended text, of the rows that have some; each row's last ones."""
        pending = views.peek_slot(PENDING, [row.lane for row in rows])
        earlier, last = [], []
        for index, row in enumerate(rows):
            history, cells = row.history, self._pending(row.lane, len(row.history) - 1)
            count = len(cells)
            # Side by side, unless a text came between.
            split = 0 if cells[-1] - cells[0] == count - 1 else count - 1
            if split:
                tokens = history[cells[0] + 1 : cells[split - 1] + 2]
                earlier.append(Cells(row.lane, cells[0], tokens, pending[index, :split]))
            tokens = history[cells[split] + 1 :]
            last.append(Cells(row.lane, cells[split], tokens, pending[index, split:count]))
        return earlier, last

    def _draft(self, cells: Sequence[Cells], most: Sequence[int], views: StateViews) -> Tensor:
        """Runs each row's cells and goes on from the last: int64 [N, max(most)] on the host."""
        batch, hidden = self._batch(cells)
        hidden = self.head.forward(batch, hidden, views)
        chosen = self._choose(hidden)
        rows, steps = list(range(len(cells))), [(list(range(len(cells))), chosen)]
        for step in range(1, max(most)):
            kept = [place for place, row in enumerate(rows) if most[row] > step]
            if len(kept) < len(rows):
                rows, hidden, chosen = [rows[place] for place in kept], hidden[kept], chosen[kept]
            batch = ForwardBatch(
                kind=StepKind.VERIFY,
                ids=chosen.unsqueeze(1),
                starts=tuple(cells[row].end + step for row in rows),
                widths=(1,) * len(rows),
                lanes=tuple(cells[row].lane for row in rows),
            )
            hidden = self.head.forward(batch, hidden.unsqueeze(1), views)
            chosen = self._choose(hidden)
            steps.append((rows, chosen))
        if len(rows) == len(cells):
            return torch.stack([chosen for _, chosen in steps], dim=1).cpu()
        drafts = torch.zeros((len(cells), max(most)), dtype=torch.int64)
        for step, (rows, chosen) in enumerate(steps):
            drafts[rows, step] = chosen.cpu()
        return drafts

    def _choose(self, hidden: Tensor) -> Tensor:
        """The likeliest token that can be generated: int64 [N] of hidden [N, H]."""
        logits = self.target.lm_head(hidden)
        if logits.device.type != "cpu":
            return (logits + self.bans).argmax(-1)
        # Ten times as fast as torch where the vocabulary is large.
        return torch.from_numpy(np.add(logits.numpy(), self._host_bans).argmax(axis=-1))

    def _store_run(self, cells: Cells, views: StateViews) -> None:
        """A long run of one lane's cells, piece by piece."""
        for first in range(0, len(cells.tokens), STORED_AT_ONCE):
            part = slice(first, first + STORED_AT_ONCE)
            piece = Cells(cells.lane, cells.start + first, cells.tokens[part], cells.hidden[part])
            self._store([piece], views)

    def _store(self, cells: Sequence[Cells], views: StateViews) -> None:
        if cells:
            batch, hidden = self._batch(cells)
            self.head.store(batch, hidden, views)

    def _batch(self, cells: Sequence[Cells]) -> tuple[ForwardBatch, Tensor]:
        """A forward's batch, and its hidden [N, W, H]."""
        widths = tuple(len(cell.tokens) for cell in cells)
        whole = max(widths)
        ids = np.zeros((len(cells), whole), dtype=np.int64)
        for row, cell in enumerate(cells):
            ids[row, : widths[row]] = cell.tokens
        if len(cells) == 1:
            hidden = cells[0].hidden.unsqueeze(0)
        else:
            size = cells[0].hidden.shape[-1]
            hidden = cells[0].hidden.new_zeros((len(cells), whole, size))
            for row, cell in enumerate(cells):
                hidden[row, : widths[row]] = cell.hidden
        batch = ForwardBatch(
            kind=StepKind.VERIFY,
            ids=torch.from_numpy(ids).to(self.target.device),
            starts=tuple(cell.start for cell in cells),
            widths=widths,
            lanes=tuple(cell.lane for cell in cells),
        )
        return batch, hidden
