"""A plain JSON reader that tells complete texts, prefixes, and the byte where a text goes wrong."""

from __future__ import annotations

import json
import re

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_PREFIX = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:(?<=[0-9])[eE][+-]?[0-9]*)?)?")
_BLANK = " \t\n\r"


class _End(Exception):
    """The text ends here, and more could follow."""


class _Wrong(Exception):
    def __init__(self, position: int) -> None:
        self.position = position


def verdict(text: str) -> str:
    """``complete``, ``prefix``, or ``invalid at N`` (a character offset)."""
    try:
        position = _blanks(text, _value(text, _blanks(text, 0)))
    except _End:
        return "prefix"
    except _Wrong as wrong:
        return f"invalid at {wrong.position}"
    if position < len(text):
        return f"invalid at {position}"
    json.loads(text)
    return "complete"


def _blanks(text: str, position: int) -> int:
    while position < len(text) and text[position] in _BLANK:
        position += 1
    return position


def _peek(text: str, position: int) -> str:
    if position >= len(text):
        raise _End
    return text[position]


def _value(text: str, position: int) -> int:
    character = _peek(text, position)
    if character == "{":
        return _members(text, position + 1)
    if character == "[":
        return _items(text, position + 1)
    if character == '"':
        return _string(text, position)
    for word in ("true", "false", "null"):
        if character == word[0]:
            for offset, letter in enumerate(word):
                if _peek(text, position + offset) != letter:
                    raise _Wrong(position + offset)
            return position + len(word)
    match = _NUMBER.match(text, position)
    prefix = _NUMBER_PREFIX.match(text, position)
    end = prefix.end() if prefix is not None else position
    if end == len(text) and end > position:
        if match is None or match.end() < end:
            raise _End
        return end
    if match is None or match.end() < end:
        raise _Wrong(end)
    return match.end()


def _string(text: str, position: int) -> int:
    if _peek(text, position) != '"':
        raise _Wrong(position)
    position += 1
    while (character := _peek(text, position)) != '"':
        if character < " ":
            raise _Wrong(position)
        if character == "\\":
            position += 1
            escaped = _peek(text, position)
            if escaped == "u":
                for offset in range(1, 5):
                    if _peek(text, position + offset) not in "0123456789abcdefABCDEF":
                        raise _Wrong(position + offset)
                position += 4
            elif escaped not in '"\\/bfnrt':
                raise _Wrong(position)
        position += 1
    return position + 1


def _items(text: str, position: int) -> int:
    position = _blanks(text, position)
    if _peek(text, position) == "]":
        return position + 1
    while True:
        position = _blanks(text, _value(text, _blanks(text, position)))
        character = _peek(text, position)
        if character == "]":
            return position + 1
        if character != ",":
            raise _Wrong(position)
        position += 1


def _members(text: str, position: int) -> int:
    position = _blanks(text, position)
    if _peek(text, position) == "}":
        return position + 1
    while True:
        position = _blanks(text, _string(text, _blanks(text, position)))
        if _peek(text, position) != ":":
            raise _Wrong(position)
        position = _blanks(text, _value(text, _blanks(text, position + 1)))
        character = _peek(text, position)
        if character == "}":
            return position + 1
        if character != ",":
            raise _Wrong(position)
        position += 1
