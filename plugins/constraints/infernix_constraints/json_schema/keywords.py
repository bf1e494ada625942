"""The dialects of JSON Schema and the keywords of each."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from infernix_constraints.json_schema.source import Json
from infernix_core.errors import Location, UnsupportedSchema

#: The dialects, oldest first; comparing them compares their age.
DRAFT_04: Final = 4
DRAFT_06: Final = 6
DRAFT_07: Final = 7
DRAFT_2019_09: Final = 2019
DRAFT_2020_12: Final = 2020

_NAMES = {
    DRAFT_04: "draft-04",
    DRAFT_06: "draft-06",
    DRAFT_07: "draft-07",
    DRAFT_2019_09: "2019-09",
    DRAFT_2020_12: "2020-12",
}
_URIS = {
    **{f"json-schema.org/draft-0{draft}/schema": draft for draft in (4, 6, 7)},
    "json-schema.org/draft/2019-09/schema": DRAFT_2019_09,
    "json-schema.org/draft/2020-12/schema": DRAFT_2020_12,
}

_ALL = (DRAFT_04, DRAFT_2020_12)
_FROM_06 = (DRAFT_06, DRAFT_2020_12)
_FROM_07 = (DRAFT_07, DRAFT_2020_12)
_FROM_2019 = (DRAFT_2019_09, DRAFT_2020_12)

#: Keywords that assert, or that say what others mean, with the first and the last dialect that has them.
ASSERTING: Final = MappingProxyType(
    {
        **dict.fromkeys(
            (
                *("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
                *("multipleOf", "minLength", "maxLength", "pattern", "format"),
                *("items", "minItems", "maxItems", "uniqueItems"),
                *("properties", "required", "additionalProperties", "patternProperties"),
                *("minProperties", "maxProperties", "dependencies"),
                *("allOf", "anyOf", "oneOf", "not", "$ref", "$schema", "definitions"),
            ),
            _ALL,
        ),
        **dict.fromkeys(("const", "contains", "propertyNames", "$id"), _FROM_06),
        **dict.fromkeys(("if", "then", "else"), _FROM_07),
        **dict.fromkeys(
            (
                *("dependentRequired", "dependentSchemas", "minContains", "maxContains"),
                *("unevaluatedProperties", "unevaluatedItems", "$defs", "$anchor", "$vocabulary"),
            ),
            _FROM_2019,
        ),
        "id": (DRAFT_04, DRAFT_04),
        "additionalItems": (DRAFT_04, DRAFT_2019_09),
        "$recursiveRef": (DRAFT_2019_09, DRAFT_2019_09),
        "$recursiveAnchor": (DRAFT_2019_09, DRAFT_2019_09),
        "prefixItems": (DRAFT_2020_12, DRAFT_2020_12),
        "$dynamicRef": (DRAFT_2020_12, DRAFT_2020_12),
        "$dynamicAnchor": (DRAFT_2020_12, DRAFT_2020_12),
        **dict.fromkeys(("divisibleBy", "disallow", "extends"), (3, 3)),
    }
)

#: Keywords that assert nothing where their dialect does not know them: names and places of definitions.
HARMLESS: Final = frozenset(
    {"id", "$id", "$anchor", "$defs", "$vocabulary", "$recursiveAnchor", "$dynamicAnchor"}
)

#: Keywords that describe and never assert, with the first dialect that has them; what their metaschemas
#: ask of their values is part of the metaschema check.
DESCRIBING: Final = MappingProxyType(
    {
        **dict.fromkeys(("title", "description", "default"), DRAFT_04),
        "examples": DRAFT_06,
        **dict.fromkeys(("$comment", "readOnly"), DRAFT_07),
        **dict.fromkeys(("contentEncoding", "contentMediaType"), DRAFT_07),
        "writeOnly": DRAFT_2019_09,
        **dict.fromkeys(("deprecated", "contentSchema"), DRAFT_2019_09),
    }
)

#: Of those, the ones that everybody knows to assert nothing.
QUIET: Final = frozenset(
    {
        *("title", "description", "default", "examples", "$comment"),
        *("readOnly", "writeOnly", "deprecated"),
    }
)

#: The formats that are assertions here.
FORMATS: Final = frozenset(
    {
        *("date-time", "time", "date", "duration", "email"),
        *("hostname", "uri", "ipv4", "ipv6", "uuid"),
    }
)


def dialect_of(value: Json, pointer: str = "") -> int:
    """The dialect that a ``$schema`` names, with http or https and with or without ``#``.

    Raises:
        UnsupportedSchema: It names none of those known here.
    """
    if isinstance(value, str):
        scheme, separator, rest = value.strip().removesuffix("#").partition("://")
        if separator and scheme in ("http", "https") and rest in _URIS:
            return _URIS[rest]
    raise UnsupportedSchema(
        f"the dialect {value!r} is not known",
        location=Location(pointer=pointer, keyword="$schema"),
        hint=f"one of {', '.join(f'https://{uri}' for uri in _URIS)}",
    )


def dialect_name(dialect: int) -> str:
    """The dialect's usual name."""
    return _NAMES[dialect]


def known(keyword: str, dialect: int) -> bool:
    """Whether a keyword that asserts in some dialect belongs to this one."""
    first, last = ASSERTING[keyword]
    return first <= dialect <= last


def foreign(pointer: str, keyword: str, dialect: int) -> UnsupportedSchema:
    """The refusal of a keyword that asserts in another dialect."""
    first, _ = ASSERTING[keyword]
    return UnsupportedSchema(
        f"{keyword!r} asserts nothing in {dialect_name(dialect)}, but does in other drafts",
        location=Location(pointer=pointer, keyword=keyword),
        hint=f"name the dialect in $schema, such as {dialect_name(first)}"
        if first in _NAMES
        else "a keyword of draft-03, which is not supported",
    )
