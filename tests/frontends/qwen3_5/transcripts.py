"""Transcripts with calls: written plainly, cut into tokens in any way, and read by a reference.

A transcript is a text in which four characters of a private area stand for the control tokens. What is spelled out
is text.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import define, field, frozen

from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.frontend import (
    Channel,
    OutputRequest,
    Piece,
    PreparedPrompt,
    PromptInput,
    Segment,
    StartPhase,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolDeclaration, read_tools
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_qwen3_5.output import FramedDecoder, output_decoder

THINK, CLOSE, CALL, END = "\ue001", "\ue002", "\ue003", "\ue004"
CONTROL = {THINK: "<think>", CLOSE: "</think>", CALL: "<tool_call>", END: "</tool_call>"}

BASIC = ToolChoice()
FREE = ToolChoice(constraints=ToolConstraints.AUTOMATIC)


def vocabulary(pieces: Sequence[bytes] = ()) -> Vocabulary:
    """256 single bytes, then ``pieces``, then the control tokens and one end token."""
    text = [*(bytes([value]) for value in range(256)), *pieces]
    names = list(CONTROL.values())
    return Vocabulary(
        token_bytes=(*text, *(name.encode() for name in names), b"<end>"),
        classes=(
            *(TokenClass.TEXT for _ in text),
            *(TokenClass.FRAMING for _ in names),
            TokenClass.END,
        ),
        framing={name: len(text) + index for index, name in enumerate(names)},
    )


def tokenized(parts: Sequence[bytes | str]) -> tuple[Vocabulary, list[int]]:
    """A vocabulary with a token for each part, which is text as bytes or a control character."""
    texts = [part for part in parts if isinstance(part, bytes)]
    longer = [text for text in dict.fromkeys(texts) if len(text) > 1]
    words = vocabulary(longer)
    ids = {text: 256 + index for index, text in enumerate(longer)}
    tokens = [
        words.framing[CONTROL[part]]
        if isinstance(part, str)
        else ids.get(part, part[0] if part else 0)
        for part in parts
        if part
    ]
    return words, tokens


def runs(transcript: str) -> list[bytes | str]:
    """Its control characters, and the texts in between as bytes."""
    found = re.split(f"([{''.join(CONTROL)}])", transcript)
    return [part if part in CONTROL else part.encode() for part in found if part]


def two_way_cuts(transcript: str) -> Iterator[list[bytes | str]]:
    """Every way to cut one of its texts in two, the others being one token each."""
    parts = runs(transcript)
    yield parts
    for index, part in enumerate(parts):
        if isinstance(part, bytes):
            for cut in range(1, len(part)):
                yield [*parts[:index], part[:cut], part[cut:], *parts[index + 1 :]]


def random_cuts(transcript: str, rng: random.Random) -> list[bytes | str]:
    """Its texts cut at random."""
    parts: list[bytes | str] = []
    for part in runs(transcript):
        if isinstance(part, str):
            parts.append(part)
            continue
        while part:
            size = rng.choice((1, 1, 2, 3, 5, 8, 13))
            parts.append(part[:size])
            part = part[size:]
    return parts


def bytewise(transcript: str) -> list[bytes | str]:
    """Each byte of its texts for itself."""
    parts: list[bytes | str] = []
    for part in runs(transcript):
        parts += [part] if isinstance(part, str) else [bytes([value]) for value in part]
    return parts


@define
class Output:
    """What was published of an output, joined.

    Attributes:
        calls: Names and arguments; ``None`` instead of the arguments of a call that did not end.
        begun: The pieces of a call that did not end.
    """

    reasoning: str = ""
    content: str = ""
    calls: list[tuple[str, str | None]] = field(factory=list)
    begun: str = ""


def joined(pieces: Sequence[Piece]) -> Output:
    """Checks that calls come in order, each piece in its place, and none empty."""
    output = Output()
    is_open = False
    for piece in pieces:
        if isinstance(piece, Segment):
            assert piece.text
            assert not is_open, "text within a call"
            if piece.channel is Channel.REASONING:
                assert not output.content
                output.reasoning += piece.text
            else:
                output.content += piece.text
        elif isinstance(piece, ToolCallStart):
            assert not is_open
            assert piece.index == len(output.calls)
            is_open = True
            output.calls.append((piece.name, None))
            output.begun = ""
        else:
            assert is_open
            assert piece.index == len(output.calls) - 1
            if isinstance(piece, ToolCallDelta):
                assert piece.arguments
                output.begun += piece.arguments
            else:
                assert isinstance(piece, ToolCallEnd)
                output.calls[-1] = (output.calls[-1][0], output.begun)
                output.begun, is_open = "", False
    return output


def raw_members(declared: Iterable[ToolDeclaration]) -> dict[str, frozenset[str]]:
    """What a compiled language says of strict tools: which parameters are written as raw text, since they are strings."""
    return {
        tool.name: frozenset(
            name
            for name, schema in json.loads(tool.parameters).get("properties", {}).items()
            if schema.get("type") == "string"
        )
        for tool in declared
        if tool.strict
    }


@frozen
class Case:
    """What a transcript is read with."""

    tools: tuple[Any, ...]
    choice: ToolChoice = BASIC
    phase: StartPhase = StartPhase.CONTENT
    constraint: OutputConstraint | None = None
    raw: bool = False

    @property
    def prompt(self) -> PreparedPrompt:
        """What declares the tools."""
        return PreparedPrompt((1,), self.phase, PromptInput(text="x"), read_tools(self.tools))

    @property
    def request(self) -> OutputRequest:
        """What is asked of the output."""
        return OutputRequest(self.constraint, self.choice, self.raw)

    def decoder(self, words: Vocabulary) -> FramedDecoder:
        """Over a vocabulary."""
        return output_decoder(words, self.prompt, self.request, raw_members(self.prompt.tools))

    def published(self, parts: Sequence[bytes | str]) -> list[list[Piece]]:
        """What each token publishes, and the end. States are values: every step is made twice."""
        words, tokens = tokenized(parts)
        decoder = self.decoder(words)
        state, steps = decoder.start(), []
        for token in tokens:
            after, pieces = decoder.step(state, token)
            assert decoder.step(state, token) == (after, pieces)
            state = after
            steps.append(list(pieces))
        return [*steps, list(decoder.finish(state))]

    def read(self, parts: Sequence[bytes | str]) -> Output:
        """All of it, joined."""
        return joined([piece for step in self.published(parts) for piece in step])


NAME, VALUE = rf"[^\n{CALL}]+", rf"(?:(?!\n</parameter>)[^{CALL}])*"
MEMBER = rf"<parameter=({NAME})>\n({VALUE})\n</parameter>\n"
WHOLE_CALL = re.compile(rf"\n{{0,2}}{CALL}\n<function=({NAME})>\n((?:{MEMBER})*)</function>\n{END}")


def reference(transcript: str, tools: Sequence[Any], *, thinks: bool = False) -> Output:
    """Reads a finished transcript as a whole. Arguments are read by their declared type alone.

    It knows only transcripts in which what is no whole call is closed before a text with a line break at its end, or
    another call follows it; and no values that hold the token of a call.
    """
    declared = {tool["name"]: tool.get("parameters", {}).get("properties", {}) for tool in tools}
    output = Output()
    rest = transcript
    if thinks:
        reasoning, _, rest = transcript.partition(CLOSE)
        output.reasoning = spelled(reasoning.removesuffix("\n"))
        rest = rest.removeprefix("\n\n")
    end = 0
    for found in WHOLE_CALL.finditer(rest):
        between = rest[end : found.start()]
        output.content += spelled(between)
        members = re.findall(MEMBER, found[2])
        values = {
            name: reference_value(text, declared.get(found[1], {}).get(name, {}).get("type"))
            for name, text in members
        }
        kept = {name: value for name, value in values.items() if value is not ...}
        output.calls.append((found[1], json.dumps(kept, ensure_ascii=False)))
        end = found.end()
    tail = rest[end:]
    if not end or tail not in ("\n", "\n\n"):
        output.content += spelled(tail)
    return output


def reference_value(text: str, kind: str | None) -> Any:
    """What a text stands for; ``...`` when the argument is left out."""
    text = spelled(text)
    if kind == "string":
        return text
    if kind is not None and not text.strip():
        return ...
    if kind == "boolean" and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    try:
        return json.loads(text)
    except ValueError:
        return text


def spelled(text: str) -> str:
    """A text with its control tokens spelled out."""
    return "".join(CONTROL.get(character, character) for character in text)
