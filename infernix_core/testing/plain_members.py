"""Members of an object for the plain provider: written out from the schema's own text, byte by byte.

It knows what a test needs to enumerate: strings, and lists of values; every other schema is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from attrs import evolve, frozen

from infernix_core.errors import InvalidOption
from infernix_core.interfaces.language import (
    Language,
    Literal,
    MemberFraming,
    Members,
    Sequence,
    Union,
)

_FILLS = (0x80, 0x90, 0xA0)


@frozen
class RawText(Language):
    """Text up to the first place where it holds ``end``, that included.

    Attributes:
        read: Its bytes so far.
    """

    end: bytes
    read: bytes = b""

    def after(self, byte: int) -> Language | None:
        """What is left after one more byte; ``None`` when it cannot come."""
        read = self.read + bytes([byte])
        if read.endswith(self.end):
            return Literal(b"")
        return evolve(self, read=read) if _begins_text(read) else None


@frozen
class OpenMembers(Language):
    """Members of any names but these, as many as there may be."""

    framing: MemberFraming
    used: frozenset[bytes] = frozenset()


@frozen
class OpenName(Language):
    """A name that is none of these, and the rest of the members behind it.

    Attributes:
        read: Its bytes so far, and those of what ends it.
    """

    framing: MemberFraming
    used: frozenset[bytes]
    read: bytes = b""

    def after(self, byte: int) -> Language | None:
        """See :class:`RawText`."""
        framing, read = self.framing, self.read + bytes([byte])
        if byte != 0x0A:
            return evolve(self, read=read) if _begins_text(read) else None
        name = read.removesuffix(framing.naming)
        if name == read or not name or name in self.used:
            return None
        rest = OpenMembers(framing, self.used | {name})
        return Sequence((RawText(framing.end), Literal(framing.closing), rest))


def expand(node: Language) -> list[Language] | None:
    """The ways in which these nodes go on; ``None`` for nodes of other kinds."""
    if isinstance(node, OpenMembers):
        opened = Sequence((Literal(node.framing.opening), OpenName(node.framing, node.used)))
        return [Sequence(()), opened]
    if isinstance(node, Members):
        if node.schema is None:
            return [OpenMembers(node.framing)]
        return [Sequence(tuple(_declared(node, json.loads(node.schema.source))))]
    return None


def raw_names(node: Members) -> frozenset[str]:
    """The members that are written as raw text: those whose values are strings."""
    assert node.schema is not None
    properties = json.loads(node.schema.source)["properties"]
    return frozenset(name for name, schema in properties.items() if _is_raw(schema))


def _is_raw(schema: Any) -> bool:
    values = schema.get("enum", ())
    return schema == {"type": "string"} or (
        bool(values) and all(isinstance(value, str) for value in values)
    )


def _declared(node: Members, schema: Any) -> Iterator[Language]:
    for name, value in schema["properties"].items():
        framing = node.framing
        member = Sequence(
            (
                Literal(framing.opening + name.encode() + framing.naming),
                _value(value, framing, raw=_is_raw(value)),
                Literal(framing.closing),
            )
        )
        required = name in schema.get("required", ())
        yield member if required else Union((Sequence(()), member))


def _value(schema: Any, framing: MemberFraming, *, raw: bool) -> Language:
    if schema == {"type": "string"} and raw:
        return RawText(framing.end)
    if schema == {"type": "boolean"}:
        schema = {"enum": [True, False]}
    if "enum" not in schema:
        raise InvalidOption(f"the plain provider knows no {schema}")
    texts = [each if raw else json.dumps(each, ensure_ascii=False) for each in schema["enum"]]
    return Union(tuple(Literal(text.encode() + framing.end) for text in texts))


def _begins_text(read: bytes) -> bool:
    """Whether up to three more bytes make it UTF-8; one of these fits every beginning of a character."""
    return any(_is_text(read + bytes([fill]) * count) for count in range(4) for fill in _FILLS)


def _is_text(read: bytes) -> bool:
    try:
        read.decode()
    except UnicodeDecodeError:
        return False
    return True
