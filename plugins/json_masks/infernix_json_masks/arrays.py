"""Arrays: items by position, counted, counted by kind, or each value once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from infernix_constraints.json_schema import (
    ArrayShape,
    ArrayValue,
    ObjectValue,
    Value,
    scalar_text,
)
from infernix_json_masks.characters import QUOTE
from infernix_json_masks.machine import Below, Frame, Machine, Spaced, State, popped
from infernix_json_masks.texts import InListed, TextRange, TextSet
from infernix_json_masks.values import BeforeValue, ValuePlan

if TYPE_CHECKING:
    from infernix_json_masks.plans import Plans

CLOSE: Final = 0x5D
COMMA: Final = 0x2C

#: Sets of values that did not occur yet which one array keeps.
_LEFT_KEPT: Final = 64


@define(eq=False)
class UniqueValues:
    """The values of an array in which each occurs at most once, by how they are written.

    Attributes:
        strings: The place of each string.
        scalars: The place of each other scalar, by its text.
        others: The places of objects and arrays.
    """

    strings: dict[str, int]
    scalars: dict[str, int]
    others: list[int]

    @classmethod
    def of(cls, values: Sequence[Value]) -> UniqueValues:
        """Sorts them by kind."""
        made = cls({}, {}, [])
        for place, value in enumerate(values):
            if isinstance(value, str):
                made.strings[value] = place
            elif isinstance(value, ArrayValue | ObjectValue):
                made.others.append(place)
            else:
                made.scalars[scalar_text(value)] = place
        return made


@define(eq=False)
class UniqueLeft:
    """The scalars that did not occur yet; None where there are none."""

    strings: TextSet | None
    scalars: TextSet | None

    @classmethod
    def of(cls, values: UniqueValues, used: int) -> UniqueLeft:
        """Those whose bit is not set."""

        def texts(places: dict[str, int]) -> TextSet | None:
            found = [text for text, place in places.items() if not used >> place & 1]
            return TextSet.of(found) if found else None

        return cls(texts(values.strings), texts(values.scalars))


@define(eq=False)
class ArrayPlan:
    """One array shape.

    Attributes:
        prefix: Plans of the first positions, where they are not the shape's nodes.
        cap: Beyond so many items, more of them make no difference.
    """

    shape: ArrayShape
    plans: Plans
    prefix: Sequence[Callable[[], ValuePlan]] | None = None
    cap: int = field(init=False)
    unique: UniqueValues = field(init=False)
    _left: dict[int, UniqueLeft] = field(init=False, factory=dict)
    _single: dict[int, ValuePlan] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        shape = self.shape
        size = len(shape.prefix if self.prefix is None else self.prefix)
        self.cap = max(shape.minimum, shape.maximum or 0, size)
        self.unique = UniqueValues.of(shape.unique or ())

    def open(self, below: Below, machine: Machine) -> list[State]:
        """The states behind the opening bracket: the end, and each first item."""
        start = Items(self)
        states: list[State] = (
            [(EmptyArray(blanks=self.plans.blanks), below)] if start.may_close else []
        )
        return [*states, *start.next_values(below, machine)]

    def at(self, position: int) -> ValuePlan | None:
        """The plan of an item by its position; None when there is none."""
        shape = self.shape
        if self.prefix is not None:
            return self.prefix[position]() if position < len(self.prefix) else None
        if position < len(shape.prefix):
            return self.plans.node(shape.prefix[position])
        return None if shape.items is None else self.plans.node(shape.items)

    def left(self, used: int) -> UniqueLeft:
        """The values that did not occur yet."""
        found = self._left.get(used)
        if found is None:
            found = UniqueLeft.of(self.unique, used)
            if len(self._left) >= _LEFT_KEPT:
                self._left = {}
            found = self._left.setdefault(used, found)
        return found

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
                (plan.value(index), self.after(index))
                for index in plan.unique.others
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

    @property
    def full(self) -> bool:
        """Whether no item may come any more."""
        maximum = self.plan.shape.maximum
        return maximum is not None and self.count >= maximum

    def after(self, index: int) -> Items:
        """Behind one of the values that occur once each."""
        count = min(self.count + 1, self.plan.cap)
        return Items(self.plan, count, 0, self.used | 1 << index)

    def next_values(self, below: Below, machine: Machine) -> list[State]:
        """The states before the next item."""
        blanks = self.plan.plans.blanks
        states: list[State] = []
        if self.plan.shape.unique is not None and not self.full:
            states.append((BeforeUnique(self, blanks=blanks), below))
        return states + [
            (
                BeforeValue(value, blanks=blanks),
                (machine.thread(AfterItem(after, blanks=blanks), below),),
            )
            for value, after in self.options()
        ]


@frozen(cache_hash=True)
class BeforeUnique(Spaced):
    """Where a scalar is due that did not occur yet."""

    items: Items

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        left = self.items.plan.left(self.items.used)
        if byte == QUOTE:
            if left.strings is None:
                return ()
            return ((InUniqueText(TextRange.whole(left.strings), self.items), below),)
        if left.scalars is None:
            return ()
        return InUniqueScalar(self.items, TextRange.whole(left.scalars)).step(byte, below, machine)

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        left = self.items.plan.left(self.items.used)
        found = set[int]()
        if left.strings is not None:
            found.add(QUOTE)
        if left.scalars is not None:
            found.update(left.scalars.following(0, len(left.scalars.texts), 0))
        return found


@frozen(cache_hash=True)
class InUniqueText(InListed):
    """Inside a string that did not occur yet."""

    items: Items

    def closed(self, text: str, below: Below) -> list[State]:
        """See :class:`InListed`."""
        plan = self.items.plan
        after = self.items.after(plan.unique.strings[text])
        return [(AfterItem(after, blanks=plan.plans.blanks), below)]


@frozen(cache_hash=True)
class InUniqueScalar(Frame):
    """Inside a bare scalar that did not occur yet. Where one ends, the array goes on beside it."""

    items: Items
    range: TextRange

    def step(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Frame`."""
        plan = self.items.plan
        texts, low, high, depth = (
            self.range.texts,
            self.range.low,
            self.range.high,
            self.range.depth,
        )
        low, high = texts.narrow(low, high, depth, chr(byte))
        if low >= high:
            return ()
        after = TextRange(texts, low, high, depth + 1)
        states: list[State] = []
        text = after.finished
        if text is not None:
            items = self.items.after(plan.unique.scalars[text])
            states.append((AfterItem(items, blanks=plan.plans.blanks), below))
        if text is None or high - low > 1:
            states.append((InUniqueScalar(self.items, after), below))
        return states

    def bytes(self, below: Below) -> Iterable[int]:
        """See :class:`Frame`."""
        return self.range.texts.following(self.range.low, self.range.high, self.range.depth)


@frozen(cache_hash=True)
class EmptyArray(Spaced):
    """Behind an opening bracket, where the array ends."""

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return True

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        return popped(below) if byte == CLOSE else ()

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return (CLOSE,)


@frozen(cache_hash=True)
class AfterItem(Spaced):
    """Behind an item."""

    items: Items

    @property
    def shared(self) -> bool:
        """See :class:`Frame`."""
        return self.items.plan.plans.shared

    def go_on(self, byte: int, below: Below, machine: Machine) -> Iterable[State]:
        """See :class:`Spaced`."""
        if byte == COMMA:
            states = self.items.next_values(below, machine)
            return self.items.plan.plans.separated(states, machine)
        return popped(below) if byte == CLOSE and self.items.may_close else ()

    def tokens(self) -> Iterable[int]:
        """See :class:`Spaced`."""
        return COMMA, CLOSE
