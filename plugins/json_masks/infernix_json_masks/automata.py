"""What strings must satisfy: an automaton over their characters, and how many there may be."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property, lru_cache

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_constraints.strings.automaton import StringAutomaton
from infernix_json_masks.characters import RawEnd, completions

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


@lru_cache(maxsize=128)
def text_automaton(source: StringAutomaton) -> TextAutomaton:
    """The one :class:`TextAutomaton` of an automaton."""
    return TextAutomaton(source)


@frozen
class Inside:
    """Where a text is.

    Attributes:
        bounds: What it must satisfy.
        state: The state of its automaton; 1 without one.
        used: Characters so far, as far as they matter.
        end: What ends it, where it is a raw one.
    """

    bounds: Bounds
    state: int = 1
    used: int = 0
    end: RawEnd | None = None


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
    _starts: list[int] = field(init=False, factory=list)
    _rows: list[NDArray[np.uint8]] = field(init=False, factory=list)
    _free: int = field(init=False, default=-1)

    def __attrs_post_init__(self) -> None:
        if self.automaton is None or not self.bounded:
            return
        self._find_viable(self.automaton)
        alive = np.ones(self.automaton.source.states, dtype=bool)
        alive[0] = False
        every = np.packbits(alive)
        for place, row in enumerate(self._rows):
            if not np.array_equal(row, every):
                break
            last = place + 1 == len(self._rows)
            self._free = self.cap if last else self._starts[place + 1] - 1

    @property
    def bounded(self) -> bool:
        """Whether the length matters at all."""
        return self.minimum > 0 or self.maximum is not None

    @property
    def standard(self) -> bool:
        """Worth knowing for all schemas: no count makes states of its own."""
        return not self.bounded

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
        assert self.automaton is not None
        row = np.unpackbits(self._row(used), count=self.automaton.source.states)
        return row.view(np.bool_)

    def _row(self, used: int) -> NDArray[np.uint8]:
        return self._rows[bisect_right(self._starts, min(used, self.cap)) - 1]

    def admits(self, state: int, used: int) -> bool:
        """Whether a string can go on from a state behind so many characters."""
        if self.maximum is not None and used > self.maximum:
            return False
        if self.automaton is None:
            return True
        if not self._rows:
            return state != 0
        return bool(self._row(used)[state >> 3] >> (7 - (state & 7)) & 1)

    def ends(self, state: int, used: int) -> bool:
        """Whether the string may end there."""
        if used < self.minimum or (self.maximum is not None and used > self.maximum):
            return False
        return self.automaton is None or self.automaton.accepting[state]

    def _find_viable(self, automaton: TextAutomaton) -> None:
        """From the greatest length back to none: a state is viable with u characters when it accepts and u is
        at least the minimum, or when a next state is viable with u + 1. Without a maximum, more characters
        than the minimum change nothing.

        Equal rows one behind the other are kept once, with the least u that has them. Once a row equals the
        one behind it, so do all before it, up to the minimum: a great maximum costs no more than a small one.
        """
        table, accepting = automaton.table, automaton.source.accepting
        row = accepting
        if self.maximum is None:
            row = np.ones(len(accepting), dtype=bool)
            row[0] = False
        starts, rows = [self.cap], [row]
        used = self.cap - 1
        while used >= 0:
            before: NDArray[np.bool_] = np.any(row[table], axis=1)
            if used >= self.minimum:
                before |= accepting
            if not np.array_equal(before, row):
                starts.append(used)
                rows.append(before)
                row = before
            elif used == self.minimum - 1:
                starts[-1] = used
            else:
                starts[-1] = self.minimum if used >= self.minimum else 0
            used = starts[-1] - 1
        starts.reverse()
        self._starts = starts
        self._rows = [np.packbits(each) for each in reversed(rows)]


@lru_cache(maxsize=64)
def free_bounds(automaton: TextAutomaton | None) -> Bounds:
    """The bounds of texts of any length."""
    return Bounds(automaton, 0, None)
