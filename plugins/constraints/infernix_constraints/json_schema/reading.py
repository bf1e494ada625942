"""One schema object while it is read, and what was read of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from attrs import define, field

from infernix_constraints.json_schema.assertions import Assertions, Key
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.json_schema.keywords import DRAFT_04
from infernix_constraints.json_schema.source import Json, child
from infernix_constraints.json_schema.values import check_text, is_integral
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
        listed: How many values it lists.
    """

    assertions: Assertions
    reference: str | None = None
    keyword: str = "$ref"
    positions: dict[str, Json] = field(factory=dict)
    made_up: dict[Key, Assertions] = field(factory=dict)
    notes: list[Note] = field(factory=list)
    listed: int = 0


@define
class Reader:
    """One schema object while its keywords are read.

    Attributes:
        pointer: Its position.
        dialect: The document's dialect.
        document: The schema object.
        found: The fields of its assertions that were read so far.
        reading: What else was read so far.
    """

    pointer: str
    dialect: int
    document: dict[str, Json]
    found: dict[str, Any] = field(init=False, factory=dict)
    reading: Reading = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.reading = Reading(Assertions(self.pointer, self.pointer))

    def at(self, keyword: str) -> Location:
        """Where one of its keywords stands."""
        return Location(pointer=self.pointer, keyword=keyword)

    def invalid(self, keyword: str, what: str) -> InvalidSchema:
        """The refusal of a keyword whose value is not what it must be."""
        return InvalidSchema(f"{keyword} must be {what}", location=self.at(keyword))

    def unsupported(self, keyword: str, what: str, hint: str | None = None) -> UnsupportedSchema:
        """The refusal of what cannot be enforced."""
        return UnsupportedSchema(f"{what} cannot be enforced", location=self.at(keyword), hint=hint)

    def note(self, keyword: str, text: str) -> None:
        """Notes a keyword that asserts nothing."""
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
        """The members of a value that must be an object."""
        if not isinstance(value, dict):
            raise self.invalid(keyword, "an object of schemas")
        return value

    def schemas(self, keyword: str, value: Json) -> tuple[Key, ...]:
        """The positions of a list of schemas."""
        if not isinstance(value, list) or not value:
            raise self.invalid(keyword, "a non-empty list of schemas")
        return tuple(self.position(schema, keyword, index) for index, schema in enumerate(value))

    def names(self, keyword: str, value: Json) -> tuple[str, ...]:
        """A list of member names."""
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

    def counted(self, keyword: str, value: Json) -> int:
        """A count, as far as counts matter."""
        if isinstance(value, bool) or not isinstance(value, int | Decimal) or not value >= 0:
            raise self.invalid(keyword, "a non-negative integer")
        if self.dialect == DRAFT_04 and isinstance(value, Decimal) and value < _COUNT_CEILING:
            raise self.invalid(keyword, "a non-negative integer, without a point in draft-04")
        if value < _COUNT_CEILING and not is_integral(value):
            raise self.invalid(keyword, "a non-negative integer")
        return int(min(value, _COUNT_CEILING))

    def add(self, name: str, item: object) -> None:
        """Adds to a field of the assertions."""
        self.found[name] = (*self.found.get(name, ()), item)
