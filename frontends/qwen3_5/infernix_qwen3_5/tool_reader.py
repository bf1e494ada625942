"""Reads one call: its name, and its arguments as pieces of one JSON object.

The framing is read in one way only. A value ends where its end stands for the first time; nothing else that it
holds, control tokens included, ends it for a reader. Every byte is looked at once.
"""

from __future__ import annotations

import codecs
import enum
import json
from collections.abc import Mapping

from attrs import evolve, frozen

from infernix_core.interfaces.frontend import Piece, ToolCallDelta, ToolCallStart
from infernix_qwen3_5.tokenizer import CLOSE_CALL
from infernix_qwen3_5.tool_contract import END_FUNCTION, FUNCTION, NAMED, PARAMETER, ToolContract
from infernix_qwen3_5.tool_values import OPEN, ValueForm, Writing, open_value


class Unreadable(Exception):
    """What was read is no call."""


def split_utf8(raw: bytes) -> tuple[str, bytes]:
    """Text that is certain, and the incomplete character at the end. Invalid bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw)
    return text, decoder.getstate()[0]


def appended(parts: tuple[bytes, ...], new: bytes) -> tuple[bytes, ...]:
    """Bytes in parts, with ``new`` at their end.

    Each part is longer than the next. So they are few, and bytes that come one by one are copied a logarithmic
    number of times, though every value on the way stays usable.
    """
    if not new:
        return parts
    size, kept = len(new), len(parts)
    while kept and len(parts[kept - 1]) <= size:
        kept -= 1
        size += len(parts[kept])
    return (*parts[:kept], b"".join((*parts[kept:], new)))


class Part(enum.Enum):
    """What comes next within a call."""

    FUNCTION = enum.auto()
    NAME = enum.auto()
    MEMBER = enum.auto()
    PARAMETER = enum.auto()
    VALUE = enum.auto()
    CLOSING = enum.auto()
    END = enum.auto()


@frozen
class CallState:
    """Where a reader is within one call.

    Attributes:
        index: Of the call.
        held: Bytes that are not certain yet: a part of a literal, what may become a value's end, a cut character.
        kept: Of a name or an OPEN value, what has come of it.
        tool: Known from the name on.
        names: Parameters that the call has.
        parameter: The last one of them.
        form: Of its value.
        joint: What stands before the next published argument.
    """

    index: int
    part: Part = Part.FUNCTION
    held: bytes = b""
    kept: tuple[bytes, ...] = ()
    tool: ToolContract | None = None
    names: frozenset[str] = frozenset()
    parameter: str = ""
    form: ValueForm = OPEN
    joint: str = ""

    @property
    def complete(self) -> bool:
        """Whether nothing but the token that closes the call can follow."""
        return self.part is Part.END


Reading = tuple[CallState, bytes]


@frozen(eq=False)
class CallReader:
    """Reads calls of certain tools.

    Attributes:
        contracts: The tools by name.
        others: Whether other names are read too, without any hint for their values.
    """

    contracts: Mapping[str, ToolContract]
    others: bool

    def step(
        self, state: CallState, raw: bytes, *, control: bool = False
    ) -> tuple[CallState, tuple[Piece, ...]]:
        """After bytes that do not close the call, and the pieces that are certain then: all but the last brace.

        Args:
            state: Before them.
            raw: The bytes, or the spelling of a control token, which is a part of values alone.
            control: Whether it is that.

        Raises:
            Unreadable: They cannot be part of a call.
        """
        if control and state.part is not Part.VALUE:
            raise Unreadable(f"{raw.decode()} where {_EXPECTED[state.part]} is due")
        before, texts = state, list[str]()
        while raw:
            state, raw = self._read(state, raw, texts)
        pieces: list[Piece] = []
        if before.tool is None and state.tool is not None:
            pieces.append(ToolCallStart(state.index, state.tool.name))
        if texts:
            pieces.append(ToolCallDelta(state.index, "".join(texts)))
        return state, tuple(pieces)

    def _read(self, state: CallState, raw: bytes, texts: list[str]) -> Reading:
        """After the bytes of one part, and those behind it."""
        match state.part:
            case Part.NAME:
                return self._name(state, raw, texts)
            case Part.PARAMETER:
                return self._parameter(state, raw, texts)
            case Part.VALUE:
                return self._value(state, raw, texts)
        return _literal(state, raw)

    def _name(self, state: CallState, raw: bytes, texts: list[str]) -> Reading:
        state, name, rest = _line(state, raw)
        if name is None:
            return state, rest
        tool = self.contracts.get(name)
        if tool is None:
            if not self.others:
                raise Unreadable(f"{name!r} is none of the tools")
            tool = ToolContract(name, {})
        texts.append("{")
        return evolve(state, part=Part.MEMBER, tool=tool), rest

    def _parameter(self, state: CallState, raw: bytes, texts: list[str]) -> Reading:
        state, name, rest = _line(state, raw)
        if name is None:
            return state, rest
        assert state.tool is not None
        form = state.tool.form(name)
        if name in state.names:
            raise Unreadable(f"the parameter {name!r} comes twice")
        names = state.names | {name}
        state = evolve(state, part=Part.VALUE, parameter=name, names=names, form=form)
        if form.writing is not Writing.OPEN:
            state = _published(state, '"' if form.writing is Writing.TEXT else "", texts)
        return state, rest

    def _value(self, state: CallState, raw: bytes, texts: list[str]) -> Reading:
        data = state.held + raw
        end = data.find(PARAMETER.end)
        if end >= 0:
            rest = data[end + len(PARAMETER.end) :]
            return self._whole_value(state, data[:end], texts), rest
        # What may become the end begins at the last line break, since the end has no other one.
        line = data.rfind(b"\n")
        if line >= 0 and PARAMETER.end.startswith(data[line:]):
            data, held = data[:line], data[line:]
        else:
            held = b""
        writing = state.form.writing
        if writing is Writing.OPEN:
            return evolve(state, kept=appended(state.kept, data), held=held), b""
        # What may become the end also ends a character, a cut one too.
        text, cut = (data.decode("utf-8", "replace"), b"") if held else split_utf8(data)
        _add(texts, _escaped(text) if writing is Writing.TEXT else text)
        return evolve(state, held=held or cut), b""

    def _whole_value(self, state: CallState, raw: bytes, texts: list[str]) -> CallState:
        text = b"".join((*state.kept, raw)).decode("utf-8", "replace")
        if state.form.writing is Writing.TEXT:
            texts.append(_escaped(text) + '"')
        elif state.form.writing is Writing.JSON:
            _add(texts, text)
        else:
            value = open_value(text, state.form.types)
            if value is not None:
                state = _published(state, value, texts)
        return evolve(state, part=Part.CLOSING, held=b"", kept=())


#: The literals of a part, and what comes behind each.
_LITERALS: Mapping[Part, Mapping[bytes, Part]] = {
    Part.FUNCTION: {FUNCTION: Part.NAME},
    Part.MEMBER: {PARAMETER.opening: Part.PARAMETER, END_FUNCTION: Part.END},
    Part.CLOSING: {PARAMETER.closing: Part.MEMBER},
    Part.END: {},
}

_EXPECTED = {
    Part.FUNCTION: repr(FUNCTION.decode()),
    Part.NAME: "the tool's name",
    Part.MEMBER: f"{PARAMETER.opening.decode()!r} or {END_FUNCTION.decode()!r}",
    Part.PARAMETER: "a parameter's name",
    Part.CLOSING: "a line break",
    Part.END: CLOSE_CALL,
}


def _literal(state: CallState, raw: bytes) -> Reading:
    """One of the part's literals, which decides what comes after it."""
    data = state.held + raw
    for literal, part in _LITERALS[state.part].items():
        if data.startswith(literal):
            return evolve(state, part=part, held=b""), data[len(literal) :]
        if literal.startswith(data):
            return evolve(state, held=data), b""
    raise Unreadable(f"{data.decode('utf-8', 'replace')!r} where {_EXPECTED[state.part]} is due")


def _line(state: CallState, raw: bytes) -> tuple[CallState, str | None, bytes]:
    """A name with what follows one; ``None`` while it is not whole."""
    line, found, rest = raw.partition(b"\n")
    kept = appended(state.kept, line + found)
    if not found:
        return evolve(state, kept=kept), None, b""
    whole = b"".join(kept)
    name = whole.removesuffix(NAMED)
    if name == whole or not name:
        raise Unreadable(
            f"{whole.decode('utf-8', 'replace')!r} where {_EXPECTED[state.part]} is due"
        )
    try:
        return evolve(state, kept=()), name.decode(), rest
    except UnicodeDecodeError:
        raise Unreadable(f"the name {name!r} is no UTF-8") from None


def _published(state: CallState, value: str, texts: list[str]) -> CallState:
    """The argument's name and ``value``, or as much as is known of it."""
    texts.append(f"{state.joint}{json.dumps(state.parameter, ensure_ascii=False)}: {value}")
    return evolve(state, joint=", ")


def _escaped(text: str) -> str:
    """A part of a JSON string, without its quotes."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _add(texts: list[str], text: str) -> None:
    if text:
        texts.append(text)
