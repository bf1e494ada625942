"""Number texts as automata: what is written for a range and for the multiples in it.

Every text satisfies its shape twice: as the decimal that it spells and as the binary64 that JSON software
reads. The forms:

- An integer of type ``integer``, and of a bounded ``number``: plain digits of 64 bits, ``-`` before a negative
  one, zero without a sign. ``1.0`` and ``1e2`` are integers for JSON Schema and texts of ``number`` alone:
  typed readers, for which integers are asked, refuse them.
- A bounded number: also decimals of at most 17 digits from the first nonzero one on, with at most seven zeros
  after ``0.``, and ``d.ddde±x`` of as many digits, with one leading zero of the exponent admitted. Zero has no
  sign and no exponent.
- A number without bounds: these, signs of zero, and up to 32 digits before and after the point with every
  exponent that leaves it finite.
- A multiple, as an exact decimal: plain integers of 64 bits; decimals as of a bounded number with at most 15
  digits, and with no more places than multiples need, or one; an exponent only below 1e-4, where software starts
  to write one. So binary64 has every multiple of 0.5 or 3 as it is written, and gives every multiple of 0.01 back
  as it was written.
- A number that is no integer: of these, the decimals without an exponent of at most 15 digits. No two decimals of
  15 digits are read as the same binary64, so none of them is read as an integer.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cache
from typing import Final

from attrs import evolve

from infernix_constraints.json_schema.graph import IntegerShape, NumberRange, NumberShape
from infernix_constraints.json_schema.number_forms.free import free
from infernix_constraints.json_schema.number_forms.machine import ALPHABET, MINUS, Machine, State
from infernix_constraints.json_schema.number_forms.multiples import Divisibility
from infernix_constraints.json_schema.number_forms.natural import natural
from infernix_constraints.json_schema.number_forms.plain import MAX_LEADING_ZEROS, plain
from infernix_constraints.json_schema.number_forms.scientific import scientific
from infernix_constraints.json_schema.numbers import MAX_DIGITS, common_multiple
from infernix_constraints.json_schema.values import INT64
from infernix_constraints.strings.algebra import difference, from_function, intersection
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.finite import Rows, finite_automaton
from infernix_constraints.strings.memo import remembered

#: Digits of a multiple's text that is no plain integer: so many survive binary64 whatever they are.
MAX_MULTIPLE_DIGITS: Final = 15

#: Nonzero texts below this are read as zero; it is the least one above half the least binary64.
_LEAST = Decimal("2.4703282292062328E-324")
#: Texts above this are read as infinity.
_GREATEST = Decimal("1.7976931348623158E+308")
_EVERYTHING = NumberRange(-_GREATEST, _GREATEST, IntegerShape(*INT64))


@remembered
def integer_texts(shape: IntegerShape) -> StringAutomaton:
    """The texts of a range's integers; none where the range holds no multiple.

    Raises:
        TooManyStates: The multiple leaves too many remainders to tell apart.
    """
    if shape.excluded is not None:
        # Every integer is written in one way, so texts are left out with their values.
        every = evolve(shape, excluded=None)
        step = common_multiple(shape.excluded, shape.multiple)
        return difference(integer_texts(every), integer_texts(evolve(every, multiple=step)))
    multiple = Divisibility.of(shape.multiple, 0)
    return _automaton(_naturals(shape, multiple, False), _naturals(shape, multiple, True))


@remembered
def number_texts(shape: NumberShape) -> StringAutomaton:
    """The texts of a range's numbers, or of every finite number; none where no multiple can be written.

    Raises:
        TooManyStates: The multiple leaves too many remainders to tell apart.
    """
    if shape.fractional:
        return intersection(number_texts(evolve(shape, fractional=False)), _fractions())
    if shape.range is None and shape.multiple is None:
        every = [scientific(_LEAST, _GREATEST, MAX_DIGITS, Divisibility.ANY), free()]
        return _automaton(every, every)
    return _automaton(_magnitudes(shape, False), _magnitudes(shape, True))


@cache
def _fractions() -> StringAutomaton:
    """Decimals of at most ``MAX_MULTIPLE_DIGITS`` digits with a fraction other than zero."""

    # A state is the number of digits, whether there was a point, and whether a digit after it was not 0.
    def step(state: tuple[int, bool, bool], code: int) -> tuple[int, bool, bool] | None:
        digits, pointed, nonzero = state
        character = chr(code)
        if character == "-":
            return state if state == (0, False, False) else None
        if character == ".":
            return None if pointed else (digits, True, False)
        if not "0" <= character <= "9" or digits == MAX_MULTIPLE_DIGITS:
            return None
        return digits + 1, pointed, nonzero or (pointed and character != "0")

    boundaries = (0, *map(ord, "-./01:"))
    return from_function(boundaries, (0, False, False), step, lambda state: state[2])


def _naturals(shape: IntegerShape, multiple: Divisibility, negative: bool) -> list[Machine | None]:
    """One side of a range; zero is written on the positive side only."""
    low, high = shape.minimum, shape.maximum
    if negative:
        low, high = max(-high, 1), -low
    return [natural(max(low, 0), high, multiple)]


def _magnitudes(shape: NumberShape, negative: bool) -> list[Machine | None]:
    """The forms of one side of a range; zero is written on the positive side only."""
    bounds, result = shape.range or _EVERYTHING, []
    if bounds.integers is not None:
        result += _naturals(bounds.integers, Divisibility.of(shape.multiple, 0), negative)
    if bounds.minimum is None or bounds.maximum is None:
        return result
    low, high = bounds.minimum, bounds.maximum
    if negative:
        low, high = high.copy_negate(), low.copy_negate()
    zero = low <= 0 <= high and not negative
    nonzero = max(low, _LEAST)
    digits = MAX_DIGITS if shape.multiple is None else MAX_MULTIPLE_DIGITS
    if zero or nonzero <= high:
        multiple = Divisibility.of(shape.multiple, digits + MAX_LEADING_ZEROS)
        result.append(plain(Decimal(0) if zero else nonzero, high, digits, multiple))
    if nonzero <= high:
        # The least binary64 has 1074 places; no number is written with more.
        multiple = Divisibility.of(shape.multiple, 1100)
        result.append(scientific(nonzero, high, digits, multiple))
    return result


def _automaton(positive: list[Machine | None], negative: list[Machine | None]) -> StringAutomaton:
    """The automaton of magnitudes, each with its sign: in any of their forms, which may share texts."""
    rows = Rows(len(ALPHABET))
    known: dict[object, dict[State, int]] = {}
    unsigned, signed = (
        rows.union(
            rows.explore(machine.start, machine.step, known.setdefault(machine.family, {}))
            for machine in side
            if machine is not None
        )
        for side in (positive, negative)
    )
    begin = list(rows.targets[unsigned])
    begin[MINUS] = signed
    return finite_automaton(rows, rows.add(tuple(begin), False), ALPHABET)
