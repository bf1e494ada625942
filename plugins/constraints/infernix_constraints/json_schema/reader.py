"""Reading one schema position: every keyword's value checked, and what it asserts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from infernix_constraints.json_schema.assertions import ALL_KINDS, Assertions
from infernix_constraints.json_schema.graph import Note
from infernix_constraints.json_schema.keywords import (
    ASSERTING,
    DESCRIBING,
    DRAFT_07,
    DRAFT_2019_09,
    DRAFT_2020_12,
    HARMLESS,
    QUIET,
    dialect_name,
    foreign,
    known,
)
from infernix_constraints.json_schema.metaschema import check_annotation
from infernix_constraints.json_schema.read_compositions import COMPOSITIONS, read_condition
from infernix_constraints.json_schema.read_parts import PARTS
from infernix_constraints.json_schema.read_values import VALUES
from infernix_constraints.json_schema.reading import Reader, Reading
from infernix_constraints.json_schema.source import Json
from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

_KEYWORDS: Final[Mapping[str, Callable[[Reader, str, Json], None]]] = MappingProxyType(
    {**VALUES, **PARTS, **COMPOSITIONS}
)
_GIVEN_UP = {"$recursiveRef": COMPOSITIONS["id"], "$recursiveAnchor": COMPOSITIONS["$anchor"]}
#: Keywords that count beside ``$ref`` in every draft.
_BESIDE_REFERENCE = frozenset({"$ref", "$defs", "definitions", "$schema"})


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
    return _read(Reader(pointer, dialect, document))


def _read(reader: Reader) -> Reading:
    reading = reader.reading
    error: UnsupportedSchema | None = None
    for keyword, value in reader.document.items():
        try:
            _read_keyword(reader, keyword, value)
        except UnsupportedSchema as refused:
            error = error or refused
    read_condition(reader)
    found = reader.found
    if reader.dialect <= DRAFT_07 and reading.reference is not None:
        # The standard ignores what stands beside a reference.
        found, error = {}, None
        reading.made_up.clear()
        reading.notes = [
            Note(reader.pointer, keyword, f"ignored beside $ref in {dialect_name(reader.dialect)}")
            for keyword in reader.document
            if keyword in ASSERTING and keyword not in _BESIDE_REFERENCE
        ]
    reading.assertions = Assertions(reader.pointer, reader.pointer, **found, error=error)
    return reading


def _read_keyword(reader: Reader, keyword: str, value: Json) -> None:
    if keyword in DESCRIBING:
        if reader.dialect >= DESCRIBING[keyword]:
            check_annotation(reader.pointer, keyword, value)
        if keyword not in QUIET:
            reader.note(keyword, "describes and asserts nothing")
        if keyword == "contentSchema" and reader.dialect >= DRAFT_2019_09:
            reader.position(value, keyword)
        return
    read = _KEYWORDS.get(keyword)
    if keyword not in ASSERTING:
        reader.note(keyword, "no keyword of JSON Schema; asserts nothing")
    elif not known(keyword, reader.dialect):
        if reader.dialect == DRAFT_2020_12 and keyword in _GIVEN_UP:
            # Its metaschema still knows them.
            _GIVEN_UP[keyword](reader, keyword, value)
        if keyword not in HARMLESS:
            raise foreign(reader.pointer, keyword, reader.dialect)
        reader.note(keyword, f"no keyword of {dialect_name(reader.dialect)}; asserts nothing")
    elif read is None:
        raise reader.unsupported(keyword, f"the keyword {keyword!r}")
    else:
        read(reader, keyword, value)
