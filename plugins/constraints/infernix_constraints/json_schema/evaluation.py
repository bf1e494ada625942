"""Whether a value satisfies a schema position, decided from the assertions themselves."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import TypeAlias

from attrs import define, field

from infernix_constraints.json_schema.assertions import (
    Assertions,
    Counted,
    Key,
    SomeMember,
    negation_of,
)
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.languages import Effort
from infernix_constraints.json_schema.numbers import admits, is_multiple
from infernix_constraints.json_schema.values import (
    ArrayValue,
    ObjectValue,
    Value,
    identity,
    is_integral,
    kind_of,
)
from infernix_core.errors import UnsupportedSchema

_Goal: TypeAlias = tuple[Value, Key]
_Check: TypeAlias = Generator[_Goal, bool, bool]


@define(eq=False)
class Evaluation:
    """Evaluates values that outlive it.

    Each check is a generator that yields the goals it depends on and is sent their verdicts, so that
    depth is kept on a list and not on Python's stack.

    Attributes:
        document: The document.
        effort: What the tests of strings have taken so far, here and where strings are described.
    """

    document: SchemaDocument
    effort: Effort = field(init=False, factory=Effort)
    _verdicts: dict[tuple[int, Key], bool] = field(init=False, factory=dict)
    _values: list[Value] = field(init=False, factory=list)

    def holds(self, value: Value, key: Key) -> bool:
        """Whether a value satisfies a position.

        Raises:
            UnsupportedSchema: The position asserts something that cannot be evaluated.
        """
        self._values.append(value)  # keeps it alive, for the verdicts know it by its id
        open_goals: list[tuple[tuple[int, Key], _Check]] = []
        within: set[tuple[int, Key]] = set()
        verdict = self._enter((value, key), open_goals, within)
        while open_goals:
            name, check = open_goals[-1]
            try:
                goal = next(check) if verdict is None else check.send(verdict)
            except StopIteration as stop:
                open_goals.pop()
                within.discard(name)
                verdict = self._verdicts[name] = bool(stop.value)
            else:
                verdict = self._enter(goal, open_goals, within)
        assert verdict is not None
        return verdict

    def _enter(
        self,
        goal: _Goal,
        open_goals: list[tuple[tuple[int, Key], _Check]],
        within: set[tuple[int, Key]],
    ) -> bool | None:
        value, key = goal
        name = id(value), key
        known = self._verdicts.get(name)
        if known is not None:
            return known
        if name in within:
            raise UnsupportedSchema(
                "a value is checked against a schema that refers to itself in place",
                location=self.document.location(key),
            )
        within.add(name)
        open_goals.append((name, self._check(value, key)))
        return None

    def _check(self, value: Value, key: Key) -> _Check:
        if key.startswith("!"):
            return not (yield value, negation_of(key))
        found = self.document.assertions(key)
        if isinstance(value, str):
            for test in found.tests:
                self.effort.count(test)
        elif isinstance(value, ObjectValue):
            for test, _ in found.patterns:
                self.effort.count(test)
        if not _satisfies_locally(found, value):
            return False
        for goal in self._parts(found, value):
            if not (yield goal):
                return False
        if isinstance(value, ArrayValue):
            for counted in found.contains:
                if not (yield from self._counted(counted, value)):
                    return False
        if isinstance(value, ObjectValue):
            for some in found.some_member:
                if not (yield from self._some_member(some, value)):
                    return False
        for each in found.in_place:
            if not (yield value, each):
                return False
        for group in found.choices:
            if not (yield from self._some(value, group)):
                return False
        for keys in found.one_of:
            count = 0
            for each in keys:
                count += yield value, each
            if count != 1:
                return False
        return True

    def _some(self, value: Value, group: Iterable[tuple[Key, ...]]) -> _Check:
        for conjunction in group:
            fulfilled = True
            for key in conjunction:
                fulfilled = fulfilled and (yield value, key)
            if fulfilled:
                return True
        return False

    def _counted(self, counted: Counted, value: ArrayValue) -> _Check:
        count = 0
        for item in value.items:
            count += yield item, counted.key
        return counted.minimum <= count and (counted.maximum is None or count <= counted.maximum)

    def _some_member(self, some: SomeMember, value: ObjectValue) -> _Check:
        for name, member in value.members:
            if not some.names_by_itself(name):
                continue
            if some.names is not None and not (yield name, some.names):
                continue
            if (yield member, some.key):
                return True
        return False

    def _parts(self, found: Assertions, value: Value) -> Iterable[_Goal]:
        """What members and items must satisfy."""
        if isinstance(value, ArrayValue):
            if found.unevaluated_items is not None:
                raise _unevaluated(found, "unevaluatedItems")
            for place, item in enumerate(value.items):
                key = found.prefix[place] if place < len(found.prefix) else found.items
                if key is not None:
                    yield item, key
        elif isinstance(value, ObjectValue):
            if found.unevaluated_properties is not None:
                raise _unevaluated(found, "unevaluatedProperties")
            for name, member in value.members:
                for key in found.keys_of_member(name):
                    yield member, key
                if found.names is not None:
                    yield name, found.names


def _unevaluated(found: Assertions, keyword: str) -> UnsupportedSchema:
    return UnsupportedSchema(
        f"{keyword} beside const or enum cannot be enforced", location=found.location(keyword)
    )


def _satisfies_locally(found: Assertions, value: Value) -> bool:
    """Whether a value satisfies what is not said about its members and items."""
    kind = kind_of(value)
    if kind not in found.kinds:
        return False
    if found.finite or found.excluded:
        key = identity(value)
        if any(key not in finite.identities for finite in found.finite):
            return False
        if any(key in finite.identities for finite in found.excluded):
            return False
    for refusal in found.refusals:
        if refusal.kind == kind:
            raise refusal.error()
    if isinstance(value, str):
        return _within(found.min_length, len(value), found.max_length) and all(
            test.holds(value) for test in found.tests
        )
    if isinstance(value, ArrayValue):
        count = len(value.items)
        if found.unique and len({identity(item) for item in value.items}) < count:
            return False
        return _within(found.min_items, count, found.max_items)
    if isinstance(value, ObjectValue):
        names = {name for name, _ in value.members}
        return names.issuperset(found.required) and _within(
            found.min_properties, len(names), found.max_properties
        )
    if kind == "number":
        assert isinstance(value, int) or not isinstance(value, str | None)
        integral = isinstance(value, int) if found.plain else is_integral(value)
        return (
            (integral or not found.integral)
            and not (integral and found.fractional)
            and admits(found.lower, found.upper, value)
            and all(is_multiple(value, multiple.value) for multiple in found.multiples)
            and not any(is_multiple(value, multiple.value) for multiple in found.not_multiples)
        )
    return True


def _within(least: int, count: int, greatest: int | None) -> bool:
    return least <= count and (greatest is None or count <= greatest)
