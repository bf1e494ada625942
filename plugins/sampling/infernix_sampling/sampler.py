"""The sampler and its plan: one pass per piece of columns, one download, then acceptance on the host."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infernix_core import random
from infernix_core.interfaces.model import StateKind, StateSpec, StateViews
from infernix_core.interfaces.sampling import SampledRow, SamplerSpec, SamplingRound
from infernix_core.random import Purpose
from infernix_sampling.columns import Column, Method, chunks, reachable_columns
from infernix_sampling.greedy import GreedyShortcut
from infernix_sampling.scores import Scores, Workspace
from infernix_sampling.selection import Laws, Part, select
from infernix_sampling.verification import Verdict, clean_mass, failure_of, settle

COUNTS = "sampling.counts"


class TorchSampler:
    """Samples in plain torch on whichever device ``SamplerSpec.generable`` lives."""

    def plan(self, spec: SamplerSpec) -> TorchSamplerPlan:
        """Plans fixed buffers. Called once at engine start."""
        return TorchSamplerPlan(spec)


class TorchSamplerPlan:
    """See :class:`infernix_core.interfaces.sampling.SamplerPlan`."""

    def __init__(self, spec: SamplerSpec) -> None:
        self._spec = spec
        self._workspace = Workspace(spec)
        self._greedy = GreedyShortcut(spec)
        self._generable: list[bool] = spec.generable.tolist()

    def states(self) -> Sequence[StateSpec]:
        """The committed output's token counts, zero for a new sequence."""
        return (StateSpec(COUNTS, StateKind.SLOT, (self._spec.vocabulary_size,), torch.int32),)

    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        """Chooses or verifies, row by row in law, batched in execution."""
        single = self._greedy.single(round)
        return single if single is not None else self._run(round)

    @torch.inference_mode()
    def _run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        rows = self._columns(round)
        verdicts: list[list[Verdict | None]] = [[None] * len(columns) for columns in rows]
        pieces = [column for columns in rows for column in columns]
        for verdict in self._greedy.verdicts(round, pieces):
            verdicts[verdict.column.row][verdict.column.index] = verdict
        left = (column for column in pieces if verdicts[column.row][column.index] is None)
        for method, piece in chunks(left, self._spec.vocabulary_size, self._workspace.limit):
            for verdict in self._judge(round, method, piece):
                verdicts[verdict.column.row][verdict.column.index] = verdict
        return tuple(
            settle(
                [verdict for verdict in row if verdict is not None],
                round.states[index],
                round.configs[index],
                round.positions[index],
                self._spec.end_ids,
            )
            for index, row in enumerate(verdicts)
        )

    @torch.inference_mode()
    def distributions(
        self, round: SamplingRound
    ) -> tuple[tuple[tuple[Tensor, Tensor] | None, ...], ...]:
        """The target distributions that :meth:`run` would use, for tests and explanations.

        Returns:
            Per row and reachable column: ascending token ids int64 [C] with p > 0, and p fp64 [C];
            ``None`` where the column has no distribution and would fail its row.
        """
        rows = self._columns(round)
        tables: list[list[tuple[Tensor, Tensor] | None]] = [
            [None] * len(columns) for columns in rows
        ]
        pieces = (column for columns in rows for column in columns)
        for method, piece in chunks(pieces, self._spec.vocabulary_size, self._workspace.limit):
            scores, parts = self._select(round, method, piece)
            finite = (scores.best.isfinite() & scores.legal).tolist()
            for part in parts:
                members = range(len(piece)) if part.index is None else part.index.tolist()
                for place, member in enumerate(members):
                    if finite[member]:
                        column = piece[member]
                        tables[column.row][column.index] = part.candidates.table(place)
        return tuple(tuple(row) for row in tables)

    def commit(
        self, lanes: Sequence[int], tokens: Sequence[Sequence[int]], views: StateViews
    ) -> None:
        """Counts committed tokens into the penalty state. Cannot fail."""
        places = [(n, token) for n, row in enumerate(tokens) for token in row]
        if not places:
            return
        counts = views.read_slot(COUNTS, lanes)
        rows, ids = torch.tensor(places, device=counts.device).unbind(-1)
        counts.index_put_((rows, ids), torch.ones_like(ids, dtype=counts.dtype), accumulate=True)
        views.write_slot(COUNTS, lanes, counts)

    def counts(self, lanes: Sequence[int], views: StateViews) -> Tensor:
        """int32 [N, V]: occurrences in the committed outputs."""
        return views.read_slot(COUNTS, lanes)

    def _columns(self, round: SamplingRound) -> list[list[Column]]:
        return [
            reachable_columns(round, row, self._generable, self._spec.end_ids)
            for row in range(len(round.extents))
        ]

    def _select(
        self, round: SamplingRound, method: Method, piece: Sequence[Column]
    ) -> tuple[Scores, list[Part]]:
        workspace = self._workspace
        scores = workspace.fill(round, piece)
        laws = Laws.of(piece, self._spec.vocabulary_size, workspace.device)
        weights = workspace.weights[: len(piece)]
        return scores, select(method, scores, laws, weights, self._spec.vocabulary_size)

    def _judge(
        self, round: SamplingRound, method: Method, piece: Sequence[Column]
    ) -> list[Verdict]:
        """Verdicts on a piece of columns: one upload of numbers, one download of numbers."""
        device = self._workspace.device
        scores, parts = self._select(round, method, piece)
        draws = torch.tensor(
            [self._draws(round, column) for column in piece], dtype=torch.float64
        ).to(device)
        drafts = torch.tensor([column.draft for column in piece]).to(device)
        found = torch.zeros((len(piece), 7), dtype=torch.float64, device=device)
        found[:, 0] = scores.legal
        found[:, 1] = scores.best.isfinite()
        if scores.kept_mass is not None:
            found[:, 2] = scores.kept_mass
        for part in parts:
            members = torch.arange(len(piece), device=device) if part.index is None else part.index
            found[members, 3] = part.candidates.draw(draws[members, 0]).double()
            self._compare(round, piece, part, members, draws, drafts, found)
        return [
            Verdict(
                column=column,
                failure=failure_of(bool(legal), bool(finite)),
                token=int(token),
                replacement=int(replacement),
                target=target,
                proposal=proposal,
                kept_mass=clean_mass(mass) if column.measured else None,
            )
            for column, (legal, finite, mass, token, replacement, target, proposal) in zip(
                piece, found.tolist(), strict=True
            )
        ]

    def _compare(
        self,
        round: SamplingRound,
        piece: Sequence[Column],
        part: Part,
        members: Tensor,
        draws: Tensor,
        drafts: Tensor,
        found: Tensor,
    ) -> None:
        """Adds the residual draw, p and q of the draft where a draft was drawn from q."""
        if round.distribution is None or not any(column.sparse for column in piece):
            return
        order = range(len(piece)) if part.index is None else part.index.tolist()
        sparse = [place for place, member in enumerate(order) if piece[member].sparse]
        if not sparse:
            return
        places = torch.tensor(sparse, device=members.device)
        chosen = members[places]
        source = round.distribution.ids.device
        rows = torch.tensor([piece[order[place]].row for place in sparse], device=source)
        indices = torch.tensor([piece[order[place]].index for place in sparse], device=source)
        ids = round.distribution.ids[rows, indices].to(members.device)
        q = round.distribution.probabilities[rows, indices].to(members.device).double()
        residual = part.candidates.residual(places, ids, q)
        found[chosen, 4] = residual.draw(draws[chosen, 1]).double()
        found[chosen, 5] = part.candidates.probability(drafts[members])[places]
        found[chosen, 6] = torch.where(ids == drafts[chosen, None], q, 0.0).sum(-1)

    @staticmethod
    def _draws(round: SamplingRound, column: Column) -> tuple[float, float]:
        """The SAMPLE and RESAMPLE numbers of a column; a constant where none is consumed."""
        seed, position = column.config.seed, round.positions[column.row] + column.index
        if column.config.temperature == 0:
            return 0.5, 0.5
        if column.sparse:
            return 0.5, random.uniform(seed, position, Purpose.RESAMPLE)
        return random.uniform(seed, position, Purpose.SAMPLE), 0.5
