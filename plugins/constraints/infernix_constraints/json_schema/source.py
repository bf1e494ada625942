"""Reading a schema's source text: order-preserving, exact and bounded in depth."""

from __future__ import annotations

import json
import re
from decimal import Decimal, InvalidOperation
from typing import NoReturn, TypeAlias

from attrs import frozen

from infernix_core.errors import InvalidSchema, Location, UnsupportedSchema

#: A parsed JSON value. Numbers are exact: ``int`` when written as an integer, else ``Decimal``.
Json: TypeAlias = "bool | int | Decimal | str | list[Json] | dict[str, Json] | None"

#: Characters of a document.
MAX_CHARACTERS = 1 << 21

#: Containers that may be open at once in the source text.
MAX_NESTING = 512

_STRING = r'"(?:[^"\\]|\\.)*+"?'
_BRACKETS = re.compile(_STRING + r"|[\[\]{}]", re.DOTALL)
_CONSTANTS = re.compile(_STRING + r"|NaN|-?Infinity", re.DOTALL)
#: Longer integer literals are far outside every supported range; a Decimal reads them in linear time.
_MAX_INTEGER_DIGITS = 64


@frozen
class _Duplicate:
    """Stands where the reader met an object that names a member twice."""

    name: str


def child(pointer: str, token: str | int) -> str:
    """The JSON Pointer of a member or an item."""
    return f"{pointer}/{str(token).replace('~', '~0').replace('/', '~1')}"


def read_json(source: str) -> Json:
    """Parses JSON text.

    Raises:
        InvalidSchema: The text is not JSON (with line and column) or repeats a member (with its pointer).
        UnsupportedSchema: It nests deeper than ``MAX_NESTING``, or has more than ``MAX_CHARACTERS``.
    """
    if len(source) > MAX_CHARACTERS:
        raise UnsupportedSchema(f"the schema has more than {MAX_CHARACTERS} characters")
    _check_nesting(source)
    repeated: list[_Duplicate] = []

    def members(pairs: list[tuple[str, Json]]) -> object:
        result = dict(pairs)
        if len(result) == len(pairs):
            return result
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                break
            seen.add(name)
        repeated.append(_Duplicate(name))
        return repeated[-1]

    try:
        value: Json = json.loads(
            source,
            object_pairs_hook=members,
            parse_float=_decimal,
            parse_int=_integer,
            parse_constant=lambda name: _refuse_constant(source, name),
        )
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"the schema is not JSON: {error.msg}",
            location=Location(line=error.lineno, column=error.colno),
            hint="a JSON Schema document is a JSON object or a boolean",
        ) from error
    except RecursionError as error:  # the caller's own stack is nearly used up
        raise UnsupportedSchema("the schema nests too deep") from error
    if repeated:
        _refuse_duplicates(value)
    return value


def _check_nesting(source: str) -> None:
    depth = 0
    for match in _BRACKETS.finditer(source):
        if match[0] in "[{":
            depth += 1
            if depth > MAX_NESTING:
                raise UnsupportedSchema(
                    f"the schema nests deeper than {MAX_NESTING} objects and arrays",
                    location=_place(source, match.start()),
                    hint="move inner schemas to $defs and reference them",
                )
        elif match[0] in "]}":
            depth -= 1


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MAX_INTEGER_DIGITS else _decimal(text)


def _decimal(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent beyond every decimal; refused where its value counts
        return Decimal("-Infinity" if text.startswith("-") else "Infinity")


def _refuse_constant(source: str, name: str) -> NoReturn:
    start = next(match.start() for match in _CONSTANTS.finditer(source) if match[0] == name)
    raise InvalidSchema(
        f"the schema is not JSON: {name} is not a number of JSON", location=_place(source, start)
    )


def _place(source: str, offset: int) -> Location:
    """Line and column of a character."""
    return Location(
        line=source.count("\n", 0, offset) + 1, column=offset - source.rfind("\n", 0, offset)
    )


def _refuse_duplicates(value: object) -> NoReturn:
    open_values: list[tuple[str, object]] = [("", value)]
    while open_values:
        pointer, item = open_values.pop()
        if isinstance(item, _Duplicate):
            raise InvalidSchema(
                f"the member {item.name!r} is written twice",
                location=Location(pointer=pointer),
                hint="member names of one object are unique",
            )
        if isinstance(item, dict):
            open_values += [(child(pointer, name), member) for name, member in item.items()]
        elif isinstance(item, list):
            open_values += [(child(pointer, index), entry) for index, entry in enumerate(item)]
    raise InvalidSchema("an object of the schema repeats a member")
