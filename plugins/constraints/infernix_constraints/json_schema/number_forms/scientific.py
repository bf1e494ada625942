"""Numbers with an exponent."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Final

from infernix_constraints.json_schema.number_forms.exponents import Exponents
from infernix_constraints.json_schema.number_forms.machine import (
    FIRST_DIGIT,
    LOWER_E,
    POINT,
    UPPER_E,
    Machine,
    Row,
    State,
    compare,
    dead_row,
)
from infernix_constraints.json_schema.number_forms.multiples import NO_REMAINDER, Divisibility

#: Exponents of multiples are at most this: where Python and others begin to write one.
GREATEST_MULTIPLE_EXPONENT: Final = -5

_EXACT = Context(prec=1100, Emin=MIN_EMIN, Emax=MAX_EMAX)


def scientific(
    low: Decimal, high: Decimal, most_digits: int, multiple: Divisibility
) -> Machine | None:
    """Texts ``d.ddde±x`` with one digit before the point, not zero, and at least ``low``, which is positive.

    Multiples are written so only below 1e-4, with no more digits than that leaves.
    """
    digits = most_digits
    if not multiple.trivial:
        digits = min(digits, multiple.places + GREATEST_MULTIPLE_EXPONENT + 1)
        high = min(
            high, Decimal((0, (9,) * most_digits, GREATEST_MULTIPLE_EXPONENT + 1 - most_digits))
        )
    if low > high or digits < 1:
        return None
    (least, first), (greatest, last) = (
        ([*bound.normalize(_EXACT).as_tuple().digits], bound.adjusted()) for bound in (low, high)
    )
    exponents = Exponents()

    def step(state: State) -> tuple[Row, bool]:
        if state[0] == "exponent":
            return exponents.step(state)
        _, count, point, over, under, zeros, remainder = state
        row: Row = dead_row()
        if count == 1 and not point:
            row[POINT] = ("mantissa", 1, True, over, under, zeros, remainder)
        if count and (count > 1) == point:
            begin = first + (over < 0 or (not over and count < len(least)))
            end = last - (under > 0)
            if not multiple.trivial:
                needed = multiple.needed(remainder)
                begin = (
                    end + 1
                    if needed is None
                    else max(begin, needed + count - 1 - zeros - multiple.places)
                )
            if begin <= end:
                row[UPPER_E] = row[LOWER_E] = exponents.start(begin, end)
        if count < digits and (point or not count):
            bound_low = least[count] if count < len(least) else 0
            bound_high = greatest[count] if count < len(greatest) else 0
            for digit in range(0 if count else 1, 10):
                above, below = compare(over, digit, bound_low), compare(under, digit, bound_high)
                if multiple.trivial:
                    trailing, rest = 0, remainder
                elif digit:
                    trailing, rest = 0, multiple.after_zeros(remainder, zeros, digit)
                else:
                    trailing, rest = zeros + 1, remainder
                row[FIRST_DIGIT + digit] = (
                    "mantissa",
                    count + 1,
                    point,
                    above,
                    below,
                    trailing,
                    rest,
                )
        return row, False

    return Machine(("mantissa", 0, False, 0, 0, 0, NO_REMAINDER), step, step)
