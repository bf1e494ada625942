"""Number automata against brute force: as decimals and as binary64, text by text."""

import itertools
import json
import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from random import Random

import jsonschema
import numpy as np
import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_constraints.json_schema.graph import IntegerShape, NumberRange, NumberShape
from infernix_constraints.json_schema.number_texts import integer_texts, number_texts
from infernix_constraints.json_schema.numbers import Bound, highest, lowest, number_range
from infernix_constraints.strings.limits import TooManyStates
from infernix_constraints.strings.minimal import canonical, nothing
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

ALPHABET = "+-.0123456789Ee"
INT64 = (-(2**63), 2**63 - 1)
KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def exact(bound):
    return bound if isinstance(bound, int) else Decimal(repr(bound))


def range_of(bounds):
    def side(keywords):
        return [
            Bound(exact(bounds[keyword]), keyword.startswith("exclusive"), Location())
            for keyword in keywords
            if keyword in bounds
        ]

    return number_range(
        highest(side(["minimum", "exclusiveMinimum"])),
        lowest(side(["maximum", "exclusiveMaximum"])),
    )


def numbers(bounds, multiple=None):
    return number_texts(NumberShape(range_of(bounds), multiple and Decimal(multiple)))


@cache
def number_spellings(alphabet, length):
    """Every JSON number of at most so many characters."""
    return [
        text
        for count in range(length + 1)
        for text in map("".join, itertools.product(alphabet, repeat=count))
        if JSON_NUMBER.fullmatch(text)
    ]


def short_texts(automaton, alphabet, length):
    """Every text of the automaton of at most so many of these characters."""
    texts, prefixes = set(), {"": automaton.start}
    for _ in range(length + 1):
        texts |= {text for text, state in prefixes.items() if automaton.accepting[state]}
        prefixes = {
            text + character: after
            for text, state in prefixes.items()
            for character in alphabet
            if (after := automaton.state_after(character, state))
        }
    return texts


class Reader:
    """Membership by plain lookups, for very many texts."""

    def __init__(self, automaton):
        columns = np.searchsorted(automaton.boundaries, list(map(ord, ALPHABET)), side="right") - 1
        self.rows = [
            dict(zip(ALPHABET, row, strict=True)) for row in automaton.table[:, columns].tolist()
        ]
        self.automaton = automaton

    def __contains__(self, text):
        state = self.automaton.start
        for character in text:
            state = self.rows[state][character]
        return bool(self.automaton.accepting[state])

    def walk(self, random, stop=0.15):
        """A random text, of an automaton that holds some."""
        state, text = self.automaton.start, ""
        while True:
            steps = [step for step in self.rows[state].items() if step[1]]
            if self.automaton.accepting[state] and (not steps or random.random() < stop):
                return text
            character, state = random.choice(steps)
            text += character


def satisfies(bounds, text):
    """Both readings of the text lie in the range; integer bounds are exact, others are read as binary64."""
    if math.isinf(float(text)):
        return False
    for keyword, bound in bounds.items():
        for value, limit in ((Fraction(text), Fraction(exact(bound))), (float(text), bound)):
            if {
                "minimum": value < limit,
                "maximum": value > limit,
                "exclusiveMinimum": value <= limit,
                "exclusiveMaximum": value >= limit,
            }[keyword]:
                return False
    return True


def is_form(text):
    """Whether the text is one of the forms that are generated for a bounded number."""
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
        return len(whole) <= 17 or INT64[0] <= int(text) <= INT64[1]
    digits = (whole + fraction).lstrip("0")
    zeros = len(fraction) - len(fraction.lstrip("0")) if whole == "0" else 0
    return len(digits) <= 17 and zeros <= 7


def is_multiple_form(multiple, text):
    """The same of a multiple."""
    if not is_form(text) or Fraction(text) % Fraction(multiple):
        return False
    mantissa, _, exponent = text.lstrip("-").lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    places = max(-Decimal(multiple).normalize().as_tuple().exponent, 0)
    if exponent:
        return abs(Fraction(text)) < Fraction(1, 10**4) and len(whole + fraction) <= min(
            15, places - 4
        )
    if not fraction:
        return INT64[0] <= int(text) <= INT64[1]
    return len((whole + fraction).lstrip("0")) <= 15 and len(fraction) <= max(places, 1)


def random_bounds(random):
    def bound():
        kind = random.random()
        if kind < 0.3:
            return random.randint(-12, 120)
        if kind < 0.4:
            return random.randint(*INT64)
        if kind < 0.8:
            return round(random.uniform(-30, 30), random.randint(0, 4))
        return random.choice([-1, 1]) * random.random() * 10.0 ** random.randint(-320, 307)

    return {keyword: bound() for keyword in random.sample(KEYWORDS, random.randint(1, 2))}


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


# --- Integers


def test_small_integer_ranges_completely():
    for low in range(-15, 16):
        for high in range(low, 16):
            automaton = Reader(integer_texts(IntegerShape(low, high)))
            texts = {text for text in map(str, range(-200, 201)) if text in automaton}
            assert texts == set(map(str, range(low, high + 1)))


def test_integers_have_one_spelling_each():
    everything, few = integer_texts(IntegerShape(*INT64)), integer_texts(IntegerShape(-12, 7))
    plain = {
        text for text in number_spellings("+-.012e", 5) if re.fullmatch(r"0|-?[1-9][0-9]*", text)
    }
    assert short_texts(everything, "+-.012e", 5) == plain
    assert short_texts(few, "+-.012e", 5) == {text for text in plain if -12 <= int(text) <= 7}


def test_integer_ranges_are_exact():
    random = Random(5)
    for _ in range(300):
        low = random.choice([random.randint(-1200, 1200), random.randint(*INT64)])
        high = min(low + random.choice([0, 1, 9, 10, 99, 1000, 2**62]), INT64[1])
        automaton = Reader(integer_texts(IntegerShape(low, high)))
        samples = {low, high, low - 1, high + 1, low + 1, high - 1, 0, -1, 10, 2**63, -(2**63) - 1}
        samples |= {random.randint(low, high) for _ in range(10)}
        samples |= {each * 10 for each in samples} | {each // 10 for each in samples}
        for value in samples:
            assert (json.dumps(value) in automaton) == (low <= value <= high), (low, high, value)
        for _ in range(10):
            assert low <= int(automaton.walk(random)) <= high


INTEGER_MULTIPLES = (
    *(
        "1",
        "2",
        "3",
        "5",
        "7",
        "10",
        "12",
        "16",
        "25",
        "60",
        "64",
        "75",
        "99",
        "100",
        "125",
        "1000",
    ),
    *("3600", "0.5", "2.5", "0.01", "1.25", "0.3", "12.5", "1E+2", "1E-20", "7.0", "1234567"),
)


@pytest.mark.parametrize("multiple", INTEGER_MULTIPLES)
def test_integer_multiples_completely(multiple):
    for low, high in ((-2500, 3100), (0, 999), (57, 1002), (-1000, -1)):
        automaton = Reader(integer_texts(IntegerShape(low, high, Decimal(multiple))))
        texts = {text for text in map(str, range(-9999, 10001)) if text in automaton}
        assert texts == {
            str(value) for value in range(low, high + 1) if not Fraction(value) % Fraction(multiple)
        }


@pytest.mark.parametrize("multiple", INTEGER_MULTIPLES[:-1])
def test_integer_multiples_of_64_bits(multiple):
    random, step = Random(8), Fraction(multiple)
    automaton = Reader(integer_texts(IntegerShape(*INT64, Decimal(multiple))))
    step = step.numerator
    for _ in range(200):
        value = random.randint(*INT64) >> random.randint(0, 60)
        for each in (value, value // step * step, value // step * step + 1):
            inside = INT64[0] <= each <= INT64[1] and not each % step
            assert (str(each) in automaton) == inside, each
        assert not int(automaton.walk(random, 0.02)) % step


def test_integers_without_a_multiple_are_empty():
    automaton = integer_texts(IntegerShape(1, 6, Decimal(7)))
    assert automaton.empty
    assert automaton == nothing()
    assert not integer_texts(IntegerShape(1, 7, Decimal(7))).empty
    assert "0" in integer_texts(IntegerShape(*INT64, Decimal("1e400")))
    assert integer_texts(IntegerShape(1, INT64[1], Decimal("1e999999999"))).empty


# --- Numbers


@pytest.mark.parametrize("block", range(6))
def test_bounded_numbers_are_exactly_the_generated_forms_within_the_bounds(block):
    for seed in range(block * 40, block * 40 + 40):
        random = Random(seed)
        bounds = random_bounds(random)
        try:
            automaton = Reader(numbers(bounds))
        except (UnsatisfiableSchema, UnsupportedSchema):
            assert not any(satisfies(bounds, text) for text in neighbours(bounds) if is_form(text))
            continue
        for _ in range(40):
            text = automaton.walk(random)
            assert JSON_NUMBER.fullmatch(text), (bounds, text)
            assert is_form(text), (bounds, text)
            assert satisfies(bounds, text), (bounds, text)
        texts = [*neighbours(bounds), "0", "0.0", "0.00", "1e2", "1E+02", "12.50", "-3.0"]
        texts += [repr(random.uniform(-40, 40)) for _ in range(20)]
        for text in texts:
            if is_form(text):
                assert (text in automaton) == satisfies(bounds, text), (bounds, text)


@pytest.mark.parametrize(
    "bounds",
    [
        {"minimum": 0, "maximum": 1},
        {"exclusiveMinimum": -1.2, "maximum": 20},
        {"minimum": 0.02},
        {"exclusiveMaximum": -0.1},
        {"minimum": -1e-7, "exclusiveMaximum": 1e3},
    ],
)
def test_short_bounded_numbers_completely(bounds):
    assert short_texts(numbers(bounds), "+-.0127e", 5) == {
        text
        for text in number_spellings("+-.0127e", 5)
        if is_form(text) and satisfies(bounds, text)
    }


def test_every_finite_number_and_only_such():
    automaton, random = number_texts(NumberShape(None)), Random(1)
    reader = Reader(automaton)
    assert short_texts(automaton, "+-.01eE", 5) == {
        text
        for text in number_spellings("+-.01eE", 5)
        if not re.search(r"[eE]([+-]?0..|-0+$)", text)  # an exponent's zeros
    }
    for _ in range(3000):
        text = reader.walk(random)
        assert JSON_NUMBER.fullmatch(text)
        assert math.isfinite(float(text)), text
    for _ in range(3000):
        value = random.choice([-1, 1]) * random.random() * 10.0 ** random.randint(-320, 308)
        for text in (repr(value), f"{value:.5e}", f"{value:.16E}"):
            assert text in reader, text
    for value in (1.7976931348623157e308, 5e-324, 2.2250738585072014e-308, 1e16, 123456.789, -0.0):
        assert json.dumps(value) in automaton


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
    automaton = numbers(bounds)
    for text in inside:
        assert text in automaton, text
        assert satisfies(bounds, text), text
    for text in outside:
        assert text not in automaton, text


def test_ranges_in_which_only_integers_can_be_written():
    only = NumberRange(None, None, IntegerShape(2**62 + 1, 2**62 + 3))
    automaton = number_texts(NumberShape(only))
    assert str(2**62 + 2) in automaton
    assert automaton == integer_texts(IntegerShape(2**62 + 1, 2**62 + 3))
    assert number_texts(NumberShape(only, Decimal(2**62))).empty


# --- Multiples

MULTIPLES = (
    *(
        "0.01",
        "0.1",
        "0.5",
        "0.25",
        "0.05",
        "1",
        "3",
        "2.5",
        "5",
        "10",
        "0.125",
        "0.07",
        "0.3",
        "12",
    ),
    *("1.2", "360", "0.001", "0.0001", "0.00001", "0.000001", "0.000025", "1E-8", "3E-8", "7E-7"),
    *("1E-12", "1.10", "0.99"),
)


def near(multiple, random):
    """Texts of multiples and of what lies just beside, as programs write them."""
    step = Fraction(multiple)
    for _ in range(60):
        count = random.randint(-(10 ** random.randint(0, 16)), 10 ** random.randint(0, 16))
        for value in (step * count, step * count + Fraction(1, 10 ** random.randint(0, 14))):
            number = Decimal(value.numerator) / Decimal(value.denominator)
            yield from (
                f"{number:f}",
                repr(float(number)),
                str(float(number)).upper(),
                f"{number:e}",
            )
            if value.denominator == 1:
                yield f"{value.numerator}.0"


@pytest.mark.parametrize("multiple", MULTIPLES)
def test_multiples_are_exactly_the_generated_forms(multiple):
    random = Random(multiple)
    automaton = Reader(numbers({}, multiple))
    assert short_texts(automaton.automaton, "-.0125e", 5) == {
        text for text in number_spellings("-.0125e", 5) if is_multiple_form(multiple, text)
    }
    for text in near(multiple, random):
        assert (text in automaton) == is_multiple_form(multiple, text), text
    for _ in range(150):
        text = automaton.walk(random, 0.05)
        assert is_multiple_form(multiple, text), text


@pytest.mark.parametrize("block", range(4))
def test_multiples_in_ranges(block):
    for seed in range(block * 40, block * 40 + 40):
        random = Random(seed)
        bounds, multiple = random_bounds(random), random.choice(MULTIPLES)
        try:
            automaton = Reader(numbers(bounds, multiple))
        except (UnsatisfiableSchema, UnsupportedSchema):
            continue
        texts = [*neighbours(bounds), *near(multiple, random), "0", "0.0"]
        for bound in bounds.values():  # the multiples next to it
            count = math.floor(Fraction(exact(bound)) / Fraction(multiple))
            for each in range(count - 2, count + 3):
                if abs(each) < 10**25:
                    texts += [
                        f"{Decimal(multiple) * each:f}",
                        repr(float(Decimal(multiple) * each)),
                    ]
        for text in texts:
            expected = is_multiple_form(multiple, text) and satisfies(bounds, text)
            assert (text in automaton) == expected, (bounds, multiple, text)
        if not automaton.automaton.empty:
            for _ in range(20):
                text = automaton.walk(random)
                assert is_multiple_form(multiple, text), (bounds, multiple, text)
                assert satisfies(bounds, text), (bounds, multiple, text)


@pytest.mark.parametrize("multiple", MULTIPLES)
def test_jsonschema_agrees_that_they_are_multiples(multiple):
    random = Random(multiple)
    automaton = Reader(numbers({}, multiple))
    document = f'{{"multipleOf": {multiple}}}'
    exactly = jsonschema.Draft202012Validator(json.loads(document, parse_float=Decimal))
    loosely = jsonschema.Draft202012Validator(json.loads(document))
    binary = Fraction(float(multiple)) == Fraction(multiple)
    for _ in range(150):
        text = automaton.walk(random, 0.05)
        with localcontext(prec=60):
            assert exactly.is_valid(json.loads(text, parse_float=Decimal)), text
        value = json.loads(text)
        if binary:
            assert loosely.is_valid(value), text
        # What is written back is a multiple still. (jsonschema divides binary64 values by one another and
        # finds that 0.3 is no multiple of 0.1, which is true of neither text.)
        assert not Fraction(json.dumps(value)) % Fraction(multiple), text


def test_prices_as_they_are_dumped():
    automaton = Reader(numbers({"minimum": 0, "maximum": 1000}, "0.01"))
    for cents in range(100_001):
        assert json.dumps(cents / 100) in automaton
    for text in ("1000.01", "0.005", "19.999", "1e2", "19.990", "-0.01", "-0", "1e-2"):
        assert text not in automaton
    for text in ("7", "7.0", "7.00", "7.5", "7.50"):
        assert text in automaton


def test_small_multiples_as_they_are_dumped():
    automaton = numbers({"exclusiveMinimum": 0, "maximum": 1}, "1e-8")
    for count in (1, 5, 12, 99, 100, 1234, 9999, 10_000, 123_456, 10**8):
        assert json.dumps(count / 10**8) in automaton
    assert "1.5e-08" not in automaton
    assert "1.5e-7" in automaton


def test_ranges_of_few_multiples():
    assert numbers({"minimum": 0.11, "maximum": 0.19}, "0.1") == nothing()
    assert "0.15" in numbers({"minimum": 0.11, "maximum": 0.19}, "0.05")
    assert numbers({"minimum": 1e20}, "3").empty  # neither 64 bits nor below 1e15
    large = integer_texts(IntegerShape(10**8 + 1, 10**9 - 1, Decimal(12345678)))
    assert short_texts(large, "0123456789", 9) == {
        str(value) for value in range(9 * 12345678, 10**9, 12345678)
    }
    three = numbers({"minimum": 171303, "maximum": 1382841}, "372186")
    assert short_texts(three, "0123456789", 7) == {"372186", "744372", "1116558"}
    few = numbers({"minimum": 0, "maximum": 10}, "3.14159")
    assert short_texts(few, ALPHABET, 9) == {
        *("0", "3.14159", "6.28318", "9.42477"),
        *("0." + "0" * places for places in range(1, 6)),
    }


# --- Automata

SHAPES = (
    IntegerShape(*INT64),
    IntegerShape(0, 100),
    IntegerShape(-5, INT64[1], Decimal(12)),
    NumberShape(None),
    NumberShape(NumberRange(Decimal("0.5"), Decimal("3.25"), IntegerShape(1, 3))),
    NumberShape(None, Decimal("0.01")),
    NumberShape(None, Decimal(7)),
)


@pytest.mark.parametrize("shape", SHAPES)
def test_automata_are_canonical(shape):
    texts = integer_texts if isinstance(shape, IntegerShape) else number_texts
    automaton = texts(shape)
    columns = np.arange(len(automaton.boundaries), dtype=np.int32)
    assert automaton == canonical(
        automaton.boundaries, columns, automaton.table, automaton.accepting, automaton.start
    )
    assert not automaton.table.flags.writeable
    assert not automaton.accepting.flags.writeable
    assert texts(shape) is automaton
    for text in (
        "",
        "-",
        "x",
        "٣",
        "１",
        "1 ",
        " 1",
        "1x",
        "/",
        ":",
        "NaN",
        "Infinity",
        "\U0010ffff",
    ):
        assert text not in automaton


def test_automata_are_small():
    for shape, most in zip(SHAPES, (60, 6, 150, 140, 250, 80, 250), strict=True):
        texts = integer_texts if isinstance(shape, IntegerShape) else number_texts
        assert texts(shape).states <= most, shape
    # Powers of ten cost what their zeros do.
    assert integer_texts(IntegerShape(*INT64, Decimal(10**12))).states < 200


@pytest.mark.parametrize(
    "shape",
    [
        IntegerShape(*INT64, Decimal(9973)),
        IntegerShape(*INT64, Decimal(12345678)),
        IntegerShape(*INT64, Decimal(2**40)),
        IntegerShape(*INT64, Decimal(5**20)),
        NumberShape(None, Decimal("3.14159")),
        NumberShape(None, Decimal("0.123456789")),
        NumberShape(None, Decimal("9" * 5000)),
    ],
)
def test_multiples_with_too_many_remainders_are_refused(shape):
    texts = integer_texts if isinstance(shape, IntegerShape) else number_texts
    with pytest.raises(TooManyStates, match=r"more than \d+ (states|digits)"):
        texts(shape)


@pytest.mark.parametrize(
    ("schema", "written", "refused"),
    [
        (
            {"type": "integer"},
            "0 -9223372036854775808 9223372036854775807",
            "-0 1.0 1e2 9223372036854775808",
        ),
        (
            {"type": "number", "minimum": -1e30, "maximum": 1e30},
            "0 0.0 1234567890123456789 12345678901234567 1234567890123456.7 0.00000001 -1.5 "
            "0.000000012345678901234567 1e5 1.50E+05 1e0 1e-9 1.2345678901234567e3",
            "-0 -0.0 0e0 12345678901234567890 123456789012345678.0 1234567890123456.78 0.000000001 "
            "0.00000000 0.5e1 12e3 1.50E+005 1.23456789012345678e3",
        ),
        (
            {"type": "number", "not": {"const": 5}},
            "6 1e5",
            "5 5.0 -0 12e3",
        ),
        (
            {"type": "number", "multipleOf": 0.01},
            "1 1.0 1.50 0.00 9223372036854775807 1234567890123.45",
            "-0 0e0 1.500 1e2 5e-2 12345678901234.56",
        ),
        ({"type": "number", "multipleOf": 3}, "3 3.0", "3.00 3e0 4"),
        ({"type": "number", "multipleOf": 1e-5}, "1e-5 0.00001 1E-05 0.0001", "1e-4 1e-005 1.5e-4"),
        (
            {"type": "number", "not": {"type": "integer"}},
            "1.50 -0.5 123456789012.345 0.00000000000001",
            "1.0 1.5e3 1e-5 1234567890123.456 0.000000000000001",
        ),
        (
            {"type": "number", "minimum": 0, "not": {"type": "integer"}},
            "0.5 0.00000001",
            "0.000000001",
        ),
        (
            {"type": "number", "not": {"multipleOf": 3}},
            "1 4.5 9223372036854775807",
            "3 3.0 4.0 0 4e0",
        ),
        (
            {"type": "number"},
            f"-0 -0.0 -0.0E+0 0e0 {'1' * 32}.{'1' * 32}e276 1e-324 12e3 1e+05 1.7976931348623157e308",
            f"{'1' * 33} 1.{'1' * 33} 12e277 12e-325 1e309 1e-400 1e+005",
        ),
    ],
)
def test_the_documented_forms(schema, written, refused):
    shapes = reduce_schema(json.dumps(schema)).nodes[0]
    texts = [
        integer_texts(shape) if isinstance(shape, IntegerShape) else number_texts(shape)
        for shape in shapes
    ]
    assert [text for text in written.split() if not any(text in each for each in texts)] == []
    assert [text for text in refused.split() if any(text in each for each in texts)] == []
