"""The shapes of objects."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, product
from typing import TYPE_CHECKING

from attrs import define, field

from infernix_constraints.json_schema.assertions import FALSE, Assertions, Key, SomeMember
from infernix_constraints.json_schema.counts import Counts
from infernix_constraints.json_schema.graph import (
    FiniteShape,
    Member,
    ObjectShape,
    OtherMembers,
    StringShape,
)
from infernix_constraints.json_schema.languages import Test, bounded, classes, of_names, united
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.texts import finite_texts
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

if TYPE_CHECKING:
    from infernix_constraints.json_schema.intersection import Intersection

#: Undeclared names that are listed one by one.
MAX_NAMES = 256
#: Shapes that one alternative may be split into.
MAX_SPLITS = 512


def object_shapes(
    intersection: Intersection, alternative: tuple[Assertions, ...]
) -> list[ObjectShape]:
    """The objects that satisfy all assertions.

    Raises:
        UnsatisfiableSchema: There are none, as far as that is plain.
        UnsupportedSchema: They cannot be expressed.
    """
    members = _Members(intersection, alternative)
    some = list(chain.from_iterable(each.some_member for each in alternative))
    if not some:
        return [members.shape({})]
    choices = [list(members.candidates(each)) for each in some]
    for each, found in zip(some, choices, strict=True):
        if not found:
            raise UnsatisfiableSchema("no member can fail it", location=each.location)
    total = 1
    for found in choices:
        total *= len(found)
    if total > MAX_SPLITS:
        raise UnsupportedSchema(
            f"a negation splits an object into more than {MAX_SPLITS} cases",
            location=some[-1].location,
        )
    shapes = []
    for chosen in product(*choices):
        extra: dict[str, list[Key]] = {}
        for name, key in chosen:
            extra.setdefault(name, []).append(key)
        shapes.append(members.shape(extra))
    return shapes


@define(eq=False)
class _Class:
    """Undeclared names that the same positions speak about."""

    names: StringAutomaton | None
    keys: tuple[Key, ...]


@define(eq=False)
class _Members:
    """The members of one alternative's objects."""

    intersection: Intersection
    alternative: tuple[Assertions, ...]
    required: dict[str, Location] = field(init=False)
    declared: dict[str, None] = field(init=False)
    names: tuple[Key, ...] = field(init=False)
    classes: list[_Class] = field(init=False)
    counts: Counts = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.required = {
            name: each.location("required") for each in self.alternative for name in each.required
        }
        properties = chain.from_iterable(each.properties for each in self.alternative)
        self.declared = dict.fromkeys(properties) | dict.fromkeys(self.required)
        self.names = self.intersection.child(
            each.names for each in self.alternative if each.names is not None
        )
        self.classes = list(self._classes())
        self.counts = Counts.of(
            ((each.min_properties, each.max_properties, each) for each in self.alternative),
            "Properties",
        )
        self.counts.check("members")

    def keys(self, name: str) -> list[Key]:
        """The positions that apply to a member."""
        holds = self.intersection.conjunctions.evaluation.holds
        if any(not holds(name, key) for key in self.names):
            return [FALSE]
        return list(chain.from_iterable(each.keys_of_member(name) for each in self.alternative))

    def location(self, keyword: str) -> Location:
        """Where a keyword stands that the alternative has."""
        field_of = {"patternProperties": "patterns", "propertyNames": "names"}[keyword]
        owner = next(each for each in self.alternative if getattr(each, field_of))
        return owner.location(keyword)

    def _classes(self) -> Iterator[_Class]:
        """The undeclared names, sorted by the positions that speak about them."""
        allowed: StringAutomaton | None = None
        if self.names:
            allowed = self._allowed()
            if allowed is not None and allowed.empty:
                return
        tests = list(
            dict.fromkeys(test for each in self.alternative for test, _ in each.patterns)
        )
        if not tests and allowed is None:
            yield _Class(None, self._keys_of_class(frozenset()))
            return
        at = self.location("patternProperties" if tests else "propertyNames")
        for names, places in classes([test.automaton() for test in tests], allowed, at):
            matching = frozenset(tests[place] for place in places)
            yield _Class(names, self._keys_of_class(matching))

    def _keys_of_class(self, matching: frozenset[Test]) -> tuple[Key, ...]:
        found: list[Key] = []
        for each in self.alternative:
            keys = [key for test, key in each.patterns if test in matching]
            if not keys and each.additional is not None:
                keys = [each.additional]
            found += keys
        return self.intersection.child(found)

    def _allowed(self) -> StringAutomaton | None:
        """The strings that every ``propertyNames`` admits; None is every string."""
        at = self.location("propertyNames")
        parts: list[StringAutomaton] = []
        for shape in self.intersection.strings(self.names):
            if isinstance(shape, FiniteShape):
                texts = [value for value in shape.values if isinstance(value, str)]
                parts.append(of_names(texts, at))
            elif isinstance(shape, StringShape):
                language = bounded(shape.automaton, shape.minimum, shape.maximum, at)
                if language is None:
                    return None
                parts.append(language)
        return united(parts, at)

    def candidates(self, some: SomeMember) -> Iterator[tuple[str, Key]]:
        """Members that can be the one that a negation asks for.

        Raises:
            UnsupportedSchema: There is no end of them.
        """
        for name in self.declared:
            if self._qualifies(some, name):
                yield name, some.key
        for each in self.classes:
            child = self.intersection.child((*each.keys, some.key))
            if not self.intersection.satisfiable(child):
                continue
            names = None if each.names is None else finite_texts(each.names, MAX_NAMES)
            if names is None:
                if self._apart(some, each):
                    continue
                raise UnsupportedSchema(
                    "that some undeclared member fails it cannot be enforced",
                    location=some.location,
                    hint="additionalProperties: false beside it",
                )
            for name in names:
                if name not in self.declared and self._qualifies(some, name):
                    yield name, some.key

    def _apart(self, some: SomeMember, each: _Class) -> bool:
        """Whether no name of a class is of the kind that is asked for."""
        if some.test is None or each.names is None:
            return False
        found = classes([some.test.automaton()], each.names, some.location)
        return all(not places for _, places in found)

    def _qualifies(self, some: SomeMember, name: str) -> bool:
        if name in some.declared or any(test.holds(name) for test in some.patterns):
            return False
        if some.test is not None and not some.test.holds(name):
            return False
        holds = self.intersection.conjunctions.evaluation.holds
        return some.names is None or holds(name, some.names)

    def shape(self, extra: dict[str, list[Key]]) -> ObjectShape:
        """The shape in which some members are required and satisfy further positions."""
        declared = self.declared | dict.fromkeys(extra)
        members = []
        for name in declared:
            child = self.intersection.child((*self.keys(name), *extra.get(name, ())))
            needed = name in self.required or name in extra
            if child == (FALSE,) and not needed:
                continue
            members.append(Member(name, self.intersection.node(child), needed))
        others: dict[int, StringAutomaton | None] = {}
        for each in self.classes:
            if each.keys == (FALSE,) or _covers(frozenset(declared), each.names):
                continue
            node = self.intersection.node(each.keys)
            if node in others:
                at = self.location("patternProperties")
                parts = [others[node], each.names]
                others[node] = united([part for part in parts if part is not None], at)
            else:
                others[node] = each.names
        return ObjectShape(
            tuple(members),
            frozenset(declared),
            tuple(OtherMembers(names, node) for node, names in others.items()),
            self.counts.least,
            self.counts.greatest,
        )


def _covers(declared: frozenset[str], names: StringAutomaton | None) -> bool:
    """Whether all names of a class are declared."""
    if names is None:
        return False
    texts = finite_texts(names, len(declared))
    return texts is not None and declared.issuperset(texts)
