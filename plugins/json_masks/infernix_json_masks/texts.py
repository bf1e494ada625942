"""Frames inside strings and bare scalars: characters against automata, and against lists of texts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from attrs import define, evolve, frozen
from numpy.typing import NDArray

from infernix_json_masks.automata import Bounds, Inside, TextAutomaton
from infernix_json_masks.characters import (
    BACKSLASH,
    INVALID,
    MORE,
    QUOTE,
    character,
    completions,
    following,
)
from infernix_json_masks.contents import StringContents
from infernix_json_masks.machine import (
    Below,
    Frame,
    InText,
    Leaving,
    Machine,
    State,
    beyond,
    bytes_beyond,
    popped,
)

_ASCII = np.arange(128)


@frozen(cache_hash=True)
class InString(InText):
    """Inside a string value.

    Attributes:
        bounds: What the string must satisfy.
        state: The automaton's state; 1 without an automaton.
        used: Characters so far, as far as they matter.
        spelling: Bytes of a character in the making.
    """

    bounds: Bounds
    state: int
    used: int
    spelling: bytes = b""

    @property
    def wide(self) -> bool:
        """See :class:`Frame`."""
        automaton = self.bounds.automaton
        return not self.spelling and (automaton is None or automaton.wide[self.state])

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.bounds.standard

    @property
    def inside(self) -> Inside:
        """See :class:`InText`."""
        return Inside(self.bounds, self.state, self.used)

    def leaving(
        self, contents: StringContents, ends: NDArray[np.bool_], below: Below, machine: Machine
    ) -> Iterable[Leaving]:
        """See :class:`InText`."""
        return ((np.flatnonzero(ends), popped(below)),)

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        bounds, spelling = self.bounds, self.spelling
        if byte == QUOTE and not spelling:
            return popped(below) if bounds.ends(self.state, self.used) else ()
        spelling += bytes((byte,))
        found = character(spelling)
        if found == INVALID:
            return ()
        used, automaton = self.used + 1, bounds.automaton
        if found == MORE:
            if automaton is None:
                alive = bounds.admits(1, used)
            else:
                alive = any(
                    bounds.admits(state, used)
                    for state in automaton.reachable(self.state, spelling)
                )
            return ((InString(bounds, self.state, self.used, spelling), below),) if alive else ()
        state = 1 if automaton is None else automaton.step(self.state, found)
        if not bounds.admits(state, used):
            return ()
        return ((InString(bounds, state, min(used, bounds.cap)), below),)

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        if self.spelling:
            return following(self.spelling)
        assert self.bounds.automaton is not None
        return character_bytes(self.bounds.automaton.following(self.state))


def character_bytes(characters: Iterable[int]) -> set[int]:
    """The first bytes of these characters' spellings, and the closing quote."""
    found = {QUOTE, BACKSLASH}
    for code in characters:
        if code >= 0x20 and not 0xD800 <= code < 0xE000 and code not in (QUOTE, BACKSLASH):
            found.add(chr(code).encode()[0])
    return found


@define(eq=False)
class TextSet:
    """Different texts in ascending order."""

    texts: list[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> TextSet:
        """Sorts them."""
        return cls(sorted(set(texts)))

    def narrow(self, low: int, high: int, depth: int, character: str) -> tuple[int, int]:
        """Of the texts of a range, which share ``depth`` characters, those that go on with a character."""
        texts = self.texts
        prefix = texts[low][:depth]
        first = bisect_left(texts, prefix + character, low, high)
        if first == high or texts[first][depth : depth + 1] != character:
            return high, high
        if character == "\U0010ffff":
            return first, high
        return first, bisect_left(texts, prefix + chr(ord(character) + 1), first, high)

    def has_between(self, low: int, high: int, depth: int, first: int, last: int) -> bool:
        """Whether a text of the range goes on with a character from ``first`` to ``last``."""
        prefix = self.texts[low][:depth]
        place = bisect_left(self.texts, prefix + chr(first), low, high)
        # A text that is the prefix itself stands before every longer one.
        return place < high and ord(self.texts[place][depth]) <= last

    def following(self, low: int, high: int, depth: int) -> list[int]:
        """The code points with which texts of a range go on."""
        found: list[int] = []
        if len(self.texts[low]) == depth:
            low += 1
        while low < high:
            letter = self.texts[low][depth]
            found.append(ord(letter))
            _, low = self.narrow(low, high, depth, letter)
        return found


@frozen(cache_hash=True)
class TextRange:
    """The texts of a set that begin as what was read so far.

    Attributes:
        low: The first of them.
        high: One past the last of them.
        depth: Characters read.
        spelling: Bytes of a character in the making.
    """

    texts: TextSet
    low: int
    high: int
    depth: int = 0
    spelling: bytes = b""

    @classmethod
    def whole(cls, texts: TextSet) -> TextRange:
        """All texts of a set."""
        return cls(texts, 0, len(texts.texts))

    @property
    def finished(self) -> str | None:
        """The text that was read whole, if it is one of the set."""
        text = self.texts.texts[self.low]
        return text if len(text) == self.depth and not self.spelling else None

    def step(self, byte: int) -> TextRange | None:
        """The range after one more byte that is no closing quote."""
        spelling = self.spelling + bytes((byte,))
        found = character(spelling)
        if found == INVALID:
            return None
        texts, low, high, depth = self.texts, self.low, self.high, self.depth
        if found == MORE:
            possible = any(
                texts.has_between(low, high, depth, *each) for each in completions(spelling)
            )
            return TextRange(texts, low, high, depth, spelling) if possible else None
        low, high = texts.narrow(low, high, depth, chr(found))
        return TextRange(texts, low, high, depth + 1) if low < high else None

    def bytes(self) -> Iterable[int]:
        """A superset of the bytes that have a step, and the closing quote."""
        if self.spelling:
            return following(self.spelling)
        return character_bytes(self.texts.following(self.low, self.high, self.depth))


@frozen(cache_hash=True)
class InListed(Frame):
    """Inside a string that is one of a list of texts."""

    range: TextRange

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte == QUOTE and not self.range.spelling:
            text = self.range.finished
            return self.closed(text, below) if text is not None else ()
        after = self.range.step(byte)
        return ((evolve(self, range=after), below),) if after is not None else ()

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return self.range.bytes()

    def closed(self, text: str, below: Below) -> list[State]:
        """The states behind the closing quote of one of the texts."""
        raise NotImplementedError


@frozen(cache_hash=True)
class InTexts(InListed):
    """Inside a string value that is one of a list of texts."""

    def closed(self, text: str, below: Below) -> list[State]:
        """See :class:`InListed`."""
        return popped(below)


@define(eq=False)
class ScalarTexts:
    """Bare texts such as ``true`` and numbers, as an automaton over bytes: an explicit trie.

    Attributes:
        edges: Per state, the next states by byte.
        final: Per state, whether a text ends there.
        shared: Equal sets of other schemas are this one.
    """

    edges: list[dict[int, int]]
    final: list[bool]
    shared: bool = False

    @classmethod
    def of(cls, texts: Iterable[str]) -> ScalarTexts:
        """The trie of some texts."""
        edges: list[dict[int, int]] = [{}]
        final = [False]
        for text in texts:
            state = 0
            for byte in text.encode():
                after = edges[state].get(byte)
                if after is None:
                    after = edges[state][byte] = len(edges)
                    edges.append({})
                    final.append(False)
                state = after
            final[state] = True
        return cls(edges, final)

    @classmethod
    def automaton(cls, automaton: TextAutomaton) -> ScalarTexts:
        """An automaton whose characters are ASCII."""
        ascii_classes = [
            (code, place) for code, place in enumerate(automaton.classes(_ASCII).tolist())
        ]
        edges = [
            {code: row[place] for code, place in ascii_classes if row[place]}
            for row in automaton.rows
        ]
        start = automaton.source.start
        # The start comes first here, and the dead state is nobody's target.
        edges[0], edges[start] = edges[start], {}
        moved = [
            {code: 0 if target == start else target for code, target in row.items()}
            for row in edges
        ]
        final = list(automaton.accepting)
        final[0], final[start] = final[start], False
        return cls(moved, final, shared=True)


@frozen(cache_hash=True)
class InScalar(Frame):
    """Inside a bare scalar. It ends where what is below goes on."""

    texts: ScalarTexts
    state: int = 0

    @property
    def complete(self) -> bool:
        """See :class:`Frame`."""
        return self.texts.final[self.state]

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.texts.shared

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        states: list[State] = []
        after = self.texts.edges[self.state].get(byte)
        if after is not None:
            if self.texts.edges[after]:
                states.append((InScalar(self.texts, after), below))
            else:
                states += popped(below)
        return states + beyond(byte, below, machine) if self.complete else states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        found = set(self.texts.edges[self.state])
        return found | bytes_beyond(below) if self.complete else found
