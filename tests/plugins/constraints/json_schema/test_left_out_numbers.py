"""The texts of numbers that are no integers, and of integers that are no multiples."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from infernix_constraints.json_schema import IntegerShape, NumberRange, NumberShape
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts


@pytest.mark.parametrize("multiple", [None, Decimal("0.5"), Decimal(6)])
def test_texts_of_fractions_are_read_as_fractions(multiple: Decimal | None):
    whole = NumberRange(Decimal(-100), Decimal(100), IntegerShape(-100, 100))
    shape = NumberShape(whole, multiple, fractional=True)
    texts, every = number_texts(shape), number_texts(NumberShape(whole, multiple))
    rng = random.Random(str(multiple))
    found = 0
    for _ in range(4000):
        value = Decimal(rng.randint(-(10**6), 10**6)).scaleb(-rng.randint(0, 6))
        if multiple is not None:
            value = rng.randint(-200, 200) * multiple
        text = str(value) if rng.random() < 0.8 else f"{value:e}"
        if text in texts:
            found += 1
            assert float(text) != int(float(text))
            assert text in every
        elif text in every and "e" not in text.lower():
            assert Decimal(text) == int(Decimal(text))
    assert found > 10 or multiple == 6


def test_a_fraction_that_binary64_drops_is_no_text():
    texts = number_texts(NumberShape(None, fractional=True))
    assert "0.99999999999999999" not in texts
    assert "4503599627370497.5" not in texts
    assert "0.5" in texts
    assert "-99999999999999.5" in texts


@pytest.mark.parametrize("multiple", [None, Decimal(2), Decimal("1.5")])
@pytest.mark.parametrize("excluded", [Decimal(3), Decimal("2.5"), Decimal(4)])
def test_integers_that_are_no_multiples(multiple: Decimal | None, excluded: Decimal):
    texts = integer_texts(IntegerShape(-50, 60, multiple, excluded))
    for value in range(-80, 80):
        expected = (
            -50 <= value <= 60
            and (multiple is None or value % multiple == 0)
            and value % excluded != 0
        )
        assert (str(value) in texts) is expected, value
