"""Counter-based draws: the published vectors, the open interval, independence of the keys."""

from __future__ import annotations

import itertools
import math

import pytest

from infernix_core import random as module
from infernix_core.random import Purpose, philox, uniform

ONES = 0xFFFFFFFF


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # Known-answer vectors of Random123 for philox4x32 with 10 rounds.
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers(counter, key, expected):
    assert philox(counter, key) == expected


def test_draws_are_functions_of_their_key():
    first = [uniform(7, position, Purpose.SAMPLE) for position in range(50)]
    uniform(8, 0, Purpose.DRAFT)
    assert [uniform(7, position, Purpose.SAMPLE) for position in reversed(range(50))] == first[::-1]


def test_every_part_of_the_key_matters():
    keys = itertools.product((0, 1, 2**40, 2**63), (0, 1, 2**31, 2**33), Purpose, (0, 1))
    values = [uniform(*key) for key in keys]
    assert len(set(values)) == len(values)


def test_seeds_are_taken_modulo_two_to_the_64():
    assert uniform(-1, 3, Purpose.SAMPLE) == uniform(2**64 - 1, 3, Purpose.SAMPLE)
    assert uniform(2**64 + 5, 3, Purpose.SAMPLE) == uniform(5, 3, Purpose.SAMPLE)


def test_the_interval_is_open_at_both_ends(monkeypatch):
    monkeypatch.setattr(module, "philox", lambda counter, key: (0, 0, 0, 0))
    lowest = uniform(0, 0, Purpose.SAMPLE)
    monkeypatch.setattr(module, "philox", lambda counter, key: (ONES,) * 4)
    highest = uniform(0, 0, Purpose.SAMPLE)
    assert 0 < lowest == 2.0**-53
    assert highest == 1 - 2.0**-53 < 1


def statistic(values, cells=20):
    counts = [0] * cells
    for value in values:
        counts[int(value * cells)] += 1
    expected = len(values) / cells
    return sum((count - expected) ** 2 / expected for count in counts)


@pytest.mark.parametrize("purpose", Purpose)
def test_draws_are_uniform_over_positions_and_over_seeds(purpose):
    # 50.8 is the upper 1e-4 quantile of chi-square with 19 degrees of freedom.
    assert statistic([uniform(3, position, purpose) for position in range(4000)]) < 50.8
    assert statistic([uniform(seed, 3, purpose) for seed in range(4000)]) < 50.8


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(Purpose, 2)))
def test_purposes_at_one_position_are_uncorrelated(one, other):
    pairs = [(uniform(9, p, one), uniform(9, p, other)) for p in range(4000)]
    covariance = sum((a - 0.5) * (b - 0.5) for a, b in pairs) / len(pairs)
    assert abs(covariance) < 4.5 / 12 / math.sqrt(len(pairs))


@pytest.mark.parametrize("step", [1, 2, 7])
def test_neighbouring_positions_are_uncorrelated(step):
    values = [uniform(11, position, Purpose.SAMPLE) for position in range(4000)]
    pairs = zip(values, values[step:], strict=False)
    covariance = sum((a - 0.5) * (b - 0.5) for a, b in pairs) / len(values)
    assert abs(covariance) < 4.5 / 12 / math.sqrt(len(values))
