"""A deterministic automaton over Unicode characters: what patterns, formats, names and numbers become."""

from __future__ import annotations

from typing import Final

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

#: The state from which nothing is accepted any more.
DEAD: Final = 0

#: One more than the greatest code point.
END_OF_UNICODE: Final = 0x110000


def _same(array: NDArray[np.int32]) -> tuple[tuple[int, ...], bytes]:
    return array.shape, array.tobytes()


@frozen
class StringAutomaton:
    """A set of strings of Unicode scalar values (no surrogates), as a minimal deterministic automaton.

    Equal sets have equal automata: states are numbered breadth first from the start by ascending class,
    classes are as few as possible. State 0 is dead: it has no way to an accepting state, and every other
    state has one. So a prefix can be completed exactly when its state is not 0.

    Attributes:
        boundaries: The first code point of each class, ascending; the first is 0. Class c holds the code
            points from ``boundaries[c]`` up to the next boundary; the last one goes up to U+10FFFF.
        table: int32 [states, classes], read-only: the state after one more character.
        accepting: bool [states], read-only.
        start: 1, or 0 when the set is empty.
    """

    boundaries: tuple[int, ...]
    table: NDArray[np.int32] = field(eq=_same)
    accepting: NDArray[np.bool_] = field(eq=_same)
    start: int = 1

    @property
    def empty(self) -> bool:
        """Whether it holds no string."""
        return self.start == DEAD

    @property
    def states(self) -> int:
        """How many states there are, the dead one included."""
        return len(self.accepting)

    def state_after(self, text: str, state: int | None = None) -> int:
        """The state after a text; 0 when no string of the set begins so."""
        current = self.start if state is None else state
        places = np.searchsorted(self.boundaries, [ord(c) for c in text], side="right") - 1
        for place in places.tolist():
            current = int(self.table[current, place])
        return current

    def __contains__(self, text: object) -> bool:
        return isinstance(text, str) and bool(self.accepting[self.state_after(text)])
