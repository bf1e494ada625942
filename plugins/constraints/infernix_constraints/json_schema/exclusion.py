"""Proofs that schemas exclude one another, and the exact choice of a oneOf."""

from __future__ import annotations

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import Assertions, Key, negation_of
from infernix_constraints.json_schema.conjunction import Conjunction, Conjunctions
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.draft import Draft
from infernix_constraints.json_schema.evaluation import Evaluation
from infernix_core.errors import UnsupportedSchema

#: Nodes that proofs may look at in one reduction.
MAX_NODES = 20_000


@define(eq=False)
class Exclusion:
    """Finds conjunctions that no value satisfies.

    Its own conjunctions read oneOf as anyOf, which admits more. So what holds no value here holds none.
    """

    document: SchemaDocument
    evaluation: Evaluation
    draft: Draft = field(init=False)

    def __attrs_post_init__(self) -> None:
        conjunctions = Conjunctions(self.document, self.evaluation)
        self.draft = Draft(conjunctions, lambda _: True, forgiving=True)

    def satisfiable(self, conjunction: Conjunction) -> bool:
        """Whether a conjunction may have values; False only when it has none."""
        if len(self.draft.order) > MAX_NODES:
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
        together: dict[Key, list[Key]] = {key: [] for key in alive}
        for place, one in enumerate(alive):
            for other in alive[place + 1 :]:
                if self._meet(siblings, one, other):
                    together[one].append(other)
                    together[other].append(one)
        return tuple(
            (key, *(negation_of(other) for other in together[key])) for key in alive
        ) or tuple((key,) for key in keys)

    def _meet(self, siblings: Key, one: Key, other: Key) -> bool:
        """Whether a value may satisfy two positions at once."""
        try:
            pair = self.document.conjunction((one, other))
            return self.satisfiable(pair) and self.satisfiable(
                self.document.conjunction((siblings, *pair))
            )
        except UnsupportedSchema:
            return True
