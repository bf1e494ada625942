"""From a configuration to the legal tokens: one walk over the words, whole strings at a time where many fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_core.interfaces.mask_provider import MaskRow
from infernix_json_masks.contents import StringContents
from infernix_json_masks.inside_strings import words_inside
from infernix_json_masks.machine import (
    BLANKS,
    HOLE,
    Below,
    Configuration,
    Frame,
    InText,
    Machine,
    Spaced,
    Thread,
    first_bytes,
)
from infernix_json_masks.summaries import Exits, Found, Summary, lifted
from infernix_json_masks.tokens import Indices, Words
from infernix_json_masks.vocabulary import TokenIndex

_FIRST: Final = np.ones(1, dtype=bool)

#: Ranges of at most so many words are read word by word.
_FEW_WORDS: Final = 12

#: Bytes of summaries that are kept for one grammar, and for all of them together.
MAX_SUMMARY_BYTES: Final = 32 << 20
MAX_SHARED_BYTES: Final = 64 << 20


@frozen(eq=False)
class Mask:
    """The legal tokens of one state.

    Attributes:
        base: int32 [words], shared with other masks, or None: nothing.
        places: Words of the mask that differ from the base, ascending.
        values: Their bits.
        empty: Nothing is legal.
        own: The base is this mask's alone.
    """

    base: MaskRow | None
    places: NDArray[np.intp]
    values: NDArray[np.int32]
    empty: bool
    own: bool = False

    def write(self, row: MaskRow) -> bool:
        """Writes the whole row; whether anything is legal."""
        if self.base is None:
            row.fill(0)
        else:
            row[:] = self.base
        row[self.places] = self.values
        return not self.empty

    @property
    def memory_size(self) -> int:
        """Bytes, the shared base left out."""
        row = self.base.nbytes if self.own and self.base is not None else 0
        return 200 + self.places.nbytes + self.values.nbytes + row


@define(eq=False)
class MaskMaker:
    """Makes the masks of one machine over one vocabulary."""

    machine: Machine
    index: TokenIndex
    _summaries: dict[tuple[Frame, int], tuple[Summary, Words]] = field(init=False, factory=dict)
    _summary_bytes: int = field(init=False, default=0)
    _flag_bytes: int = field(init=False, default=0)

    @property
    def memory_size(self) -> int:
        """Approximate bytes of what is kept for this machine alone."""
        return self._summary_bytes + self._flag_bytes

    def forget(self) -> None:
        """Drops it, as the machine drops its configurations."""
        self._summaries, self._summary_bytes, self._flag_bytes = {}, 0, 0

    def mask(self, configuration: Configuration, tokens: list[int], bases: list[MaskRow]) -> Mask:
        """The mask of a configuration at the beginning of a token.

        Args:
            configuration: Where the text is.
            tokens: Tokens that are legal by their id.
            bases: Rows of such tokens.
        """
        words = self.index.words
        groups: list[Indices] = []
        bases = list(bases)
        for thread in configuration.reachable:
            summary = self._summary(thread.frame, words)
            groups.append(summary.inner)
            if summary.base is not None:
                bases.append(summary.base)
            groups += self._through(summary, thread)
        places = groups[0] if len(groups) == 1 else np.concatenate(groups)
        ids = words.numbers_of(places)
        if tokens:
            ids = np.concatenate([ids, np.asarray(tokens, dtype=np.int64)])
        base = _united(bases)
        at, values = _bits(ids)
        if base is not None and len(at):
            values = values | base[at]
        return Mask(base, at, values, base is None and not len(at), len(bases) > 1)

    def _through(self, summary: Summary, thread: Thread) -> list[Indices]:
        """The words that lead out of a thread's frame and fit what is below."""
        if not thread.below or not summary.exits:
            return []
        below = self.machine.of(thread.below)
        return [
            exits.places[self._flags(below, exits.words)[exits.rests]] for exits in summary.exits
        ]

    def _flags(self, configuration: Configuration, words: Words) -> NDArray[np.bool_]:
        """Per word of a list, whether it can follow."""
        known = configuration.flags.get(id(words))
        if known is not None:
            return known[0]
        if len(words.words) <= _FEW_WORDS:
            run = self.machine.run
            flags = np.array([run(configuration, word) is not None for word in words.words])
        else:
            flags = np.zeros(len(words.words), dtype=bool)
            for thread in configuration.reachable:
                summary = self._summary(thread.frame, words)
                flags[summary.inner] = True
                for places in self._through(summary, thread):
                    flags[places] = True
        # The words are kept, so that their identity stays theirs.
        configuration.flags[id(words)] = flags, words
        self._flag_bytes += 100 + flags.nbytes
        return flags

    def _summary(self, frame: Frame, words: Words) -> Summary:
        """What a frame makes of a list of words; made once."""
        key = frame, id(words)
        known = (self.index.summaries if frame.shared else self._summaries).get(key)
        if known is not None:
            return known[0]
        found = Found()
        configuration = self.machine.configuration([(frame, (self.machine.thread(HOLE, ()),))])
        assert configuration is not None
        # What leads out at once is below, and asked for there.
        self._within(words, 0, len(words.words), 0, configuration, found)
        base = _united(found.bases)
        exits = found.exits
        if found.left:
            exits = [*exits, self._exits(found.left)]
        own = len(found.bases) > 1 or found.own_rows > 0
        summary = Summary(found.inner(), base, own, tuple(exits))
        self._keep(frame, words, summary)
        return summary

    def _keep(self, frame: Frame, words: Words, summary: Summary) -> None:
        """Keeps a summary; all are dropped when they take too much, since any can be made again."""
        index, size = self.index, summary.memory_size
        if frame.shared:
            if index.summary_bytes + size > MAX_SHARED_BYTES:
                index.summaries, index.summary_bytes = {}, 0
            index.summaries[frame, id(words)] = summary, words
            index.summary_bytes += size
            return
        if self._summary_bytes + size > MAX_SUMMARY_BYTES:
            self._summaries, self._summary_bytes = {}, 0
        self._summaries[frame, id(words)] = summary, words
        self._summary_bytes += size

    def _exits(self, left: list[tuple[bytes, int]]) -> Exits:
        pairs = sorted(set(left))
        words = self.index.words_of(tuple(sorted({rest for rest, _ in pairs})))
        at = {rest: place for place, rest in enumerate(words.words)}
        rests = np.asarray([at[rest] for rest, _ in pairs], dtype=np.int64)
        return Exits(words, rests, np.asarray([place for _, place in pairs], dtype=np.int64))

    def _walk(
        self,
        words: Words,
        low: int,
        high: int,
        depth: int,
        configuration: Configuration,
        found: Found,
    ) -> None:
        """Finds which words of a range can follow, when ``depth`` bytes of them have led here."""
        if configuration.open:
            spelled = words.words
            found.left += [(spelled[place][depth:], place) for place in range(low, high)]
            if configuration.left:
                return
        self._within(words, low, high, depth, configuration, found)

    def _within(
        self,
        words: Words,
        low: int,
        high: int,
        depth: int,
        configuration: Configuration,
        found: Found,
    ) -> None:
        """The same for the words that do not lead out here."""
        if low < high and len(words.words[low]) == depth:
            found.places.append(low)
            low += 1
        if high - low <= _FEW_WORDS:
            for place in range(low, high):
                self._read(words.words[place], place, depth, configuration, found)
            return
        threads = configuration.threads
        wide = [thread for thread in threads if thread.frame.wide]
        if wide:
            for thread in wide:
                self._segment(words, low, high, depth, thread, found)
            threads = tuple(thread for thread in threads if not thread.frame.wide)
            if not threads:
                return
        spaced = [
            (thread.frame, thread.below) for thread in threads if isinstance(thread.frame, Spaced)
        ]
        if len(spaced) == len(threads) and len({frame.blanks for frame, _ in spaced}) == 1:
            self._strip(words, low, high, depth, spaced, found)
            return
        if wide:
            configuration = self.machine.of(threads)
        self._spread(words, low, high, depth, configuration, first_bytes(threads), found)

    def _spread(
        self,
        words: Words,
        low: int,
        high: int,
        depth: int,
        configuration: Configuration,
        following: Sequence[int],
        found: Found,
    ) -> None:
        """Walks on with each of these bytes."""
        machine = self.machine
        for byte in following:
            first, last = words.narrow(low, high, depth, byte)
            if first < last:
                after = machine.step(configuration, byte)
                if after is not None:
                    self._walk(words, first, last, depth + 1, after, found)

    def _read(
        self, word: bytes, place: int, depth: int, configuration: Configuration, found: Found
    ) -> None:
        """One word to its end."""
        machine = self.machine
        current: Configuration | None = configuration
        for at in range(depth, len(word)):
            assert current is not None
            current = machine.step(current, word[at])
            if current is None:
                return
            if current.open:
                found.left.append((word[at + 1 :], place))
        if current is not None and not current.left:
            found.places.append(place)

    def _strip(
        self,
        words: Words,
        low: int,
        high: int,
        depth: int,
        states: Sequence[tuple[Spaced, Below]],
        found: Found,
    ) -> None:
        """Where blanks change nothing: words by what follows their blanks, all lengths of blanks at once."""
        machine = self.machine
        stripped = words.stripped(low, high, depth)
        room = states[0][0].room
        configuration = machine.configuration(
            [(frame.unblanked(), below) for frame, below in states]
        )
        assert configuration is not None
        rests = stripped.words
        inner = Found()
        first = 0
        if rests.words and not rests.words[0]:
            inner.places.append(0)
            first = 1
        following = [byte for byte in first_bytes(configuration.threads) if byte not in BLANKS]
        if first < len(rests.words):
            self._spread(rests, first, len(rests.words), 0, configuration, following, inner)
        positions = rests.expand(inner.inner())
        fits = stripped.blanks <= room
        if stripped.longest > room:
            positions = positions[fits[positions]]
        found.groups.append(rests.numbers[positions])
        for rest, place in inner.left:
            for position in range(int(rests.starts[place]), int(rests.starts[place + 1])):
                if fits[position]:
                    found.left.append((rest, int(rests.numbers[position])))
        for exits in inner.exits:
            found.exits.append(lifted(exits, rests, fits))

    def _segment(
        self, words: Words, low: int, high: int, depth: int, thread: Thread, found: Found
    ) -> None:
        """The same for a thread inside a string where many characters fit."""
        frame = thread.frame
        assert isinstance(frame, InText)
        inside = frame.inside
        contents = words.contents(low, high, depth, inside.end)
        row = words is self.index.words and depth == 0
        ends = words_inside(self.index, contents, inside, found, row=row)
        for outer, states in frame.leaving(contents, ends, thread.below, self.machine):
            after = self.machine.configuration(states)
            if len(outer) != 1 or after is None or after.open:
                self._behind(contents, after, outer, found)
            else:
                rest = contents.rests.words[int(contents.outer_rest[outer[0]])]
                self._read(rest, int(contents.outer[outer[0]]), 0, after, found)

    def _behind(
        self,
        contents: StringContents,
        after: Configuration | None,
        outer: Indices,
        found: Found,
    ) -> None:
        """Adds those of some outer words whose rest behind the quote fits a configuration."""
        if after is None or not len(outer):
            return
        if after.left:
            found.exits.append(
                Exits(contents.rests, contents.outer_rest[outer], contents.outer[outer])
            )
            return
        inner = Found()
        self._walk(contents.rests, 0, len(contents.rests.words), 0, after, inner)
        flags = np.zeros(len(contents.rests.words), dtype=bool)
        flags[inner.inner()] = True
        rests = contents.outer_rest[outer]
        found.groups.append(contents.outer[outer[flags[rests]]])
        chosen = np.zeros(len(contents.outer), dtype=bool)
        chosen[outer] = True
        places = contents.leaving
        for rest, place in inner.left:
            for position in range(int(places.starts[place]), int(places.starts[place + 1])):
                if chosen[position]:
                    found.left.append((rest, int(places.numbers[position])))
        for exits in inner.exits:
            found.exits.append(lifted(exits, places, chosen))


def _united(rows: Sequence[MaskRow]) -> MaskRow | None:
    """The tokens of any of these rows; one row alone is itself and no copy."""
    if len(rows) < 2:
        return rows[0] if rows else None
    united: MaskRow = np.bitwise_or.reduce(rows)
    return united


def _bits(ids: Indices) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Token ids, repeated or not, as words of a mask, each word once."""
    if not len(ids):
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.int32)
    ids = np.sort(ids)
    words = ids >> 5
    bits = np.left_shift(np.uint32(1), (ids & 31).astype(np.uint32))
    starts = np.flatnonzero(np.concatenate((_FIRST, words[1:] != words[:-1])))
    return words[starts], np.bitwise_or.reduceat(bits, starts).view(np.int32)
