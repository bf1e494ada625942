"""The output's framing: the language of constrained requests, and the decoder of everything published.

Both follow one rule. Reasoning ends at the token ``</think>``, recognised by its id alone, and exactly
two line breaks after it, matched as bytes; a line break directly before the token belongs to the
framing too.
"""

from __future__ import annotations

import codecs
import enum

from attrs import evolve, frozen

from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.frontend import Channel, Segment, StartPhase
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Repeat,
    TextExcept,
    Token,
    sequence,
)
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_qwen3_5.tokenizer import CLOSE_THINK

SEPARATOR = b"\n\n"

#: The label of the answer, for a session that asks the matcher where it is.
CONTENT = "content"


def output_language(
    vocabulary: Vocabulary, phase: StartPhase, constraint: OutputConstraint
) -> Language:
    """What a constrained request may generate, from where its prompt ends.

    In raw continuation the constraint owns all new text. A chat's content is labelled, and open reasoning
    comes before it: any token but ``</think>``, the token, the separator.
    """
    if phase is StartPhase.RAW:
        return Content(constraint)
    answer = Label(CONTENT, Content(constraint))
    if phase is StartPhase.CONTENT:
        return answer
    close = vocabulary.framing[CLOSE_THINK]
    return sequence(Repeat(TextExcept({close})), Token(close), Literal(SEPARATOR), answer)


class _Phase(enum.Enum):
    REASONING = enum.auto()
    SEPARATOR = enum.auto()
    CONTENT = enum.auto()


@frozen
class DecoderState:
    """Where a decoder is.

    Attributes:
        phase: The channel that the next bytes belong to, or the separator in between.
        held: Bytes that are not certain yet: a cut character, a line break that may be framing, a part of
            the separator.
    """

    phase: _Phase
    held: bytes = b""


def split_utf8(raw: bytes) -> tuple[str, bytes]:
    """Text that is certain, and the incomplete character at the end. Invalid bytes become U+FFFD."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    text = decoder.decode(raw)
    return text, decoder.getstate()[0]


@frozen(eq=False)
class FramedDecoder:
    """Implements ``OutputDecoder`` for one prompt's phase.

    Control tokens are published by their spelling, except the one that closes the reasoning. Where the
    separator after it is missing or only begun, nothing is lost: what came instead is content.
    """

    vocabulary: Vocabulary
    phase: StartPhase

    def start(self) -> DecoderState:
        """See ``OutputDecoder``."""
        reasoning = self.phase is StartPhase.REASONING
        return DecoderState(_Phase.REASONING if reasoning else _Phase.CONTENT)

    def step(self, state: DecoderState, token: int) -> tuple[DecoderState, tuple[Segment, ...]]:
        """See ``OutputDecoder``."""
        if state.phase is _Phase.REASONING and token == self.vocabulary.framing.get(CLOSE_THINK):
            held = b"" if state.held == b"\n" else state.held
            return DecoderState(_Phase.SEPARATOR), _segments(Channel.REASONING, held)
        raw = state.held + self.vocabulary.token_bytes[token]
        if state.phase is _Phase.REASONING:
            return self._reasoning(raw)
        if state.phase is _Phase.SEPARATOR:
            if raw != SEPARATOR and SEPARATOR.startswith(raw):
                return evolve(state, held=raw), ()
            raw = raw.removeprefix(SEPARATOR)
        text, rest = split_utf8(raw)
        return DecoderState(_Phase.CONTENT, rest), _segments(Channel.CONTENT, text)

    def finish(self, state: DecoderState) -> tuple[Segment, ...]:
        """See ``OutputDecoder``."""
        reasoning = state.phase is _Phase.REASONING
        return _segments(Channel.REASONING if reasoning else Channel.CONTENT, state.held)

    def reasoning(self, state: DecoderState) -> bool:
        """See ``OutputDecoder``."""
        return state.phase is _Phase.REASONING

    def _reasoning(self, raw: bytes) -> tuple[DecoderState, tuple[Segment, ...]]:
        text, rest = split_utf8(raw)
        if not rest and text.endswith("\n"):
            text, rest = text[:-1], b"\n"
        return DecoderState(_Phase.REASONING, rest), _segments(Channel.REASONING, text)


def _segments(channel: Channel, text: str | bytes) -> tuple[Segment, ...]:
    whole = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return (Segment(channel, whole),) if whole else ()
