"""What one schema object asserts, checked keyword by keyword."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from attrs import Factory, define, evolve, field, frozen

from infernix_constraints.json_schema.numbers import Bound
from infernix_constraints.json_schema.source import Json, child
from infernix_constraints.json_schema.values import (
    Identity,
    Value,
    check_text,
    freeze,
    identity,
    is_integral,
    survives_parsing,
)
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

KINDS: Final = ("null", "boolean", "object", "array", "string", "number")

#: Keywords that describe and never assert.
ANNOTATIONS: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "readOnly",
        "writeOnly",
        "deprecated",
    }
)

DRAFT_2020_12 = "2020-12"
DRAFT_07 = "draft-07"
_DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": DRAFT_2020_12,
    "http://json-schema.org/draft-07/schema": DRAFT_07,
    "https://json-schema.org/draft-07/schema": DRAFT_07,
}

#: Larger lengths and item counts are refused wherever they count, so this loses nothing.
_COUNT_CEILING = 2**31


def _identities(finite: Finite) -> frozenset[Identity]:
    return frozenset(map(identity, finite.values))


@frozen
class Finite:
    """A list of admitted values.

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
class Assertions:
    """One schema object, without what lies in other schema positions but their pointers.

    Every assertion but ``kinds`` and ``finite`` speaks about one JSON type and leaves the others alone.

    Attributes:
        pointer: The schema's own position.
        kinds: The admitted JSON types.
        integral: Numbers have no fraction.
        finite: Lists of admitted values; a value is in all of them.
        lower: The bounds below numbers.
        upper: The bounds above numbers.
        min_length: Least length of strings.
        max_length: Greatest length of strings, or None.
        min_items: Least length of arrays.
        max_items: Greatest length of arrays, or None.
        items: Position that asserts on every item, or None.
        properties: Positions by member name, in the order of the source.
        additional: Position that asserts on every member not in ``properties``, or None.
        required: Names that objects have.
        reference: Position that applies in place, or None.
        any_of: Positions of which at least one applies in place; None when there is no such choice.
    """

    pointer: str
    kinds: frozenset[str] = frozenset(KINDS)
    integral: bool = False
    finite: tuple[Finite, ...] = ()
    lower: tuple[Bound, ...] = ()
    upper: tuple[Bound, ...] = ()
    min_length: int = 0
    max_length: int | None = None
    min_items: int = 0
    max_items: int | None = None
    items: str | None = None
    properties: Mapping[str, str] = field(factory=dict)
    additional: str | None = None
    required: tuple[str, ...] = ()
    reference: str | None = None
    any_of: tuple[str, ...] | None = None

    def location(self, keyword: str | None = None) -> Location:
        """This schema, or one of its keywords."""
        return Location(pointer=self.pointer, keyword=keyword)

    @cached_property
    def asserts_itself(self) -> bool:
        """Something is asserted here and not only by the schemas that apply in place."""
        return evolve(self, reference=None, any_of=None) != Assertions(self.pointer)

    @property
    def in_place(self) -> tuple[str, ...]:
        """Positions that all apply to the same value."""
        return () if self.reference is None else (self.reference,)

    @property
    def alias(self) -> str | None:
        """The position that asserts exactly the same, when this one only refers to it."""
        plain = not self.asserts_itself and self.any_of is None and len(self.in_place) == 1
        return self.in_place[0] if plain else None

    @property
    def vacuous(self) -> bool:
        """Every value satisfies this schema."""
        return not self.asserts_itself and self.any_of is None and not self.in_place


@define
class _Reader:
    """Reads the keywords of one schema object.

    Attributes:
        pointer: Its position.
        draft: The dialect.
        found: Assertion fields read so far.
        positions: Schema positions met directly below this one, with their documents.
    """

    pointer: str
    draft: str
    found: dict[str, Any] = field(factory=dict)
    positions: dict[str, Json] = field(factory=dict)

    def at(self, keyword: str) -> Location:
        return Location(pointer=self.pointer, keyword=keyword)

    def invalid(self, keyword: str, what: str) -> InvalidSchema:
        return InvalidSchema(f"{keyword} must be {what}", location=self.at(keyword))

    def position(self, value: Json, *tokens: str | int) -> str:
        """Registers a subschema and returns its pointer."""
        pointer = self.pointer
        for token in tokens:
            pointer = child(pointer, token)
        self.positions[pointer] = value
        return pointer

    def members(self, keyword: str, value: Json) -> dict[str, Json]:
        if not isinstance(value, dict):
            raise self.invalid(keyword, "an object of schemas")
        return value

    def add(self, name: str, item: object) -> None:
        self.found[name] = (*self.found.get(name, ()), item)

    # One method per keyword family; each takes the keyword and its value.

    def type(self, keyword: str, value: Json) -> None:
        names = value if isinstance(value, list) else [value]
        if not names or any(name not in (*KINDS, "integer") for name in names):
            raise InvalidSchema(
                "type must be the name of a JSON type, or a list of them",
                location=self.at(keyword),
                hint=f"one of {', '.join((*KINDS, 'integer'))}",
            )
        if len(set(map(str, names))) < len(names):
            raise self.invalid(keyword, "free of repetitions")
        kinds = {"number" if name == "integer" else str(name) for name in names}
        self.found["kinds"] = frozenset(kinds)
        self.found["integral"] = "integer" in names and "number" not in names

    def enum(self, keyword: str, value: Json) -> None:
        if not isinstance(value, list):
            raise self.invalid(keyword, "a list of values")
        self.add("finite", Finite(keyword, tuple(freeze(item, self.at(keyword)) for item in value)))

    def const(self, keyword: str, value: Json) -> None:
        self.add("finite", Finite(keyword, (freeze(value, self.at(keyword)),)))

    def bound(self, keyword: str, value: Json) -> None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.invalid(keyword, "a number")
        if not survives_parsing(value):
            raise UnsupportedSchema(
                "the bound is not exact in binary64, so JSON software would change it",
                location=self.at(keyword),
                hint="at most 17 significant digits that read back unchanged",
            )
        side = "lower" if keyword.lower().endswith("minimum") else "upper"
        self.add(side, Bound(value, keyword.startswith("exclusive"), self.at(keyword)))

    def count(self, keyword: str, value: Json) -> None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not value >= 0:
            raise self.invalid(keyword, "a non-negative integer")
        if value < _COUNT_CEILING and not is_integral(value):
            raise self.invalid(keyword, "a non-negative integer")
        name = f"{keyword[:3]}_{keyword[3:].lower()}"  # minLength is min_length
        self.found[name] = int(min(value, _COUNT_CEILING))

    def items(self, keyword: str, value: Json) -> None:
        if isinstance(value, list):
            if self.draft != DRAFT_07:
                raise self.invalid(keyword, "a schema")
            raise unsupported(self.pointer, keyword, "a list of item schemas")
        self.found[keyword] = self.position(value, keyword)

    def properties(self, keyword: str, value: Json) -> None:
        members = self.members(keyword, value)
        for name in members:
            check_text(name, self.at(keyword))
        self.found[keyword] = {
            name: self.position(schema, keyword, name) for name, schema in members.items()
        }

    def additional(self, keyword: str, value: Json) -> None:
        self.found["additional"] = self.position(value, keyword)

    def required(self, keyword: str, value: Json) -> None:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.invalid(keyword, "a list of member names")
        names = [str(name) for name in value]
        if len(set(names)) < len(names):
            raise self.invalid(keyword, "free of repetitions")
        for name in names:
            check_text(name, self.at(keyword))
        self.found[keyword] = tuple(names)

    def reference(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if not value.startswith("#"):
            raise UnsupportedSchema(
                f"the reference {value!r} leaves the document",
                location=self.at(keyword),
                hint="references of the form #/$defs/name",
            )
        self.found["reference"] = value

    def any_of(self, keyword: str, value: Json) -> None:
        if not isinstance(value, list) or not value:
            raise self.invalid(keyword, "a non-empty list of schemas")
        self.found["any_of"] = tuple(
            self.position(schema, keyword, index) for index, schema in enumerate(value)
        )

    def definitions(self, keyword: str, value: Json) -> None:
        for name, schema in self.members(keyword, value).items():
            self.position(schema, keyword, name)

    def dialect(self, keyword: str, value: Json) -> None:
        if self.pointer:
            raise unsupported(self.pointer, keyword, "a dialect below the root")
        dialect_of(value)

    def identifier(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if self.pointer:
            raise unsupported(self.pointer, keyword, "an identifier below the root")


_KEYWORDS: dict[str, Callable[[_Reader, str, Json], None]] = {
    "type": _Reader.type,
    "enum": _Reader.enum,
    "const": _Reader.const,
    "properties": _Reader.properties,
    "required": _Reader.required,
    "additionalProperties": _Reader.additional,
    "items": _Reader.items,
    "minItems": _Reader.count,
    "maxItems": _Reader.count,
    "minLength": _Reader.count,
    "maxLength": _Reader.count,
    "minimum": _Reader.bound,
    "maximum": _Reader.bound,
    "exclusiveMinimum": _Reader.bound,
    "exclusiveMaximum": _Reader.bound,
    "anyOf": _Reader.any_of,
    "$ref": _Reader.reference,
    "$defs": _Reader.definitions,
    "definitions": _Reader.definitions,
    "$schema": _Reader.dialect,
    "$id": _Reader.identifier,
}

_NOT_BESIDE_DRAFT_07_REFERENCE = frozenset(_KEYWORDS) - {
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$id",
}


def unsupported(pointer: str, keyword: str, what: str) -> UnsupportedSchema:
    """A refusal that names the supported keywords."""
    return UnsupportedSchema(
        f"{what} cannot be enforced",
        location=Location(pointer=pointer, keyword=keyword),
        hint=f"supported are {', '.join(_KEYWORDS)} and annotations",
    )


def dialect_of(value: Json) -> str:
    """The dialect that a root's ``$schema`` names.

    Raises:
        UnsupportedSchema: It is neither 2020-12 nor draft-07.
    """
    draft = _DIALECTS.get(value.removesuffix("#")) if isinstance(value, str) else None
    if draft is None:
        raise UnsupportedSchema(
            f"the dialect {value!r} is not known",
            location=Location(pointer="", keyword="$schema"),
            hint=f"one of {', '.join(_DIALECTS)}",
        )
    return draft


def read_schema(pointer: str, document: Json, draft: str) -> tuple[Assertions, dict[str, Json]]:
    """Checks one schema position.

    Returns:
        Its assertions, with ``reference`` still as it is written, and the schema positions directly
        below it with their documents.

    Raises:
        InvalidSchema: It is not a schema.
        UnsupportedSchema: It asserts something that cannot be enforced.
    """
    if isinstance(document, bool):
        kinds = frozenset(KINDS) if document else frozenset[str]()
        return Assertions(pointer, kinds), {}
    if not isinstance(document, dict):
        raise InvalidSchema(
            "a schema must be an object or a boolean", location=Location(pointer=pointer)
        )
    reader = _Reader(pointer, draft)
    for keyword, value in document.items():
        if keyword in ANNOTATIONS:
            continue
        read = _KEYWORDS.get(keyword)
        if read is None:
            raise unsupported(pointer, keyword, f"the keyword {keyword!r}")
        if draft == DRAFT_07 and "$ref" in document and keyword in _NOT_BESIDE_DRAFT_07_REFERENCE:
            raise UnsupportedSchema(
                "draft-07 ignores assertions beside $ref",
                location=reader.at(keyword),
                hint="leave $schema out, or name 2020-12, where they apply",
            )
        read(reader, keyword, value)
    return Assertions(pointer, **reader.found), reader.positions
