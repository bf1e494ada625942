"""Words as the inside of a JSON string or a raw text: their characters as a trie, and where they leave it.

Whatever a string must satisfy is decided here for all words at once: a word's characters are a path of the trie,
so one pass over the trie, level by level, gives the automaton's state behind every word.
"""

from __future__ import annotations

import codecs
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_json_masks.characters import (
    BACKSLASH,
    INVALID,
    MORE,
    QUOTE,
    RawEnd,
    character,
    raw_character,
)

if TYPE_CHECKING:
    from infernix_json_masks.automata import TextAutomaton
    from infernix_json_masks.tokens import Words

Indices = NDArray[np.int64]
Nodes = NDArray[np.int32]

#: Bytes of automaton states that one set of contents keeps.
_STATES_KEPT = 16 << 20


@frozen(eq=False, slots=False)
class StringContents:
    """Words from inside a string, where a character begins.

    A word is *inner* when it ends with a character still inside the string, *open* when it ends within the
    spelling of one, *outer* when it holds the closing quote. Words that are none of these cannot stand here. In a raw
    text, the first byte of what ends it stands for the quote; where that may also be a character of the text, a word
    that holds it is outer for each place where the rest of the end may follow, and inner or open besides.

    Attributes:
        characters: Different code points of the trie, ascending, int64.
        level: The first node of each level; level 0 is the root, node 0. One more than there are levels.
        parent: Per node, its parent.
        letter: Per node, the place of its character in ``characters``.
        children: Per node, its first child; those of one node are neighbours. One more than there are nodes.
        inner: Places of inner words; ``inner_node`` and ``inner_length`` are their nodes and characters.
        open: The same for open words, without the unfinished character; ``open_kind`` is the place of what
            is unfinished in ``unfinished``.
        outer: The same for outer words, up to the quote, by ascending ``outer_rest``: the place of what
            follows the quote in ``rests``.
        outer_text: Per outer word, the text before the quote.
        outer_at: Places in ``outer`` by the text before the quote, for single texts.
    """

    characters: Indices
    level: list[int]
    parent: Nodes
    letter: Nodes
    children: Nodes
    inner: Indices
    inner_node: Indices
    inner_length: Indices
    open: Indices
    open_node: Indices
    open_length: Indices
    open_kind: Indices
    unfinished: tuple[bytes, ...]
    outer: Indices
    outer_node: Indices
    outer_length: Indices
    outer_rest: Indices
    rests: Words
    outer_text: tuple[str, ...]
    outer_at: dict[str, tuple[int, ...]]
    _states: OrderedDict[tuple[int, int], tuple[TextAutomaton, Nodes]] = field(
        init=False, factory=OrderedDict, repr=False
    )

    @classmethod
    def of(cls, tails: Sequence[bytes], first: int, end: RawEnd | None = None) -> StringContents:
        """Reads words.

        Args:
            tails: Their bytes from inside the string on.
            first: The place of the first one.
            end: What ends the text, where it is a raw one.
        """
        return _read(tails, first, end)

    @property
    def longest(self) -> int:
        """Most characters of a word inside the string."""
        return len(self.level) - 2

    def inner_between(self, least: int, most: int) -> tuple[Indices, Indices, Indices]:
        """Inner words of so many characters, their nodes and their lengths."""
        order = self._by_length
        first, last = np.searchsorted(self.inner_length[order], [least, most + 1]).tolist()
        chosen = order[first:last]
        return self.inner[chosen], self.inner_node[chosen], self.inner_length[chosen]

    @cached_property
    def quoted(self) -> NDArray[np.bool_]:
        """Per outer word, whether another quote follows the one that leaves the string."""
        flags = np.fromiter((b'"' in word for word in self.rests.words), dtype=bool)
        return flags[self.outer_rest]

    @cached_property
    def leaving(self) -> Words:
        """The rests behind the quote; they stand for the places of the words that they come from."""
        from infernix_json_masks.tokens import Words

        # Outer words stand in the order of their rests, as the rests' own numbers do.
        return Words(self.rests.words, self.outer, self.rests.starts)

    @cached_property
    def _by_length(self) -> Indices:
        return np.argsort(self.inner_length, kind="stable")

    @property
    def memory_size(self) -> int:
        """Approximate bytes."""
        arrays = (
            self.parent,
            self.letter,
            self.inner,
            self.inner_node,
            self.inner_length,
            self.outer,
        )
        own = sum(array.nbytes for array in arrays) + 4 * self.outer.nbytes
        return (
            own
            + sum(states.nbytes for _, states in list(self._states.values()))
            + self.rests.memory_size
        )

    def states(self, automaton: TextAutomaton, start: int) -> Nodes:
        """The automaton's state at every node, when it is ``start`` at the root: int32 [nodes], 0 is dead."""
        key = id(automaton), start
        found = self._states.get(key)
        if found is not None:
            return found[1]
        states = self._run(automaton, start)
        self._states[key] = automaton, states
        while len(self._states) > 1 and len(self._states) * states.nbytes > _STATES_KEPT:
            try:
                self._states.popitem(last=False)
            except KeyError:
                break
        return states

    def _run(self, automaton: TextAutomaton, start: int) -> Nodes:
        flat, width = automaton.flat, len(automaton.source.boundaries)
        classes = automaton.classes(self.characters).astype(np.int32)
        states = np.zeros(len(self.parent), dtype=np.int32)
        states[0] = start
        alive = np.zeros(1, dtype=np.int64)  # the live nodes of a level
        for depth in range(1, len(self.level) - 1):
            first, last = self.level[depth], self.level[depth + 1]
            counts = self.children[alive + 1] - self.children[alive]
            total = int(counts.sum())
            if not total:
                break
            if total * 2 < last - first:
                offsets = np.repeat(self.children[alive] - np.cumsum(counts) + counts, counts)
                nodes = offsets + np.arange(total)
                before = np.repeat(states[alive], counts)
                reached = flat[before * width + classes[self.letter[nodes]]]
                states[nodes] = reached
                alive = nodes[reached != 0]
            else:
                before = states[self.parent[first:last]]
                reached = flat[before * width + classes[self.letter[first:last]]]
                states[first:last] = reached
                alive = np.flatnonzero(reached) + first
        return states


def _split(word: bytes) -> tuple[str, bytes, bytes | None] | None:
    """The characters, what is unfinished, and what follows the quote (None without one); None if impossible."""
    quote = word.find(b'"')
    inside = word if quote < 0 else word[:quote]
    if BACKSLASH not in inside:
        try:
            text = inside.decode()
        except UnicodeDecodeError:
            pass
        else:
            if text.isprintable() or min(text) >= " ":
                return text, b"", None if quote < 0 else word[quote + 1 :]
            return None
    characters: list[str] = []
    spelling = b""
    for place, byte in enumerate(word):
        if not spelling and byte == QUOTE:
            return "".join(characters), b"", word[place + 1 :]
        spelling += bytes((byte,))
        found = character(spelling)
        if found == INVALID:
            return None
        if found != MORE:
            characters.append(chr(found))
            spelling = b""
    return "".join(characters), spelling, None


def _split_raw(word: bytes, end: RawEnd) -> Iterator[tuple[str, bytes, bytes | None]]:
    """The same for a raw text, for each way to read the word."""
    mark, rest = end.bytes[:1], end.bytes[1:]
    place = word.find(mark)
    while place >= 0:
        after = word[place + 1 :]
        if after.startswith(rest) or rest.startswith(after):
            try:
                yield word[:place].decode(), b"", after
            except UnicodeDecodeError:
                return
        if not end.inside:
            return
        place = word.find(mark, place + 1)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        text = decoder.decode(word)
    except UnicodeDecodeError:
        return
    unfinished = decoder.getstate()[0]
    # The decoder takes the first two bytes of a surrogate for a beginning.
    if not unfinished or raw_character(unfinished) == MORE:
        yield text, unfinished, None


@define
class _Trie:
    """A trie of texts that come in ascending order, in depth-first order."""

    parents: list[int] = field(factory=lambda: [0])
    letters: list[str] = field(factory=lambda: [""])
    depths: list[int] = field(factory=lambda: [0])
    path: list[int] = field(factory=lambda: [0])
    last: str = ""

    def add(self, text: str) -> int:
        """The node of a text."""
        last, path = self.last, self.path
        shared = 0
        most = min(len(last), len(text))
        while shared < most and last[shared] == text[shared]:
            shared += 1
        del path[shared + 1 :]
        for depth in range(shared, len(text)):
            self.parents.append(path[-1])
            self.letters.append(text[depth])
            self.depths.append(depth + 1)
            path.append(len(self.parents) - 1)
        self.last = text
        return path[-1]


def _read(tails: Sequence[bytes], first: int, end: RawEnd | None) -> StringContents:
    from infernix_json_masks.tokens import Words

    read: list[tuple[str, bytes, bytes | None, int]] = []
    for place, tail in enumerate(tails, first):
        if end is None:
            found = _split(tail)
            if found is not None:
                read.append((*found, place))
        else:
            read += [(*way, place) for way in _split_raw(tail, end)]
    read.sort(key=lambda entry: entry[0])
    trie = _Trie()
    inner: list[tuple[int, int, int]] = []
    unfinished: dict[bytes, int] = {}
    opened: list[tuple[int, int, int, int]] = []
    outer: list[tuple[bytes, int, int, int, str]] = []
    outer_at: dict[str, list[int]] = {}
    for text, rest, after, place in read:
        node, length = trie.add(text), len(text)
        if after is not None:
            outer.append((after, place, node, length, text))
        elif rest:
            opened.append((place, node, length, unfinished.setdefault(rest, len(unfinished))))
        else:
            inner.append((place, node, length))
    outer.sort(key=lambda entry: entry[:2])
    for index, entry in enumerate(outer):
        outer_at.setdefault(entry[4], []).append(index)
    order = np.argsort(np.asarray(trie.depths, dtype=np.int32), kind="stable")
    position = np.empty(len(order), dtype=np.int64)
    position[order] = np.arange(len(order))
    parent = position[np.asarray(trie.parents, dtype=np.int64)[order]]
    # Children stand in the order of their parents; the root is no child of its own.
    counts = np.bincount(parent[1:], minlength=len(order))
    children = np.concatenate([[1], 1 + np.cumsum(counts)])
    points = np.asarray([ord(letter) if letter else 0 for letter in trie.letters], dtype=np.int64)
    characters, letter = np.unique(points[order], return_inverse=True)
    sizes = np.bincount(np.asarray(trie.depths))
    level = [0, *np.cumsum(sizes).tolist()]

    def columns(rows: Sequence[tuple[int, ...]], count: int) -> list[Indices]:
        array = np.asarray(rows, dtype=np.int64).reshape(len(rows), count)
        return [np.ascontiguousarray(array[:, column]) for column in range(count)]

    inner_places, inner_node, inner_length = columns(inner, 3)
    open_places, open_node, open_length, open_kind = columns(opened, 4)
    outer_places, outer_node, outer_length = columns([entry[1:4] for entry in outer], 3)
    rests = Words.of([entry[0] for entry in outer], range(len(outer)))
    rest_of = np.repeat(np.arange(len(rests.words)), np.diff(rests.starts))
    return StringContents(
        characters=characters,
        level=level,
        parent=parent.astype(np.int32),
        letter=letter.reshape(-1).astype(np.int32),
        children=children.astype(np.int32),
        inner=inner_places,
        inner_node=position[inner_node],
        inner_length=inner_length,
        open=open_places,
        open_node=position[open_node],
        open_length=open_length,
        open_kind=open_kind,
        unfinished=tuple(unfinished),
        outer=outer_places,
        outer_node=position[outer_node],
        outer_length=outer_length,
        outer_rest=rest_of,
        rests=rests,
        outer_text=tuple(entry[4] for entry in outer),
        outer_at={text: tuple(places) for text, places in outer_at.items()},
    )
