"""The shapes of objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, combinations, product
from typing import TYPE_CHECKING

from attrs import define, evolve, field

from infernix_constraints.json_schema.assertions import FALSE, TRUE, Assertions, Key, SomeMember
from infernix_constraints.json_schema.counts import Counts
from infernix_constraints.json_schema.graph import (
    FiniteShape,
    Member,
    ObjectShape,
    OtherMembers,
    StringShape,
)
from infernix_constraints.json_schema.languages import (
    Test,
    both,
    bounded,
    classes,
    of_names,
    short,
    united,
    without_texts,
)
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.texts import finite_texts
from infernix_core.errors import Location, UnsatisfiableSchema, UnsupportedSchema

if TYPE_CHECKING:
    from infernix_constraints.json_schema.intersection import Intersection

#: Undeclared names that are listed one by one.
MAX_NAMES = 256
#: Optional members that are told apart to count the undeclared ones.
MAX_OPTIONAL = 6
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
    members.check_required()
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
    shapes: list[ObjectShape] = []
    for chosen in product(*choices):
        extra: dict[str, list[Key]] = {}
        for name, key in chosen:
            if name is not None:
                extra.setdefault(name, []).append(key)
        if any(name is None for name, _ in chosen):
            shapes += members.with_undeclared(extra, some[-1].location)
        else:
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
            name: each.location("required" if each.key == each.pointer else None)
            for each in self.alternative
            for name in each.required
        }
        properties = chain.from_iterable(each.properties for each in self.alternative)
        self.declared = dict.fromkeys(properties) | dict.fromkeys(self.required)
        for each in self.alternative:
            for some in each.some_member:
                # Undeclared members can be counted once these are told apart from them.
                if some.key == TRUE:
                    self.declared |= dict.fromkeys(sorted(some.declared))
        self.names = self.intersection.child(
            each.names for each in self.alternative if each.names is not None
        )
        self.classes = list(self._classes())
        self.counts = Counts.of(
            ((each.min_properties, each.max_properties, each) for each in self.alternative),
            "Properties",
        )
        self.counts.check("members")

    def check_required(self) -> None:
        """Refuses objects with a required member that no value is admitted for.

        Raises:
            UnsatisfiableSchema: There is such a member.
        """
        assertions = self.intersection.conjunctions.document.assertions
        for name, location in self.required.items():
            if any(not assertions(key).kinds for key in self.intersection.child(self.keys(name))):
                raise UnsatisfiableSchema(
                    f"{short(name)!r} is required, but no such member is admitted",
                    location=location,
                )

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
        tests = list(dict.fromkeys(test for each in self.alternative for test, _ in each.patterns))
        if not tests and allowed is None:
            yield _Class(None, self._keys_of_class(frozenset()))
            return
        at = self.location("patternProperties" if tests else "propertyNames")
        for names, places in classes([test.automaton for test in tests], allowed, at):
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
        return self._language(self.names, self.location("propertyNames"))

    def _language(self, keys: tuple[Key, ...], at: Location) -> StringAutomaton | None:
        """The strings that satisfy some positions; None is every string."""
        keys = self.intersection.child(keys)
        if not keys:
            return None
        parts: list[StringAutomaton] = []
        for shape in self.intersection.strings(keys):
            if isinstance(shape, FiniteShape):
                texts = [value for value in shape.values if isinstance(value, str)]
                parts.append(of_names(texts, at))
            elif isinstance(shape, StringShape):
                language = bounded(shape.automaton, shape.minimum, shape.maximum, at)
                if language is None:
                    return None
                parts.append(language)
        return united(parts, at)

    def candidates(self, some: SomeMember) -> Iterator[tuple[str | None, Key]]:
        """Members that can be the one that a negation asks for; None is any undeclared one.

        Raises:
            UnsupportedSchema: There is no end of them.
        """
        for name in self.declared:
            if self._qualifies(some, name):
                yield name, some.key
        alive = [each for each in self.classes if self.intersection.satisfiable(each.keys)]
        any_one = False
        for each in alive:
            if not self.intersection.satisfiable(self.intersection.child((*each.keys, some.key))):
                continue
            names, whole = self._qualifying(some, each)
            texts = None if names is None else finite_texts(names, MAX_NAMES)
            if texts is not None:
                for name in texts:
                    if name not in self.declared:
                        yield name, some.key
            elif whole and some.key == TRUE and len(alive) == 1:
                any_one = True
            else:
                raise UnsupportedSchema(
                    "that some undeclared member fails it cannot be enforced",
                    location=some.location,
                    hint="additionalProperties: false beside it",
                )
        if any_one:
            yield None, TRUE

    def _qualifying(self, some: SomeMember, each: _Class) -> tuple[StringAutomaton | None, bool]:
        """The names of a class that are of the kind asked for, and whether they are all undeclared ones."""
        names = each.names
        whole = self.declared.keys() >= some.declared and not some.patterns
        for language in (
            None if some.test is None else some.test.automaton,
            None if some.names is None else self._language((some.names,), some.location),
        ):
            if language is not None:
                names = language if names is None else both(names, language, some.location)
                whole = whole and names == each.names
        for test in some.patterns:
            failing = evolve(test, negated=not test.negated).automaton
            names = failing if names is None else both(names, failing, some.location)
        if some.declared and names is not None:
            names = without_texts(names, some.declared, some.location)
        return names, whole

    def _qualifies(self, some: SomeMember, name: str) -> bool:
        if not some.names_by_itself(name):
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
            tuple(
                OtherMembers(self._undeclared(names, declared), node)
                for node, names in others.items()
            ),
            self.counts.least,
            self.counts.greatest,
        )

    def _undeclared(
        self, names: StringAutomaton | None, declared: Iterable[str]
    ) -> StringAutomaton | None:
        """Names without the declared ones; None is every name, which the reader tells apart by itself."""
        if names is None:
            return None
        taken = [name for name in declared if name in names]
        if not taken:
            return names
        patterns = any(each.patterns for each in self.alternative)
        at = self.location("patternProperties" if patterns else "propertyNames")
        return without_texts(names, taken, at)

    def with_undeclared(self, extra: dict[str, list[Key]], location: Location) -> list[ObjectShape]:
        """The shapes with at least one undeclared member: the declared ones are told apart and counted."""
        shape = self.shape(extra)
        present = [member for member in shape.members if member.required]
        optional = [member for member in shape.members if not member.required]
        if len(optional) > MAX_OPTIONAL:
            raise UnsupportedSchema(
                f"that some undeclared member fails it cannot be enforced beside more than "
                f"{MAX_OPTIONAL} optional members",
                location=location,
            )
        shapes = []
        for count in range(len(optional) + 1):
            for chosen in combinations(optional, count):
                names = {member.name for member in (*present, *chosen)}
                members = tuple(
                    evolve(member, required=True)
                    for member in shape.members
                    if member.name in names
                )
                least = max(shape.minimum, len(members) + 1)
                if shape.maximum is None or least <= shape.maximum:
                    shapes.append(evolve(shape, members=members, minimum=least))
        return shapes


def _covers(declared: frozenset[str], names: StringAutomaton | None) -> bool:
    """Whether all names of a class are declared."""
    if names is None:
        return False
    texts = finite_texts(names, len(declared))
    return texts is not None and declared.issuperset(texts)
