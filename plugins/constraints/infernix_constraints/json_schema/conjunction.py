"""Conjunctions of schema positions and their alternatives.

A conjunction is the tuple of positions that all apply to one value. It is expanded into alternatives, lists
of assertions without choices or references, and each alternative is intersected type by type. Children of
intersected arrays and objects are conjunctions again, so intersection needs no finished operands, works
through recursion, and is done once per conjunction.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from attrs import define, field

from infernix_constraints.json_schema.assertions import (
    Assertions,
    Finite,
    Key,
)
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.evaluation import Evaluation
from infernix_constraints.json_schema.expansion import (
    Alternative,
    Conjunction,
    Expander,
    Expansion,
)
from infernix_constraints.json_schema.values import Identity, Value, identity
from infernix_constraints.strings.limits import MAX_STATES
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

#: Intersections of two schemas in one reduction.
MAX_MERGES = 16384
#: Branches of a choice from which on those that list values become one.
MERGED_BRANCHES = 8


@define(eq=False)
class Conjunctions:
    """The conjunctions of one document, each expanded once.

    Attributes:
        document: The document.
        evaluation: Decides values.
        exclusive: Turns the positions of a oneOf into conjunctions of which at least one applies exactly
            when one of the positions does. None reads it as anyOf, which admits more.
    """

    document: SchemaDocument
    evaluation: Evaluation
    exclusive: Callable[[Assertions, tuple[Key, ...]], tuple[Conjunction, ...]] | None = None
    merges: int = field(init=False, default=0)
    _expanded: dict[Conjunction, Expansion] = field(init=False, factory=dict)
    _merged: dict[tuple[Key, int], tuple[Conjunction, ...]] = field(init=False, factory=dict)

    def expand(self, conjunction: Conjunction) -> Expansion:
        """The alternatives of a conjunction.

        Raises:
            UnsupportedSchema: A schema in it cannot be enforced, or a limit is passed.
        """
        known = self._expanded.get(conjunction)
        if known is None:
            known = self._finite(conjunction)
            if known is None:
                known = Expander(self, conjunction).expand()
            self._expanded[conjunction] = known
        return known

    def _finite(self, conjunction: Conjunction) -> Expansion | None:
        """The values of a conjunction that lists them somewhere, beside whatever else it asserts."""
        owner = self.listed(conjunction)
        if owner is None:
            return None
        candidates = owner.finite[0]
        left = self.admitted(candidates, conjunction)
        if left:
            return Expansion((), left)
        what = "no value of it satisfies the assertions beside it"
        reason = UnsatisfiableSchema(what, location=owner.location(candidates.keyword))
        return Expansion((), (), (reason,))

    def listed(self, conjunction: Conjunction) -> Assertions | None:
        """A position with a list of values among those that apply in any case; None if there is none."""
        passed = set(conjunction)
        pending = list(reversed(conjunction))
        best: Assertions | None = None
        while pending:
            found = self.document.assertions(pending.pop())
            if found.finite and (
                best is None or len(found.finite[0].values) < len(best.finite[0].values)
            ):
                best = found
            for key in found.in_place:
                if key not in passed:
                    passed.add(key)
                    pending.append(key)
        return best

    def admitted(self, candidates: Finite, conjunction: Conjunction) -> tuple[Value, ...]:
        """The different values of a list that satisfy every position."""
        distinct: dict[Identity, Value] = {}
        for value in candidates.values:
            distinct.setdefault(identity(value), value)
        holds = self.evaluation.holds
        return tuple(
            value for value in distinct.values() if all(holds(value, key) for key in conjunction)
        )

    def with_values_merged(
        self, group: tuple[Conjunction, ...], owner: Assertions, place: int
    ) -> tuple[Conjunction, ...]:
        """A choice in which the branches that list values are one branch with all their values."""
        if len(group) < MERGED_BRANCHES:
            return group
        known = self._merged.get((owner.key, place))
        if known is not None:
            return known
        values: dict[Identity, Value] = {}
        listing, rest = [], []
        for branch in group:
            found = self.listed(branch)
            if found is None:
                rest.append(branch)
                continue
            listing.append(branch)
            for value in self.admitted(found.finite[0], branch):
                values.setdefault(identity(value), value)
        if len(listing) > 1:
            kind = "anyOf" if self.exclusive is None else "oneOf"
            key = self.document.add(
                Assertions(
                    f"#{owner.key}#values {place} {kind}",
                    owner.pointer,
                    finite=(Finite("enum", tuple(values.values())),),
                )
            )
            group = ((key,), *rest)
        self._merged[owner.key, place] = group
        return group

    def count_tests(self, alternative: Alternative) -> None:
        """Counts the states that intersecting the tests of strings may take.

        Raises:
            UnsupportedSchema: There were too many.
        """
        tests = dict.fromkeys(chain.from_iterable(each.tests for each in alternative))
        effort, product = self.evaluation.effort, 1
        for test in tests:
            effort.check(test.location)
            effort.count(test)
            product = min(product * test.automaton.states, MAX_STATES)
        if len(tests) > 1:
            effort.states += product // 8  # few of the pairs of states are reached as a rule

    def count_merge(self, location: Location) -> None:
        """Counts one intersection.

        Raises:
            UnsupportedSchema: There were too many.
        """
        self.merges += 1
        if self.merges > MAX_MERGES:
            raise UnsupportedSchema(
                f"the schema takes more than {MAX_MERGES} intersections",
                location=location,
                hint="fewer alternatives beside shared assertions",
            )
