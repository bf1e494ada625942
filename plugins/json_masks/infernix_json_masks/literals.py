"""Frames that read given bytes: one text, or one of many."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import define, evolve, field, frozen

from infernix_json_masks.machine import Below, Frame, Machine, State, popped


@frozen(cache_hash=True)
class Fixed(Frame):
    """Where these bytes come, and then what is below.

    Attributes:
        data: Not empty.
        offset: Bytes of it that were read; less than all.
    """

    data: bytes
    offset: int = 0

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return True

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte != self.data[self.offset]:
            return ()
        offset = self.offset + 1
        return popped(below) if offset == len(self.data) else ((Fixed(self.data, offset), below),)

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return (self.data[self.offset],)


@define(eq=False)
class LiteralSet:
    """Different byte strings in ascending order, none of them empty. Compared by identity."""

    texts: list[bytes]

    @classmethod
    def of(cls, texts: Iterable[bytes]) -> tuple[LiteralSet, list[int]]:
        """The set, and for each of its texts the place that it was given at.

        Raises:
            ValueError: Two are equal, or one is empty.
        """
        given = list(texts)
        order = sorted(range(len(given)), key=given.__getitem__)
        found = [given[place] for place in order]
        if not all(found) or any(one == two for one, two in pairwise(found)):
            raise ValueError("the texts of a set are different and not empty")
        return cls(found), order


@frozen(cache_hash=True)
class InLiterals(Frame):
    """Inside one of some texts, those that begin as what was read so far.

    Attributes:
        low: The first of them.
        high: One past the last of them.
        depth: Bytes read.
    """

    texts: LiteralSet
    low: int
    high: int
    depth: int = field(default=0, kw_only=True)

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        texts, depth = self.texts.texts, self.depth
        prefix = texts[self.low][:depth] + bytes((byte,))
        low = bisect_left(texts, prefix, self.low, self.high)
        if low == self.high or not texts[low].startswith(prefix):
            return ()
        high = low
        if byte == 0xFF:
            high = self.high
        else:
            high = bisect_left(texts, prefix[:-1] + bytes((byte + 1,)), low, self.high)
        states: list[State] = []
        if len(texts[low]) == depth + 1:
            states += self.closed(low, below, machine)
            low += 1
        if low < high:
            states.append((evolve(self, low=low, high=high, depth=depth + 1), below))
        return states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        texts, depth, place = self.texts.texts, self.depth, self.low
        found: list[int] = []
        while place < self.high:
            byte = texts[place][depth]
            found.append(byte)
            if byte == 0xFF:
                break
            following = texts[place][:depth] + bytes((byte + 1,))
            place = bisect_left(texts, following, place, self.high)
        return found

    def closed(self, place: int, below: Below, machine: Machine) -> Sequence[State]:
        """The states behind one of the texts."""
        raise NotImplementedError


@frozen(cache_hash=True)
class InOneOf(InLiterals):
    """Inside one of some texts, behind which what is below goes on."""

    def closed(self, place: int, below: Below, machine: Machine) -> Sequence[State]:
        """See :class:`InLiterals`."""
        return popped(below)
