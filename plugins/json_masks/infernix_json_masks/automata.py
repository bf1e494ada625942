"""What strings must satisfy: an automaton over their characters, and how many there may be."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property, lru_cache

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from infernix_constraints.strings.automaton import StringAutomaton
from infernix_json_masks.characters import completions

Indices = NDArray[np.int64]

#: A state that more characters than these can follow is looked at for all words at once.
_WIDE = 12


@define(eq=False, slots=False)
class TextAutomaton:
    """A string automaton as the masks need it. Compared by identity; see :func:`text_automaton`."""

    source: StringAutomaton

    @cached_property
    def table(self) -> Indices:
        """int64 [states, classes]: the next state; 0 is dead."""
        return self.source.table.astype(np.int64)

    @cached_property
    def flat(self) -> NDArray[np.int32]:
        """The table's rows one behind the other."""
        return np.ascontiguousarray(self.source.table).reshape(-1)

    @cached_property
    def rows(self) -> list[list[int]]:
        """The same as lists."""
        rows: list[list[int]] = self.source.table.tolist()
        return rows

    @cached_property
    def accepting(self) -> list[bool]:
        """Per state, whether a string may end there."""
        flags: list[bool] = self.source.accepting.tolist()
        return flags

    @cached_property
    def _bounds(self) -> Indices:
        return np.asarray(self.source.boundaries, dtype=np.int64)

    @cached_property
    def _firsts(self) -> list[int]:
        return list(self.source.boundaries)

    def classes(self, characters: Indices) -> Indices:
        """The class of each code point."""
        return np.searchsorted(self._bounds, characters, side="right") - 1

    def step(self, state: int, character: int) -> int:
        """The state after one more character."""
        return self.rows[state][bisect_right(self._firsts, character) - 1]

    @cached_property
    def wide(self) -> list[bool]:
        """Per state, whether many characters can follow."""
        ends = np.append(self._bounds[1:], 0x110000)
        sizes = ends - self._bounds
        counts = (self.source.table != 0) @ sizes
        flags: list[bool] = (counts > _WIDE).tolist()
        return flags

    def following(self, state: int) -> list[int]:
        """The code points that can follow in a state that is not wide."""
        found: list[int] = []
        for place, target in enumerate(self.rows[state]):
            if target:
                end = self._firsts[place + 1] if place + 1 < len(self._firsts) else 0x110000
                found += range(self._firsts[place], end)
        return found

    def reachable(self, state: int, spelling: bytes) -> frozenset[int]:
        """The live states that the character in the making may lead to."""
        row, firsts = self.rows[state], self._firsts
        found: set[int] = set()
        for low, high in completions(spelling):
            first, last = bisect_right(firsts, low) - 1, bisect_right(firsts, high) - 1
            found.update(row[first : last + 1])
        found.discard(0)
        return frozenset(found)


@lru_cache(maxsize=1024)
def text_automaton(source: StringAutomaton) -> TextAutomaton:
    """The one :class:`TextAutomaton` of an automaton."""
    return TextAutomaton(source)


@define(eq=False)
class Bounds:
    """How an automaton and bounds of the length go together.

    A state with ``used`` characters behind it is viable when some string of the language, of admitted
    length, goes on from there.

    Attributes:
        automaton: None accepts every string.
        minimum: Least number of characters.
        maximum: Greatest number, or None.
    """

    automaton: TextAutomaton | None
    minimum: int
    maximum: int | None
    _rows: list[NDArray[np.bool_]] = field(init=False, factory=list)
    _free: int = field(init=False, default=-1)

    def __attrs_post_init__(self) -> None:
        if self.automaton is None or not self.bounded:
            return
        self._rows = self._viable_rows(self.automaton)
        alive = np.ones(self.automaton.source.states, dtype=bool)
        alive[0] = False
        for used, row in enumerate(self._rows):
            if not (row == alive).all():
                break
            self._free = used

    @property
    def bounded(self) -> bool:
        """Whether the length matters at all."""
        return self.minimum > 0 or self.maximum is not None

    @property
    def cap(self) -> int:
        """Beyond so many characters, more of them make no difference."""
        return self.minimum if self.maximum is None else self.maximum

    @property
    def free(self) -> int:
        """With an automaton: up to so many characters, every live state is viable; -1 if never."""
        return self._free

    def viable(self, used: int) -> NDArray[np.bool_]:
        """Bool [states]: with an automaton, which states are viable after so many characters."""
        return self._rows[min(used, self.cap)]

    def admits(self, state: int, used: int) -> bool:
        """Whether a string can go on from a state behind so many characters."""
        if self.maximum is not None and used > self.maximum:
            return False
        if self.automaton is None:
            return True
        return state != 0 and (not self._rows or bool(self.viable(used)[state]))

    def ends(self, state: int, used: int) -> bool:
        """Whether the string may end there."""
        if used < self.minimum or (self.maximum is not None and used > self.maximum):
            return False
        return self.automaton is None or self.automaton.accepting[state]

    def _viable_rows(self, automaton: TextAutomaton) -> list[NDArray[np.bool_]]:
        """From the greatest length back to none: a state is viable with u characters when it accepts and u is
        at least the minimum, or when a next state is viable with u + 1. Without a maximum, more characters
        than the minimum change nothing.

        Once a row equals the one behind it, so do all before it, up to the minimum.
        """
        table, accepting = automaton.table, automaton.source.accepting
        if self.maximum is None:
            row = np.ones(len(accepting), dtype=bool)
            row[0] = False
        else:
            row = (
                accepting if self.maximum >= self.minimum else np.zeros(len(accepting), dtype=bool)
            )
        rows = [row]
        used = self.cap - 1
        while used >= 0:
            before: NDArray[np.bool_] = np.any(row[table], axis=1)
            if used >= self.minimum:
                before |= accepting
            if (before == row).all() and (used >= self.minimum or used < self.minimum - 1):
                stop = self.minimum if used >= self.minimum else 0
                rows += [row] * (used - stop + 1)
                used = stop - 1
                continue
            row = before
            rows.append(row)
            used -= 1
        rows.reverse()
        return rows
