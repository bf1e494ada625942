"""Arrays: items by position, counted, counted by kind, or each value once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from attrs import define, field, frozen

from infernix_constraints.json_schema import ArrayShape
from infernix_json_masks.machine import (
    BLANKS,
    MAX_BLANKS,
    Below,
    Frame,
    Machine,
    State,
    popped,
)
from infernix_json_masks.values import BeforeValue, Plans, ValuePlan

CLOSE: Final = 0x5D
COMMA: Final = 0x2C


@define(eq=False)
class ArrayPlan:
    """One array shape.

    Attributes:
        prefix: Plans of the first positions, where they are not the shape's nodes.
        cap: Beyond so many items, more of them make no difference.
        shared: Equal shapes of other schemas have the same plan.
    """

    shape: ArrayShape
    plans: Plans
    shared: bool = False
    prefix: Sequence[Callable[[], ValuePlan]] | None = None
    cap: int = field(init=False)
    _single: dict[int, ValuePlan] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        shape = self.shape
        size = len(shape.prefix if self.prefix is None else self.prefix)
        self.cap = max(shape.minimum, shape.maximum or 0, size)

    def open(self, below: Below, machine: Machine) -> list[State]:
        """The states behind the opening bracket: the end, and each first item."""
        start = Items(self)
        states: list[State] = [(EmptyArray(self.plans.blanks), below)] if start.may_close else []
        return [*states, *start.next_values(below, machine)]

    def at(self, position: int) -> ValuePlan | None:
        """The plan of an item by its position; None when there is none."""
        shape = self.shape
        if self.prefix is not None:
            return self.prefix[position]() if position < len(self.prefix) else None
        if position < len(shape.prefix):
            return self.plans.node(shape.prefix[position])
        return None if shape.items is None else self.plans.node(shape.items)

    def value(self, index: int) -> ValuePlan:
        """The plan of one of the values that occur once each."""
        found = self._single.get(index)
        if found is None:
            assert self.shape.unique is not None
            found = self._single.setdefault(index, self.plans.values((self.shape.unique[index],)))
        return found


@frozen(cache_hash=True)
class Items:
    """How far an array is.

    Attributes:
        count: Items so far, as far as their number matters.
        matching: Items so far of the kind that is counted, as far as their number matters.
        used: The values that occurred, as bits.
    """

    plan: ArrayPlan
    count: int = 0
    matching: int = 0
    used: int = 0

    @property
    def may_close(self) -> bool:
        """Whether the array may end."""
        shape = self.plan.shape
        contains = shape.contains
        return self.count >= shape.minimum and (
            contains is None or self.matching >= contains.minimum
        )

    def options(self) -> list[tuple[ValuePlan, Items]]:
        """What the next item may be, and the array behind it."""
        plan, shape = self.plan, self.plan.shape
        if shape.maximum is not None and self.count >= shape.maximum:
            return []
        count = min(self.count + 1, plan.cap)
        if shape.unique is not None:
            return [
                (plan.value(index), Items(plan, count, 0, self.used | 1 << index))
                for index in range(len(shape.unique))
                if not self.used >> index & 1
            ]
        contains = shape.contains
        if contains is None:
            value = plan.at(self.count)
            return [] if value is None else [(value, Items(plan, count))]
        found = []
        if contains.maximum is None or self.matching < contains.maximum:
            cap = contains.minimum if contains.maximum is None else contains.maximum
            more = Items(plan, count, min(self.matching + 1, cap))
            found.append((plan.plans.node(contains.matching), more))
        missing = contains.minimum - self.matching
        room = float("inf") if shape.maximum is None else shape.maximum - self.count - 1
        if contains.other is not None and room >= missing:
            other = Items(plan, count, self.matching)
            found.append((plan.plans.node(contains.other), other))
        return found

    def next_values(self, below: Below, machine: Machine) -> list[State]:
        """The states before the next item."""
        blanks = self.plan.plans.blanks
        return [
            (BeforeValue(value, blanks), (machine.thread(AfterItem(after, blanks), below),))
            for value, after in self.options()
        ]


@frozen(cache_hash=True)
class EmptyArray(Frame):
    """Behind an opening bracket, where the array ends."""

    blanks: int = 0

    @property
    def room(self) -> int | None:
        """See :class:`Frame`."""
        return MAX_BLANKS - self.blanks

    def unblanked(self) -> Frame:
        """See :class:`Frame`."""
        return EmptyArray()

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return True

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte == CLOSE:
            return popped(below)
        if byte in BLANKS and self.blanks < MAX_BLANKS:
            return ((EmptyArray(self.blanks + 1), below),)
        return ()

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return (*BLANKS, CLOSE)


@frozen(cache_hash=True)
class AfterItem(Frame):
    """Behind an item."""

    items: Items
    blanks: int = 0

    @property
    def room(self) -> int | None:
        """See :class:`Frame`."""
        return MAX_BLANKS - self.blanks

    def unblanked(self) -> Frame:
        """See :class:`Frame`."""
        return AfterItem(self.items)

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.items.plan.shared

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        if byte == COMMA:
            return self.items.next_values(below, machine)
        if byte == CLOSE:
            return popped(below) if self.items.may_close else ()
        if byte in BLANKS and self.blanks < MAX_BLANKS:
            return ((AfterItem(self.items, self.blanks + 1), below),)
        return ()

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return (*BLANKS, COMMA, CLOSE)
