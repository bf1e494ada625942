"""How the values of arguments are written in the model's framing, and what JSON they become."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from infernix_core.exact_json import no_constant

TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})

#: What JSON calls whitespace; nothing else may stand around a value.
BLANKS = " \t\r\n"


class Writing(enum.Enum):
    """How a value is written.

    Attributes:
        TEXT: It is a string, and its text is written as it is.
        JSON: It is written as JSON.
        OPEN: Nobody knows before its end: the model may write JSON or text.
    """

    TEXT = enum.auto()
    JSON = enum.auto()
    OPEN = enum.auto()


@frozen
class ValueForm:
    """What is known of a parameter's values before they come.

    Attributes:
        types: Declared JSON types of an OPEN value; none when the declaration says nothing that helps.
    """

    writing: Writing
    types: frozenset[str] = field(default=frozenset())


TEXT, JSON, OPEN = ValueForm(Writing.TEXT), ValueForm(Writing.JSON), ValueForm(Writing.OPEN)


def hinted_form(schema: Any) -> ValueForm:
    """The form of a parameter whose schema is a hint and nothing more."""
    types = _declared_types(schema)
    return TEXT if "string" in types else ValueForm(Writing.OPEN, types)


def _declared_types(schema: Any) -> frozenset[str]:
    """The types of ``type``, else those of an ``anyOf`` or ``oneOf`` whose branches all have one."""
    if not isinstance(schema, Mapping):
        return frozenset()
    if "type" in schema:
        declared = schema["type"]
        names = declared if isinstance(declared, list) else [declared]
        return frozenset(name for name in names if isinstance(name, str)) & TYPES
    for keyword in ("anyOf", "oneOf"):
        branches = schema.get(keyword)
        if isinstance(branches, list):
            types = [_declared_types(branch) for branch in branches if _has_type(branch)]
            return frozenset().union(*types) if len(types) == len(branches) else frozenset()
    return frozenset()


def _has_type(branch: Any) -> bool:
    return isinstance(branch, Mapping) and "type" in branch


def open_value(text: str, types: frozenset[str]) -> str | None:
    """The JSON text of an OPEN value; ``None`` when the argument is left out.

    JSON is taken as it stands, numbers with all their digits, whatever the declared types are: of two readings a
    tool can complain about, this is the one that was written. Text that is no JSON is a string.
    """
    bare = text.strip(BLANKS)
    if types and not bare:
        return None
    if "boolean" in types and bare.lower() in ("true", "false"):
        return bare.lower()
    return bare if _is_json(bare) else json.dumps(text, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        value = json.loads(text, parse_int=str, parse_float=str, parse_constant=no_constant)
        # An escape can spell half of a surrogate pair, which nothing that gets the arguments could encode.
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return False
    return True
