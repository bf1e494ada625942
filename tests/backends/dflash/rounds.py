"""A target of given matrices without a model behind it, and a bound drafter moved on as the engine does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import define, field
from torch import Tensor

from infernix_core.engine.state import LaneState
from infernix_core.interfaces.speculative import BoundBackend, DraftRow, DraftSetup, Proposal
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

CAPACITY = 64


class MatrixTarget:
    """Embeds, and makes logits of hiddens; features come from elsewhere."""

    grid = 1
    device = torch.device("cpu")

    def __init__(
        self, rows: int, hidden_size: int, blocks: int, dtype: torch.dtype = torch.float32
    ) -> None:
        generator = torch.Generator().manual_seed(rows + hidden_size)
        self.embedding = torch.randn(rows, hidden_size, generator=generator).to(dtype)
        self.head = torch.randn(rows, hidden_size, generator=generator).to(dtype)
        self.hiddens: list[Tensor] = []
        self.features: Mapping[str, int] = {
            "final": hidden_size,
            **{f"block:{block}": hidden_size for block in range(blocks)},
        }

    @property
    def logits_width(self) -> int:
        return len(self.head)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding[ids]

    def lm_head(self, hidden: Tensor) -> Tensor:
        self.hiddens.append(hidden.clone())
        # Row by row, so that a row's bits do not depend on the others.
        return torch.stack([self.head @ row for row in hidden.clone()]).float()


def vocabulary(size: int, forbidden: Sequence[int] = ()) -> Vocabulary:
    kinds = [TokenClass.FORBIDDEN if t in forbidden else TokenClass.TEXT for t in range(size)]
    return Vocabulary(tuple(bytes([t % 256]) for t in range(size)), tuple(kinds))


@define(eq=False)
class Rounds:
    """Sequences whose features are drawn at random, one set per lane and position."""

    backend: Any
    target: MatrixTarget
    vocabulary: Vocabulary
    directory: Path
    drafts: int | None = None
    lanes: int = 3
    deterministic: bool = False
    temperature: float = 0.0
    temperatures: dict[int, float] = field(factory=dict)
    seed: int = 0
    bound: BoundBackend = field(init=False)
    state: LaneState = field(init=False)
    histories: dict[int, list[int]] = field(factory=dict)
    features: dict[int, dict[str, Tensor]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        setup = DraftSetup(
            lanes=self.lanes,
            drafts=self.drafts,
            capacity=CAPACITY,
            deterministic=self.deterministic,
            drafter=self.directory,
        )
        self.bound = self.backend.bind(self.target, self.vocabulary, setup)
        self.state = LaneState(
            tuple(self.bound.states()),
            self.lanes,
            CAPACITY,
            self.bound.width + 1,
            self.target.device,
        )

    def start(self, lane: int, history: Sequence[int], cuts: Sequence[int] = ()) -> None:
        """A prompt in pieces that end at ``cuts``; its last token is the anchor."""
        generator = torch.Generator().manual_seed(1000 * self.seed + lane)
        dtype = self.target.embedding.dtype
        self.features[lane] = {
            name: torch.randn(CAPACITY, self.target.features[name], generator=generator).to(dtype)
            for name in self.bound.features()
        }
        self.histories[lane] = list(history)
        length = len(history) - 1
        bounds = [0, *cuts, length]
        for begin, end in itertools.pairwise(bounds):
            if end > begin:
                self.execute(lane, begin, end)

    def execute(self, lane: int, begin: int, end: int) -> None:
        part = {name: value[begin:end] for name, value in self.features[lane].items()}
        ids = self.histories[lane][begin:end]
        self.bound.prefilled(lane, ids, begin, part, self.state)

    def append(self, lane: int, tokens: Sequence[int]) -> None:
        begin = len(self.histories[lane]) - 1
        self.histories[lane] += tokens
        self.execute(lane, begin, begin + len(tokens))

    def rebuild(self, source: int, lane: int) -> None:
        """Another lane takes a sequence over."""
        self.histories[lane] = self.histories.pop(source)
        self.features[lane] = self.features.pop(source)
        self.bound.release(source)
        count = len(self.histories[lane]) - 1
        part = {name: value[:count] for name, value in self.features[lane].items()}
        self.bound.rebuild(lane, self.histories[lane], part, self.state)

    def joined(self, lane: int, blocks: Sequence[int]) -> Tensor:
        """Features of the context, side by side [L, F]."""
        count = len(self.histories[lane]) - 1
        return torch.cat([self.features[lane][f"block:{b}"][:count] for b in blocks], dim=-1)

    def propose(self, lanes: Sequence[int], limits: Sequence[int]) -> Proposal:
        rows = [
            DraftRow(
                lane=lane,
                history=tuple(self.histories[lane]),
                prompt_length=1,
                limit=limit,
                temperature=self.temperatures.get(lane, self.temperature),
                seed=self.seed + lane,
            )
            for lane, limit in zip(lanes, limits, strict=True)
        ]
        return self.bound.propose(rows, self.state)

    def look(self, lanes: Sequence[int], limit: int | None = None) -> Proposal:
        limit = self.bound.width if limit is None else limit
        proposal = self.propose(lanes, [limit] * len(lanes))
        self.bound.abort()
        return proposal

    def settle(self, lanes: Sequence[int], counts: Sequence[int], rng: random.Random) -> None:
        """Commits so many columns of each row; what lies behind them is NaN."""
        width = max((*counts, 1)) + 2
        features = {
            name: torch.full((len(lanes), width, size), float("nan")).to(
                self.target.embedding.dtype
            )
            for name, size in self.target.features.items()
            if name in self.bound.features()
        }
        for row, (lane, count) in enumerate(zip(lanes, counts, strict=True)):
            start = len(self.histories[lane]) - 1
            for name, value in features.items():
                value[row, :count] = self.features[lane][name][start : start + count]
        self.bound.prepare_commit(counts, features, self.state)
        self.bound.commit()
        for lane, count in zip(lanes, counts, strict=True):
            self.histories[lane] += rng.choices(range(self.vocabulary.size), k=count)
