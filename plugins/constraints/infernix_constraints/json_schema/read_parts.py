"""Reading the keywords of arrays and objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from infernix_constraints.json_schema.assertions import FALSE, Counted, Key
from infernix_constraints.json_schema.keywords import DRAFT_2020_12, known
from infernix_constraints.json_schema.languages import Test
from infernix_constraints.json_schema.reading import Reader
from infernix_constraints.json_schema.source import Json
from infernix_constraints.json_schema.values import check_text
from infernix_core.errors import InvalidSchema


def _items(reader: Reader, keyword: str, value: Json) -> None:
    if isinstance(value, list):
        if reader.dialect == DRAFT_2020_12:
            raise InvalidSchema(
                "items must be a schema",
                location=reader.at(keyword),
                hint="prefixItems holds a list; or $schema names an older draft",
            )
        if not value:
            raise reader.invalid(keyword, "a schema or a non-empty list of schemas")
        reader.found["prefix"] = tuple(
            reader.position(schema, keyword, index) for index, schema in enumerate(value)
        )
    else:
        reader.found["items"] = reader.position(value, keyword)


def _prefix_items(reader: Reader, keyword: str, value: Json) -> None:
    reader.found["prefix"] = reader.schemas(keyword, value)


def _additional_items(reader: Reader, keyword: str, value: Json) -> None:
    position = reader.position(value, keyword)
    if isinstance(reader.document.get("items"), list):
        reader.found["items"] = position


def _unique(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, bool):
        raise reader.invalid(keyword, "a boolean")
    reader.found["unique"] = value


def _contains(reader: Reader, keyword: str, value: Json) -> None:
    key = reader.position(value, keyword)
    minimum, maximum = 1, None
    if known("minContains", reader.dialect):
        if "minContains" in reader.document:
            minimum = reader.counted("minContains", reader.document["minContains"])
        if "maxContains" in reader.document:
            maximum = reader.counted("maxContains", reader.document["maxContains"])
    reader.add("contains", Counted(key, minimum, maximum, reader.at(keyword)))


def _contained(reader: Reader, keyword: str, value: Json) -> None:
    reader.counted(keyword, value)


def _properties(reader: Reader, keyword: str, value: Json) -> None:
    members = reader.members(keyword, value)
    positions = {name: reader.position(schema, keyword, name) for name, schema in members.items()}
    for name in members:
        check_text(name, reader.at(keyword))
    reader.found[keyword] = positions


def _pattern_properties(reader: Reader, keyword: str, value: Json) -> None:
    reader.found["patterns"] = tuple(
        (Test("pattern", pattern, reader.at(keyword)), reader.position(schema, keyword, pattern))
        for pattern, schema in reader.members(keyword, value).items()
    )


def _additional(reader: Reader, keyword: str, value: Json) -> None:
    reader.found["additional"] = reader.position(value, keyword)


def _property_names(reader: Reader, keyword: str, value: Json) -> None:
    reader.found["names"] = reader.position(value, keyword)


def _required(reader: Reader, keyword: str, value: Json) -> None:
    if isinstance(value, bool):
        raise InvalidSchema(
            "required must be a list of member names",
            location=reader.at(keyword),
            hint="it stands beside properties and lists the names of those required",
        )
    reader.found[keyword] = reader.names(keyword, value)


def _unevaluated(reader: Reader, keyword: str, value: Json) -> None:
    reader.found[f"unevaluated_{keyword[11:].lower()}"] = reader.position(value, keyword)


def _dependent_required(reader: Reader, keyword: str, value: Json) -> None:
    for name, needed in reader.members(keyword, value).items():
        _depends(reader, keyword, name, reader.names(keyword, needed))


def _dependent_schemas(reader: Reader, keyword: str, value: Json) -> None:
    for name, schema in reader.members(keyword, value).items():
        _depends(reader, keyword, name, reader.position(schema, keyword, name))


def _dependencies(reader: Reader, keyword: str, value: Json) -> None:
    for name, needed in reader.members(keyword, value).items():
        if isinstance(needed, list):
            _depends(reader, keyword, name, reader.names(keyword, needed))
        else:
            _depends(reader, keyword, name, reader.position(needed, keyword, name))


def _depends(reader: Reader, keyword: str, name: str, needed: Key | tuple[str, ...]) -> None:
    check_text(name, reader.at(keyword))
    if needed == ():
        return
    missing = reader.made_up(f"missing {name}", properties={name: FALSE})
    if isinstance(needed, str):
        present = reader.made_up(f"present {name}", kinds=frozenset({"object"}), required=(name,))
        reader.add("choices", ((missing,), (present, needed)))
    else:
        label = f"{keyword} {name}"
        present = reader.made_up(
            label, kinds=frozenset({"object"}), required=tuple(dict.fromkeys((name, *needed)))
        )
        reader.add("choices", ((missing,), (present,)))


#: How each keyword is read.
PARTS: Final[Mapping[str, Callable[[Reader, str, Json], None]]] = MappingProxyType(
    {
        "items": _items,
        "prefixItems": _prefix_items,
        "additionalItems": _additional_items,
        "uniqueItems": _unique,
        "contains": _contains,
        "minContains": _contained,
        "maxContains": _contained,
        "properties": _properties,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional,
        "propertyNames": _property_names,
        "required": _required,
        "unevaluatedProperties": _unevaluated,
        "unevaluatedItems": _unevaluated,
        "dependentRequired": _dependent_required,
        "dependentSchemas": _dependent_schemas,
        "dependencies": _dependencies,
    }
)
