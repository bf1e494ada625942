"""Distributions against the oracle: supports are equal, probabilities agree."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from infernix_core.interfaces.sampling import PendingRowFailure


def random_config(box, generator, size):
    pick = generator.choice
    return box.config(
        temperature=float(pick([0, 0.3, 0.7, 1, 1.9], p=[0.15, 0.15, 0.25, 0.25, 0.2])),
        top_k=int(pick([0, 1, 2, 5, 20, size, size + 9])),
        top_p=float(pick([1, 1, 0.97, 0.83, 0.5, 0.02])),
        min_p=float(pick([0, 0, 0.02, 0.2, 0.6, 1])),
        presence_penalty=float(pick([0, 0, 1.5, -0.5])),
        frequency_penalty=float(pick([0, 0, 0.25, -1.25])),
        seed=int(generator.integers(2**63)),
    )


def random_logits(generator, shape):
    """Half the time on a grid of 1/8, where sums are exact and ties abound."""
    logits = generator.normal(size=shape) * generator.choice([0.05, 1, 4])
    if generator.random() < 0.5:
        logits = np.round(logits * 8) / 8
    logits = logits.astype(np.float32)
    if generator.random() < 0.3:
        logits[generator.random(shape) < 0.2] = -np.inf
    return logits


def compare(box, plan, round, wanted):
    """``wanted``: per row and column the oracle's law."""
    got = plan.distributions(round)
    for row, columns in enumerate(got):
        for column, entry in enumerate(columns):
            law = wanted(row, column)
            if law in (box.DEAD, box.BROKEN):
                assert entry is None
                continue
            table = box.table(entry)
            assert set(table) == set(law), (row, column, round.configs[row])
            assert list(table) == sorted(table)
            for token, p in law.items():
                assert table[token] == pytest.approx(p, rel=3e-6, abs=1e-9)
    return got


@pytest.mark.parametrize("case", range(120))
def test_random_rounds_equal_the_oracle(box, case):
    generator = np.random.default_rng(1000 + case)
    size = int(generator.choice([1, 5, 31, 32, 33, 70, 200, 700, 1300]))
    rows, width = int(generator.integers(1, 6)), int(generator.integers(1, 6))
    padding = int(generator.choice([0, 3, 64]))
    generable = generator.random(size) < 0.9
    generable[generator.integers(size)] = True
    logits = random_logits(generator, (rows, width, size + padding))
    logits[..., size:] = np.nan  # beyond the vocabulary nothing is read
    logits[..., :size][:, :, ~generable] = generator.choice([np.nan, np.inf, 9.0])
    configs = [random_config(box, generator, size) for _ in range(rows)]
    drafts = [
        generator.integers(0, size, size=generator.integers(0, width)).tolist() for _ in range(rows)
    ]
    counts = torch.tensor(generator.poisson(0.4, size=(rows, size)), dtype=torch.int32)
    density = [generator.choice([None, 0.02, 0.3, 0.95]) for _ in range(rows)]
    tables = {}

    def allowed_after(row):
        if density[row] is None:
            return None

        def after(prefix):
            if (row, prefix) not in tables:
                allowed = generator.random(size) < density[row]
                if prefix and generator.random() < 0.5 and len(prefix) < len(drafts[row]):
                    allowed[drafts[row][len(prefix)]] = True
                tables[row, prefix] = allowed
            return tables[row, prefix]

        return after

    functions = [allowed_after(row) for row in range(rows)]
    asked = (generator.random(rows) < 0.5).tolist()
    round = box.round(
        logits,
        configs,
        drafts=drafts,
        allowed_after=functions,
        counts=counts,
        tail=1,
        kept_mass=asked,
    )
    plan = box.plan(
        size,
        rows=rows,
        width=width,
        padding=padding,
        generable=generable,
        deterministic=bool(case % 2),
    )

    def wanted(row, column):
        before = tuple(drafts[row][:column])
        return box.law(
            logits[row, column, :size],
            configs[row],
            counts=counts[row],
            before=before,
            allowed=None if functions[row] is None else tables[row, before],
            generable=generable,
        )

    before = round.logits.clone()
    compare(box, plan, round, wanted)
    assert torch.equal(round.logits.nan_to_num(7), before.nan_to_num(7)), (
        "the logits are not modified"
    )

    for row, result in enumerate(plan.run(round)):
        if result.failure is not None:
            assert not result.tokens
            continue
        assert len(result.kept_mass) == (len(result.tokens) if asked[row] else 0)
        for column, token in enumerate(result.tokens):
            before = tuple(drafts[row][:column])
            assert wanted(row, column)[token] > 0
            if not asked[row]:
                continue
            if functions[row] is None:
                assert result.kept_mass[column] == 1.0
                continue
            kept = box.kept_mass(
                logits[row, column, :size],
                tables[row, before],
                generable,
                config=configs[row],
                counts=counts[row],
                before=before,
            )
            assert result.kept_mass[column] == pytest.approx(kept, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p", "temperature", "penalty", "masked"),
    list(itertools.product([0, 3], [1.0, 0.8], [0.0, 0.15], [0.0, 0.6, 1.0], [0.0, 0.75], [0, 1])),
)
def test_every_combination_of_options(box, top_k, top_p, min_p, temperature, penalty, masked):
    generator = np.random.default_rng(5)
    size, width = 40, 3
    logits = random_logits(generator, (1, width, size))
    config = box.config(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        presence_penalty=penalty,
        frequency_penalty=penalty / 3,
    )
    allowed = np.ones(size, dtype=bool)
    if masked:
        allowed[::2] = False
    counts = torch.tensor(generator.poisson(1, size=(1, size)), dtype=torch.int32)
    drafts = [[3, 3]]
    round = box.round(
        logits,
        [config],
        drafts=drafts,
        counts=counts,
        allowed_after=[(lambda _: allowed) if masked else None],
    )
    compare(
        box,
        box.plan(size),
        round,
        lambda row, column: box.law(
            logits[row, column],
            config,
            counts=counts[0],
            before=drafts[0][:column],
            allowed=allowed,
        ),
    )


def single(box, logits, config, **options):
    """The distribution of a one-column round."""
    size = len(logits)
    round = box.round(np.asarray(logits, dtype=np.float32)[None, None], [config], **options)
    return box.table(box.plan(size).distributions(round)[0][0])


def test_min_p_then_top_p_over_the_survivors(box):
    logits = np.log([0.5, 0.3, 0.15, 0.05])
    law = single(box, logits, box.config(min_p=0.2, top_p=0.83))
    # min-p leaves .5, .3, .15; of their .95, the first two hold .842. The other order would keep three.
    assert law == {0: pytest.approx(0.625, rel=1e-6), 1: pytest.approx(0.375, rel=1e-6)}
    assert set(single(box, logits, box.config(top_p=0.83))) == {0, 1, 2}


def test_temperature_comes_before_min_p(box):
    logits = np.log([0.6, 0.3, 0.1])
    assert set(single(box, logits, box.config(min_p=0.4))) == {0, 1}
    assert set(single(box, logits, box.config(min_p=0.4, temperature=2))) == {0, 1, 2}


def test_top_k_comes_before_top_p(box):
    logits = np.log([0.4, 0.3, 0.2, 0.1])
    # Of the best two's .7, the first holds .57: enough for .55, while of everything it holds .4.
    assert set(single(box, logits, box.config(top_k=2, top_p=0.55))) == {0}
    assert set(single(box, logits, box.config(top_p=0.55))) == {0, 1}


def test_lesson_two_masking_is_renormalising(box):
    words = ["Sure", "{", " {", '"', "Here", "[", "```", "\n"]
    logits = [3.0, 1.5, 0.5, -1.0, 2.5, 0.0, 2.0, 1.0]
    allowed = [word in ("{", " {") for word in words]
    law = single(box, logits, box.config(), allowed_after=[lambda _: allowed])
    assert law[1] == pytest.approx(0.7311, abs=5e-5)
    assert law[2] == pytest.approx(0.2689, abs=5e-5)
    assert law[1] / law[2] == pytest.approx(math.e, rel=1e-6)
    round = box.round([[logits]], [box.config()], allowed_after=[lambda _: allowed], kept_mass=True)
    (row,) = box.plan(8).run(round)
    assert row.kept_mass[0] == pytest.approx(0.1229, abs=5e-5)


def test_lesson_thirteen_forcing_hurts(box):
    # "unknown", null, 42, 7, 1 under "integer".
    logits = np.log([0.55, 0.20, 0.10, 0.08, 0.07])
    allowed = [False, False, True, True, True]
    law = single(box, logits, box.config(), allowed_after=[lambda _: allowed])
    assert law == {2: pytest.approx(0.4), 3: pytest.approx(0.32), 4: pytest.approx(0.28)}
    round = box.round(
        logits[None, None], [box.config()], allowed_after=[lambda _: allowed], kept_mass=True
    )
    assert box.plan(5).run(round)[0].kept_mass == (pytest.approx(0.25),)


@pytest.mark.parametrize("shift", [-5000, 5000])
def test_kept_mass_of_large_logits(box, shift):
    logits = np.array([1, 2, 3, 4]) + float(shift)
    allowed = [True, False, True, False]
    round = box.round(
        logits[None, None], [box.config()], allowed_after=[lambda _: allowed], kept_mass=True
    )
    (kept,) = box.plan(4).run(round)[0].kept_mass
    assert kept == pytest.approx(box.kept_mass(logits, allowed), rel=1e-5)


def test_kept_mass_ignores_truncation_and_temperature_but_not_penalties(box):
    logits = np.log([0.4, 0.3, 0.2, 0.1]).astype(np.float32)
    allowed = [False, True, True, False]
    config = box.config(temperature=0.2, top_k=1, presence_penalty=math.log(3))
    counts = torch.tensor([[0, 1, 0, 0]], dtype=torch.int32)
    round = box.round(
        logits[None, None],
        [config],
        allowed_after=[lambda _: allowed],
        counts=counts,
        kept_mass=True,
    )
    kept = box.plan(4, generable=[True, True, True, False]).run(round)[0].kept_mass
    assert kept == (pytest.approx((0.1 + 0.2) / (0.4 + 0.1 + 0.2)),)


def test_a_legal_token_beyond_the_original_top_twenty(box):
    logits = np.arange(500, 0, -1).astype(np.float32)
    allowed = np.zeros(500, dtype=bool)
    allowed[[300, 301, 499]] = True
    law = single(box, logits, box.config(top_k=20), allowed_after=[lambda _: allowed])
    assert set(law) == {300, 301, 499}, "a support smaller than top-k is no error"


def test_top_k_ties_go_to_the_smaller_ids(box):
    logits = np.zeros(1000, dtype=np.float32)
    logits[[17, 901]] = 1
    logits[::2] = -0.0  # equal to 0.0, though its bits differ
    assert set(single(box, logits, box.config(top_k=5))) == {17, 901, 0, 1, 2}
    assert single(box, logits, box.config(temperature=0)) == {17: 1.0}
    assert single(box, np.zeros(300), box.config(top_k=1, temperature=3)) == {0: 1.0}


def test_top_p_ties_go_to_the_smaller_ids(box):
    for size in (40, 2000):
        assert list(single(box, np.zeros(size), box.config(top_p=0.1))) == list(range(size // 10))


def test_a_flat_large_vocabulary_is_cut_exactly(box):
    generator = np.random.default_rng(3)
    logits = (generator.normal(size=(2, 1, 5000)) * 0.1).astype(np.float32)
    logits[1] *= 60
    configs = [box.config(top_p=0.7), box.config(top_p=0.7, min_p=1e-4)]
    round = box.round(logits, configs)
    got = compare(
        box, box.plan(5000), round, lambda row, column: box.law(logits[row, column], configs[row])
    )
    assert len(got[0][0][0]) > 2000 > 512 > len(got[1][0][0])


def test_extreme_temperatures_and_infinities_stay_finite(box):
    logits = [2.0, -math.inf, 2.0, 1.0]
    for options in ({}, {"top_k": 2}, {"top_p": 0.9}):
        cold = single(box, logits, box.config(temperature=1e-300, **options))
        assert cold == {0: pytest.approx(0.5), 2: pytest.approx(0.5)}
    hot = single(box, logits, box.config(temperature=math.inf))
    assert hot == {token: pytest.approx(1 / 3) for token in (0, 2, 3)}
    huge = single(box, [3e38, -3e38, 0.0], box.config(temperature=0.5))
    assert huge == {0: 1.0}


def test_tail_bits_of_the_last_word_are_ignored(box):
    for size in (33, 40, 63):
        logits = np.zeros((1, 1, size + 64), dtype=np.float32)
        logits[..., size:] = 100
        allowed = np.zeros(size, dtype=bool)
        allowed[-1] = True
        round = box.round(
            logits,
            [box.config()],
            allowed_after=[lambda _, a=allowed: a],
            tail=1,
            kept_mass=True,
        )
        (row,) = box.plan(size, padding=64).run(round)
        assert row.tokens == (size - 1,)
        assert row.kept_mass == (pytest.approx(1 / size),)


def test_an_unconstrained_round_reads_no_mask(box):
    round = box.round(np.zeros((2, 1, 50), dtype=np.float32), [box.config()] * 2)
    assert round.masks is None
    assert all(row.failure is None for row in box.plan(50).run(round))


def test_failing_rows_fail_alone(box):
    size = 100
    logits = np.zeros((7, 1, size), dtype=np.float32)
    logits[0, 0, 5] = np.nan
    logits[1, 0, 99] = np.inf
    logits[2, 0, :] = -np.inf
    logits[3, 0, 5] = np.nan  # illegal there
    logits[4, 0, 3] = np.inf  # illegal there
    allowed = np.ones(size, dtype=bool)
    allowed[[3, 5]] = False
    functions = [None, None, None, lambda _: allowed, lambda _: allowed, None, None]
    functions[5] = lambda _: np.zeros(size, dtype=bool)
    for options in ({"temperature": 0}, {"top_k": 7}, {"top_p": 0.9}, {}):
        round = box.round(
            logits, [box.config(**options)] * 7, allowed_after=functions, kept_mass=True
        )
        rows = box.plan(size).run(round)
        broken, dead = PendingRowFailure.NON_FINITE_LOGITS, PendingRowFailure.DEAD_END
        assert [row.failure for row in rows] == [broken, broken, broken, None, None, dead, None]
        assert [len(row.tokens) for row in rows] == [0, 0, 0, 1, 1, 0, 1]
        assert rows[4].kept_mass == (0.0,)


def test_a_ready_mask_of_only_forbidden_tokens_is_a_dead_end(box):
    generable = [True] * 9 + [False]
    only_last = [False] * 9 + [True]
    round = box.round(np.zeros((1, 1, 10)), [box.config()], allowed_after=[lambda _: only_last])
    (row,) = box.plan(10, generable=generable).run(round)
    assert row.failure is PendingRowFailure.DEAD_END


def test_unreached_columns_cannot_fail_a_row(box):
    logits = np.zeros((2, 3, 10), dtype=np.float32)
    logits[:, 0, 4] = 50
    logits[0, 1] = np.nan
    dead = {(): True, (4,): False}

    def allowed_after(prefix):
        return np.full(10, dead.get(prefix, False))

    round = box.round(
        logits, [box.config()] * 2, drafts=[[7, 1], [7]], allowed_after=[None, allowed_after]
    )
    rows = box.plan(10).run(round)
    assert [row.tokens for row in rows] == [(4,), (4,)], "the drafts fall before the broken columns"

    round = box.round(
        logits, [box.config()] * 2, drafts=[[4, 1], [4]], allowed_after=[None, allowed_after]
    )
    rows = box.plan(10).run(round)
    assert [row.failure for row in rows] == [
        PendingRowFailure.NON_FINITE_LOGITS,
        PendingRowFailure.DEAD_END,
    ]
    assert [row.tokens for row in rows] == [(), ()]


def test_wide_rounds_are_computed_in_pieces(box, monkeypatch):
    monkeypatch.setattr("infernix_sampling.scores.BUFFER_BYTES", 4 * 128 * 5)
    generator = np.random.default_rng(8)
    logits = random_logits(generator, (6, 4, 100))
    configs = [random_config(box, generator, 100) for _ in range(6)]
    drafts = [[1, 2, 3]] * 6
    counts = torch.zeros((6, 100), dtype=torch.int32)
    round = box.round(logits, configs, drafts=drafts, counts=counts)
    compare(
        box,
        box.plan(100, rows=6, width=4),
        round,
        lambda row, column: box.law(
            logits[row, column], configs[row], counts=counts[row], before=drafts[row][:column]
        ),
    )
