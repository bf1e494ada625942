"""The expansion of one conjunction: from its positions to alternatives, step by step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from infernix_constraints.json_schema.assertions import ALL_KINDS, Assertions, Key, negation_of
from infernix_constraints.json_schema.unevaluated import closing
from infernix_constraints.json_schema.values import Value
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

if TYPE_CHECKING:
    from infernix_constraints.json_schema.conjunction import Conjunctions

#: The positions that all apply to one value.
Conjunction = tuple[Key, ...]

#: Assertions that all apply to one value, without choices or references.
Alternative = tuple[Assertions, ...]

#: Schemas that may apply to one value in place of each other, through references and compositions.
MAX_IN_PLACE_DEPTH = 256
#: Steps in which one conjunction is expanded; choices that assert nothing merge nothing, yet multiply.
MAX_EXPANSION_STEPS = 2**18
#: Alternatives of one conjunction.
MAX_ALTERNATIVES = 2048
#: Branches of an anyOf of which several may apply, where it counts which.
MAX_BRANCHES_TOGETHER = 5


@frozen
class _Pending:
    """A position that still has to be expanded.

    Attributes:
        key: The position.
        ancestors: The positions that led to it in place.
        scopes: Those of them that assert on what nothing in place evaluates.
    """

    key: Key
    ancestors: tuple[Key, ...] = ()
    scopes: tuple[Key, ...] = ()


@frozen
class _Partial:
    """An alternative in the making.

    Attributes:
        chosen: What was taken in, each with its scopes.
        seen: The positions that were taken in, each with its scopes.
        pending: What is still to be taken in.
        kinds: The types that are left.
        groups: Choices that are still to be made.
    """

    chosen: tuple[tuple[Assertions, tuple[Key, ...]], ...]
    seen: frozenset[tuple[Key, tuple[Key, ...]]]
    pending: tuple[_Pending, ...]
    kinds: frozenset[str] = ALL_KINDS
    groups: tuple[tuple[tuple[_Pending, ...], ...], ...] = ()


@frozen
class Expansion:
    """The alternatives of a conjunction.

    Attributes:
        alternatives: Per alternative, the assertions that all apply; none of them vacuous.
        finite: Values that are admitted beside them.
        reasons: Why alternatives that were dropped hold no value.
        circular: Where a schema referred to itself without a value in between, if it did.
    """

    alternatives: tuple[Alternative, ...]
    finite: tuple[Value, ...] = ()
    reasons: tuple[UnsatisfiableSchema, ...] = ()
    circular: Location | None = None


@define(eq=False)
class Expander:
    """Expands one conjunction."""

    conjunctions: Conjunctions
    conjunction: Conjunction
    reasons: list[UnsatisfiableSchema] = field(init=False, factory=list)
    circular: Location | None = field(init=False, default=None)

    def expand(self) -> Expansion:
        """Its alternatives.

        Raises:
            UnsupportedSchema: A schema in it cannot be enforced, or a limit is passed.
        """
        finished: dict[tuple[Key, ...], Alternative] = {}
        start = tuple(_Pending(key) for key in self.conjunction)
        partials = [_Partial((), frozenset(), start)]
        steps = 0
        while partials:
            partial = partials.pop()
            steps += 1
            if steps > MAX_EXPANSION_STEPS or len(finished) > MAX_ALTERNATIVES:
                raise UnsupportedSchema(
                    "the schema has too many alternatives",
                    location=self.conjunctions.document.location(self.conjunction[0]),
                )
            if partial.pending:
                head, *rest = partial.pending
                partials += self._take(partial, head, tuple(rest))
            elif partial.groups:
                partials += self._choose(partial)
            else:
                alternative = self._closed(partial)
                finished[tuple(each.key for each in alternative)] = alternative
        return Expansion(tuple(finished.values()), (), tuple(self.reasons), self.circular)

    def _take(
        self, partial: _Partial, head: _Pending, rest: tuple[_Pending, ...]
    ) -> Iterator[_Partial]:
        """The partial alternative with its first pending position taken in."""
        passed = {head.key, negation_of(head.key)}
        if not passed.isdisjoint(head.ancestors):
            # No finite chain of reasons makes a value satisfy this branch.
            self.circular = self.conjunctions.document.location(head.key)
            if any(key.startswith("!") for key in (head.key, *head.ancestors)):
                raise UnsupportedSchema("a schema negates itself in place", location=self.circular)
            return
        if (head.key, head.scopes) in partial.seen:
            yield _Partial(partial.chosen, partial.seen, rest, partial.kinds, partial.groups)
            return
        found = self.conjunctions.document.assertions(head.key)
        if (negation_of(head.key), ()) in partial.seen:
            self.reasons.append(
                UnsatisfiableSchema("it holds beside its negation", location=found.location())
            )
            return
        ancestors = (*head.ancestors, head.key)
        if len(ancestors) > MAX_IN_PLACE_DEPTH:
            raise UnsupportedSchema(
                f"more than {MAX_IN_PLACE_DEPTH} schemas apply in place through one another",
                location=found.location(),
            )
        kinds = partial.kinds & found.kinds
        if not kinds:
            self.reasons.append(
                UnsatisfiableSchema("no type is left", location=found.location("type"))
                if found.kinds
                else UnsatisfiableSchema("nothing is admitted", location=found.location())
            )
            return
        # What is negated evaluates nothing for what is around it.
        scopes = () if head.key.startswith("!") else head.scopes
        if found.unevaluated_properties is not None or found.unevaluated_items is not None:
            scopes = (*scopes, head.key)
        chosen = partial.chosen
        if found.asserts_itself:
            chosen = (*chosen, (found, scopes))
            if len(chosen) > 1:
                self.conjunctions.count_merge(found.location())
        groups = partial.groups
        for place, group in enumerate((*found.choices, *self._exclusive(found))):
            branches = (
                _together(group, found)
                if scopes
                else self.conjunctions.with_values_merged(group, found, place)
            )
            pending = tuple(
                tuple(_Pending(key, ancestors, scopes) for key in keys) for keys in branches
            )
            groups = (*groups, pending)
        if "object" in kinds and self._contradicts(chosen, found):
            kinds -= {"object"}
            if not kinds:
                return
        applied = tuple(_Pending(key, ancestors, scopes) for key in found.in_place)
        seen = partial.seen | {(head.key, head.scopes)}
        yield _Partial(chosen, seen, (*applied, *rest), kinds, groups)

    def _contradicts(
        self, chosen: tuple[tuple[Assertions, tuple[Key, ...]], ...], last: Assertions
    ) -> bool:
        """Whether a required member with listed values has none left in objects, with ``last`` taken in.

        Choices by a discriminator would multiply otherwise.
        """
        if len(chosen) < 2 or not (last.properties or last.required):
            return False
        required = {name for found, _ in chosen for name in found.required}
        for name in last.properties.keys() | set(last.required):
            if name not in required:
                continue
            keys = [found.properties[name] for found, _ in chosen if name in found.properties]
            conjunction = self.conjunctions.document.conjunction(keys)
            if len(keys) > 1 and self.conjunctions.listed(conjunction) is not None:
                expansion = self.conjunctions.expand(conjunction)
                if not expansion.finite:
                    self.reasons += expansion.reasons
                    return True
        return False

    def _exclusive(self, found: Assertions) -> Iterator[tuple[Conjunction, ...]]:
        for keys in found.one_of:
            if self.conjunctions.exclusive is None:
                yield tuple((key,) for key in keys)
            else:
                yield self.conjunctions.exclusive(found, keys)

    def _choose(self, partial: _Partial) -> Iterator[_Partial]:
        """The partial alternatives with one more choice made; the last one first.

        Choices wait until everything that applies in any case was taken in, which leaves fewer types.
        """
        group, *groups = partial.groups
        for branch in reversed(group):
            yield _Partial(partial.chosen, partial.seen, branch, partial.kinds, tuple(groups))

    def _closed(self, partial: _Partial) -> Alternative:
        """A finished alternative, with what nothing in place evaluates spelled out."""
        alternative = tuple(found for found, _ in partial.chosen)
        scoped = [
            (found, [each for each, scopes in partial.chosen if found.key in scopes])
            for found in alternative
            if found.unevaluated_properties is not None or found.unevaluated_items is not None
        ]
        return (*alternative, *chain.from_iterable(closing(*each) for each in scoped))


def _together(group: tuple[tuple[Key, ...], ...], found: Assertions) -> tuple[tuple[Key, ...], ...]:
    """Every combination of branches that may apply together, since each evaluates something."""
    if all(len(branch) == 1 for branch in group):
        if len(group) > MAX_BRANCHES_TOGETHER:
            raise UnsupportedSchema(
                f"unevaluated keywords beside more than {MAX_BRANCHES_TOGETHER} branches "
                "cannot be enforced",
                location=found.location("anyOf"),
            )
        return tuple(
            tuple(chain.from_iterable(branches))
            for count in range(1, len(group) + 1)
            for branches in combinations(group, count)
        )
    return group
