"""Proofs that schemas exclude one another, and the exact choice of a oneOf."""

from __future__ import annotations

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import (
    ALL_KINDS,
    KINDS,
    Assertions,
    Key,
    negation_of,
)
from infernix_constraints.json_schema.conjunction import Conjunctions
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.draft import Draft
from infernix_constraints.json_schema.evaluation import Evaluation
from infernix_constraints.json_schema.expansion import Conjunction
from infernix_constraints.json_schema.values import Identity
from infernix_core.errors import UnsupportedSchema

#: Nodes that proofs may look at in one reduction.
MAX_NODES = 20_000
#: Pairs of branches that are told apart in one reduction.
MAX_PAIRS = 8192


@define(eq=False)
class Exclusion:
    """Finds conjunctions that no value satisfies.

    Its own conjunctions read oneOf as anyOf, which admits more. So what holds no value here holds none.
    """

    document: SchemaDocument
    evaluation: Evaluation
    draft: Draft = field(init=False)
    _pairs: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        conjunctions = Conjunctions(self.document, self.evaluation)
        self.draft = Draft(conjunctions, lambda _: True, forgiving=True)

    def satisfiable(self, conjunction: Conjunction) -> bool:
        """Whether a conjunction may have values; False only when it has none."""
        if len(self.draft.order) > MAX_NODES or self.draft.exhausted:
            return True
        return self.draft.lives(conjunction)

    def exclusive(self, owner: Assertions, keys: tuple[Key, ...]) -> tuple[Conjunction, ...]:
        """Conjunctions of which at least one applies exactly when one of the positions does.

        Args:
            owner: The schema with the oneOf.
            keys: Its positions.
        """
        siblings = self.document.add(
            evolve(owner, key=f"#{owner.key}#beside oneOf", one_of=(), choices=())
        )
        alive = [
            key for key in keys if self.satisfiable(self.document.conjunction((siblings, key)))
        ]
        apart: dict[Key, list[Key]] = {key: [] for key in alive}
        values = {key: self._values(key) for key in alive}
        for place, one in enumerate(alive):
            for other in alive[place + 1 :]:
                some, others = values[one], values[other]
                if some is not None and others is not None and some.isdisjoint(others):
                    continue
                self._count_pair(owner)
                kinds = self._meet(siblings, one, other)
                if kinds:
                    apart[one].append(self._unless(kinds, other))
                    apart[other].append(self._unless(kinds, one))
        return tuple((key, *apart[key]) for key in alive) or tuple((key,) for key in keys)

    def _values(self, key: Key) -> frozenset[Identity] | None:
        """The listed values of a position, as far as it lists any."""
        conjunctions = self.draft.conjunctions
        owner = conjunctions.listed(self.document.conjunction((key,)))
        return None if owner is None else owner.finite[0].identities

    def _count_pair(self, owner: Assertions) -> None:
        self._pairs += 1
        if self._pairs > MAX_PAIRS:
            raise UnsupportedSchema(
                f"more than {MAX_PAIRS} pairs of branches would have to exclude one another",
                location=owner.location("oneOf"),
                hint="fewer branches, or anyOf",
            )

    def _meet(self, siblings: Key, one: Key, other: Key) -> frozenset[str]:
        """The types of the values that may satisfy two positions at once."""
        try:
            pair = self.document.conjunction((one, other))
            if not self.satisfiable(pair):
                return frozenset()
            within = self.document.conjunction((siblings, *pair))
            if len(self.draft.order) > MAX_NODES or self.draft.exhausted:
                return ALL_KINDS
            kinds = self.draft.kinds(within)
            if kinds is not None:
                return kinds
            return frozenset(
                kind
                for kind in KINDS
                if self.satisfiable(
                    self.document.conjunction((siblings, *pair, self._kinds(frozenset({kind}))))
                )
            )
        except UnsupportedSchema:
            return ALL_KINDS

    def _kinds(self, kinds: frozenset[str]) -> Key:
        """A position that admits some types."""
        name = " ".join(kind for kind in KINDS if kind in kinds)
        return self.document.add(Assertions(f"#types {name}", "", kinds))

    def _unless(self, kinds: frozenset[str], key: Key) -> Key:
        """A position that is the negation of another for some types and admits all values of the others."""
        failing = negation_of(key)
        if kinds == ALL_KINDS:
            return failing
        within, without = self._kinds(kinds), self._kinds(ALL_KINDS - kinds)
        ways = ((without,), (within, failing))
        return self.document.add(
            Assertions(
                f"#{failing}#of {within}",
                self.document.location(key).pointer or "",
                choices=(ways,),
            )
        )
