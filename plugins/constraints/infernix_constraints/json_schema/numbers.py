"""Ranges of numbers, and which number texts may be published for them.

A text must satisfy its bounds twice: as the decimal that it spells and as the binary64 that JSON software
reads. Both conditions fold into one pair of inclusive decimal limits, because rounding is monotonic.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from attrs import frozen

from infernix_constraints.json_schema.graph import IntegerShape, NumberRange, NumberShape
from infernix_constraints.json_schema.values import INT64
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Significant digits of a number text that is no plain integer.
MAX_DIGITS = 17

_ROUND_UP = Context(prec=MAX_DIGITS, rounding=ROUND_CEILING, Emin=-9999, Emax=9999)


class Unwritten(UnsupportedSchema):
    """A range holds numbers, but none that has a text."""


@frozen
class Bound:
    """One limit of a range, exact as it is written, and the keyword that sets it."""

    value: int | Decimal
    exclusive: bool
    location: Location


def lowest(bounds: Iterable[Bound]) -> Bound | None:
    """The tightest of several upper bounds."""
    return min(bounds, key=lambda bound: (bound.value, not bound.exclusive), default=None)


def highest(bounds: Iterable[Bound]) -> Bound | None:
    """The tightest of several lower bounds."""
    return max(bounds, key=lambda bound: (bound.value, bound.exclusive), default=None)


def admits(lower: Iterable[Bound], upper: Iterable[Bound], value: int | Decimal) -> bool:
    """Whether a number lies in a range."""
    return all(
        value > bound.value or (value == bound.value and not bound.exclusive) for bound in lower
    ) and all(
        value < bound.value or (value == bound.value and not bound.exclusive) for bound in upper
    )


@frozen
class Step:
    """What numbers are multiples of: the least common multiple of several, and the last one's place."""

    value: Fraction
    location: Location

    @classmethod
    def of(cls, multiples: Iterable[tuple[int | Decimal, Location]]) -> Step | None:
        """The step of several multiples; None without any."""
        step: Step | None = None
        for value, location in multiples:
            exact = Fraction(value)
            step = cls(exact if step is None else _common_multiple(step.value, exact), location)
        return step

    def decimal(self) -> Decimal:
        """The step as a decimal, which it is as a multiple of decimals."""
        return _decimal(self.value)


def common_multiple(one: Decimal, other: Decimal | None) -> Decimal:
    """The least common multiple of a positive decimal and another, if there is one."""
    return one if other is None else _decimal(_common_multiple(Fraction(one), Fraction(other)))


def _common_multiple(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(
        math.lcm(a.numerator * b.denominator, b.numerator * a.denominator),
        a.denominator * b.denominator,
    )


def _decimal(value: Fraction) -> Decimal:
    """A fraction whose denominator divides a power of ten."""
    twos = (value.denominator & -value.denominator).bit_length() - 1
    fives, rest = 0, value.denominator >> twos
    while rest % 5 == 0:
        fives, rest = fives + 1, rest // 5
    places = max(twos, fives)
    digits = value.numerator * 10**places // value.denominator
    return Decimal((0, tuple(map(int, str(digits))), -places))


def is_multiple(value: int | Decimal, step: int | Decimal) -> bool:
    """Whether a number is a multiple of another, both exact."""
    return Fraction(value) % Fraction(step) == 0


def integer_shape(
    lower: Bound | None, upper: Bound | None, step: Step | None = None
) -> IntegerShape:
    """The 64-bit integers of a range, or those of them that are multiples.

    Raises:
        UnsatisfiableSchema: The range holds no integer, or no multiple.
        Unwritten: It holds such integers, but none of 64 bits.
    """
    shape = _integers(lower, upper)
    if step is None:
        return shape
    whole = _common_multiple(step.value, Fraction(1)).numerator
    if whole == 1:
        return shape
    first, last = -(-shape.minimum // whole) * whole, shape.maximum // whole * whole
    if first > last:
        raise UnsatisfiableSchema(f"the range holds no multiple of {whole}", location=step.location)
    return IntegerShape(first, last, Decimal(whole))


def number_shape(lower: Bound | None, upper: Bound | None, step: Step | None = None) -> NumberShape:
    """The numbers of a range, or those of them that are multiples.

    Raises:
        UnsatisfiableSchema: The range is empty, or holds no multiple.
        Unwritten: It holds numbers, but none that can be written. Whether a multiple can be written is left
            to the texts.
    """
    found = number_range(lower, upper)
    if step is None:
        return NumberShape(found)
    if lower is not None and upper is not None:
        first, last = _factors(lower, upper, step)
        if first > last:
            raise UnsatisfiableSchema(
                f"the range holds no multiple of {step.decimal()}", location=step.location
            )
    return NumberShape(found, step.decimal())


def check_fractions(lower: Bound | None, upper: Bound | None, step: Step | None) -> None:
    """Refuses a range that holds numbers, or multiples, but none that has a fraction.

    Raises:
        UnsatisfiableSchema: All that it holds are integers.
    """
    if step is not None and step.value.denominator == 1:
        raise UnsatisfiableSchema("no multiple has a fraction", location=step.location)
    if lower is None or upper is None:
        return
    # Between two numbers there are fractions, and of two neighbouring multiples at most one is an integer.
    if step is not None:
        first, last = _factors(lower, upper, step)
        whole = first == last and (first * step.value).denominator == 1
    else:
        whole = lower.value == upper.value and lower.value % 1 == 0
    if whole:
        raise UnsatisfiableSchema(
            "the only number in the range is an integer", location=upper.location
        )


def _factors(lower: Bound, upper: Bound, step: Step) -> tuple[int, int]:
    """What the least and the greatest multiple of a range are multiples by."""
    low, high = Fraction(lower.value) / step.value, Fraction(upper.value) / step.value
    return (
        math.floor(low) + 1 if lower.exclusive else math.ceil(low),
        math.ceil(high) - 1 if upper.exclusive else math.floor(high),
    )


def _integers(lower: Bound | None, upper: Bound | None) -> IntegerShape:
    """The 64-bit integers of a range.

    Raises:
        UnsatisfiableSchema: The range holds no integer.
        Unwritten: It holds integers, but none of 64 bits.
    """
    least = _first_integer(lower)
    greatest = INT64[1] if upper is None else -_first_integer(_mirrored(upper))
    if lower is not None and upper is not None and least > greatest:
        raise UnsatisfiableSchema("the range holds no integer", location=upper.location)
    if least > INT64[1] or greatest < INT64[0]:
        outside = lower if least > INT64[1] else upper
        assert outside is not None
        raise Unwritten("the range holds no signed 64-bit integer", location=outside.location)
    return IntegerShape(max(least, INT64[0]), min(greatest, INT64[1]))


def number_range(lower: Bound | None, upper: Bound | None) -> NumberRange | None:
    """The number texts of a range; None when nothing bounds it.

    Raises:
        UnsatisfiableSchema: The range is empty.
        Unwritten: It holds numbers, but none that can be written.
    """
    if lower is None and upper is None:
        return None
    if lower is not None and upper is not None:
        crossed = lower.value > upper.value
        if crossed or (lower.value == upper.value and (lower.exclusive or upper.exclusive)):
            raise UnsatisfiableSchema("the range holds no number", location=upper.location)
    low, low_open = _threshold(lower)
    high, high_open = _threshold(_mirrored(upper))
    high = -high
    least, greatest = _next_text(low, low_open), _next_text(-high, high_open).copy_negate()
    first = max(math.floor(low) + 1 if low_open else math.ceil(low), INT64[0])
    last = min(math.ceil(high) - 1 if high_open else math.floor(high), INT64[1])
    integers = IntegerShape(first, last) if first <= last else None
    written = least <= greatest
    if not written and integers is None:
        bound = upper if upper is not None else lower
        assert bound is not None
        raise Unwritten(
            f"no number of at most {MAX_DIGITS} digits lies in the range", location=bound.location
        )
    return NumberRange(least if written else None, greatest if written else None, integers)


def _mirrored(bound: Bound | None) -> Bound | None:
    """The bound on the other side of zero, so that every computation is one on lower bounds."""
    if bound is None:
        return None
    # Unary minus would round to the context's precision and lose the sign of zero.
    value = bound.value.copy_negate() if isinstance(bound.value, Decimal) else -bound.value
    return Bound(value, bound.exclusive, bound.location)


def _first_integer(bound: Bound | None) -> int:
    if bound is None:
        return INT64[0]
    value = Fraction(bound.value)
    return math.floor(value) + 1 if bound.exclusive else math.ceil(value)


def _threshold(bound: Bound | None) -> tuple[Fraction, bool]:
    """Where the texts begin that satisfy a lower bound both ways, and whether it is itself outside."""
    if bound is None:
        middle, tie_falls = _middle_below(-sys.float_info.max)
        return middle, tie_falls
    exact = Fraction(bound.value)
    # JSON software reads a bound as the text is written: integers exactly, all else as binary64.
    read = exact if isinstance(bound.value, int) else Fraction(float(bound.value))
    least = float(read)
    if Fraction(least) < read or (bound.exclusive and Fraction(least) == read):
        least = math.nextafter(least, math.inf)
    if math.isinf(least):
        return Fraction(10) ** 400, True
    middle, tie_falls = _middle_below(least)
    if middle > exact:
        return middle, tie_falls
    return exact, bound.exclusive or (middle == exact and tie_falls)


def _middle_below(number: float) -> tuple[Fraction, bool]:
    """Where the texts begin that are read as ``number`` or more, and whether a tie is read as less."""
    below = math.nextafter(number, -math.inf)
    if math.isinf(below):  # the step that would follow, were there an exponent for it
        return Fraction(number) - Fraction(2) ** 970, True
    middle = (Fraction(number) + Fraction(below)) / 2
    return middle, float(middle) != number


def _next_text(threshold: Fraction, outside: bool) -> Decimal:
    """The least number of at most 17 significant digits from a threshold on."""
    up = _ROUND_UP.divide(Decimal(threshold.numerator), Decimal(threshold.denominator))
    if outside and Fraction(up) == threshold:
        up = up.next_plus(_ROUND_UP)
    return up
