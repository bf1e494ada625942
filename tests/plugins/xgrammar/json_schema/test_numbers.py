"""Number automata against brute force: as decimals and as binary64, text by text."""

import json
import math
import re
from decimal import Decimal
from fractions import Fraction
from random import Random

import pytest

from infernix_constraints.json_schema import (
    IntegerShape,
    NumberShape,
    reduce_schema,
)
from infernix_core.errors import UnsatisfiableSchema, UnsupportedSchema
from infernix_xgrammar.json_schema.numbers import integer_automaton, number_automaton

KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def automaton_of(bounds, kind="number"):
    ((shape,),) = reduce_schema(json.dumps({"type": kind, **bounds})).nodes
    return (
        integer_automaton(shape)
        if isinstance(shape, IntegerShape)
        else number_automaton(shape.range)
    )


def accepts(automaton, text):
    state = 0
    for character in text:
        state = automaton.edges[state].get(character)
        if state is None:
            return False
    return automaton.accepting[state]


def walk(automaton, random):
    state, text = 0, ""
    while True:
        row = automaton.edges[state]
        if not row or (automaton.accepting[state] and random.random() < 0.15):
            return text
        character = random.choice(list(row))
        state, text = row[character], text + character


def satisfies(bounds, text):
    """Both readings of the text lie in the range; integer bounds are exact, others are read as binary64."""
    for keyword, bound in bounds.items():
        exact = Fraction(bound) if isinstance(bound, int) else Fraction(Decimal(repr(bound)))
        for value, limit in ((Fraction(text), exact), (float(text), bound)):
            if math.isinf(float(text)):
                return False
            if {
                "minimum": value < limit,
                "maximum": value > limit,
                "exclusiveMinimum": value <= limit,
                "exclusiveMaximum": value >= limit,
            }[keyword]:
                return False
    return True


def bounds_of(random):
    def bound():
        kind = random.random()
        if kind < 0.3:
            return random.randint(-12, 120)
        if kind < 0.4:
            return random.randint(-(2**63), 2**63 - 1)
        if kind < 0.8:
            return round(random.uniform(-30, 30), random.randint(0, 4))
        return random.choice([-1, 1]) * random.random() * 10.0 ** random.randint(-320, 307)

    keywords = random.sample(KEYWORDS, random.randint(1, 2))
    return {keyword: bound() for keyword in keywords}


def neighbours(bounds):
    """Texts around the bounds, where a comparison goes wrong first."""
    for bound in bounds.values():
        if isinstance(bound, int):
            yield from map(str, range(bound - 2, bound + 3))
        number = float(bound)
        around = [math.nextafter(number, math.inf), number, math.nextafter(number, -math.inf)]
        for each in filter(math.isfinite, around):
            yield from (repr(each), f"{each:.16e}", f"{each:.15e}", f"{each:.3e}")
            middle = (Fraction(each) + Fraction(math.nextafter(each, 0))) / 2
            text = f"{Decimal(middle.numerator) / Decimal(middle.denominator):.16e}"
            yield text
            yield f"{Decimal(text):f}"


def canonical(text):
    """The same text where it is one of the forms that are generated for a bounded number."""
    if not JSON_NUMBER.fullmatch(text) or (text.startswith("-") and Decimal(text) == 0):
        return False
    mantissa, _, exponent = text.lstrip("-").lower().partition("e")
    if exponent:
        scientific = re.fullmatch(r"[1-9](\.[0-9]{1,16})?", mantissa)
        return bool(scientific and re.fullmatch(r"[+-]?(0?[0-9]|[1-9][0-9]{1,2})", exponent)) and (
            float(text) != 0 and not re.fullmatch(r"-0+", exponent)
        )
    whole, _, fraction = mantissa.partition(".")
    if not fraction:
        return len(whole) <= 17 or -(2**63) <= int(text) < 2**63
    digits = (whole + fraction).lstrip("0")
    zeros = len(fraction) - len(fraction.lstrip("0")) if whole == "0" else 0
    return len(digits) <= 17 and zeros <= 7


@pytest.mark.parametrize("block", range(6))
def test_bounded_numbers_are_exactly_the_generated_forms_within_the_bounds(block):
    for seed in range(block * 40, block * 40 + 40):
        random = Random(seed)
        bounds = bounds_of(random)
        try:
            automaton = automaton_of(bounds)
        except (UnsatisfiableSchema, UnsupportedSchema):
            assert not any(
                satisfies(bounds, text) for text in neighbours(bounds) if canonical(text)
            ), bounds
            continue
        for _ in range(40):
            text = walk(automaton, random)
            assert JSON_NUMBER.fullmatch(text), (bounds, text)
            assert canonical(text), (bounds, text)
            assert satisfies(bounds, text), (bounds, text)
        texts = [*neighbours(bounds), "0", "0.0", "0.00", "1e2", "1E+02", "12.50", "-3.0"]
        texts += [repr(random.uniform(-40, 40)) for _ in range(20)]
        for text in texts:
            if canonical(text):
                assert accepts(automaton, text) == satisfies(bounds, text), (bounds, text)


def test_integer_ranges_are_exact():
    random = Random(5)
    for _ in range(300):
        low = random.choice([random.randint(-1200, 1200), random.randint(-(2**63), 2**63 - 1)])
        high = min(low + random.choice([0, 1, 9, 10, 99, 1000, 2**62]), 2**63 - 1)
        automaton = integer_automaton(IntegerShape(low, high))
        samples = {low, high, low - 1, high + 1, low + 1, high - 1, 0, -1, 10, 2**63, -(2**63) - 1}
        samples |= {random.randint(low, high) for _ in range(10)}
        samples |= {each * 10 for each in samples} | {each // 10 for each in samples}
        for value in samples:
            assert accepts(automaton, str(value)) == (low <= value <= high), (low, high, value)
        for _ in range(10):
            assert low <= int(walk(automaton, random)) <= high
        assert not any(accepts(automaton, text) for text in ("-0", "00", "01", "-", "+1", ""))


def test_small_integer_ranges_completely():
    for low in range(-15, 16):
        for high in range(low, 16):
            automaton = integer_automaton(IntegerShape(low, high))
            texts = {text for text in map(str, range(-200, 201)) if accepts(automaton, text)}
            assert texts == set(map(str, range(low, high + 1)))


@pytest.mark.parametrize(
    ("bounds", "kept"),
    [
        ({"minimum": 0.5, "maximum": 3.5}, (1, 3)),
        ({"exclusiveMinimum": 0, "exclusiveMaximum": 3}, (1, 2)),
        ({"exclusiveMinimum": 0.5, "exclusiveMaximum": 2.5}, (1, 2)),
        ({"minimum": -0.5, "maximum": -0.0}, (0, 0)),
        ({"minimum": -2.5, "exclusiveMinimum": -2.5}, (-2, 2**63 - 1)),
        ({"maximum": 1e300}, (-(2**63), 2**63 - 1)),
        ({"minimum": -1e300, "maximum": -5}, (-(2**63), -5)),
        ({"minimum": 2**63 - 1}, (2**63 - 1, 2**63 - 1)),
        ({"exclusiveMinimum": 9007199254740992}, (9007199254740993, 2**63 - 1)),
        ({}, (-(2**63), 2**63 - 1)),
    ],
)
def test_integer_bounds_fold_inwards(bounds, kept):
    ((shape,),) = reduce_schema(json.dumps({"type": "integer", **bounds})).nodes
    assert shape == IntegerShape(*kept)


def test_every_finite_number_and_only_such():
    automaton, random = number_automaton(None), Random(1)
    for _ in range(4000):
        text = walk(automaton, random)
        assert JSON_NUMBER.fullmatch(text)
        assert math.isfinite(float(text)), text
    for _ in range(4000):
        value = random.choice([-1, 1]) * random.random() * 10.0 ** random.randint(-320, 308)
        for text in (repr(value), f"{value:.5e}", f"{value:.16E}"):
            assert accepts(automaton, text), text
    for value in (1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 1e16, 123456.789, -0.0):
        assert accepts(automaton, repr(value))


def test_numbers_without_bounds_are_not_narrowed_by_other_types():
    schema = '{"type": ["number", "string"], "minLength": 3}'
    assert NumberShape(None) in reduce_schema(schema).nodes[0]


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        # 2**53 and its even neighbours: the integers between are read as one of them, ties as the even one.
        (
            {"exclusiveMinimum": 9007199254740992},
            ["9007199254740994", "9.007199254740994e15", "9007199254740993.5"],
            ["9007199254740992", "9007199254740993", "9.007199254740993e15"],
        ),
        ({"exclusiveMinimum": 9007199254740994}, ["9007199254740995"], ["9007199254740994"]),
        (
            {"exclusiveMaximum": 9007199254740996},
            ["9007199254740994", "9007199254740994.5"],
            ["9007199254740995", "9007199254740995.5"],
        ),
        (
            {"exclusiveMaximum": -9007199254740992},
            ["-9007199254740994"],
            ["-9007199254740993", "-9007199254740992"],
        ),
        # The bound itself lies between two binary64 values.
        ({"minimum": 9007199254740993}, ["9007199254740994"], ["9007199254740993"]),
        (
            {"minimum": 0, "maximum": 1},
            [
                "0.00000001",
                "0.000000012345678901234567",
                "0.1234567890123456",
                "1.0000000000000000",
            ],
            ["0.000000001", "1.00000000000000000", "0.123456789012345678", "-0", "-0.0", "0e0"],
        ),
        (
            {"maximum": 0},
            ["0", "0.0", "-5e-324", "-1e308", "-9223372036854775808"],
            ["5e-324", "-0"],
        ),
        (
            {"minimum": -1e-320, "maximum": -1e-322},
            ["-1e-320", "-1e-322"],
            ["-9e-323", "0", "-2e-320"],
        ),
    ],
)
def test_edges_of_bounded_numbers(bounds, inside, outside):
    automaton = automaton_of(bounds)
    for text in inside:
        assert accepts(automaton, text), text
        assert satisfies(bounds, text), text
    for text in outside:
        assert not accepts(automaton, text), text
