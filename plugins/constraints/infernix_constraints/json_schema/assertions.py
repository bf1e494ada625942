"""What one schema position asserts, free of the document's spelling."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Final

from attrs import Factory, field, fields, frozen

from infernix_constraints.json_schema.languages import Test
from infernix_constraints.json_schema.numbers import Bound
from infernix_constraints.json_schema.values import Identity, Value, identity
from infernix_core.errors import Location, UnsupportedSchema

KINDS: Final = ("null", "boolean", "object", "array", "string", "number")
ALL_KINDS: Final = frozenset(KINDS)

#: The name of a schema position: a JSON Pointer, its negation, or a position made up here.
Key = str

#: The positions that every value and no value satisfies.
TRUE: Final = "#true"
FALSE: Final = "#false"


def negation_of(key: Key) -> Key:
    """The position of the values that do not satisfy a position."""
    if key in (TRUE, FALSE):
        return FALSE if key == TRUE else TRUE
    return key[1:] if key.startswith("!") else f"!{key}"


def _identities(finite: Finite) -> frozenset[Identity]:
    return frozenset(map(identity, finite.values))


@frozen
class Finite:
    """A list of values.

    Attributes:
        keyword: ``enum`` or ``const``.
        values: The values as written.
        identities: Their keys under JSON Schema equality.
    """

    keyword: str
    values: tuple[Value, ...]
    identities: frozenset[Identity] = field(
        init=False, default=Factory(_identities, takes_self=True), repr=False
    )


@frozen
class Multiple:
    """Numbers are multiples of a positive one."""

    value: int | Decimal
    location: Location


@frozen
class Counted:
    """How many items satisfy a position."""

    key: Key
    minimum: int
    maximum: int | None
    location: Location


@frozen
class SomeMember:
    """Some member with a name of a kind does not satisfy what members of that kind would.

    Attributes:
        test: The name satisfies it; None is every name.
        names: A position for the name as a string, or None.
        declared: The name is none of these,
        patterns: and satisfies none of these.
        key: Position that the member's value satisfies.
        location: The keyword that is negated.
    """

    location: Location
    key: Key = TRUE
    test: Test | None = None
    names: Key | None = None
    declared: frozenset[str] = frozenset()
    patterns: tuple[Test, ...] = ()

    def names_by_itself(self, name: str) -> bool:
        """Whether a name is of the kind, but for what ``names`` says."""
        if name in self.declared or any(test.holds(name) for test in self.patterns):
            return False
        return self.test is None or self.test.holds(name)


@frozen
class Refusal:
    """Something about values of one type that cannot be enforced."""

    kind: str
    location: Location
    what: str

    def error(self) -> UnsupportedSchema:
        """The error to raise where values of the type remain."""
        return UnsupportedSchema(f"{self.what} cannot be enforced", location=self.location)


@frozen
class Assertions:
    """One schema position, without what lies in other positions but their keys.

    Every assertion but ``kinds``, ``finite`` and ``excluded`` speaks about one JSON type and leaves the
    others alone.

    Attributes:
        key: The position.
        pointer: Where in the document it comes from.
        kinds: The admitted JSON types.
        integral: Numbers have no fraction.
        fractional: Numbers have a fraction.
        plain: Integers are written without a point, as draft-04 wants it.
        finite: Lists of admitted values; a value is in all of them.
        excluded: Lists of values of which a value is in none.
        lower: The bounds below numbers.
        upper: The bounds above numbers.
        multiples: What numbers are multiples of.
        not_multiples: What numbers are no multiples of.
        min_length: Least length of strings.
        max_length: Greatest length of strings, or None.
        tests: Patterns and formats of strings.
        prefix: Positions of the first items.
        items: Position of every item after them, or None.
        min_items: Least length of arrays.
        max_items: Greatest length of arrays, or None.
        contains: Items that are counted.
        unique: Items differ.
        properties: Positions by member name, in the order of the source.
        patterns: Positions by tests of member names.
        additional: Position of every member that neither of these speaks about, or None.
        required: Names that objects have.
        min_properties: Least number of members.
        max_properties: Greatest number of members, or None.
        names: Position that member names satisfy as strings, or None.
        some_member: What some member is like.
        unevaluated_properties: Position of the members that nothing in place evaluates, or None.
        unevaluated_items: Position of the items that nothing in place evaluates, or None.
        in_place: Positions that all apply to the same value.
        choices: Lists of conjunctions; of each list at least one applies to the same value.
        one_of: Lists of positions; of each list exactly one applies.
        refusals: What cannot be enforced.
        error: Set where the position as a whole cannot be enforced.
    """

    key: Key
    pointer: str
    kinds: frozenset[str] = ALL_KINDS
    integral: bool = False
    fractional: bool = False
    plain: bool = False
    finite: tuple[Finite, ...] = ()
    excluded: tuple[Finite, ...] = ()
    lower: tuple[Bound, ...] = ()
    upper: tuple[Bound, ...] = ()
    multiples: tuple[Multiple, ...] = ()
    not_multiples: tuple[Multiple, ...] = ()
    min_length: int = 0
    max_length: int | None = None
    tests: tuple[Test, ...] = ()
    prefix: tuple[Key, ...] = ()
    items: Key | None = None
    min_items: int = 0
    max_items: int | None = None
    contains: tuple[Counted, ...] = ()
    unique: bool = False
    properties: Mapping[str, Key] = field(factory=dict)
    patterns: tuple[tuple[Test, Key], ...] = ()
    additional: Key | None = None
    required: tuple[str, ...] = ()
    min_properties: int = 0
    max_properties: int | None = None
    names: Key | None = None
    some_member: tuple[SomeMember, ...] = ()
    unevaluated_properties: Key | None = None
    unevaluated_items: Key | None = None
    in_place: tuple[Key, ...] = ()
    choices: tuple[tuple[tuple[Key, ...], ...], ...] = ()
    one_of: tuple[tuple[Key, ...], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    error: UnsupportedSchema | None = field(default=None, eq=False)

    def location(self, keyword: str | None = None) -> Location:
        """Where it comes from, or one of the keywords there."""
        return Location(pointer=self.pointer, keyword=keyword)

    @cached_property
    def asserts_itself(self) -> bool:
        """Something is asserted here and not only by the positions that apply in place."""
        return any(getattr(self, name) != default for name, default in _DEFAULTS)

    @cached_property
    def alias(self) -> Key | None:
        """The position that asserts exactly the same, when this one only refers to it."""
        plain = len(self.in_place) == 1 and not self.choices and not self.one_of
        return self.in_place[0] if plain and not self.asserts_itself else None

    @cached_property
    def vacuous(self) -> bool:
        """Every value satisfies this position."""
        applied = self.in_place or self.choices or self.one_of
        return not applied and not self.asserts_itself

    def keys_of_member(self, name: str) -> list[Key]:
        """The positions that apply to a member of an object, also when it is named nowhere."""
        found = [self.properties[name]] if name in self.properties else []
        found += [key for test, key in self.patterns if test.holds(name)]
        return found if found or self.additional is None else [self.additional]


_APPLIED = ("key", "pointer", "in_place", "choices", "one_of", "error")
_EMPTY = Assertions(TRUE, "")
_DEFAULTS = tuple(
    (each.name, getattr(_EMPTY, each.name))
    for each in fields(Assertions)
    if each.name not in _APPLIED
)
