"""The intersection of assertions, type by type: from one alternative to its shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from attrs import define, field

from infernix_constraints.json_schema.arrays import array_shapes
from infernix_constraints.json_schema.assertions import ALL_KINDS, KINDS, Assertions, Key
from infernix_constraints.json_schema.conjunction import Conjunctions
from infernix_constraints.json_schema.expansion import Alternative, Conjunction
from infernix_constraints.json_schema.graph import (
    BooleanShape,
    FiniteShape,
    IntegerShape,
    NullShape,
    Shape,
    StringShape,
)
from infernix_constraints.json_schema.objects import object_shapes
from infernix_constraints.json_schema.scalars import number_shapes, string_shapes
from infernix_constraints.json_schema.values import Value, identity
from infernix_constraints.strings.texts import finite_texts
from infernix_core.errors import UnsatisfiableSchema

#: Integers of a range that are listed one by one.
MAX_LISTED = 1024


@define(eq=False)
class Intersection:
    """Intersects alternatives.

    Attributes:
        conjunctions: Where children are normalised and values checked.
        node: Gives the index of a child conjunction's node.
        satisfiable: Whether a conjunction may have values; False only when it has none.
        reasons: Why types that were admitted hold no value after all.
        untyped: Some alternative admits every type, as far as types are named.
        objectless: Why the first such alternative holds no object, if that was plain.
    """

    conjunctions: Conjunctions
    node: Callable[[Conjunction], int]
    satisfiable: Callable[[Conjunction], bool]
    reasons: list[UnsatisfiableSchema] = field(init=False, factory=list)
    untyped: bool = field(init=False, default=False)
    objectless: UnsatisfiableSchema | None = field(init=False, default=None)

    def of(self, conjunction: Conjunction) -> list[Shape]:
        """The shapes of a conjunction's values; none when there is no such value.

        Raises:
            UnsupportedSchema: They cannot be expressed.
        """
        expansion = self.conjunctions.expand(conjunction)
        self.reasons += expansion.reasons
        shapes: list[Shape] = [FiniteShape(expansion.finite)] if expansion.finite else []
        for alternative in expansion.alternatives:
            shapes += self.shapes(alternative)
        return shapes

    def shapes(self, alternative: Alternative) -> list[Shape]:
        """The shapes of the values that satisfy all assertions of an alternative."""
        owner = next((each for each in alternative if each.finite), None)
        if owner is not None:
            keys = tuple(self.conjunctions.document.add(each) for each in alternative)
            left = self.conjunctions.admitted(owner.finite[0], keys)
            if left:
                return [FiniteShape(left)]
            what = "no value of it satisfies the assertions beside it"
            location = owner.location(owner.finite[0].keyword)
            self.reasons.append(UnsatisfiableSchema(what, location=location))
            return []
        kinds = frozenset(KINDS).intersection(*(each.kinds for each in alternative))
        found: list[Shape] = []
        untyped = kinds == ALL_KINDS
        self.untyped = self.untyped or untyped
        for kind in KINDS:
            if kind in kinds:
                try:
                    found += self._shapes(kind, alternative)
                except UnsatisfiableSchema as reason:
                    self.reasons.append(reason)
                    if untyped and kind == "object" and self.objectless is None:
                        self.objectless = reason
        return found

    def _shapes(self, kind: str, alternative: Alternative) -> Sequence[Shape]:
        if kind == "number":
            shapes: Sequence[Shape] = number_shapes(alternative)
        elif kind == "string":
            self.conjunctions.count_tests(alternative)
            shapes = string_shapes(alternative)
        elif kind == "array":
            shapes = array_shapes(self, alternative)
        elif kind == "object":
            shapes = object_shapes(self, alternative)
        else:
            shapes = _without_excluded(kind, alternative)
        for refusal in chain.from_iterable(each.refusals for each in alternative):
            if refusal.kind == kind and shapes:
                raise refusal.error()
        return shapes

    def strings(self, conjunction: Conjunction) -> Iterator[Shape]:
        """The shapes of a conjunction's strings; what else it admits need not be expressible."""
        expansion = self.conjunctions.expand(conjunction)
        if expansion.finite:
            yield FiniteShape(expansion.finite)
        for alternative in expansion.alternatives:
            if all("string" in each.kinds for each in alternative):
                only = Assertions("#string", "", frozenset({"string"}))
                inner = Intersection(self.conjunctions, self.node, self.satisfiable)
                yield from inner.shapes((*alternative, only))

    def child(self, keys: Iterable[Key]) -> Conjunction:
        """The conjunction of some positions, in its normal form."""
        return self.conjunctions.document.conjunction(keys)

    def values(self, conjunction: Conjunction) -> tuple[Value, ...] | None:
        """All values of a conjunction; None when they are not few."""
        found: list[Value] = []
        for alternative in self.conjunctions.expand(conjunction).alternatives:
            kinds = frozenset(KINDS).intersection(*(each.kinds for each in alternative))
            listed = any(each.finite for each in alternative)
            if not listed and kinds & {"array", "object"}:
                return None  # which may hold these very arrays
        for shape in Intersection(self.conjunctions, self.node, self.satisfiable).of(conjunction):
            match shape:
                case NullShape():
                    found.append(None)
                case BooleanShape():
                    found += (True, False)
                case FiniteShape(values=values):
                    found += values
                case IntegerShape(minimum=low, maximum=high, multiple=multiple, excluded=None):
                    step = 1 if multiple is None else int(multiple)
                    if (high - low) // step > MAX_LISTED:
                        return None
                    found += range(low, high + 1, step)
                case StringShape(minimum=0, maximum=None, automaton=automaton) if automaton:
                    texts = finite_texts(automaton, MAX_LISTED)
                    if texts is None:
                        return None
                    found += texts
                case _:
                    return None
        return tuple({identity(value): value for value in found}.values())


def _without_excluded(kind: str, alternative: Alternative) -> list[Shape]:
    """``null`` or the booleans, without excluded values.

    Raises:
        UnsatisfiableSchema: None are left.
    """
    excluded = {
        key: each.location(finite.keyword)
        for each in alternative
        for finite in each.excluded
        for key in finite.identities
        if key[0] == kind
    }
    if not excluded:
        return [NullShape() if kind == "null" else BooleanShape()]
    every: tuple[Value, ...] = (None,) if kind == "null" else (True, False)
    left = tuple(value for value in every if identity(value) not in excluded)
    if not left:
        last = list(excluded.values())[-1]
        raise UnsatisfiableSchema(f"every {kind} is left out", location=last)
    return [FiniteShape(left)]
