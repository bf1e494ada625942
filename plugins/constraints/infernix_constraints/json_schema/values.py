"""JSON values as data: equality as JSON Schema defines it, and one canonical spelling."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TypeAlias

from attrs import frozen

from infernix_constraints.json_schema.source import Json
from infernix_core.errors import Location, UnsupportedSchema

INT64 = (-(2**63), 2**63 - 1)
#: Containers inside one ``const`` or ``enum`` value.
MAX_VALUE_DEPTH = 256
#: Values that one schema may list, those inside of others included.
MAX_VALUES = 65536

_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


@frozen
class ArrayValue:
    """An array."""

    items: tuple[Value, ...]


@frozen
class ObjectValue:
    """An object, its members in the order of the source."""

    members: tuple[tuple[str, Value], ...]


#: An immutable JSON value.
Value: TypeAlias = "bool | int | Decimal | str | ArrayValue | ObjectValue | None"

#: A hashable key that is equal exactly for values that JSON Schema calls equal.
Identity: TypeAlias = "tuple[str, object]"


def freeze(value: Json, location: Location) -> Value:
    """An immutable copy of a value that can be generated without change.

    Raises:
        UnsupportedSchema: A number would change when JSON software reads it, a string holds a lone
            surrogate, or the value nests deeper than ``MAX_VALUE_DEPTH``.
    """
    return _freeze(value, location, MAX_VALUE_DEPTH)


def count_values(value: Json, limit: int) -> int:
    """How many values there are, those inside included; counting stops above a limit."""
    count, pending = 0, [value]
    while pending and count <= limit:
        item = pending.pop()
        count += 1
        if isinstance(item, list):
            pending += item
        elif isinstance(item, dict):
            pending += item.values()
    return count + len(pending)


def too_many_values(location: Location) -> UnsupportedSchema:
    """The refusal of a schema that lists too many values."""
    return UnsupportedSchema(
        f"the schema lists more than {MAX_VALUES} values",
        location=location,
        hint="shorter lists, or a pattern",
    )


def _freeze(value: Json, location: Location, depth: int) -> Value:
    if isinstance(value, list | dict):
        if not depth:
            raise UnsupportedSchema(
                f"the value nests deeper than {MAX_VALUE_DEPTH}", location=location
            )
        if isinstance(value, list):
            return ArrayValue(tuple(_freeze(item, location, depth - 1) for item in value))
        for name in value:
            check_text(name, location)
        return ObjectValue(
            tuple((name, _freeze(item, location, depth - 1)) for name, item in value.items())
        )
    if isinstance(value, str):
        check_text(value, location)
    elif isinstance(value, int) and not INT64[0] <= value <= INT64[1]:
        raise UnsupportedSchema(
            f"the integer {value} is outside the signed 64-bit range", location=location
        )
    elif isinstance(value, Decimal) and not survives_parsing(value):
        raise UnsupportedSchema(
            "the number is not exact in binary64, so JSON software would change it",
            location=location,
            hint="at most 17 significant digits that read back unchanged",
        )
    return value


def check_text(text: str, location: Location) -> None:
    """Refuses a string that cannot be written as UTF-8."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise UnsupportedSchema("the string holds a lone surrogate", location=location)


def survives_parsing(number: int | Decimal) -> bool:
    """Whether JSON software reads this number and writes it back without changing its value.

    Integers are read exactly up to 64 bits, everything else as binary64.
    """
    if isinstance(number, int) and INT64[0] <= number < 2**64:
        return True
    if isinstance(number, Decimal) and not number.is_finite():
        return False
    try:
        nearest = float(number)
    except OverflowError:
        return False
    return math.isfinite(nearest) and Decimal(repr(nearest)) == number


def identity(value: Value) -> Identity:
    """The value's key under JSON Schema equality: 1 equals 1.0, true does not equal 1."""
    if isinstance(value, ArrayValue):
        return "array", tuple(map(identity, value.items))
    if isinstance(value, ObjectValue):
        return "object", frozenset((name, identity(item)) for name, item in value.members)
    return kind_of(value), value


def kind_of(value: Value) -> str:
    """The JSON type: null, boolean, object, array, string or number."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, ArrayValue) else "object"


def is_integral(value: int | Decimal) -> bool:
    """Whether a number has no fraction, however it is written."""
    return isinstance(value, int) or value == value.to_integral_value()


def escape(character: str) -> str:
    """A character as it is written inside a JSON string: the one spelling that is generated."""
    short = _SHORT_ESCAPES.get(character)
    if short is not None:
        return short
    return character if character >= " " else f"\\u{ord(character):04x}"


def quote(text: str) -> str:
    """A string's canonical JSON text."""
    return f'"{"".join(map(escape, text))}"'


def scalar_text(value: bool | int | Decimal | str | None) -> str:
    """A scalar's canonical JSON text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return repr(float(value))
    return quote(value)
