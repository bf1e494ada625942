"""How large an automaton may grow, and the work that may be spent on building it."""

from __future__ import annotations

from typing import Final

from attrs import define

#: States of a result, the dead one included.
MAX_STATES: Final = 65_536
#: Cells of a result's transition table: 64 MiB of int32.
MAX_CELLS: Final = 1 << 24
#: The same before minimisation, where equal columns are one and several copies of the table live at a time.
MAX_RAW_STATES: Final = MAX_STATES * 3 // 2
MAX_RAW_CELLS: Final = 1 << 22


class TooManyStates(Exception):
    """A language whose automaton is too large to build. The text says which limit, in one line."""


class TooManyParts(Exception):
    """A partition with more parts than its caller takes. The text says how many those are, in one line."""


def check_size(states: int, classes: int) -> None:
    """Refuses a result that is too large.

    Raises:
        TooManyStates: It has more than ``MAX_STATES`` or ``MAX_CELLS``.
    """
    _check(states, classes, MAX_STATES, MAX_CELLS)


def check_raw_size(states: int, classes: int) -> None:
    """Refuses a table on the way to a result that is too large.

    Raises:
        TooManyStates: It has more than ``MAX_RAW_STATES`` or ``MAX_RAW_CELLS``.
    """
    _check(states, classes, MAX_RAW_STATES, MAX_RAW_CELLS)


def _check(states: int, classes: int, most: int, cells: int) -> None:
    if states > most:
        raise TooManyStates(f"its automaton has more than {most} states")
    if states * classes > cells:
        raise TooManyStates(f"its automaton has more than {cells} transitions")


@define
class Budget:
    """Elementary operations that may still be spent; about five million take a second."""

    left: int

    def spend(self, operations: int) -> None:
        """Takes operations off.

        Raises:
            TooManyStates: None are left.
        """
        self.left -= operations
        if self.left < 0:
            raise TooManyStates("its automaton takes too long to build")
