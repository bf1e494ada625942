"""Raw text: characters as they are, without quotes and escapes, up to an end that they must not hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from infernix_json_masks.automata import Bounds, Inside
from infernix_json_masks.characters import INVALID, MORE, RawEnd, following, raw_character
from infernix_json_masks.contents import StringContents
from infernix_json_masks.literals import Fixed
from infernix_json_masks.machine import Below, InText, Leaving, Machine, State, popped


@frozen(cache_hash=True)
class InRaw(InText):
    """Inside a raw text.

    Attributes:
        bounds: What the text must satisfy; its automaton admits no text that holds the end.
        state: The automaton's state.
        used: Characters so far, as far as they matter.
        tail: What comes behind the end's first byte: the rest of it, and what always follows.
        ending: How words are read here.
        spelling: Bytes of a character in the making.
    """

    bounds: Bounds
    state: int
    used: int
    tail: bytes
    ending: RawEnd
    spelling: bytes = b""

    @property
    def wide(self) -> bool:
        """See :class:`Frame`."""
        assert self.bounds.automaton is not None
        return not self.spelling and self.bounds.automaton.wide[self.state]

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.bounds.standard

    @property
    def inside(self) -> Inside:
        """See :class:`InText`."""
        return Inside(self.bounds, self.state, self.used, self.ending)

    def leaving(
        self, contents: StringContents, ends: NDArray[np.bool_], below: Below, machine: Machine
    ) -> Iterable[Leaving]:
        """See :class:`InText`."""
        return ((np.flatnonzero(ends), self.behind(below)),)

    def behind(self, below: Below) -> list[State]:
        """The states behind the first byte of the end."""
        return [(Fixed(self.tail), below)] if self.tail else popped(below)

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        bounds, automaton = self.bounds, self.bounds.automaton
        assert automaton is not None
        states: list[State] = []
        if (
            byte == self.ending.bytes[0]
            and not self.spelling
            and bounds.ends(self.state, self.used)
        ):
            states += self.behind(below)
        spelling = self.spelling + bytes((byte,))
        found = raw_character(spelling)
        if found == INVALID:
            return states
        used = self.used + 1
        if found == MORE:
            after = automaton.reachable(self.state, spelling)
            if any(bounds.admits(state, used) for state in after):
                states.append((evolve(self, spelling=spelling), below))
            return states
        state = automaton.step(self.state, found)
        if bounds.admits(state, used):
            after_one = evolve(self, state=state, used=min(used, bounds.cap), spelling=b"")
            states.append((after_one, below))
        return states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        if self.spelling:
            return following(self.spelling)
        assert self.bounds.automaton is not None
        return {self.ending.bytes[0], *utf8_firsts(self.bounds.automaton.following(self.state))}


def utf8_firsts(characters: Iterable[int]) -> set[int]:
    """The first bytes of these characters in UTF-8."""
    return {chr(code).encode()[0] for code in characters if not 0xD800 <= code < 0xE000}
