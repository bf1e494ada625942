"""Natural numbers, digit by digit."""

from __future__ import annotations

from typing import Final

from infernix_constraints.json_schema.number_forms.machine import (
    FIRST_DIGIT,
    Machine,
    Row,
    State,
    compare,
    dead_row,
    digit_row,
)
from infernix_constraints.json_schema.number_forms.multiples import (
    NO_REMAINDER,
    Divisibility,
    Remainder,
)

#: Zero has been read, which nothing follows.
ZERO: Final[State] = ()


def natural(low: int, high: int, multiple: Divisibility) -> Machine | None:
    """The natural numbers from ``low`` to ``high``, without leading zeros.

    States are: how many digits there are, their comparison with the first ones of the bounds, and their
    remainder; or, once that is settled, how many may follow at most, and the remainder.

    Raises:
        TooManyStates: The remainders are too many.
    """
    if low > high:
        return None
    if low <= high // 100:
        multiple.check_size(len(str(high)) - 1)
    zero = low <= 0  # and it is a text of its own, since nothing follows it
    least = list(map(int, str(max(low, 1))))
    greatest = list(map(int, str(high)))

    def settled(left: int, remainder: Remainder) -> tuple[Row, bool]:
        """When any digits may follow up to a number of them."""
        row, most = dead_row(), left - 1
        if left and multiple.modulus == 1:
            row = digit_row([(most, remainder)] * 10)
        elif left:
            for digit in range(10):
                rest = multiple.after(remainder, digit)
                if multiple.completable(rest, 0, most):
                    row[FIRST_DIGIT + digit] = most, rest
        return row, multiple.divides(remainder)

    def step(state: State) -> tuple[Row, bool]:
        if state == ZERO:
            return dead_row(), True
        if len(state) == 2:
            return settled(*state)
        count, over, under, remainder, *_ = state
        final = (
            count >= len(least)
            and over >= 0
            and (count < len(greatest) or under <= 0)
            and multiple.divides(remainder)
        )
        left = len(greatest) - count - 1
        row = dead_row()
        for digit in range(10 if left >= 0 else 0):
            above = 1 if count >= len(least) else compare(over, digit, least[count])
            below = compare(under, digit, greatest[count])
            # Digits less than the lower bound's take one digit more, those greater than the upper's one less.
            fewest = max(len(least) + (above < 0) - count - 1, 0)
            most = left - (below > 0)
            after: State | None = None
            if not count and not digit:
                after = ZERO if zero else None
            elif fewest <= most:
                rest = multiple.after(remainder, digit)
                if not above or not below:
                    after = count + 1, above, below, rest, low, high
                elif multiple.completable(rest, fewest, most):
                    after = (count + 1, above, below, rest, low, high) if fewest else (most, rest)
            row[FIRST_DIGIT + digit] = after
        return row, final

    return Machine((0, 0, 0, NO_REMAINDER, low, high), step, natural)
