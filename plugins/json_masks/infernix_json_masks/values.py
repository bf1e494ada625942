"""The ways in which a value begins, and the frame before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from infernix_json_masks.characters import QUOTE
from infernix_json_masks.machine import Below, Machine, Spaced, State
from infernix_json_masks.texts import InScalar, InString, InTexts

if TYPE_CHECKING:
    from infernix_json_masks.arrays import ArrayPlan
    from infernix_json_masks.objects import BeforeMember

OPEN_OBJECT: Final = 0x7B
OPEN_ARRAY: Final = 0x5B


@define(eq=False)
class ValuePlan:
    """The ways in which one node's values begin.

    Attributes:
        strings: String values by what they must satisfy.
        texts: Lists of string values.
        scalars: Bare scalars.
        objects: Objects, behind their opening braces.
        arrays: Arrays.
        shared: Equal nodes of other schemas have the same plan.
    """

    strings: list[InString] = field(factory=list)
    texts: list[InTexts] = field(factory=list)
    scalars: list[InScalar] = field(factory=list)
    objects: list[BeforeMember] = field(factory=list)
    arrays: list[ArrayPlan] = field(factory=list)
    shared: bool = False

    def begin(self, byte: int, below: Below, machine: Machine) -> list[State]:
        """The states after a value's first byte."""
        if byte == QUOTE:
            return [(frame, below) for frame in (*self.strings, *self.texts)]
        if byte == OPEN_OBJECT:
            return [(frame, below) for frame in self.objects]
        if byte == OPEN_ARRAY:
            return [state for plan in self.arrays for state in plan.open(below, machine)]
        return [state for frame in self.scalars for state in frame.step(byte, below, machine)]

    def bytes(self) -> set[int]:
        """The bytes with which a value may begin."""
        found: set[int] = set()
        if self.strings or self.texts:
            found.add(QUOTE)
        if self.objects:
            found.add(OPEN_OBJECT)
        if self.arrays:
            found.add(OPEN_ARRAY)
        for frame in self.scalars:
            found.update(frame.texts.edges[frame.state])
        return found


@frozen(cache_hash=True)
class BeforeValue(Spaced):
    """Where a value is due, after some blanks."""

    plan: ValuePlan

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.plan.shared

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        return self.plan.begin(byte, below, machine)

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return self.plan.bytes()
