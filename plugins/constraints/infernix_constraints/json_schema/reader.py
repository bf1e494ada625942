"""Reading one schema object: every keyword's value checked, and what it asserts."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from attrs import define, field

from infernix_constraints.json_schema.assertions import (
    ALL_KINDS,
    FALSE,
    KINDS,
    TRUE,
    Assertions,
    Counted,
    Finite,
    Key,
    Multiple,
    negation_of,
)
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.json_schema.keywords import (
    ASSERTING,
    DESCRIBING,
    DRAFT_04,
    DRAFT_07,
    DRAFT_2019_09,
    DRAFT_2020_12,
    FORMATS,
    HARMLESS,
    QUIET,
    dialect_name,
    foreign,
    known,
)
from infernix_constraints.json_schema.languages import Test
from infernix_constraints.json_schema.metaschema import check_annotation
from infernix_constraints.json_schema.numbers import Bound
from infernix_constraints.json_schema.source import Json, child
from infernix_constraints.json_schema.values import (
    check_text,
    freeze,
    is_integral,
    survives_parsing,
)
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

#: Larger lengths and item counts are refused wherever they count, so this loses nothing.
_COUNT_CEILING = 2**31


@define
class Reading:
    """What was read of one schema position.

    Attributes:
        assertions: What it asserts; its references are still to be resolved.
        reference: The reference as it is written, or None.
        keyword: The keyword of the reference.
        positions: The positions directly below with their documents, in the order of the source.
        made_up: Positions that the document does not spell out.
        notes: What asserts nothing.
    """

    assertions: Assertions
    reference: str | None = None
    keyword: str = "$ref"
    positions: dict[str, Json] = field(factory=dict)
    made_up: dict[Key, Assertions] = field(factory=dict)
    notes: list[Note] = field(factory=list)


def read_schema(pointer: str, document: Json, dialect: int) -> Reading:
    """Checks and reads one schema position.

    What it asserts and cannot be enforced is in the assertions' ``error``.

    Raises:
        InvalidSchema: It is not a schema of its dialect.
    """
    if isinstance(document, bool):
        kinds = ALL_KINDS if document else frozenset[str]()
        return Reading(Assertions(pointer, pointer, kinds))
    if not isinstance(document, dict):
        raise InvalidSchema(
            "a schema must be an object or a boolean", location=Location(pointer=pointer)
        )
    return Reader(pointer, dialect, document).read()


@define
class Reader:
    """Reads the keywords of one schema object, one method per family of keywords.

    Attributes:
        pointer: Its position.
        dialect: The document's dialect.
        document: The schema object.
    """

    pointer: str
    dialect: int
    document: dict[str, Json]
    found: dict[str, Any] = field(init=False, factory=dict)
    reading: Reading = field(init=False)
    error: UnsupportedSchema | None = field(init=False, default=None)

    def read(self) -> Reading:
        """Reads all keywords."""
        self.reading = Reading(Assertions(self.pointer, self.pointer))
        for keyword, value in self.document.items():
            try:
                self._keyword(keyword, value)
            except UnsupportedSchema as error:
                self.error = self.error or error
        self._conditional()
        if self.dialect <= DRAFT_07 and self.reading.reference is not None:
            self.found, self.error = {}, self._reference_error
            self.reading.made_up.clear()
            self.reading.notes = [
                Note(self.pointer, keyword, f"ignored beside $ref in {dialect_name(self.dialect)}")
                for keyword in self.document
                if keyword in ASSERTING and keyword not in _BESIDE_REFERENCE
            ]
        self.reading.assertions = Assertions(
            self.pointer, self.pointer, **self.found, error=self.error
        )
        return self.reading

    _reference_error: UnsupportedSchema | None = field(init=False, default=None)

    def _keyword(self, keyword: str, value: Json) -> None:
        if keyword in DESCRIBING:
            if self.dialect >= DESCRIBING[keyword]:
                check_annotation(self.pointer, keyword, value)
            if keyword not in QUIET:
                self.note(keyword, "describes and asserts nothing")
            if keyword == "contentSchema" and self.dialect >= DRAFT_2019_09:
                self.position(value, keyword)
            return
        read = _KEYWORDS.get(keyword)
        if keyword not in ASSERTING:
            self.note(keyword, "no keyword of JSON Schema; asserts nothing")
        elif not known(keyword, self.dialect):
            if keyword not in HARMLESS:
                raise foreign(self.pointer, keyword, self.dialect)
            self.note(keyword, f"no keyword of {dialect_name(self.dialect)}; asserts nothing")
        elif read is None:
            raise self.unsupported(keyword, f"the keyword {keyword!r}")
        else:
            read(self, keyword, value)

    def at(self, keyword: str) -> Location:
        return Location(pointer=self.pointer, keyword=keyword)

    def invalid(self, keyword: str, what: str) -> InvalidSchema:
        return InvalidSchema(f"{keyword} must be {what}", location=self.at(keyword))

    def unsupported(self, keyword: str, what: str, hint: str | None = None) -> UnsupportedSchema:
        return UnsupportedSchema(
            f"{what} cannot be enforced", location=self.at(keyword), hint=hint
        )

    def note(self, keyword: str, text: str) -> None:
        self.reading.notes.append(Note(self.pointer, keyword, text))

    def position(self, value: Json, *tokens: str | int) -> Key:
        """Registers a subschema and returns its key."""
        pointer = self.pointer
        for token in tokens:
            pointer = child(pointer, token)
        boolean = isinstance(value, bool) and self.dialect == DRAFT_04
        if boolean and tokens[0] not in ("additionalProperties", "additionalItems"):
            raise InvalidSchema(
                "a schema of draft-04 must be an object", location=Location(pointer=pointer)
            )
        self.reading.positions[pointer] = value
        return pointer

    def made_up(self, label: str, **assertions: Any) -> Key:
        """Registers a position that the document does not spell out."""
        key = f"#{self.pointer}#{label}"
        self.reading.made_up[key] = Assertions(key, self.pointer, **assertions)
        return key

    def members(self, keyword: str, value: Json) -> dict[str, Json]:
        if not isinstance(value, dict):
            raise self.invalid(keyword, "an object of schemas")
        return value

    def schemas(self, keyword: str, value: Json) -> tuple[Key, ...]:
        if not isinstance(value, list) or not value:
            raise self.invalid(keyword, "a non-empty list of schemas")
        return tuple(self.position(schema, keyword, index) for index, schema in enumerate(value))

    def names(self, keyword: str, value: Json) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.invalid(keyword, "a list of member names")
        if not value and self.dialect == DRAFT_04:
            raise self.invalid(keyword, "a list of at least one name in draft-04")
        names = [str(name) for name in value]
        if len(set(names)) < len(names):
            raise self.invalid(keyword, "free of repetitions")
        for name in names:
            check_text(name, self.at(keyword))
        return tuple(names)

    def add(self, name: str, item: object) -> None:
        self.found[name] = (*self.found.get(name, ()), item)

    # Any type.

    def type(self, keyword: str, value: Json) -> None:
        names = value if isinstance(value, list) else [value]
        if not names or any(
            not isinstance(name, str) or name not in (*KINDS, "integer") for name in names
        ):
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
        if not value and self.dialect == DRAFT_04:
            raise self.invalid(keyword, "a list of at least one value in draft-04")
        self.add("finite", Finite(keyword, tuple(freeze(item, self.at(keyword)) for item in value)))

    def const(self, keyword: str, value: Json) -> None:
        self.add("finite", Finite(keyword, (freeze(value, self.at(keyword)),)))

    # Numbers and lengths.

    def number(self, keyword: str, value: Json) -> int | Decimal:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise self.invalid(keyword, "a number")
        if not survives_parsing(value):
            raise UnsupportedSchema(
                "the number is not exact in binary64, so JSON software would change it",
                location=self.at(keyword),
                hint="at most 17 significant digits that read back unchanged",
            )
        return value

    def bound(self, keyword: str, value: Json) -> None:
        side = "lower" if keyword.lower().endswith("minimum") else "upper"
        exclusive = keyword.startswith("exclusive")
        if self.dialect == DRAFT_04:
            sibling = f"exclusive{keyword.removeprefix('exclusive').capitalize()}"
            if exclusive:
                if not isinstance(value, bool):
                    raise self.invalid(keyword, "a boolean")
                if keyword.removeprefix("exclusive").lower() not in self.document:
                    raise self.invalid(keyword, "beside the bound that it is about")
                return
            exclusive = self.document.get(sibling) is True
        elif exclusive and isinstance(value, bool):
            raise InvalidSchema(
                f"{keyword} must be a number",
                location=self.at(keyword),
                hint="booleans are draft-04's, which $schema would have to name",
            )
        self.add(side, Bound(self.number(keyword, value), exclusive, self.at(keyword)))

    def multiple(self, keyword: str, value: Json) -> None:
        number = self.number(keyword, value)
        if not number > 0:
            raise self.invalid(keyword, "a number above 0")
        self.add("multiples", Multiple(number, self.at(keyword)))

    def counted(self, keyword: str, value: Json) -> int:
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not value >= 0:
            raise self.invalid(keyword, "a non-negative integer")
        if self.dialect == DRAFT_04 and isinstance(value, Decimal) and value < _COUNT_CEILING:
            raise self.invalid(keyword, "a non-negative integer, without a point in draft-04")
        if value < _COUNT_CEILING and not is_integral(value):
            raise self.invalid(keyword, "a non-negative integer")
        return int(min(value, _COUNT_CEILING))

    def count(self, keyword: str, value: Json) -> None:
        self.found[f"{keyword[:3]}_{keyword[3:].lower()}"] = self.counted(keyword, value)

    # Strings.

    def pattern(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a regular expression")
        self.add("tests", Test("pattern", value, self.at(keyword)))

    def format(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if value in FORMATS:
            self.add("tests", Test("format", value, self.at(keyword)))
        else:
            self.note(keyword, f"the format {value!r} asserts nothing here")

    # Arrays.

    def items(self, keyword: str, value: Json) -> None:
        if isinstance(value, list):
            if self.dialect == DRAFT_2020_12:
                raise InvalidSchema(
                    "items must be a schema",
                    location=self.at(keyword),
                    hint="prefixItems holds a list; or $schema names an older draft",
                )
            if not value:
                raise self.invalid(keyword, "a schema or a non-empty list of schemas")
            self.found["prefix"] = tuple(
                self.position(schema, keyword, index) for index, schema in enumerate(value)
            )
        else:
            self.found["items"] = self.position(value, keyword)

    def prefix_items(self, keyword: str, value: Json) -> None:
        self.found["prefix"] = self.schemas(keyword, value)

    def additional_items(self, keyword: str, value: Json) -> None:
        position = self.position(value, keyword)
        if isinstance(self.document.get("items"), list):
            self.found["items"] = position

    def unique(self, keyword: str, value: Json) -> None:
        if not isinstance(value, bool):
            raise self.invalid(keyword, "a boolean")
        self.found["unique"] = value

    def contains(self, keyword: str, value: Json) -> None:
        key = self.position(value, keyword)
        minimum, maximum = 1, None
        if known("minContains", self.dialect):
            if "minContains" in self.document:
                minimum = self.counted("minContains", self.document["minContains"])
            if "maxContains" in self.document:
                maximum = self.counted("maxContains", self.document["maxContains"])
        self.add("contains", Counted(key, minimum, maximum, self.at(keyword)))

    def contained(self, keyword: str, value: Json) -> None:
        self.counted(keyword, value)

    # Objects.

    def properties(self, keyword: str, value: Json) -> None:
        members = self.members(keyword, value)
        positions = {name: self.position(schema, keyword, name) for name, schema in members.items()}
        for name in members:
            check_text(name, self.at(keyword))
        self.found[keyword] = positions

    def pattern_properties(self, keyword: str, value: Json) -> None:
        self.found["patterns"] = tuple(
            (Test("pattern", pattern, self.at(keyword)), self.position(schema, keyword, pattern))
            for pattern, schema in self.members(keyword, value).items()
        )

    def additional(self, keyword: str, value: Json) -> None:
        self.found["additional"] = self.position(value, keyword)

    def property_names(self, keyword: str, value: Json) -> None:
        self.found["names"] = self.position(value, keyword)

    def required(self, keyword: str, value: Json) -> None:
        if isinstance(value, bool):
            raise InvalidSchema(
                "required must be a list of member names",
                location=self.at(keyword),
                hint="it stands beside properties and lists the names of those required",
            )
        self.found[keyword] = self.names(keyword, value)

    def unevaluated(self, keyword: str, value: Json) -> None:
        self.found[f"unevaluated_{keyword[11:].lower()}"] = self.position(value, keyword)

    # Presence of members.

    def dependent_required(self, keyword: str, value: Json) -> None:
        for name, needed in self.members(keyword, value).items():
            self._depends(keyword, name, self.names(keyword, needed))

    def dependent_schemas(self, keyword: str, value: Json) -> None:
        for name, schema in self.members(keyword, value).items():
            self._depends(keyword, name, self.position(schema, keyword, name))

    def dependencies(self, keyword: str, value: Json) -> None:
        for name, needed in self.members(keyword, value).items():
            if isinstance(needed, list):
                self._depends(keyword, name, self.names(keyword, needed))
            else:
                self._depends(keyword, name, self.position(needed, keyword, name))

    def _depends(self, keyword: str, name: str, needed: Key | tuple[str, ...]) -> None:
        check_text(name, self.at(keyword))
        if needed == ():
            return
        missing = self.made_up(f"missing {name}", properties={name: FALSE})
        if isinstance(needed, str):
            present = self.made_up(
                f"present {name}", kinds=frozenset({"object"}), required=(name,)
            )
            self.add("choices", ((missing,), (present, needed)))
        else:
            label = f"{keyword} {name}"
            present = self.made_up(
                label, kinds=frozenset({"object"}), required=tuple(dict.fromkeys((name, *needed)))
            )
            self.add("choices", ((missing,), (present,)))

    # Compositions.

    def all_of(self, keyword: str, value: Json) -> None:
        self.found["in_place"] = (*self.found.get("in_place", ()), *self.schemas(keyword, value))

    def any_of(self, keyword: str, value: Json) -> None:
        self.add("choices", tuple((key,) for key in self.schemas(keyword, value)))

    def one_of(self, keyword: str, value: Json) -> None:
        self.add("one_of", self.schemas(keyword, value))

    def negation(self, keyword: str, value: Json) -> None:
        self.add("in_place", negation_of(self.position(value, keyword)))

    def condition(self, keyword: str, value: Json) -> None:
        self.position(value, keyword)

    def _conditional(self) -> None:
        """``if``, ``then`` and ``else`` together."""
        condition, then, otherwise = (
            child(self.pointer, keyword) if keyword in self.document else TRUE
            for keyword in ("if", "then", "else")
        )
        if not known("if", self.dialect) or condition == TRUE:
            return
        if then != TRUE or otherwise != TRUE or _evaluates(self.document["if"]):
            self.add("choices", ((condition, then), (negation_of(condition), otherwise)))

    # References and names.

    def reference(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if self.reading.reference is not None:
            raise self.unsupported(keyword, f"{keyword} beside {self.reading.keyword}")
        self.reading.reference = value

    def dynamic_reference(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if self.reading.reference is not None:
            raise self.unsupported(keyword, f"{keyword} beside $ref")
        self.reading.reference, self.reading.keyword = value, keyword
        self.note(keyword, "leads to one place and is read as $ref")

    def definitions(self, keyword: str, value: Json) -> None:
        for name, schema in self.members(keyword, value).items():
            self.position(schema, keyword, name)

    def schema(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")

    def identifier(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str):
            raise self.invalid(keyword, "a string")
        if keyword == "$id" and self.dialect >= DRAFT_2019_09 and value.partition("#")[2]:
            raise self.invalid(keyword, "free of a fragment")

    def anchor(self, keyword: str, value: Json) -> None:
        if not isinstance(value, str) or _ANCHORS[self.dialect].fullmatch(value) is None:
            raise self.invalid(keyword, "a name of letters, digits and -._")

    def recursive_anchor(self, keyword: str, value: Json) -> None:
        if not isinstance(value, bool):
            raise self.invalid(keyword, "a boolean")

    def vocabulary(self, keyword: str, value: Json) -> None:
        if not isinstance(value, dict) or not all(isinstance(on, bool) for on in value.values()):
            raise self.invalid(keyword, "an object of booleans")
        self.note(keyword, "asserts nothing in a schema")


def _evaluates(schema: Json) -> bool:
    """Whether a condition alone matters, for what it evaluates."""
    return isinstance(schema, dict) and bool(
        schema.keys() - QUIET - {"type", "const", "enum", "required"}
    )


_ANCHORS = {
    DRAFT_2019_09: re.compile(r"[A-Za-z][-A-Za-z0-9.:_]*"),
    DRAFT_2020_12: re.compile(r"[A-Za-z_][-A-Za-z0-9._]*"),
}
_BESIDE_REFERENCE = frozenset({"$ref", "$defs", "definitions", "$schema"})

_KEYWORDS: dict[str, Callable[[Reader, str, Json], None]] = {
    "type": Reader.type,
    "enum": Reader.enum,
    "const": Reader.const,
    "minimum": Reader.bound,
    "maximum": Reader.bound,
    "exclusiveMinimum": Reader.bound,
    "exclusiveMaximum": Reader.bound,
    "multipleOf": Reader.multiple,
    "minLength": Reader.count,
    "maxLength": Reader.count,
    "pattern": Reader.pattern,
    "format": Reader.format,
    "items": Reader.items,
    "prefixItems": Reader.prefix_items,
    "additionalItems": Reader.additional_items,
    "minItems": Reader.count,
    "maxItems": Reader.count,
    "uniqueItems": Reader.unique,
    "contains": Reader.contains,
    "minContains": Reader.contained,
    "maxContains": Reader.contained,
    "properties": Reader.properties,
    "patternProperties": Reader.pattern_properties,
    "additionalProperties": Reader.additional,
    "propertyNames": Reader.property_names,
    "required": Reader.required,
    "minProperties": Reader.count,
    "maxProperties": Reader.count,
    "unevaluatedProperties": Reader.unevaluated,
    "unevaluatedItems": Reader.unevaluated,
    "dependentRequired": Reader.dependent_required,
    "dependentSchemas": Reader.dependent_schemas,
    "dependencies": Reader.dependencies,
    "allOf": Reader.all_of,
    "anyOf": Reader.any_of,
    "oneOf": Reader.one_of,
    "not": Reader.negation,
    "if": Reader.condition,
    "then": Reader.condition,
    "else": Reader.condition,
    "$ref": Reader.reference,
    "$dynamicRef": Reader.dynamic_reference,
    "$recursiveRef": Reader.dynamic_reference,
    "$defs": Reader.definitions,
    "definitions": Reader.definitions,
    "$schema": Reader.schema,
    "id": Reader.identifier,
    "$id": Reader.identifier,
    "$anchor": Reader.anchor,
    "$dynamicAnchor": Reader.anchor,
    "$recursiveAnchor": Reader.recursive_anchor,
    "$vocabulary": Reader.vocabulary,
}
