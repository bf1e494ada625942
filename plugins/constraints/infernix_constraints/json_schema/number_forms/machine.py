"""What a form of number texts is: states over characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

#: Every character of a number text, ascending.
ALPHABET: Final = "+-.0123456789Ee"
PLUS, MINUS, POINT, FIRST_DIGIT, UPPER_E, LOWER_E = map(ALPHABET.index, "+-.0Ee")

State: TypeAlias = tuple[Any, ...]
#: The states after each character of the alphabet; None where no text goes on like that.
Row: TypeAlias = "list[State | None]"
#: What a state leads to, and whether a text may end in it.
Step: TypeAlias = Callable[[State], tuple[Row, bool]]


class Machine(NamedTuple):
    """A form of number texts: where it starts and how it goes on.

    Machines of one family, which have one multiple, go on alike from a state that both have.
    """

    start: State
    step: Step
    family: object


def dead_row() -> Row:
    """Nothing follows."""
    return [None] * len(ALPHABET)


def digit_row(digits: Iterable[State | None]) -> Row:
    """Nothing but digits follows: from 0 to 9 these states."""
    row = dead_row()
    row[FIRST_DIGIT : FIRST_DIGIT + 10] = digits
    return row


def compare(side: int, digit: int, bound: int) -> int:
    """How digits compare with a bound's after one more of each: the first difference decides."""
    return side or (digit > bound) - (digit < bound)
