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

    Multiples are written so only below 1e-4, with no more digits than that leaves. States are what is read of
    the mantissa, and what its comparison with the bounds' digits leaves of the exponents once that is settled.
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
        kind, count, point, begin, end, zeros, remainder = state[:7]
        over = under = 1
        if kind == "tied":  # the comparisons with the bounds' digits, which settle the exponents'
            over, under = begin, end
            begin = first + (over < 0 or (not over and count < len(least)))
            end = last - (under > 0)
        row = dead_row()
        if count == 1 and not point:
            row[POINT] = kind, count, True, *state[3:]
        if count and (count > 1) == point:
            if not multiple.trivial:
                needed = multiple.needed(remainder)
                if needed is None:
                    return more(row, state, over, under), False
                begin = max(begin, needed + count - 1 - zeros - multiple.places)
            if begin <= end:
                row[UPPER_E] = row[LOWER_E] = exponents.start(begin, end)
        return more(row, state, over, under), False

    def more(row: Row, state: State, over: int, under: int) -> Row:
        kind, count, point, begin, end, zeros, remainder = state[:7]
        if count == digits or (count and not point):
            return row
        bound_low = least[count] if count < len(least) else 0
        bound_high = greatest[count] if count < len(greatest) else 0
        left = digits - count - 1
        for digit in range(0 if count else 1, 10):
            trailing, rest = 0, remainder
            if not multiple.trivial and digit:
                rest = multiple.after_zeros(remainder, zeros, digit)
                if not multiple.completable(rest, 0, left):
                    continue
            elif not multiple.trivial:
                trailing = zeros + 1
            above, below = compare(over, digit, bound_low), compare(under, digit, bound_high)
            if kind == "free":
                after: State = "free", count + 1, point, begin, end, trailing, rest
            elif above and below:
                after = (
                    *("free", count + 1, point, first + (above < 0), last - (below > 0)),
                    *(trailing, rest),
                )
            else:
                after = "tied", count + 1, point, above, below, trailing, rest, low, high
            row[FIRST_DIGIT + digit] = after
        return row

    start: State = ("tied", 0, False, 0, 0, 0, NO_REMAINDER, low, high)
    return Machine(start, step, scientific)
