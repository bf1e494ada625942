"""Conjunctions of schema positions: their alternatives, their shapes, and whether a value satisfies them.

A conjunction is the tuple of positions that all apply to one value. It is expanded into alternatives, lists
of assertions without choices or references, and each alternative is intersected type by type. Children of
intersected arrays and objects are conjunctions again, so intersection needs no finished operands, works
through recursion, and is done once per conjunction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from attrs import define, field, frozen

from infernix_constraints.json_schema.assertions import Assertions
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.numbers import admits
from infernix_constraints.json_schema.values import (
    ArrayValue,
    ObjectValue,
    Value,
    identity,
    is_integral,
    kind_of,
)
from infernix_core.errors import Location, UnsupportedSchema

#: The positions that all apply to one value.
Conjunction = tuple[str, ...]

#: Intersections of two schemas in one reduction.
MAX_MERGES = 16384
#: Schemas that may apply to one value in place of each other, through references and compositions.
MAX_IN_PLACE_DEPTH = 256
#: Steps in which one conjunction is expanded; choices that assert nothing merge nothing, yet multiply.
MAX_EXPANSION_STEPS = 2**18


@frozen
class _Pending:
    """A position that still has to be expanded, and the positions that led to it in place."""

    pointer: str
    ancestors: tuple[str, ...]


@frozen
class _Partial:
    """An alternative in the making."""

    chosen: tuple[Assertions, ...]
    seen: frozenset[str]
    pending: tuple[_Pending, ...]


@frozen
class Expansion:
    """The alternatives of a conjunction.

    Attributes:
        alternatives: Per alternative, the assertions that all apply; none of them vacuous.
        circular: Where a schema referred to itself without a value in between, if it did.
    """

    alternatives: tuple[tuple[Assertions, ...], ...]
    circular: Location | None


@define(eq=False)
class Conjunctions:
    """The conjunctions of one document, each expanded once."""

    document: SchemaDocument
    merges: int = 0
    _expanded: dict[Conjunction, Expansion] = field(init=False, factory=dict)
    _satisfied: dict[tuple[int, Conjunction], bool] = field(init=False, factory=dict)

    def expand(self, conjunction: Conjunction) -> Expansion:
        """The alternatives of a conjunction.

        Raises:
            InvalidSchema: A schema in it is not valid.
            UnsupportedSchema: A schema in it is not supported, or a limit is passed.
        """
        known = self._expanded.get(conjunction)
        if known is None:
            known = self._expanded[conjunction] = self._expand(conjunction)
        return known

    def _expand(self, conjunction: Conjunction) -> Expansion:
        finished: dict[tuple[str, ...], tuple[Assertions, ...]] = {}
        circular: Location | None = None
        start = tuple(_Pending(pointer, ()) for pointer in conjunction)
        partials = [_Partial((), frozenset(), start)]
        steps = 0
        while partials:
            partial = partials.pop()
            steps += 1
            if steps > MAX_EXPANSION_STEPS:
                raise UnsupportedSchema(
                    "the schema has too many alternatives",
                    location=Location(pointer=conjunction[0]),
                )
            if not partial.pending:
                finished[tuple(each.pointer for each in partial.chosen)] = partial.chosen
                continue
            head, *rest = partial.pending
            if head.pointer in head.ancestors:
                # No finite chain of reasons makes a value satisfy this branch.
                circular = Location(pointer=head.pointer)
                continue
            if head.pointer in partial.seen:
                partials.append(_Partial(partial.chosen, partial.seen, tuple(rest)))
                continue
            partials += self._choices(partial, head, tuple(rest))
        return Expansion(tuple(finished.values()), circular)

    def _choices(
        self, partial: _Partial, head: _Pending, rest: tuple[_Pending, ...]
    ) -> Iterator[_Partial]:
        """The alternative with its first pending position taken in; last choice first."""
        found = self.document.assertions(head.pointer)
        ancestors = (*head.ancestors, head.pointer)
        if len(ancestors) > MAX_IN_PLACE_DEPTH:
            raise UnsupportedSchema(
                f"more than {MAX_IN_PLACE_DEPTH} schemas apply in place through one another",
                location=found.location(),
            )
        chosen = partial.chosen
        if found.asserts_itself:
            chosen = (*chosen, found)
            if len(chosen) > 1:
                self._count_merge(found.location())
        applied = (_Pending(pointer, ancestors) for pointer in found.in_place)
        seen, pending = partial.seen | {head.pointer}, (*applied, *rest)
        if found.any_of is None:
            yield _Partial(chosen, seen, pending)
        else:
            for pointer in reversed(found.any_of):
                yield _Partial(chosen, seen, (_Pending(pointer, ancestors), *pending))

    def _count_merge(self, location: Location) -> None:
        self.merges += 1
        if self.merges > MAX_MERGES:
            raise UnsupportedSchema(
                f"the schema takes more than {MAX_MERGES} intersections",
                location=location,
                hint="fewer alternatives beside shared assertions",
            )

    def satisfied(self, value: Value, alternative: tuple[Assertions, ...]) -> bool:
        """Whether a value satisfies every assertion of an alternative."""
        goals = self._goals(value, alternative)
        return goals is not None and all(self._holds(*goal) for goal in goals)

    def _holds(self, value: Value, conjunction: Conjunction) -> bool:
        """Whether a value satisfies a conjunction. Depth is kept on a list, not on the stack."""
        open_goals = [(value, conjunction)]
        while open_goals:
            value, conjunction = open_goals[-1]
            key = id(value), conjunction
            if key in self._satisfied:
                open_goals.pop()
                continue
            found = (self._goals(value, each) for each in self.expand(conjunction).alternatives)
            branches = [goals for goals in found if goals is not None]
            missing = [
                goal
                for goal in chain.from_iterable(branches)
                if (id(goal[0]), goal[1]) not in self._satisfied
            ]
            if missing:
                open_goals += missing
                continue
            self._satisfied[key] = any(
                all(self._satisfied[id(item), goal] for item, goal in goals) for goals in branches
            )
            open_goals.pop()
        return self._satisfied[key]

    def _goals(
        self, value: Value, alternative: tuple[Assertions, ...]
    ) -> list[tuple[Value, Conjunction]] | None:
        """What members and items must satisfy so that the value does; None when it cannot."""
        goals: list[tuple[Value, Conjunction]] = []
        kind = kind_of(value)
        for found in alternative:
            if kind not in found.kinds or not _satisfies_locally(found, value):
                return None
            if isinstance(value, ArrayValue) and found.items is not None:
                items = self.document.conjunction((found.items,))
                goals += [(item, items) for item in value.items if items]
            elif isinstance(value, ObjectValue):
                for name, member in value.members:
                    position = found.properties.get(name, found.additional)
                    if position is not None:
                        goals.append((member, self.document.conjunction((position,))))
        return goals


def _satisfies_locally(found: Assertions, value: Value) -> bool:
    """Whether a value of an admitted type satisfies what is not said about its members and items."""
    if found.finite:
        key = identity(value)
        if any(key not in finite.identities for finite in found.finite):
            return False
    if isinstance(value, str):
        return found.min_length <= len(value) and (
            found.max_length is None or len(value) <= found.max_length
        )
    if isinstance(value, ArrayValue):
        return found.min_items <= len(value.items) and (
            found.max_items is None or len(value.items) <= found.max_items
        )
    if isinstance(value, ObjectValue):
        return {name for name, _ in value.members}.issuperset(found.required)
    if kind_of(value) == "number":
        assert not isinstance(value, str | bool | None)
        integral = not found.integral or is_integral(value)
        return integral and admits(found.lower, found.upper, value)
    return True
