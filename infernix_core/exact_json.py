"""JSON values whose numbers keep their digits: binary64 is too coarse for what a schema may say."""

from __future__ import annotations

import json
from collections.abc import Callable
from json.encoder import encode_basestring
from typing import Any, NoReturn


class ExactFloat(float):
    """A JSON number with a fraction or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        """From its JSON spelling."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        """The spelling, for whoever prints a number without a JSON encoder: a template does."""
        return self.text


def read_exact(text: str) -> Any:
    """A JSON document whose numbers keep their spelling where Python would print another one, or none.

    Raises:
        ValueError: It is not JSON; NaN and Infinity are none.
        RecursionError: It is nested too deeply.
    """
    return json.loads(
        text, parse_float=ExactFloat, parse_int=_exact_integer, parse_constant=no_constant
    )


def _exact_integer(text: str) -> int | ExactFloat:
    """An integer; by its spelling where it is -0, or has thousands of digits."""
    try:
        number = int(text)
    except ValueError:
        return ExactFloat(text)
    return ExactFloat(text) if text == "-0" else number


def no_constant(name: str) -> NoReturn:
    """Refuses NaN and Infinity, which the interpreter's decoder would let through."""
    raise ValueError(f"{name} is no JSON number")


def json_text(value: Any) -> str:
    """A value as JSON text: members in their order, numbers as they were written.

    Raises:
        TypeError: It holds something that JSON does not know.
        ValueError: It holds a float that is not finite.
        RecursionError: It is nested too deeply, or in itself.
    """
    if not _has_exact(value):
        # By the interpreter's own encoder, which is many times faster and would round the others.
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    pieces: list[str] = []
    write_json(value, pieces.append)
    return "".join(pieces)


def _has_exact(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_exact, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_exact, value))
    return type(value) is ExactFloat


def write_json(value: Any, write: Callable[[str], object], most: int | None = None) -> None:
    """Writes JSON in pieces.

    Args:
        value: What was decoded.
        write: Takes the next piece.
        most: Characters of a string to look at; the rest is left out.
    """
    kind = type(value)
    if kind is str:
        write(encode_basestring(value if most is None else value[: most + 1]))
    elif kind is ExactFloat:
        write(value.text)
    elif kind is int:
        write(int.__repr__(value))
    elif isinstance(value, dict):
        separator = "{"
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError(f"the name {name!r} is no string")
            write(separator)
            write_json(name, write, most)
            write(":")
            write_json(item, write, most)
            separator = ","
        write("}" if value else "{}")
    elif isinstance(value, list | tuple):
        separator = "["
        for item in value:
            write(separator)
            write_json(item, write, most)
            separator = ","
        write("]" if value else "[]")
    else:
        write(json.dumps(value, ensure_ascii=False, allow_nan=False))
