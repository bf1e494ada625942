"""Decimals without an exponent."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Final

from attrs import frozen

from infernix_constraints.json_schema.number_forms.machine import (
    FIRST_DIGIT,
    POINT,
    Machine,
    Row,
    State,
    compare,
    dead_row,
)
from infernix_constraints.json_schema.number_forms.multiples import (
    NO_REMAINDER,
    Divisibility,
    Remainder,
)

#: Zeros that a plain fraction may begin with; smaller numbers are written with an exponent.
MAX_LEADING_ZEROS: Final = 7

_EXACT = Context(prec=1100, Emin=MIN_EMIN, Emax=MAX_EMAX)


def plain(low: Decimal, high: Decimal, most_digits: int, multiple: Divisibility) -> Machine | None:
    """Decimals of at most ``most_digits`` digits from the first that is not zero on.

    They are at least ``low``, which is not negative. A multiple has no more places than all multiples need, but
    one after a point.

    Raises:
        TooManyStates: The remainders are too many.
    """
    places = most_digits + MAX_LEADING_ZEROS
    scale = Decimal(10) ** places
    least = int(_EXACT.multiply(low, scale).to_integral_value(ROUND_CEILING, _EXACT))
    below = _EXACT.multiply(min(high, Decimal(10) ** most_digits), scale)
    greatest = min(
        int(below.to_integral_value(ROUND_FLOOR, _EXACT)), 10 ** (most_digits + places) - 1
    )
    if least > greatest:
        return None
    if multiple.places < most_digits:
        whole = min(len(str(greatest)) - 1 - places, most_digits - multiple.places)
        if least < 10 ** (places + whole - 1):
            multiple.check_size(whole + multiple.places)
    bounds = _Digits.of(least, places), _Digits.of(greatest, places)
    form = _Plain(*bounds, most_digits, multiple)
    return Machine(("whole", 0, 0, 0, 0, NO_REMAINDER, bounds), form.step, plain)


@frozen
class _Digits:
    """A bound's digits before the point and, without zeros at the end, after it."""

    whole: tuple[int, ...]
    part: tuple[int, ...]

    @classmethod
    def of(cls, units: int, places: int) -> _Digits:
        whole, part = divmod(units, 10**places)
        return cls(tuple(map(int, str(whole))), tuple(map(int, f"{part:0{places}}".rstrip("0"))))


@frozen
class _Plain:
    """States by what they still know.

    - ``whole``: before the point; how many digits there are and how many count, their comparison with the bounds'
      first ones, and their remainder.
    - ``free``: the same once every number of further digits up to one is within the bounds.
    - ``part``: after the point, where both bounds have as many digits before it, so that less is less.
    - ``free part``: the same once the comparison is settled.

    Zero before the point is a digit that does not count.
    """

    low: _Digits
    high: _Digits
    most_digits: int
    multiple: Divisibility

    def step(self, state: State) -> tuple[Row, bool]:
        """As of every machine."""
        kind = state[0]
        if kind == "free":
            return self._free(*state[1:])
        if kind == "free part":
            place, digits, remainder = state[1:]
            return self._part(place, digits, 1, -1, remainder)
        return (self._whole if kind == "whole" else self._part)(*state[1:6])

    def _free(self, left: int, digits: int, remainder: Remainder) -> tuple[Row, bool]:
        row = dead_row()
        row[POINT] = ("free part", 0, digits, remainder)
        if left:
            for digit in range(10):
                after = self.multiple.after(remainder, digit)
                if self._completable(after, 0, left - 1):
                    row[FIRST_DIGIT + digit] = "free", left - 1, digits + 1, after
        return row, self.multiple.divides(remainder, self.multiple.places)

    def _whole(
        self, count: int, digits: int, over: int, under: int, remainder: Remainder
    ) -> tuple[Row, bool]:
        low, high = self.low.whole, self.high.whole
        row = dead_row()
        final = False
        left = len(high) - count - 1
        if count >= len(low) and over >= 0 and (left >= 0 or under <= 0):
            above = 1 if count > len(low) else over
            state = self._after_point(0, digits, above, -1 if left >= 0 else under, remainder)
            row[POINT] = state
            final = not (above == 0 and self.low.part) and self.multiple.divides(
                remainder, self.multiple.places
            )
        if left < 0 or (count and not digits):
            return row, final
        for digit in range(10):
            above = 1 if count >= len(low) else compare(over, digit, low[count])
            below = compare(under, digit, high[count])
            after = self.multiple.after(remainder, digit)
            counted = digits + 1 if digits or digit else 0
            # Digits less than the lower bound's take one digit more, those greater than the upper's one less.
            fewest = max(len(low) + (above < 0) - count - 1, 0)
            most = left - (below > 0) if counted else 0
            if fewest > most or not self._completable(after, fewest, most):
                continue
            if above > 0 and below and not fewest:
                row[FIRST_DIGIT + digit] = "free", most, counted, after
            else:
                bounds = self.low, self.high
                row[FIRST_DIGIT + digit] = "whole", count + 1, counted, above, below, after, bounds
        return row, final

    def _completable(self, remainder: Remainder, fewest: int, most: int) -> bool:
        """Whether so many more digits before the point and all after it can make it a multiple."""
        places = self.multiple.places
        return self.multiple.completable(remainder, fewest + places, most + places)

    def _part(
        self, place: int, digits: int, over: int, under: int, remainder: Remainder
    ) -> tuple[Row, bool]:
        multiple, low, high = self.multiple, self.low.part, self.high.part
        row = dead_row()
        final = place > 0 and over > 0
        if not multiple.trivial:
            final = final and multiple.divides(remainder, max(multiple.places - place, 0))
            if place >= max(multiple.places, 1):
                return row, final
        bound_low = low[place] if place < len(low) else 0
        bound_high = high[place] if place < len(high) else 0
        for digit in range(10 if place < multiple.places or multiple.trivial else 1):
            counted = digits + 1 if digits or digit else 0
            above, below = compare(over, digit, bound_low), compare(under, digit, bound_high)
            if counted > self.most_digits or above < 0 or below > 0:
                continue
            if not counted and place + 1 > MAX_LEADING_ZEROS:
                continue
            after = multiple.after(remainder, digit) if place < multiple.places else remainder
            row[FIRST_DIGIT + digit] = self._after_point(place + 1, counted, above, below, after)
        return row, final

    def _after_point(
        self, place: int, digits: int, over: int, under: int, remainder: Remainder
    ) -> State | None:
        """The state, without what no longer matters; None if no digits can make it a multiple."""
        if not over and place >= len(self.low.part):
            over = 1
        settled = over and under
        if self.multiple.trivial:
            if digits:  # else the place is still needed to count the zeros
                last = 1 if settled else max(1, len(self.low.part), len(self.high.part))
                place = min(place, last)
        else:
            left = self.multiple.places - place
            if left >= 0 and not self.multiple.completable(remainder, left, left):
                return None
            if digits:  # what the places allow is all that digits are counted for
                digits = max(digits, self.most_digits - max(left, 1 - place))
        if settled:
            return "free part", place, digits, remainder
        return "part", place, digits, over, under, remainder, (self.low, self.high)
