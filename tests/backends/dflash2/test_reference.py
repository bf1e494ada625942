"""Candidates, scores and greedy drafts against a plain computation over the whole history, after rounds of every kind."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_dflash.backend import DFlashBackend
from infernix_dflash.testing import random_drafter as random_dflash
from infernix_dflash2.backend import DFlash2Backend
from infernix_dflash2.testing import random_drafter
from tests.backends.dflash.reference import Reference
from tests.backends.dflash.rounds import MatrixTarget, Rounds, vocabulary

ROWS, SIZE, HIDDEN, BLOCKS = 41, 38, 24, 6
FORBIDDEN = (3, 30)

SHAPES: dict[str, dict[str, Any]] = {
    "ordinary": {},
    "three taps": {"taps": 3, "group": 8, "causal": None},
    "one group": {"group": 24, "windows": [4, None, 4]},
    "one tap, group of one": {"taps": 1, "group": 1, "layers": 1},
    "causal": {"causal": True},
    "scaled and capped": {"output_multiplier": 0.3, "softcap": 1.5},
    "few candidates": {"top_k": 3, "rank": 5},
    "more taps than rows": {"taps": 7},
}


@pytest.fixture(params=["numpy", "torch"])
def backend(request: pytest.FixtureRequest) -> DFlash2Backend:
    return DFlash2Backend(reference=request.param == "torch")


def make(backend: DFlash2Backend, directory: Path, shape: dict[str, Any], **options: Any) -> Rounds:
    random_drafter(directory, hidden_size=HIDDEN, vocab_size=ROWS, target_layers=BLOCKS, **shape)
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
    return Rounds(backend, target, vocabulary(SIZE, FORBIDDEN), directory, **options)


class Defined(Reference):
    """With the selector."""

    def candidates(self, logits: torch.Tensor) -> list[list[int]]:
        """Per place, the best by logit among what may be generated."""
        allowed = [t for t in range(SIZE) if t not in FORBIDDEN]
        count = self.inner["selector_top_k"]
        return [
            sorted(allowed, key=lambda t, row=row: (-float(row[t]), t))[:count] for row in logits
        ]

    def score(self, hidden: torch.Tensor, logits: torch.Tensor, a: int, b: int) -> float:
        """S_j(a, b)."""
        value = float(logits[b]) * self.inner.get("output_multiplier", 1.0)
        cap = self.inner.get("final_logit_softcapping")
        if cap:
            value = float(torch.tanh(torch.tensor(value / cap, dtype=torch.float64))) * cap
        before = self.tensors["candidate_selector.predecessor_codebook"][a]
        after = self.tensors["candidate_selector.successor_codebook"][b]
        mixed = self.tensors["candidate_selector.hidden_projection.weight"] @ hidden
        return value + float((before * mixed) @ after)

    def greedy(self, hiddens: torch.Tensor, anchor: int) -> list[int]:
        drafts, at = [], anchor
        for hidden, row in zip(hiddens, hiddens @ self.head.T, strict=True):
            (choices,) = self.candidates(row[None])
            scores = [self.score(hidden, row, at, b) for b in choices]
            ranked = sorted(scores)
            assert ranked[-1] - ranked[-2] > 1e-5, "too close to tell; take another seed"
            at = choices[scores.index(max(scores))]
            drafts.append(at)
        return drafts


def expected(rounds: Rounds, lane: int, hidden: torch.Tensor) -> list[int]:
    reference = Defined(rounds.directory, rounds.target.embedding, rounds.target.head)
    blocks = {1: [3], 2: [1, 3], 3: [1, 2, 3]}[reference.config["num_hidden_layers"]]
    anchor = rounds.histories[lane][-1]
    exact = reference.hiddens(rounds.joined(lane, blocks), anchor, rounds.bound.width)
    torch.testing.assert_close(hidden.double(), exact, atol=1e-4, rtol=0)
    return reference.greedy(exact, anchor)


@pytest.mark.parametrize("shape", SHAPES)
def test_drafts_are_those_of_the_definition(
    backend: DFlash2Backend, shape: str, tmp_path: Path
) -> None:
    rounds = make(backend, tmp_path, SHAPES[shape], drafts=5)
    rng = random.Random(shape)
    draw = lambda count: rng.choices(range(SIZE), k=count)  # noqa: E731
    for lane, (length, cuts) in enumerate([(1, ()), (4, (1,)), (12, (4, 5))]):
        rounds.start(lane, draw(length), cuts)
    for step in range(4):
        lanes = rng.sample(range(3), rng.randint(1, 3))
        limits = [rng.randint(0, 5) for _ in lanes]
        proposal = rounds.propose(lanes, limits)
        assert proposal.extents == tuple(limits)
        assert proposal.distribution is None, "greedy drafts are certain"
        live = [row for row, limit in enumerate(limits) if limit]
        hiddens = rounds.target.hiddens.pop().view(len(live), 5, -1) if live else ()
        for row, hidden in zip(live, hiddens, strict=True):
            drafts = expected(rounds, lanes[row], hidden)[: limits[row]]
            assert proposal.ids[row, : limits[row]].tolist() == drafts
        if step == 1:
            rounds.bound.abort()
        else:
            rounds.settle(lanes, [rng.randint(0, limit + 1) for limit in limits], rng)
        if step == 2:
            rounds.append(2, draw(3))
    rounds.rebuild(2, 0)
    drafts = rounds.look([0]).ids[0].tolist()
    assert drafts == expected(rounds, 0, rounds.target.hiddens.pop())


def test_candidates_and_scores_are_those_of_the_definition(
    backend: DFlash2Backend, tmp_path: Path
) -> None:
    rounds = make(
        backend, tmp_path, {"output_multiplier": 0.7, "softcap": 3.0, "top_k": 5}, drafts=3
    )
    for lane, length in enumerate((2, 9)):
        rounds.start(lane, range(length))
    ids, scores = rounds.bound._choice.tables(  # type: ignore[attr-defined]
        [1, 8], torch.stack([hiddens(rounds, lane) for lane in (0, 1)])
    )
    reference = Defined(tmp_path, rounds.target.embedding, rounds.target.head)
    for row, anchor in enumerate((1, 8)):
        exact = reference.hiddens(rounds.joined(row, [1, 3]), anchor, 3)
        logits = exact @ reference.head.T
        assert ids[row].tolist() == reference.candidates(logits)
        for place in range(3):
            before = [anchor] * 5 if place == 0 else ids[row, place - 1].tolist()
            table = [
                [
                    reference.score(exact[place], logits[place], a, b)
                    for b in ids[row, place].tolist()
                ]
                for a in before
            ]
            torch.testing.assert_close(
                torch.from_numpy(scores[row, place]).double(),
                torch.tensor(table).double(),
                atol=2e-4,
                rtol=0,
            )


def hiddens(rounds: Rounds, lane: int) -> torch.Tensor:
    rounds.look([lane])
    return rounds.target.hiddens.pop()


@pytest.mark.parametrize("options", [{}, {"output_multiplier": 0.2, "softcap": 2.0}, {"top_k": 1}])
def test_without_its_additions_it_is_dflash(options: dict[str, Any], tmp_path: Path) -> None:
    """Identity convolutions and a selector of zeros: the same drafts, after rounds, and greedy or not."""
    sizes: dict[str, Any] = {"hidden_size": HIDDEN, "vocab_size": ROWS, "target_layers": BLOCKS}
    random_dflash(tmp_path / "one", seed=5, windows=[6, None], **sizes)
    random_drafter(tmp_path / "two", seed=5, windows=[6, None], plain=True, **sizes, **options)
    target, tokens = MatrixTarget(ROWS, HIDDEN, BLOCKS), vocabulary(SIZE, FORBIDDEN)
    one = Rounds(DFlashBackend(), target, tokens, tmp_path / "one", drafts=7)
    two = Rounds(DFlash2Backend(), target, tokens, tmp_path / "two", drafts=7)
    for lane, length in enumerate((1, 5, 11)):
        for each in (one, two):
            each.start(lane, range(length))
    rngs = random.Random(1), random.Random(1)
    for _ in range(6):
        first, second = (each.propose([2, 0, 1], [7, 3, 7]) for each in (one, two))
        hidden, other = target.hiddens[-2:]
        assert torch.equal(hidden, other)
        assert first.extents == second.extents
        for row, extent in enumerate(first.extents):
            assert torch.equal(first.ids[row, :extent], second.ids[row, :extent])
        for each, rng in zip((one, two), rngs, strict=True):
            each.settle([2, 0, 1], [rng.randint(0, 4) for _ in range(3)], rng)


def test_convolutions_keep_to_their_block(backend: DFlash2Backend, tmp_path: Path) -> None:
    """A row's drafts are the same alone, beside others, and after other blocks."""
    rounds = make(backend, tmp_path, {"taps": 3}, drafts=6)
    for lane, length in enumerate((3, 8, 5)):
        rounds.start(lane, range(length))
    for lane in range(3):
        alone = hiddens(rounds, lane)
        for order in ([0, 1, 2], [2, 1, 0]):
            rounds.look(order)
            together = rounds.target.hiddens.pop().view(3, 6, -1)
            torch.testing.assert_close(together[order.index(lane)], alone, atol=1e-5, rtol=0)


def test_the_context_is_not_convolved(tmp_path: Path) -> None:
    """The state is that of DFlash."""
    sizes: dict[str, Any] = {"hidden_size": HIDDEN, "vocab_size": ROWS, "target_layers": BLOCKS}
    random_dflash(tmp_path / "one", **sizes)
    random_drafter(tmp_path / "two", **sizes)
    target = MatrixTarget(ROWS, HIDDEN, BLOCKS)
    one = Rounds(DFlashBackend(), target, vocabulary(SIZE), tmp_path / "one")
    two = Rounds(DFlash2Backend(), target, vocabulary(SIZE), tmp_path / "two")
    for each in (one, two):
        each.start(0, range(9))
    for mine, other in zip(one.bound.states(), two.bound.states(), strict=True):
        assert (mine.name, other.name) == (mine.name, mine.name.replace("dflash", "dflash2"))
        pages = one.state.read_pages(mine.name, 0, 8), two.state.read_pages(other.name, 0, 8)
        assert torch.equal(*pages)
