"""The decoder of everything published: reasoning, content and calls.

It follows the rules of the output language. Reasoning ends at the token ``</think>``, recognised by its id
alone, and exactly two line breaks after it, matched as bytes; a line break directly before the token belongs to
the framing too. While tools may be called, the token ``<tool_call>`` opens a call, and up to two line breaks
directly before it are framing. Calls come one line break apart.
"""

from __future__ import annotations

import enum

from attrs import evolve, frozen

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.frontend import (
    Channel,
    OutputRequest,
    Piece,
    PreparedPrompt,
    Segment,
    StartPhase,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, RawMembers
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_qwen3_5.continuation import content_parts, spells_calls
from infernix_qwen3_5.language import SEPARATOR
from infernix_qwen3_5.tokenizer import CLOSE_CALL, CLOSE_THINK, OPEN_CALL
from infernix_qwen3_5.tool_contract import tool_contracts
from infernix_qwen3_5.tool_reader import CallReader, CallState, Unreadable, appended, split_utf8

#: Characters of an unreadable call that its error shows.
_SHOWN = 200


class _Phase(enum.Enum):
    REASONING = enum.auto()
    SEPARATOR = enum.auto()
    CONTENT = enum.auto()
    CALL = enum.auto()
    BETWEEN = enum.auto()


@frozen
class OpenCall:
    """A call that has not ended.

    Attributes:
        state: Where its reader is.
        read: All that was read of it, and the line breaks before it.
        arguments: What is held back of its arguments.
        closed: Its close came within a value. Should the value not end, this was no call.
    """

    state: CallState
    read: tuple[bytes, ...] = ()
    arguments: tuple[bytes, ...] = ()
    closed: bool = False


@frozen
class DecoderState:
    """Where a decoder is.

    Attributes:
        phase: The channel that the next bytes belong to, the separator, a call, or right behind one.
        held: Bytes that are not certain yet: a cut character, line breaks that may be framing, a part of
            the separator.
        calls: How many have ended.
        call: The one that has not, in phase CALL.
        owed: Pieces that the first step publishes.
    """

    phase: _Phase
    held: bytes = b""
    calls: int = 0
    call: OpenCall | None = None
    owed: tuple[Piece, ...] = ()


Decoded = tuple[DecoderState, tuple[Piece, ...]]


def output_decoder(
    vocabulary: Vocabulary,
    prompt: PreparedPrompt,
    request: OutputRequest,
    raw_members: RawMembers = NO_RAW_MEMBERS,
) -> FramedDecoder:
    """The decoder of one request's output; see ``LoadedModel.decoder``."""
    phase = StartPhase.RAW if request.raw else prompt.phase
    active = () if request.raw else request.tools.active(prompt.tools)
    if not active:
        return FramedDecoder(vocabulary, phase)
    constrained = request.constraint is not None or request.tools.constrains(prompt.tools)
    reader = CallReader(tool_contracts(active, raw_members), others=not constrained)
    continued = prompt.continued or ""
    if not spells_calls(prompt, request):
        continued = ""  # It is content, whatever it spells, and so is what follows.
    return FramedDecoder(vocabulary, phase, reader, constrained, continued)


@frozen(eq=False)
class FramedDecoder:
    """Implements ``OutputDecoder`` for one prompt's phase.

    Control tokens are published by their spelling, except those that frame. Where the separator after the
    reasoning is missing, or something else follows its beginning, nothing is lost: what came instead is content.

    Attributes:
        reader: Reads calls; ``None`` while no tool may be called.
        constrained: A grammar admits well-formed calls alone, which are published as they come. Otherwise a call is
            held back until it is whole, and what turns out to be none is content; a new ``<tool_call>`` shows that too.
        continued: What the output goes on with, ``<tool_call>`` for the token; empty where nothing can be in it.
    """

    vocabulary: Vocabulary
    phase: StartPhase
    reader: CallReader | None = None
    constrained: bool = False
    continued: str = ""

    def start(self) -> DecoderState:
        """See ``OutputDecoder``."""
        if self.reader is not None and self.continued:
            return self._behind(self.continued)
        reasoning = self.phase is StartPhase.REASONING
        return DecoderState(_Phase.REASONING if reasoning else _Phase.CONTENT)

    def step(self, state: DecoderState, token: int) -> Decoded:
        """See ``OutputDecoder``."""
        if state.owed:
            after, pieces = self._step(evolve(state, owed=()), token)
            return after, (*state.owed, *pieces)
        return self._step(state, token)

    def finish(self, state: DecoderState) -> tuple[Piece, ...]:
        """See ``OutputDecoder``."""
        if state.call is not None:
            return (*state.owed, *self._cut_call(state.call))
        if state.phase in (_Phase.BETWEEN, _Phase.SEPARATOR):
            return ()  # line breaks of the framing, and nothing behind them
        reasoning = state.phase is _Phase.REASONING
        return _segments(Channel.REASONING if reasoning else Channel.CONTENT, state.held)

    def reasoning(self, state: DecoderState) -> bool:
        """See ``OutputDecoder``."""
        return state.phase is _Phase.REASONING

    def _step(self, state: DecoderState, token: int) -> Decoded:
        framing, raw = self.vocabulary.framing, self.vocabulary.token_bytes[token]
        if state.phase is _Phase.CALL:
            return self._in_call(state, raw, token)
        if state.phase is _Phase.REASONING:
            if token == framing.get(CLOSE_THINK):
                held = b"" if state.held == b"\n" else state.held
                return DecoderState(_Phase.SEPARATOR), _segments(Channel.REASONING, held)
        elif self.reader is not None and token == framing[OPEN_CALL]:
            return self._open(state)
        return self._text(state, raw)

    def _text(self, state: DecoderState, new: bytes) -> Decoded:
        """After bytes outside of calls."""
        raw = state.held + new
        if state.phase is _Phase.REASONING:
            return self._reasoning(raw)
        if state.phase is _Phase.SEPARATOR:
            if raw != SEPARATOR and SEPARATOR.startswith(raw):
                return evolve(state, held=raw), ()
            raw = raw.removeprefix(SEPARATOR)
        elif state.phase is _Phase.BETWEEN:
            if raw in (b"\n", b"\n\n"):
                return evolve(state, held=raw), ()
            if self.constrained:
                raise IntegrityError(f"text after a call: {_shown(raw)}")
        return self._content(state, raw)

    def _reasoning(self, raw: bytes) -> Decoded:
        text, rest = split_utf8(raw)
        if not rest and text.endswith("\n"):
            text, rest = text[:-1], b"\n"
        return DecoderState(_Phase.REASONING, rest), _segments(Channel.REASONING, text)

    def _content(self, state: DecoderState, raw: bytes) -> Decoded:
        text, rest = split_utf8(raw)
        if self.reader is not None and not rest:
            lines = min(2, len(text) - len(text.rstrip("\n")))
            text, rest = text[: len(text) - lines], b"\n" * lines
        after = DecoderState(_Phase.CONTENT, rest, state.calls)
        return after, _segments(Channel.CONTENT, text)

    def _open(self, state: DecoderState) -> Decoded:
        lines = state.held if not state.held.strip(b"\n") else b""
        call = OpenCall(CallState(state.calls), (lines + OPEN_CALL.encode(),))
        after = DecoderState(_Phase.CALL, calls=state.calls, call=call)
        return after, () if lines else _segments(Channel.CONTENT, state.held)

    def _in_call(self, state: DecoderState, raw: bytes, token: int | None = None) -> Decoded:
        """After bytes, which may be those of a token, within a call."""
        reader, call, framing = self.reader, state.call, self.vocabulary.framing
        assert reader is not None
        assert call is not None
        closes, opens = token == framing[CLOSE_CALL], token == framing[OPEN_CALL]
        if closes and call.state.complete:
            after = DecoderState(_Phase.BETWEEN, calls=state.calls + 1)
            return after, self._whole_call(call)
        if opens and not self.constrained:
            # Should the open call never end, as a malformed one does not, it would swallow those behind it.
            return self._no_call(state, raw, "another call begins", opens=True)
        try:
            control = token is not None and self.vocabulary.classes[token] is TokenClass.FRAMING
            reading, pieces = reader.step(call.state, raw, control=control)
        except Unreadable as error:
            return self._no_call(state, raw, str(error), opens=opens)
        held = call.arguments
        if not self.constrained:
            for piece in pieces:
                if isinstance(piece, ToolCallDelta):
                    held = appended(held, piece.arguments.encode())
            pieces = ()
        call = OpenCall(reading, appended(call.read, raw), held, call.closed or closes)
        return evolve(state, call=call), pieces

    def _whole_call(self, call: OpenCall) -> tuple[Piece, ...]:
        """What is still to be published of a call that has ended.

        Until here its pieces make no whole object, so that a part is never taken for one.
        """
        index, tool = call.state.index, call.state.tool
        assert tool is not None
        arguments = b"".join((*call.arguments, b"}")).decode()
        ended = ToolCallDelta(index, arguments), ToolCallEnd(index)
        return ended if self.constrained else (ToolCallStart(index, tool.name), *ended)

    def _no_call(self, state: DecoderState, raw: bytes, why: str, *, opens: bool) -> Decoded:
        """After bytes that make an open call unreadable; those of a new call's token when it ``opens``."""
        assert state.call is not None
        read = b"".join(state.call.read)
        if self.constrained:
            raise IntegrityError(
                f"a call that its grammar let through cannot be read: {why}, after {_shown(read)}"
            )
        outside = DecoderState(_Phase.CONTENT, calls=state.calls)
        if not opens:
            return self._content(outside, read + raw)
        outside, text = self._content(outside, read)
        after, more = self._open(outside)
        return after, (*text, *more)

    def _cut_call(self, call: OpenCall) -> tuple[Piece, ...]:
        """What is published of a call at the output's end."""
        if self.constrained:
            return ()
        if call.state.tool is not None and not call.closed:
            return (ToolCallStart(call.state.index, call.state.tool.name),)
        return _segments(Channel.CONTENT, b"".join(call.read))

    def _behind(self, continued: str) -> DecoderState:
        """The state behind a content. Of what it holds, an unfinished call alone is published."""
        state, pieces = DecoderState(_Phase.CONTENT), list[Piece]()
        try:
            for part in content_parts(continued, self.vocabulary.framing[OPEN_CALL]):
                if isinstance(part, int):
                    state, more = self._step(state, part)
                elif state.phase is _Phase.CALL:
                    state, more = self._in_call(state, part.encode())
                else:
                    state, more = self._text(state, part.encode())
                pieces += more
        except IntegrityError:
            # The matcher refuses this content, and says so better.
            return DecoderState(_Phase.CONTENT)
        if state.call is None:
            return DecoderState(_Phase.CONTENT)
        owed = tuple(piece for piece in pieces if not isinstance(piece, Segment))
        return evolve(state, call=evolve(state.call, read=()), owed=owed)


def _segments(channel: Channel, text: str | bytes) -> tuple[Segment, ...]:
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return (Segment(channel, whole),) if whole else ()


def _shown(read: bytes) -> str:
    """The last characters of what was read, for an error."""
    return repr(read.decode("utf-8", "replace")[-_SHOWN:])
