"""How large an automaton may grow, and the work that may be spent on building it."""

from __future__ import annotations

from typing import Final

from attrs import define

#: States of a result, the dead one included.
MAX_STATES: Final = 65_536
#: States before minimisation.
MAX_RAW_STATES: Final = 2 * MAX_STATES
#: Cells of a transition table: 64 MiB of int32.
MAX_CELLS: Final = 1 << 24


class TooManyStates(Exception):
    """A language whose automaton is too large to build. The text says which limit, in one line."""


def check_size(states: int, classes: int = 1, limit: int = MAX_STATES) -> None:
    """Refuses a table that is too large.

    Raises:
        TooManyStates: It has more states than ``limit`` or more cells than ``MAX_CELLS``.
    """
    if states > limit:
        raise TooManyStates(f"its automaton has more than {limit} states")
    if states * classes > MAX_CELLS:
        raise TooManyStates(f"its automaton has more than {MAX_CELLS} transitions")


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
