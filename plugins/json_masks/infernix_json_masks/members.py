"""Frames of members in a framing of their own: where one is due, and inside names of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from infernix_json_masks.automata import Inside, free_bounds
from infernix_json_masks.characters import INVALID, MORE, RawEnd, following, raw_character
from infernix_json_masks.contents import StringContents
from infernix_json_masks.literals import InLiterals
from infernix_json_masks.machine import (
    Below,
    Frame,
    InText,
    Leaving,
    Machine,
    State,
    beyond,
    bytes_beyond,
)
from infernix_json_masks.object_plans import Progress

if TYPE_CHECKING:
    from infernix_json_masks.member_plans import DeclaredMembers, OpenMembers

LINE_BREAK: Final = 0x0A
NAME_END: Final = RawEnd(b"\n", inside=False)


@frozen(cache_hash=True)
class InDeclared(InLiterals):
    """Where a declared member is due, and inside its opening and its name. At the beginning, what is below may
    come instead, when enough members did.

    Attributes:
        first: The first member, in declared order, that may come.
        last: The last one.
    """

    plan: DeclaredMembers
    progress: Progress
    first: int
    last: int

    @property
    def complete(self) -> bool:
        """See :class:`Frame`."""
        return not self.depth and self.progress.may_close

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        states = [state for state in super().step(byte, below, machine) if _possible(state[0])]
        return states + beyond(byte, below, machine) if self.complete else states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        found = set(super().bytes(below))
        return found | bytes_beyond(below) if self.complete else found

    def closed(self, place: int, below: Below, machine: Machine) -> Sequence[State]:
        """See :class:`InLiterals`."""
        member = int(self.plan.places[place])
        if not self.first <= member <= self.last:
            return ()
        return self.plan.value(member, self.progress.after_member(member), below, machine)


def _possible(frame: Frame) -> bool:
    """Whether a member that may come begins as what was read; all of a name's beginnings are in one set."""
    if not isinstance(frame, InDeclared):
        return True
    places = frame.plan.places[frame.low : frame.high]
    return bool(np.any((frame.first <= places) & (places <= frame.last)))


@frozen(cache_hash=True)
class InOpening(Frame):
    """Where a member of any name is due, and inside its opening. At the beginning, what is below may come instead.

    Attributes:
        used: Names so far.
        offset: Bytes of the opening that were read.
    """

    plan: OpenMembers
    used: frozenset[str]
    offset: int = 0

    @property
    def complete(self) -> bool:
        """See :class:`Frame`."""
        return not self.offset

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return not self.used

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        states: list[State] = []
        opening = self.plan.framing.opening
        if byte == opening[self.offset]:
            offset = self.offset + 1
            after: Frame = evolve(self, offset=offset)
            if offset == len(opening):
                after = InOpenName(self.plan, self.used)
            states.append((after, below))
        return states + beyond(byte, below, machine) if self.complete else states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        found = {self.plan.framing.opening[self.offset]}
        return found | bytes_beyond(below) if self.complete else found


@frozen(cache_hash=True)
class InOpenName(InText):
    """Inside a name of any kind, and what ends it. A name has no line break, so the first one ends it.

    Attributes:
        used: Names so far.
        text: What was read so far.
        spelling: Bytes of a character in the making.
    """

    plan: OpenMembers
    used: frozenset[str]
    text: str = ""
    spelling: bytes = b""

    @property
    def wide(self) -> bool:
        """See :class:`Frame`."""
        return not self.spelling

    @property
    def inside(self) -> Inside:
        """See :class:`InText`."""
        return Inside(free_bounds(None), end=NAME_END)

    def leaving(
        self, contents: StringContents, ends: NDArray[np.bool_], below: Below, machine: Machine
    ) -> Iterable[Leaving]:
        """See :class:`InText`."""
        opening = self.plan.framing.opening
        usual: list[int] = []
        for index, text in enumerate(contents.outer_text):
            name = self.name(text)
            if name is None:
                continue
            # Which name it was matters for the names after it alone: for words that hold the next opening.
            if opening in contents.rests.words[int(contents.outer_rest[index])]:
                yield np.asarray([index]), self.closed(name, below, machine)
            else:
                usual.append(index)
        if usual:
            yield np.asarray(usual), self.closed("", below, machine)

    def name(self, text: str) -> str | None:
        """The name that a line break behind these characters ends; None when it ends none, or one that was used."""
        naming = self.plan.framing.naming[:-1].decode()
        text = self.text + text
        name = text.removesuffix(naming)
        if not text.endswith(naming) or not name or name in self.used:
            return None
        return name

    def closed(self, name: str, below: Below, machine: Machine) -> list[State]:
        """The states behind a name."""
        return self.plan.value(self.used | {name}, below, machine)

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte == LINE_BREAK and not self.spelling:
            name = self.name("")
            return () if name is None else self.closed(name, below, machine)
        spelling = self.spelling + bytes((byte,))
        found = raw_character(spelling)
        if found == INVALID:
            return ()
        if found == MORE:
            return ((evolve(self, spelling=spelling), below),)
        return ((evolve(self, text=self.text + chr(found), spelling=b""), below),)

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return following(self.spelling)
