"""Reading the keywords of any type, of numbers and of strings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from types import MappingProxyType
from typing import Final

from infernix_constraints.json_schema.assertions import KINDS, Finite, Multiple
from infernix_constraints.json_schema.keywords import DRAFT_04, FORMATS
from infernix_constraints.json_schema.languages import Test
from infernix_constraints.json_schema.numbers import Bound
from infernix_constraints.json_schema.reading import Reader
from infernix_constraints.json_schema.source import Json
from infernix_constraints.json_schema.values import (
    MAX_VALUES,
    count_values,
    freeze,
    survives_parsing,
    too_many_values,
)
from infernix_core.errors import InvalidSchema, UnsupportedSchema


def _type(reader: Reader, keyword: str, value: Json) -> None:
    names = value if isinstance(value, list) else [value]
    if not names or any(
        not isinstance(name, str) or name not in (*KINDS, "integer") for name in names
    ):
        raise InvalidSchema(
            "type must be the name of a JSON type, or a list of them",
            location=reader.at(keyword),
            hint=f"one of {', '.join((*KINDS, 'integer'))}",
        )
    if len(set(map(str, names))) < len(names):
        raise reader.invalid(keyword, "free of repetitions")
    kinds = {"number" if name == "integer" else str(name) for name in names}
    reader.found["kinds"] = frozenset(kinds)
    reader.found["integral"] = "integer" in names and "number" not in names
    if reader.dialect == DRAFT_04:
        reader.found["plain"] = reader.found["integral"]


def _enum(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, list):
        raise reader.invalid(keyword, "a list of values")
    _count_values(reader, keyword, value)
    finite = Finite(keyword, tuple(freeze(item, reader.at(keyword)) for item in value))
    if reader.dialect == DRAFT_04 and not 0 < len(value) == len(finite.identities):
        raise reader.invalid(keyword, "a list of different values, at least one, in draft-04")
    reader.add("finite", finite)


def _const(reader: Reader, keyword: str, value: Json) -> None:
    _count_values(reader, keyword, value)
    reader.add("finite", Finite(keyword, (freeze(value, reader.at(keyword)),)))


def _count_values(reader: Reader, keyword: str, value: Json) -> None:
    reader.reading.listed += count_values(value, MAX_VALUES)
    if reader.reading.listed > MAX_VALUES:
        raise too_many_values(reader.at(keyword))


def _number(reader: Reader, keyword: str, value: Json) -> int | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise reader.invalid(keyword, "a number")
    if not survives_parsing(value):
        raise UnsupportedSchema(
            "the number is not exact in binary64, so JSON software would change it",
            location=reader.at(keyword),
            hint="at most 17 significant digits that read back unchanged",
        )
    return value


def _bound(reader: Reader, keyword: str, value: Json) -> None:
    side = "lower" if keyword.lower().endswith("minimum") else "upper"
    exclusive = keyword.startswith("exclusive")
    if reader.dialect == DRAFT_04:
        sibling = f"exclusive{keyword.removeprefix('exclusive').capitalize()}"
        if exclusive:
            if not isinstance(value, bool):
                raise reader.invalid(keyword, "a boolean")
            if keyword.removeprefix("exclusive").lower() not in reader.document:
                raise reader.invalid(keyword, "beside the bound that it is about")
            return
        exclusive = reader.document.get(sibling) is True
    elif exclusive and isinstance(value, bool):
        raise InvalidSchema(
            f"{keyword} must be a number",
            location=reader.at(keyword),
            hint="booleans are draft-04's, which $schema would have to name",
        )
    reader.add(side, Bound(_number(reader, keyword, value), exclusive, reader.at(keyword)))


def _multiple(reader: Reader, keyword: str, value: Json) -> None:
    number = _number(reader, keyword, value)
    if not number > 0:
        raise reader.invalid(keyword, "a number above 0")
    reader.add("multiples", Multiple(number, reader.at(keyword)))


def _count(reader: Reader, keyword: str, value: Json) -> None:
    reader.found[f"{keyword[:3]}_{keyword[3:].lower()}"] = reader.counted(keyword, value)


def _pattern(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "a regular expression")
    reader.add("tests", Test("pattern", value, reader.at(keyword)))


def _format(reader: Reader, keyword: str, value: Json) -> None:
    if not isinstance(value, str):
        raise reader.invalid(keyword, "a string")
    if value in FORMATS:
        reader.add("tests", Test("format", value, reader.at(keyword)))
    else:
        reader.note(keyword, f"the format {value!r} asserts nothing here")


#: How each keyword is read.
VALUES: Final[Mapping[str, Callable[[Reader, str, Json], None]]] = MappingProxyType(
    {
        "type": _type,
        "enum": _enum,
        "const": _const,
        "minimum": _bound,
        "maximum": _bound,
        "exclusiveMinimum": _bound,
        "exclusiveMaximum": _bound,
        "multipleOf": _multiple,
        "minLength": _count,
        "maxLength": _count,
        "pattern": _pattern,
        "format": _format,
        "minItems": _count,
        "maxItems": _count,
        "minProperties": _count,
        "maxProperties": _count,
    }
)
