"""Toy drafters: they draft from a script, and check that the engine keeps its side of the transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from attrs import define, field
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import StateKind, StateSpec, StateViews, TargetModel
from infernix_core.interfaces.speculative import (
    DraftDistribution,
    DraftRow,
    DraftSetup,
    Proposal,
)
from infernix_core.interfaces.vocabulary import Vocabulary

#: Drafts of a row where the engine leaves it to the backend.
DEFAULT_WIDTH = 4

#: Drafts for one row: any number of token ids, cut to the row's limit.
Script = Callable[[DraftRow], Sequence[int]]

#: Candidates and their probabilities for one draft position, given the row and the drafts before it.
Law = Callable[[DraftRow, Sequence[int]], tuple[Sequence[int], Sequence[float]]]


@define(eq=False)
class ScriptedBackend:
    """A speculative backend that drafts what ``script`` says; implements ``SpeculativeBackend``.

    Its state counts a sequence's executed tokens and sums their features, and every proposal compares
    both with the history, so that a lost, doubled or leaked column is an error and not just a worse draft.
    """

    script: Script

    def bind(
        self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup
    ) -> ScriptedDrafter:
        """See ``SpeculativeBackend``."""
        return ScriptedDrafter(self.script, setup.drafts or DEFAULT_WIDTH)


@define(eq=False)
class ScriptedDrafter:
    """A bound :class:`ScriptedBackend`."""

    script: Script
    width: int = DEFAULT_WIDTH
    _open: tuple[DraftRow, ...] | None = field(default=None, init=False)
    _prepared: Callable[[], None] | None = field(default=None, init=False)
    aborted: int = field(default=0, init=False)

    def states(self) -> Sequence[StateSpec]:
        """See ``BoundBackend``."""
        return (StateSpec("scripted.executed", StateKind.SLOT, (), torch.int64),)

    def features(self) -> Sequence[str]:
        """See ``BoundBackend``."""
        return ("final",)

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        if features["final"].shape[0] != len(ids):
            raise IntegrityError("features and prompt tokens differ in number")
        executed = views.read_slot("scripted.executed", (lane,))
        if int(executed) != start:
            raise IntegrityError(f"a chunk starts at {start} after {int(executed)} tokens")
        views.write_slot("scripted.executed", (lane,), executed + len(ids))

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """See ``BoundBackend``."""
        if self._open is not None:
            raise IntegrityError("the last round was neither committed nor aborted")
        executed = views.read_slot("scripted.executed", [row.lane for row in rows]).tolist()
        for row, count in zip(rows, executed, strict=True):
            if count != len(row.history) - 1:
                raise IntegrityError(f"{count} tokens executed of a history of {len(row.history)}")
        proposal = self._draft(rows)
        self._open = tuple(rows)
        return proposal

    def _draft(self, rows: Sequence[DraftRow]) -> Proposal:
        drafts = [list(self.script(row))[: row.limit] for row in rows]
        ids = torch.zeros((len(rows), max((len(d) for d in drafts), default=0)), dtype=torch.int64)
        for index, tokens in enumerate(drafts):
            ids[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
        return Proposal(ids, tuple(len(tokens) for tokens in drafts))

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``."""
        if self._open is None:
            raise IntegrityError("no round is open")
        lanes = [row.lane for row in self._open]
        moved = views.read_slot("scripted.executed", lanes) + torch.tensor(list(counts))
        self._prepared = lambda: views.write_slot("scripted.executed", lanes, moved)

    def commit(self) -> None:
        """See ``BoundBackend``."""
        assert self._prepared is not None
        self._prepared()
        self._open = self._prepared = None

    def abort(self) -> None:
        """See ``BoundBackend``."""
        self._open = self._prepared = None
        self.aborted += 1

    def rebuild(
        self,
        lane: int,
        history: Sequence[int],
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        views.write_slot("scripted.executed", (lane,), torch.tensor([len(history) - 1]))

    def release(self, lane: int) -> None:
        """See ``BoundBackend``."""


@define(eq=False)
class SampledBackend:
    """A speculative backend that draws each draft from ``law``'s sparse q; implements ``SpeculativeBackend``.

    Args:
        law: q per draft position.
        draw: Picks a candidate's index from q; gets the row, the draft position and q.
    """

    law: Law
    draw: Callable[[DraftRow, int, Sequence[float]], int]

    def bind(
        self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup
    ) -> SampledDrafter:
        """See ``SpeculativeBackend``."""
        width = setup.drafts or DEFAULT_WIDTH
        return SampledDrafter(lambda row: (), width, law=self.law, draw=self.draw)


@define(eq=False)
class SampledDrafter(ScriptedDrafter):
    """A bound :class:`SampledBackend`."""

    law: Law = field(kw_only=True)
    draw: Callable[[DraftRow, int, Sequence[float]], int] = field(kw_only=True)

    def _draft(self, rows: Sequence[DraftRow]) -> Proposal:
        drafts: list[list[int]] = []
        tables: list[list[tuple[Sequence[int], Sequence[float]]]] = []
        for row in rows:
            drafts.append([])
            tables.append([])
            for position in range(row.limit):
                candidates, weights = self.law(row, drafts[-1])
                tables[-1].append((candidates, weights))
                drafts[-1].append(candidates[self.draw(row, position, weights)])
        depth = max((len(tokens) for tokens in drafts), default=0)
        size = max((len(c) for table in tables for c, _ in table), default=1)
        ids = torch.zeros((len(rows), depth), dtype=torch.int64)
        candidate_ids = torch.zeros((len(rows), depth, size), dtype=torch.int64)
        probabilities = torch.zeros((len(rows), depth, size), dtype=torch.float32)
        for index, (tokens, table) in enumerate(zip(drafts, tables, strict=True)):
            for position, (token, (candidates, weights)) in enumerate(
                zip(tokens, table, strict=True)
            ):
                ids[index, position] = token
                candidate_ids[index, position, : len(candidates)] = torch.tensor(candidates)
                probabilities[index, position, : len(weights)] = torch.tensor(weights)
        distribution = DraftDistribution(candidate_ids, probabilities, (True,) * len(rows))
        return Proposal(ids, tuple(len(tokens) for tokens in drafts), distribution)
