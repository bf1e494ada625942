"""Exponents of ten in intervals."""

from __future__ import annotations

from infernix_constraints.json_schema.number_forms.machine import (
    FIRST_DIGIT,
    MINUS,
    PLUS,
    Machine,
    Row,
    State,
    dead_row,
    digit_row,
)
from infernix_constraints.json_schema.number_forms.multiples import Divisibility
from infernix_constraints.json_schema.number_forms.natural import ZERO, natural


class Exponents:
    """Exponents in intervals, with an optional sign and at most one leading zero; -0 is none."""

    def __init__(self) -> None:
        self._machines: dict[tuple[int, int], Machine | None] = {}

    def start(self, low: int, high: int) -> State:
        """The state after the letter."""
        return "exponent", low, high, None

    def step(self, state: State) -> tuple[Row, bool]:
        """As of every machine."""
        _, low, high, read = state
        if isinstance(read, tuple):
            machine = self._natural(low, high)
            assert machine is not None
            row, final = machine.step(read)
            return [
                None if after is None else ("exponent", low, high, after) for after in row
            ], final
        if read == "zero":
            return digit_row(
                ("exponent", low, high, ZERO) if low <= digit <= high else None
                for digit in range(10)
            ), low <= 0
        row = self._magnitude(max(low, 0), high)
        if read is None:
            if high >= 0:
                row[PLUS] = ("exponent", max(low, 0), high, "+")
            if low < 0:
                row[MINUS] = ("exponent", max(-high, 1), -low, "+")
        return row, False

    def _magnitude(self, low: int, high: int) -> Row:
        machine = self._natural(low, high)
        if machine is None:
            return dead_row()
        row, _ = machine.step(machine.start)
        row = [None if after is None else ("exponent", low, high, after) for after in row]
        row[FIRST_DIGIT] = ("exponent", low, min(high, 9), "zero") if low <= 9 else None
        return row

    def _natural(self, low: int, high: int) -> Machine | None:
        if (low, high) not in self._machines:
            self._machines[low, high] = natural(low, high, Divisibility.ANY)
        return self._machines[low, high]
