"""Reading compositions, references and names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from infernix_constraints.json_schema.assertions import TRUE, negation_of
from infernix_constraints.json_schema.keywords import (
    DRAFT_2019_09,
    DRAFT_2020_12,
    QUIET,
    dialect_of,
    known,
)
from infernix_constraints.json_schema.reading import Reader
from infernix_constraints.json_schema.source import Json, child

_ANCHORS = {
    DRAFT_2019_09: re.compile(r"[A-Za-z][-A-Za-z0-9.:_]*"),
    DRAFT_2020_12: re.compile(r"[A-Za-z_][-A-Za-z0-9._]*"),
}


def _all_of(reader: Reader, keyword: str, value: Json) -> None:
    reader.found["in_place"] = (*reader.found.get("in_place", ()), *reader.schemas(keyword, value))


def _any_of(reader: Reader, keyword: str, value: Json) -> None:
    reader.add("choices", tuple((key,) for key in reader.schemas(keyword, value)))


def _one_of(reader: Reader, keyword: str, value: Json) -> None:
    reader.add("one_of", reader.schemas(keyword, value))


def _negation(reader: Reader, keyword: str, value: Json) -> None:
    reader.add("in_place", negation_of(reader.position(value, keyword)))


def _condition(reader: Reader, keyword: str, value: Json) -> None:
    reader.position(value, keyword)


def read_condition(reader: Reader) -> None:
    """Reads ``if``, ``then`` and ``else`` together."""
    condition, then, otherwise = (
        child(reader.pointer, keyword) if keyword in reader.document else TRUE
        for keyword in ("if", "then", "else")
    )
    if not known("if", reader.dialect) or condition == TRUE:
        return
    # Alone, a condition matters for what it evaluates.
    evaluates = reader.dialect >= DRAFT_2019_09 and _evaluates(reader.document["if"])
    if then != TRUE or otherwise != TRUE or evaluates:
        reader.add("choices", ((condition, then), (negation_of(condition), otherwise)))


def _reference(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "a string")
    if reader.reading.reference is not None:
        raise reader.unsupported(keyword, f"{keyword} beside {reader.reading.keyword}")
    reader.reading.reference = value


def _dynamic_reference(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "a string")
    if reader.reading.reference is not None:
        raise reader.unsupported(keyword, f"{keyword} beside $ref")
    reader.reading.reference, reader.reading.keyword = value, keyword
    reader.note(keyword, "leads to one place and is read as $ref")


def _definitions(reader: Reader, keyword: str, value: Json) -> None:
    for name, schema in reader.members(keyword, value).items():
        reader.position(schema, keyword, name)


def _schema(reader: Reader, keyword: str, value: Json) -> None:
    _identifier(reader, keyword, value)
    if reader.pointer and dialect_of(value, reader.pointer) != reader.dialect:
        raise reader.unsupported(keyword, "another dialect below the root")


def _identifier(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "a string")
    if keyword == "$id" and reader.dialect >= DRAFT_2019_09 and value.partition("#")[2]:
        raise reader.invalid(keyword, "free of a fragment")


def _anchor(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str) or _ANCHORS[reader.dialect].fullmatch(value) is None:
        raise reader.invalid(keyword, "a name of letters, digits and -._")


def _recursive_anchor(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, bool):
        raise reader.invalid(keyword, "a boolean")


def _vocabulary(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, dict) or not all(isinstance(on, bool) for on in value.values()):
        raise reader.invalid(keyword, "an object of booleans")
    reader.note(keyword, "asserts nothing in a schema")


def _evaluates(schema: Json) -> bool:
    """Whether a condition alone matters, for what it evaluates."""
    return isinstance(schema, dict) and bool(
        schema.keys() - QUIET - {"type", "const", "enum", "required"}
    )


#: How each keyword is read.
COMPOSITIONS: Final[Mapping[str, Callable[[Reader, str, Json], None]]] = MappingProxyType(
    {
        "allOf": _all_of,
        "anyOf": _any_of,
        "oneOf": _one_of,
        "not": _negation,
        "if": _condition,
        "then": _condition,
        "else": _condition,
        "$ref": _reference,
        "$dynamicRef": _dynamic_reference,
        "$recursiveRef": _dynamic_reference,
        "$defs": _definitions,
        "definitions": _definitions,
        "$schema": _schema,
        "id": _identifier,
        "$id": _identifier,
        "$anchor": _anchor,
        "$dynamicAnchor": _anchor,
        "$recursiveAnchor": _recursive_anchor,
        "$vocabulary": _vocabulary,
    }
)
