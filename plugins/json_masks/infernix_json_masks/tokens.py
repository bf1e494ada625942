"""Words in order: token spellings, or what stands behind the closing quote in them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from infernix_json_masks.characters import RawEnd
from infernix_json_masks.contents import StringContents

Indices = NDArray[np.int64]


@define(eq=False)
class Words:
    """Different byte strings in ascending order, and the numbers that each stands for.

    A range of words that share their first bytes is a node of their trie, without a trie being built.

    Attributes:
        words: The byte strings, none of them empty unless it is the first.
        numbers: Per word, in order, what it stands for (token ids, or places of other words).
        starts: Word i stands for ``numbers[starts[i]:starts[i + 1]]``; one more than there are words.
    """

    words: list[bytes]
    numbers: Indices
    starts: Indices
    _contents: dict[tuple[int, int, int, RawEnd | None], StringContents] = field(
        init=False, factory=dict
    )
    _stripped: dict[tuple[int, int, int], Stripped] = field(init=False, factory=dict)

    @classmethod
    def of(cls, spellings: Sequence[bytes], numbers: Sequence[int]) -> Words:
        """Sorts and groups; ``numbers[i]`` is spelled ``spellings[i]``."""
        order = sorted(range(len(spellings)), key=spellings.__getitem__)
        words: list[bytes] = []
        starts: list[int] = []
        for place, index in enumerate(order):
            word = spellings[index]
            if not words or word != words[-1]:
                words.append(word)
                starts.append(place)
        starts.append(len(order))
        array = np.asarray(numbers, dtype=np.int64)
        return cls(words, array[order] if order else array, np.asarray(starts, dtype=np.int64))

    def narrow(self, low: int, high: int, depth: int, byte: int) -> tuple[int, int]:
        """Of words ``low`` to ``high`` (exclusive), which share ``depth`` bytes, those that go on with a byte."""
        words = self.words
        prefix = words[low][:depth]
        first = bisect_left(words, prefix + bytes((byte,)), low, high)
        if first == high or words[first][depth] != byte:
            return high, high
        last = (
            high if byte == 0xFF else bisect_left(words, prefix + bytes((byte + 1,)), first, high)
        )
        return first, last

    def numbers_of(self, places: Indices) -> Indices:
        """What these words stand for."""
        if len(self.numbers) == len(self.words):
            return self.numbers[places]
        return self.numbers[self.expand(places)]

    def contents(
        self, low: int, high: int, depth: int, end: RawEnd | None = None
    ) -> StringContents:
        """The words of a range, read from ``depth`` on as the inside of a JSON string, or of a raw text that
        ends so; made once.
        """
        key = low, high, depth, end
        found = self._contents.get(key)
        if found is None:
            tails = [word[depth:] for word in self.words[low:high]]
            found = self._contents.setdefault(key, StringContents.of(tails, low, end))
        return found

    def stripped(self, low: int, high: int, depth: int) -> Stripped:
        """The words of a range, from ``depth`` on, without the blanks that they begin with; made once."""
        key = low, high, depth
        found = self._stripped.get(key)
        if found is None:
            tails = [word[depth:] for word in self.words[low:high]]
            rests = [tail.lstrip(b" \t\n\r") for tail in tails]
            blanks = [len(tail) - len(rest) for tail, rest in zip(tails, rests, strict=True)]
            words = Words.of(rests, range(low, high))
            lengths = np.asarray(blanks, dtype=np.int64)[words.numbers - low]
            found = self._stripped.setdefault(key, Stripped(words, lengths, max(blanks)))
        return found

    def expand(self, places: Indices) -> Indices:
        """For each of these words in turn, the positions in ``numbers`` of what it stands for."""
        counts = self.starts[places + 1] - self.starts[places]
        offsets = np.repeat(self.starts[places] - np.cumsum(counts) + counts, counts)
        return offsets + np.arange(len(offsets))

    def every_contents(self) -> Iterator[StringContents]:
        """Those that were made."""
        yield from list(self._contents.values())

    @property
    def memory_size(self) -> int:
        """Approximate bytes of the words and of what was made from them."""
        own = 100 * len(self.words) + self.numbers.nbytes + self.starts.nbytes
        return own + sum(contents.memory_size for contents in self.every_contents())


@define(eq=False)
class Stripped:
    """Words without their leading blanks.

    Attributes:
        words: What is left of them; they stand for places of the words that they come from.
        blanks: Per number of ``words``, in order, how many blanks there were.
        longest: The most of them.
    """

    words: Words
    blanks: Indices
    longest: int
