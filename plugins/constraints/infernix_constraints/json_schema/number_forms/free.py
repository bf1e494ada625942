"""Numbers that need no comparison."""

from __future__ import annotations

from typing import Final

from infernix_constraints.json_schema.number_forms.exponents import Exponents
from infernix_constraints.json_schema.number_forms.machine import (
    LOWER_E,
    POINT,
    UPPER_E,
    Machine,
    Row,
    State,
    dead_row,
    digit_row,
)

#: Digits before and after the point of an unbounded number.
MAX_FREE_DIGITS: Final = 32


def free() -> Machine:
    """Numbers that are finite whatever their digits are."""
    exponents = Exponents()
    exponent = exponents.start(-324, 308 - MAX_FREE_DIGITS)

    def step(state: State) -> tuple[Row, bool]:
        phase, count = state[:2]
        if phase == "exponent":
            return exponents.step(state)
        row: Row = dead_row()
        if phase == "start":
            row = digit_row([("zero", 0), *[("integer", 1)] * 9])
        elif phase == "point":
            row = digit_row([("fraction", 1)] * 10)
        elif phase != "zero" and count < MAX_FREE_DIGITS:
            row = digit_row([(phase, count + 1)] * 10)
        if phase in ("zero", "integer"):
            row[POINT] = ("point", 0)
        if phase in ("start", "point"):
            return row, False
        row[UPPER_E] = row[LOWER_E] = exponent
        return row, True

    return Machine(("start", 0), step, step)
