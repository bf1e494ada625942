"""Objects: declared members in their order, then others; names in every spelling, none of them twice."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from infernix_constraints.json_schema import ObjectShape
from infernix_constraints.json_schema.graph import OtherMembers
from infernix_constraints.strings.algebra import difference
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.memo import remembered
from infernix_constraints.strings.texts import finite_texts, of_texts
from infernix_json_masks.automata import TextAutomaton, text_automaton
from infernix_json_masks.texts import TextSet

if TYPE_CHECKING:
    from infernix_json_masks.plans import Plans
    from infernix_json_masks.values import ValuePlan

#: Languages of at most so many undeclared names are counted name by name.
_FEW_NAMES: Final = 4096


@define(eq=False)
class OtherPlan:
    """Undeclared members of one kind.

    Attributes:
        names: None is every name that is not reserved.
        texts: The names, when they are few, else None.
        value: Plan of their values.
    """

    names: TextAutomaton | None
    texts: tuple[str, ...] | None
    value: Callable[[], ValuePlan]


def undeclared_names(shape: ObjectShape, other: OtherMembers) -> StringAutomaton | None:
    """The names of undeclared members of one kind; None is every name that is not reserved.

    Raises:
        TooManyStates: The names without the reserved ones take too large an automaton.
    """
    if other.names is None or not any(name in other.names for name in shape.reserved):
        return other.names
    return _without(other.names, shape.reserved)


@remembered
def _without(names: StringAutomaton, taken: frozenset[str]) -> StringAutomaton:
    return difference(names, of_texts(taken))


@define(eq=False)
class ObjectPlan:
    """One object shape.

    Attributes:
        barrier: Per place, the first required member at or after it; the number of members if none.
        required: Per place, how many required members are at or after it.
        counted: The number of members matters.
        tracked: Which undeclared names were used matters: so many different ones must come.
        listed: The kind of each undeclared name, where there are few of them.
    """

    shape: ObjectShape
    plans: Plans
    values: Sequence[Callable[[], ValuePlan]] | None = None
    barrier: list[int] = field(init=False)
    required: list[int] = field(init=False)
    reserved: list[str] = field(init=False)
    others: list[OtherPlan] = field(init=False)
    counted: bool = field(init=False)
    tracked: bool = field(init=False)
    _windows: dict[tuple[int, int], TextSet] = field(init=False, factory=dict)
    _places: dict[str, int] = field(init=False)
    listed: dict[str, int] = field(init=False)
    _left: dict[frozenset[str], TextSet] = field(init=False, factory=dict)
    _without: dict[tuple[int, frozenset[str]], TextAutomaton] = field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        shape = self.shape
        members = shape.members
        end = len(members)
        self.barrier = [end] * (end + 1)
        self.required = [0] * (end + 1)
        for place in reversed(range(end)):
            needed = members[place].required
            self.barrier[place] = place if needed else self.barrier[place + 1]
            self.required[place] = self.required[place + 1] + needed
        self.reserved = sorted(shape.reserved)
        self._places = {member.name: place for place, member in enumerate(members)}
        self.counted = shape.minimum > self.required[0] or shape.maximum is not None
        self.others = []
        for other in shape.others:
            names = undeclared_names(shape, other)
            texts = None if names is None else finite_texts(names, _FEW_NAMES)
            automaton = None if names is None else text_automaton(names)
            self.others.append(OtherPlan(automaton, texts, self._value(other.node)))
        # A first member is different from all before it, whatever its name.
        self.tracked = bool(self.others) and shape.minimum > max(self.required[0], 1)
        listed = {
            name: index for index, other in enumerate(self.others) for name in other.texts or ()
        }
        self.listed = listed

    def _value(self, node: int) -> Callable[[], ValuePlan]:
        return lambda: self.plans.node(node)

    def member_value(self, place: int) -> ValuePlan:
        """The plan of a declared member's value."""
        if self.values is not None:
            return self.values[place]()
        return self.plans.node(self.shape.members[place].node)

    def window(self, low: int, high: int) -> TextSet:
        """The names of the members from ``low`` to ``high``, both included."""
        found = self._windows.get((low, high))
        if found is None:
            names = TextSet.of(member.name for member in self.shape.members[low : high + 1])
            found = self._windows.setdefault((low, high), names)
        return found

    def place_of(self, name: str) -> int:
        """The place of a declared member."""
        return self._places[name]

    def names_without(self, index: int, used: frozenset[str]) -> TextAutomaton | None:
        """The names of undeclared members of one kind, without used ones; None is every name."""
        names = self.others[index].names
        if names is None or not used:
            return names
        key = index, used
        found = self._without.get(key)
        if found is None:
            left = _without(names.source, used)
            found = self._without.setdefault(key, text_automaton(left))
        return found

    def names_left(self, used: frozenset[str]) -> TextSet | None:
        """The listed names of undeclared members without used ones; None when there are none left."""
        left = frozenset(self.listed) - used
        found = self._left.get(left)
        if found is None and left:
            found = self._left.setdefault(left, TextSet.of(left))
        return found

    def is_excluded_prefix(self, prefix: str, used: frozenset[str]) -> bool:
        """Whether a reserved or used name begins so."""
        place = bisect_left(self.reserved, prefix)
        if place < len(self.reserved) and self.reserved[place].startswith(prefix):
            return True
        return any(name.startswith(prefix) for name in used)

    def excluded_from(self, prefix: str, used: frozenset[str]) -> list[str]:
        """The reserved and used names that begin so."""
        place = bisect_left(self.reserved, prefix)
        found = [name for name in used if name.startswith(prefix)]
        while place < len(self.reserved) and self.reserved[place].startswith(prefix):
            found.append(self.reserved[place])
            place += 1
        return found


@frozen(cache_hash=True)
class Progress:
    """How far an object is.

    Attributes:
        place: Declared members before it are done with.
        count: Members so far, as far as their number matters.
        used: Names of undeclared members so far, where they matter.
    """

    plan: ObjectPlan
    place: int = 0
    count: int = 0
    used: frozenset[str] = frozenset()

    def _room(self) -> float:
        """How many more members may come."""
        maximum = self.plan.shape.maximum
        return float("inf") if maximum is None else maximum - self.count

    def _others(self) -> float:
        """How many more undeclared members there can be."""
        total = 0.0
        for other in self.plan.others:
            total += float("inf") if other.texts is None else len(other.texts)
        return total - len(self.used)

    def _short(self, later: float) -> bool:
        """Whether one more member and ``later`` ones after it are not enough."""
        return self.count + 1 + later < self.plan.shape.minimum

    @property
    def may_close(self) -> bool:
        """Whether the object may end."""
        plan = self.plan
        enough = not plan.counted or self.count >= plan.shape.minimum
        return enough and plan.barrier[self.place] == len(plan.shape.members)

    def window(self) -> tuple[int, int] | None:
        """The first and last declared members that may come next, optional ones in between included."""
        plan = self.plan
        end = len(plan.shape.members)
        low, high = self.place, min(plan.barrier[self.place], end - 1)
        if plan.counted:
            if self._room() < plan.required[self.place] + 1:
                low = plan.barrier[self.place]
            # Whoever skips too far cannot reach the least number any more.
            spare = self.count + end + self._others() - plan.shape.minimum
            high = int(min(high, spare))
        return (low, high) if low <= high and low < end else None

    def _other_may_come(self) -> bool:
        """Whether nothing that must come first is left, and one more member is not too much or too late."""
        plan = self.plan
        if not plan.others or plan.barrier[self.place] != len(plan.shape.members):
            return False
        return not plan.counted or not (self._room() < 1 or self._short(self._others() - 1))

    def other_kinds(self) -> list[int]:
        """The kinds of undeclared members with unlisted names that may come next."""
        plan = self.plan
        if not self._other_may_come():
            return []
        kinds = []
        for index, other in enumerate(plan.others):
            if other.texts is not None:
                continue
            names = plan.names_without(index, self.used)
            if names is None or not names.source.empty:
                kinds.append(index)
        return kinds

    def listed_names(self) -> TextSet | None:
        """The names that may come next of undeclared members that have few."""
        return (
            self.plan.names_left(self.used) if self.plan.listed and self._other_may_come() else None
        )

    @property
    def may_continue(self) -> bool:
        """Whether another member may come."""
        if self.window() is not None or self.listed_names() is not None:
            return True
        return bool(self.other_kinds())

    def _counted(self) -> int:
        """The number of members after one more, as far as it matters."""
        shape = self.plan.shape
        if not self.plan.counted:
            return 0
        cap = shape.minimum if shape.maximum is None else max(shape.minimum, shape.maximum)
        return min(self.count + 1, cap)

    def after_member(self, place: int) -> Progress:
        """Behind a declared member."""
        return Progress(self.plan, place + 1, self._counted(), self.used)

    def after_other(self, name: str) -> Progress:
        """Behind an undeclared one."""
        plan = self.plan
        used = self.used | {name} if self.tracks else frozenset()
        return Progress(plan, len(plan.shape.members), self._counted(), used)

    @property
    def tracks(self) -> bool:
        """Whether the next undeclared name matters for those after it: more different ones must come."""
        return self.plan.tracked and self.count + 1 < self.plan.shape.minimum
