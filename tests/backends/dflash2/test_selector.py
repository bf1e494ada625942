"""Candidates and the walk over them: ties, brute force, the law of the draws, numbers at the edges."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from infernix_core.interfaces.speculative import DraftRow
from infernix_core.random import Purpose, uniform
from infernix_dflash2 import selector
from infernix_dflash2.backend import DFlash2Backend
from infernix_dflash2.host import largest
from infernix_dflash2.selector import drawn, softmax, top, walk
from infernix_dflash2.testing import random_drafter
from tests.backends.dflash.rounds import MatrixTarget, Rounds, vocabulary


def row(temperature: float = 1.0, seed: int = 0, limit: int = 15, length: int = 4) -> DraftRow:
    return DraftRow(0, tuple(range(length)), 1, limit, temperature, seed)


def tables(places: int, count: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    ids = np.stack([rng.permutation(40)[:count] for _ in range(places)])
    return ids, rng.normal(size=(places, count, count)).astype(np.float32) * 2


@pytest.mark.parametrize("size", [50, 200, 1100])
@pytest.mark.parametrize("count", [1, 3, 16])
def test_top_is_by_value_then_by_id(count: int, size: int) -> None:
    generator = torch.Generator().manual_seed(count)
    for levels in (2, 5, 1000):
        logits = torch.randint(0, levels, (6, size), generator=generator).float()
        logits[:, 7] = -torch.inf
        logits[5, 3:] = -torch.inf
        for function in (top, largest):
            values, ids = function(logits, count)
            for r in range(6):
                ranked = sorted(range(size), key=lambda t, r=r: (-float(logits[r, t]), t))[:count]
                assert ids[r].tolist() == ranked
                assert values[r].tolist() == logits[r, ranked].tolist()


def test_logits_that_are_no_numbers() -> None:
    """Something is drafted, from as many different candidates."""
    for bad in (torch.nan, torch.inf, -torch.inf):
        logits = torch.randn(3, 1100)
        logits[0], logits[1, ::2], logits[2, 5] = bad, bad, bad
        for function in (top, largest):
            for row in function(logits, 16)[1].tolist():
                assert len(set(row)) == 16


def test_the_greedy_walk() -> None:
    """Each step takes the best of the row where the last one stands, ties to the first."""
    ids, scores = tables(5, 4)
    scores[3, :, 1:3] = 9.0
    drafts = walk(row(temperature=0), ids, scores)
    at, expected = 0, []
    for place in range(5):
        at = max(range(4), key=lambda b, at=at, place=place: (scores[place, at, b], -b))
        expected.append(ids[place, at])
    assert drafts.ids == tuple(expected)
    assert drafts.ids[3] == ids[3, 1]
    assert drafts.law is drafts.candidates is None
    assert walk(row(temperature=0, limit=2), ids, scores).ids == tuple(expected[:2])


@pytest.mark.parametrize("temperature", [0.6, 1.0, 3.0])
def test_the_walk_draws_from_what_it_records(temperature: float) -> None:
    ids, scores = tables(6, 5, seed=3)
    for seed in range(40):
        drafts = walk(row(temperature, seed=seed), ids, scores)
        assert drafts.law is not None
        assert drafts.law.dtype == np.float32
        at = 0
        for place in range(6):
            wide = scores[place, at].astype(float) / temperature
            law = np.exp(wide - wide.max())
            law /= law.sum()
            np.testing.assert_allclose(drafts.law[place], law, rtol=1e-6)
            number = uniform(seed, 4 + place, Purpose.DRAFT)
            at = next(b for b in range(5) if number < law[: b + 1].sum() + 1e-9)
            assert drafts.ids[place] == ids[place, at]


def test_a_draw_belongs_to_its_position() -> None:
    """Rounds that begin elsewhere draw the same where their scores are the same."""
    ids, scores = tables(1, 6)
    ids, scores = np.repeat(ids, 5, 0), np.repeat(np.repeat(scores[:, :1], 6, 1), 5, 0)
    whole = walk(row(length=4), ids, scores).ids
    for later in range(1, 4):
        assert walk(row(length=4 + later), ids, scores).ids[:-later] == whole[later:]


def test_the_law_of_whole_walks() -> None:
    """The joint law of three places is the product of the recorded ones."""
    ids, scores = tables(3, 3, seed=1)
    seen = Counter(walk(row(1.3, seed=seed), ids, scores).ids for seed in range(4000))
    observed, expected = [], []
    for path in itertools.product(range(3), repeat=3):
        share, at = 1.0, 0
        for place, step in enumerate(path):
            weights = np.exp(scores[place, at].astype(float) / 1.3)
            share *= weights[step] / weights.sum()
            at = step
        observed.append(seen[tuple(ids[place, step] for place, step in enumerate(path))])
        expected.append(4000 * share)
    kept = [i for i, e in enumerate(expected) if e >= 5]
    rest = sum(o for i, o in enumerate(observed) if i not in kept)
    left = sum(e for i, e in enumerate(expected) if i not in kept)
    o, e = [observed[i] for i in kept] + [rest], [expected[i] for i in kept] + [left]
    assert sum(seen.values()) == sum(o)
    assert stats.chisquare(o, e).pvalue > 1e-3


def test_numbers_at_the_edges() -> None:
    """Whatever the number, what is drawn has q > 0."""
    laws = [[0, 0.25, 0, 0.75, 0], [1, 0, 0], [0, 0, 1], [0.3, 1e-30, 0.7], [1e-45, 1.0]]
    numbers = (5e-324, 2.0**-53, 0.25, 0.5, 1 - 2.0**-53, math.nextafter(1, 0))
    for weights in laws:
        law = np.array(weights, dtype=np.float32)
        for number in numbers:
            assert law[drawn(np.cumsum(law, dtype=np.float64), number)] > 0
    sums = np.cumsum([0, 0.25, 0, 0.75, 0])
    assert [drawn(sums, u) for u in (1e-9, 0.2499, 0.25, 0.9999999)] == [1, 1, 3, 3]


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-3, 1e30])
def test_extreme_temperatures(temperature: float) -> None:
    law = softmax(np.array([1.0, 3.0, -2e38, 3.0, 1.5], dtype=np.float32), temperature)
    assert math.isclose(law.sum(), 1, rel_tol=1e-6)
    assert law[1] == law[3]
    if temperature < 1:
        assert law.tolist() == [0, 0.5, 0, 0.5, 0]


def test_scores_that_are_no_numbers() -> None:
    ids, scores = tables(3, 4)
    scores[0], scores[1, :, 2], scores[2, :, 1] = np.nan, -np.inf, np.inf
    drafts = walk(row(), ids, scores)
    assert drafts.law is not None
    assert np.isfinite(drafts.law).all()
    assert drafts.ids[2] == ids[2, 1]


def test_proposals_record_the_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy rows, drawn rows and rows without drafts in one round; and q is what was drawn from."""
    random_drafter(tmp_path, hidden_size=16, vocab_size=41, target_layers=6)
    target = MatrixTarget(41, 16, 6)
    rounds = Rounds(DFlash2Backend(), target, vocabulary(38, (2,)), tmp_path, drafts=4, lanes=4)
    rounds.temperature, rounds.temperatures = 0.8, {3: 0.0}
    for lane in range(3):
        rounds.start(lane, range(3 + lane))
    rounds.histories[3], rounds.features[3] = [5], {}
    laws = []
    monkeypatch.setattr(selector, "drawn", lambda sums, u: laws.append(sums) or drawn(sums, u))
    proposal = rounds.propose([0, 1, 3, 2], [4, 0, 2, 3])
    q = proposal.distribution
    assert q is not None
    assert proposal.extents == (4, 0, 2, 3)
    assert q.sampled == (True, False, False, True)
    assert q.ids.shape == q.probabilities.shape == (4, 4, 16)
    assert (q.ids.dtype, q.probabilities.dtype) == (torch.int64, torch.float32)
    recorded = [(0, place) for place in range(4)] + [(3, place) for place in range(3)]
    for law, (index, place) in zip(laws, recorded, strict=True):
        assert law.tolist() == q.probabilities[index, place].double().cumsum(0).tolist()
        ids = q.ids[index, place].tolist()
        assert proposal.ids[index, place] in ids
        assert len(set(ids)) == 16
        assert 2 not in ids
        assert max(ids) < 38
    rounds.bound.abort()
    rounds.temperature = 0.0
    greedy = rounds.look([3]).ids[0]
    assert torch.equal(proposal.ids[2, :2], greedy[:2])


@pytest.mark.parametrize("size", [2, 8, 15])
def test_fewer_tokens_than_candidates(size: int, tmp_path: Path) -> None:
    """A vocabulary of a few tokens is all candidates, and never the forbidden one."""
    random_drafter(tmp_path, hidden_size=16, vocab_size=size + 4, target_layers=6)
    target = MatrixTarget(size + 4, 16, 6)
    rounds = Rounds(DFlash2Backend(), target, vocabulary(size + 1, (0,)), tmp_path, temperature=1.0)
    rounds.start(0, [1, 2, 1])
    q = rounds.look([0]).distribution
    assert q is not None
    assert q.ids.shape == (1, 15, size)
    assert {tuple(sorted(place)) for place in q.ids[0].tolist()} == {tuple(range(1, size + 1))}
    torch.testing.assert_close(q.probabilities.sum(-1), torch.ones(1, 15))
