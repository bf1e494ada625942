"""Verification of drafts, case by case: rejections, bonuses, ends, dead ends, extreme uniforms."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch
from attrs import evolve

from infernix_core import random as draws
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import MaskState, PendingRowFailure
from infernix_core.interfaces.speculative import DraftDistribution
from infernix_core.random import Purpose


def sparse_round(box, p, drafts, ids, q, *, seeds, sampled=(), **options):
    """Rows with the same p per column and the same q per draft; -inf where p is 0."""
    with np.errstate(divide="ignore"):
        logits = np.log(np.asarray(p, dtype=np.float64))
    rows = len(seeds)
    width = logits.shape[0]
    tile = (rows, width - 1, 1)
    return box.round(
        np.tile(logits, (rows, 1, 1)),
        [box.config(seed=seed) for seed in seeds],
        drafts=drafts,
        distribution=DraftDistribution(
            ids=torch.tensor(ids).tile(tile),
            probabilities=torch.tensor(q, dtype=torch.float32).tile(tile),
            sampled=sampled,
        ),
        **options,
    )


def drawn(q, seed, position=0):
    u = draws.uniform(seed, position, Purpose.DRAFT)
    return int(np.searchsorted(np.cumsum(q), u, side="right"))


@pytest.mark.parametrize("by_mask", [False, True])
def test_the_contracts_example(box, by_mask):
    """p = (.5, .5, 0), q = (.5, 0, .5): dropping the illegal draft would give .75 and .25."""
    seeds = range(8000)
    plan = box.plan(3, rows=1000, width=2)
    tokens, accepted = Counter(), 0
    for start in range(0, len(seeds), 1000):
        own = seeds[start : start + 1000]
        drafts = [[(0, 2)[drawn([0.5, 0.5], seed)]] for seed in own]
        # Under a mask the model itself likes the illegal token well.
        p = [[0.5, 0.5, 0.9 if by_mask else 0.0], [1, 1, 1]]

        def first(prefix):
            return [True, True, bool(prefix)]

        round = sparse_round(
            box,
            p,
            drafts,
            [[[0, 2]]],
            [[[0.5, 0.5]]],
            seeds=list(own),
            allowed_after=[first] * len(own) if by_mask else None,
        )
        for draft, row in zip(drafts, plan.run(round), strict=True):
            tokens[row.tokens[0]] += 1
            accepted += row.accepted
            assert row.accepted == (draft == [0]), "a always stands, x never"
            assert row.tokens[0] == (0 if row.accepted else 1)
    box.chi_square(tokens, {0: 0.5, 1: 0.5})
    assert abs(accepted / len(seeds) - 0.5) < 0.02


def force(monkeypatch, **values):
    """Uniforms by purpose, for every seed and position."""
    table = {Purpose[name.upper()]: value for name, value in values.items()}
    monkeypatch.setattr(draws, "uniform", lambda seed, position, purpose, index=0: table[purpose])


TINY, NEAR_ONE = 2.0**-53, 1 - 2.0**-53


@pytest.mark.parametrize("accept", [0.0, TINY, 0.5, NEAR_ONE, 1.0])
@pytest.mark.parametrize("resample", [0.0, TINY, NEAR_ONE, 1.0])
def test_an_illegal_draft_falls_at_every_uniform(box, monkeypatch, accept, resample):
    force(monkeypatch, accept=accept, resample=resample, sample=0.5)
    p = [[0, 0.25, 0, 0.25, 0.5, 0], [1, 0, 0, 0, 0, 0]]
    for options in ({}, {"allowed_after": [lambda _: [False, True, False, True, True, False]]}):
        round = sparse_round(
            box, p, [[5]], [[[5, 1, 4]]], [[[0.5, 0.25, 0.25]]], seeds=[0], **options
        )
        (row,) = box.plan(6, rows=1, width=2).run(round)
        # The residual is 0 at 1, .25 at 3, .25 at 4.
        assert row.accepted == 0
        assert row.tokens == ((3,) if resample < 0.5 else (4,))


@pytest.mark.parametrize("uniform", [0.0, TINY, NEAR_ONE, 1.0])
@pytest.mark.parametrize("options", [{}, {"top_k": 6}, {"top_p": 0.999}, {"min_p": 0.01}])
@pytest.mark.parametrize("size", [8, 200, 3000])
def test_extreme_uniforms_never_draw_an_impossible_token(box, monkeypatch, uniform, options, size):
    force(monkeypatch, sample=uniform)
    logits = np.full((3, 1, size), -np.inf, dtype=np.float32)
    logits[0, 0, [2, 5, 6]] = 1, 3, 1
    logits[1, 0, [0, size - 1]] = 1
    logits[2, 0] = 0
    allowed = np.zeros(size, dtype=bool)
    allowed[[3, 4]] = True
    round = box.round(
        logits, [box.config(**options)] * 3, allowed_after=[None, None, lambda _: allowed]
    )
    low = uniform < 0.5
    assert [row.tokens for row in box.plan(size).run(round)] == [
        (2 if low else 6,),
        (0 if low else size - 1,),
        (3 if low else 4,),
    ]


def walk(box, monkeypatch, accept, *, drafts, bonus_mask=None, end_ids=(), sampled=()):
    """One sparse row of three drafts over 5 tokens: p uniform over 1 … 4, q uniform over 0 … 4."""
    force(monkeypatch, sample=0.99, accept=accept, resample=0.01)

    def allowed_after(prefix):
        if len(prefix) == 3 and bonus_mask is not None:
            return bonus_mask
        return [False, True, True, True, True]

    round = sparse_round(
        box,
        [[1, 1, 1, 1, 1]] * 4,
        [drafts],
        [[[0, 1, 2, 3, 4]]],
        [[[0.2] * 5]],
        seeds=[0],
        sampled=sampled,
        allowed_after=[allowed_after],
        kept_mass=True,
    )
    (row,) = box.plan(5, rows=1, width=4, end_ids=end_ids).run(round)
    return row


def test_all_accepted_plus_bonus(box, monkeypatch):
    row = walk(box, monkeypatch, 0.5, drafts=[1, 2, 3])
    assert (row.tokens, row.accepted) == ((1, 2, 3, 4), 3)
    assert row.kept_mass == (pytest.approx(0.8),) * 4


def test_first_and_middle_rejection(box, monkeypatch):
    row = walk(box, monkeypatch, 0.5, drafts=[0, 2, 3])
    assert (row.tokens, row.accepted) == ((1,), 0)
    row = walk(box, monkeypatch, 0.5, drafts=[2, 0, 3])
    assert (row.tokens, row.accepted) == ((2, 1), 1)


def test_the_bonus_is_masked_and_may_be_token_zero(box, monkeypatch):
    row = walk(box, monkeypatch, 0.5, drafts=[1, 2, 3], bonus_mask=[True] + [False] * 4)
    assert (row.tokens, row.accepted) == ((1, 2, 3, 0), 3)
    assert row.kept_mass[-1] == pytest.approx(0.2)


def test_a_dead_end_after_the_drafts_fails_when_reached(box, monkeypatch):
    row = walk(box, monkeypatch, 0.5, drafts=[1, 2, 3], bonus_mask=[False] * 5)
    assert (row.tokens, row.failure) == ((), PendingRowFailure.DEAD_END)
    row = walk(box, monkeypatch, 0.5, drafts=[1, 0, 3], bonus_mask=[False] * 5)
    assert (row.tokens, row.failure) == ((1, 1), None)


def test_an_accepted_end_token_ends_the_row(box, monkeypatch):
    for place, drafts in enumerate(([4, 2, 3], [1, 4, 3], [1, 2, 4])):
        row = walk(box, monkeypatch, 0.5, drafts=drafts, end_ids=(4,))
        assert (row.tokens, row.accepted) == (tuple(drafts[: place + 1]), place + 1)


def test_nothing_after_an_accepted_end_token_can_fail(box):
    round = box.round(np.zeros((1, 2, 5)), [box.config(temperature=0)], drafts=[[0]])
    ended = (MaskState.UNCONSTRAINED, MaskState.DEAD_END)
    (row,) = box.plan(5, end_ids=(0,)).run(evolve(round, states=(ended,)))
    assert (row.tokens, row.accepted, row.failure) == ((0,), 1, None)


@pytest.mark.parametrize("draft", [1, 3])
def test_a_greedy_row_ignores_q_even_when_flagged_as_sampled(box, monkeypatch, draft):
    force(monkeypatch, accept=2.0, resample=0.5, sample=0.5)
    round = sparse_round(
        box, [[0.1, 0.2, 0.3, 0.4]] * 2, [[draft]], [[[1, 3]]], [[[0.5, 0.5]]], seeds=[0]
    )
    (row,) = box.plan(4).run(evolve(round, configs=(box.config(temperature=0),)))
    assert row.tokens == ((3, 3) if draft == 3 else (3,))


def test_a_rejected_end_token_does_not(box, monkeypatch):
    row = walk(box, monkeypatch, 0.5, drafts=[1, 0, 3], end_ids=(0,))
    assert (row.tokens, row.accepted) == ((1, 1), 1)


def test_a_row_that_was_not_sampled_is_one_hot(box, monkeypatch):
    # The SAMPLE draw is 4: acceptance by u * q < p would keep 1.
    row = walk(box, monkeypatch, 0.5, drafts=[1, 2, 3], sampled=(False,))
    assert (row.tokens, row.accepted) == ((4,), 0)


def test_one_hot_stops_before_unreachable_columns(box, monkeypatch):
    """A grammar that ends without an end token leaves nothing to decide after its last token."""
    force(monkeypatch, sample=0.99)
    round = box.round(np.zeros((1, 3, 5)), [box.config()], drafts=[[4, 4]])
    ended = (MaskState.UNCONSTRAINED, MaskState.UNREACHABLE, MaskState.UNREACHABLE)
    (row,) = box.plan(5).run(evolve(round, states=(ended,)))
    assert (row.tokens, row.accepted) == ((4,), 1)
    nothing = (MaskState.UNREACHABLE,) * 3
    with pytest.raises(IntegrityError, match="first column"):
        box.plan(5).run(evolve(round, states=(nothing,)))


def test_drafts_outside_the_vocabulary_simply_fall(box, monkeypatch):
    force(monkeypatch, sample=0.3, accept=0.0, resample=0.3)
    for draft in (-1, 5, 63, 64, 10**9):
        round = sparse_round(
            box, [[0.2] * 5] * 2, [[draft]], [[[draft, 1]]], [[[0.5, 0.5]]], seeds=[0, 1]
        )
        (row, _) = box.plan(5).run(round), None
        assert row[0].tokens == (2,), "the residual leaves 0, 2, 3 and 4"
        assert row[0].accepted == 0
        one_hot = box.round(np.zeros((1, 2, 5)), [box.config()], drafts=[[draft]])
        assert box.plan(5).run(one_hot)[0].tokens == (1,)


def test_a_draft_that_its_own_q_excludes_is_an_integrity_error(box):
    round = sparse_round(box, [[0.2] * 5] * 2, [[4]], [[[0, 1]]], [[[0.5, 0.5]]], seeds=[0])
    with pytest.raises(IntegrityError, match="its own q"):
        box.plan(5).run(round)


@pytest.mark.parametrize("options", [{}, {"top_k": 4}])
def test_a_vanished_residual_draws_from_p(box, monkeypatch, options):
    force(monkeypatch, accept=2.0, resample=0.5, sample=0.5)  # 2 rejects even p = q
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.0], dtype=np.float32)  # of 5, so that top-k 4 ranks
    round = sparse_round(
        box, [p, p], [[3]], [[[0, 1, 2, 3, 4]]], [[(p * (1 + 1e-7)).tolist()]], seeds=[0]
    )
    round = evolve(round, configs=(box.config(**options),))
    (row,) = box.plan(5).run(round)
    assert (row.tokens, row.accepted) == ((2,), 0)


@pytest.mark.parametrize("options", [{}, {"top_k": 30}, {"top_p": 0.95}])
def test_the_residual_of_a_wide_vocabulary(box, options):
    """First tokens over 600 tokens with 16 candidates in q, pooled into 8 groups of equal ids mod 8."""
    generator = np.random.default_rng(77)
    size = 600
    logits = (generator.normal(size=size) * 2).astype(np.float32)
    ids = np.argsort(-logits + generator.normal(size=size))[:16].copy()
    q = generator.dirichlet(np.ones(16)).astype(np.float32)
    law = box.law(logits, box.config(**options))
    plan = box.plan(size, rows=500, width=2)
    seen = Counter()
    for start in range(0, 4000, 500):
        seeds = range(start, start + 500)
        index = [min(drawn(q.astype(np.float64), seed), 15) for seed in seeds]
        round = box.round(
            np.tile(logits, (500, 2, 1)),
            [box.config(seed=seed, **options) for seed in seeds],
            drafts=[[int(ids[i])] for i in index],
            distribution=DraftDistribution(
                ids=torch.from_numpy(ids).tile(500, 1, 1),
                probabilities=torch.from_numpy(q).tile(500, 1, 1),
            ),
        )
        for row in plan.run(round):
            assert row.tokens[0] in law
            seen[row.tokens[0] % 8] += 1
    pooled = {group: sum(p for t, p in law.items() if t % 8 == group) for group in range(8)}
    box.chi_square(seen, pooled)


@pytest.mark.parametrize("combination", range(6))
def test_rows_do_not_depend_on_the_batch(box, combination):
    """Mixed rows in deterministic mode: each alone, in any order, gives the very same result."""
    generator = np.random.default_rng(combination)
    size, width, rows = 300, 4, 6
    chain = [
        {},
        {"top_k": 20},
        {"top_p": 0.9},
        {"temperature": 0},
        {"top_p": 0.6, "min_p": 0.01, "temperature": 1.5},
        {"top_k": 7, "presence_penalty": 1.0, "frequency_penalty": 0.1},
    ]
    logits = generator.normal(size=(rows, width, size)).astype(np.float32) * 2
    configs = [box.config(seed=n, **options) for n, options in enumerate(chain)]
    drafts = [generator.integers(0, size, size=n % width).tolist() for n in range(rows)]
    masks = generator.random((rows, width, size)) < 0.7
    functions = [
        (lambda before, n=n: masks[n, len(before)]) if n % 2 == combination % 2 else None
        for n in range(rows)
    ]
    counts = torch.tensor(generator.poisson(0.1, size=(rows, size)), dtype=torch.int32)
    ids = np.stack([generator.permutation(size)[:16] for _ in range(rows * 3)])
    ids = ids.reshape(rows, 3, 16)
    for row, column in itertools.product(range(rows), range(3)):
        if column < len(drafts[row]) and drafts[row][column] not in ids[row, column]:
            ids[row, column, 0] = drafts[row][column]
    q = generator.dirichlet(np.ones(16), size=(rows, 3)).astype(np.float32)
    plan = box.plan(size, rows=rows, width=width, deterministic=True)

    def run(order):
        round = box.round(
            logits[order],
            [configs[n] for n in order],
            drafts=[drafts[n] for n in order],
            allowed_after=[functions[n] for n in order],
            distribution=DraftDistribution(
                ids=torch.from_numpy(ids[order]),
                probabilities=torch.from_numpy(q[order]),
                sampled=tuple(n % 3 != 0 for n in order),
            ),
            positions=[10 * n for n in order],
            counts=counts[order],
        )
        tables = plan.distributions(round)
        return dict(zip(order, zip(plan.run(round), tables, strict=True), strict=True))

    together = run(list(range(rows)))
    backwards = run(list(range(rows))[::-1])
    for row in range(rows):
        alone = run([row])[row]
        for other in (together[row], backwards[row]):
            assert alone[0] == other[0]
            for mine, its in zip(alone[1], other[1], strict=True):
                assert torch.equal(mine[0], its[0])
                assert torch.equal(mine[1], its[1])
