"""The decoder without tools, and the presets."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from infernix_core.interfaces.frontend import Channel, OutputDecoder, StartPhase
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_qwen3_5.output import FramedDecoder
from infernix_qwen3_5.sampling import checkpoint_options, over, preset
from infernix_qwen3_5.tool_reader import split_utf8

#: 256 bytes, then a few longer pieces, framing and an end token.
PIECES = [b"\n\n", b"\nA", b"\n\n ", b"\n\n\n", b"ab", "é".encode(), b"A\n"]
FRAMING = ["<think>", "</think>", "<tool_call>"]
VOCABULARY = Vocabulary(
    token_bytes=(
        *(bytes([value]) for value in range(256)),
        *PIECES,
        *(text.encode() for text in FRAMING),
        b"<end>",
    ),
    classes=(
        *(TokenClass.TEXT for _ in range(256 + len(PIECES))),
        *(TokenClass.FRAMING for _ in FRAMING),
        TokenClass.END,
    ),
    framing={text: 256 + len(PIECES) + index for index, text in enumerate(FRAMING)},
)
IDS = {**{raw: 256 + i for i, raw in enumerate(PIECES)}, **VOCABULARY.framing}
OPEN, CLOSE, CALL = (VOCABULARY.framing[text] for text in FRAMING)


def ids(*parts: Any) -> list[int]:
    """Pieces by their bytes, control tokens by their spelling, other text byte by byte."""
    tokens: list[int] = []
    for part in parts:
        if part in IDS:
            tokens.append(IDS[part])
        else:
            tokens.extend(part.encode() if isinstance(part, str) else part)
    return tokens


def decoded(phase: StartPhase, tokens: Iterable[int]) -> tuple[str, str]:
    """Reasoning and content of a finished output; checks that states are values on the way."""
    decoder: OutputDecoder = FramedDecoder(VOCABULARY, phase)
    state = decoder.start()
    texts = {Channel.REASONING: "", Channel.CONTENT: ""}
    for token in tokens:
        before = repr(state)
        state_after, segments = decoder.step(state, token)
        assert (state_after, segments) == decoder.step(state, token)
        assert repr(state) == before
        state = state_after
        for segment in segments:
            assert segment.text
            texts[segment.channel] += segment.text
    for segment in decoder.finish(state):
        texts[segment.channel] += segment.text
    return texts[Channel.REASONING], texts[Channel.CONTENT]


@pytest.mark.parametrize(
    ("tokens", "reasoning", "content"),
    [
        (ids("so", "\n", "</think>", b"\n\n", "A"), "so", "A"),
        (ids("so\n\n", "</think>", "\n", "\n", "A"), "so\n", "A"),
        (ids("so", "</think>", b"\n\n "), "so", " "),
        (ids("so", "</think>", b"\n\n\n"), "so", "\n"),
        (ids("</think>", b"\n\n"), "", ""),
        (ids("</think>", "\n", b"\nA"), "", "A"),
        # Without the separator nothing is lost.
        (ids("so", "</think>", "A"), "so", "A"),
        (ids("so", "</think>", b"\nA"), "so", "\nA"),
        # Cut within the separator: a line break of the framing is no content.
        (ids("so", "</think>", "\n"), "so", ""),
        (ids("so", "</think>"), "so", ""),
        (ids("so", "</think>", "<tool_call>"), "so", "<tool_call>"),
        (ids("so", "</think>", "\n", "<tool_call>"), "so", "\n<tool_call>"),
        # The end without a close: the line break is reasoning after all.
        (ids("so", "\n"), "so\n", ""),
        (ids("a", "\n", "b", b"A\n"), "a\nbA\n", ""),
        # Spelled with ordinary tokens it closes nothing.
        (ids(*"</think>", b"\n\n", "A"), "</think>\n\nA", ""),
        # A second close is text; so are other control tokens.
        (ids("</think>", b"\n\n", "</think>", "B"), "", "</think>B"),
        (ids("<think>", "x", "<tool_call>", "</think>", b"\n\n"), "<think>x<tool_call>", ""),
        # A character that the close cuts.
        (ids(b"\xc3", "</think>", b"\n\n", "A"), "\ufffd", "A"),
        (ids("</think>", b"\n\n", b"\xf0\x9f", b"\x99\x82"), "", "🙂"),
    ],
)
def test_from_reasoning(tokens: list[int], reasoning: str, content: str) -> None:
    assert decoded(StartPhase.REASONING, tokens) == (reasoning, content)


@pytest.mark.parametrize("phase", [StartPhase.CONTENT, StartPhase.RAW])
def test_from_content(phase: StartPhase) -> None:
    tokens = ids(b"\n\n", "a", "</think>", b"\n\n", "<tool_call>", "é"[:1], b"\xc3")
    assert decoded(phase, tokens) == ("", "\n\na</think>\n\n<tool_call>é\ufffd")


def test_text_is_published_as_soon_as_it_is_certain() -> None:
    decoder = FramedDecoder(VOCABULARY, StartPhase.REASONING)
    state = decoder.start()
    seen = []
    for token in ids("a", "\n", "b", b"\xc3", b"\xa9", "\n", "</think>", "\n", "\n", "c"):
        state, segments = decoder.step(state, token)
        seen.append("".join(segment.text for segment in segments))
    assert seen == ["a", "", "\nb", "", "é", "", "", "", "", "c"]


def test_no_bytes_are_lost_whatever_the_cut() -> None:
    """Every way to write a short output in pieces publishes the same text."""
    pieces = [b"\n", b"\n\n", b"\nA", b"A\n", b"A", "é".encode(), b"\n\n\n"]
    for tail in product(pieces, repeat=3):
        raw = b"".join(tail)
        for head in (b"", b"x\n", b"x\n\n"):
            whole = decoded(StartPhase.REASONING, [*head, CLOSE, *raw])
            cut = decoded(StartPhase.REASONING, [*ids(head), CLOSE, *ids(*tail)])
            assert whole == cut
            assert cut[0] == head.removesuffix(b"\n").decode()
            assert cut[1].encode() == raw.removeprefix(b"\n\n")


def test_invalid_bytes_are_replaced() -> None:
    assert split_utf8(b"a\xffb\xe2\x82") == ("a\ufffdb", b"\xe2\x82")
    assert decoded(StartPhase.CONTENT, [0xFF, 0x41]) == ("", "\ufffdA")


# ------------------------------------------------------------------ presets


def test_presets_by_mode() -> None:
    def values(phase: StartPhase, name: str, size: int) -> tuple[Any, ...]:
        options = preset(phase, name, size)
        assert options.min_p == 0
        assert not options.greedy
        return options.temperature, options.top_p, options.top_k, options.presence_penalty

    assert values(StartPhase.REASONING, "Qwen3.5-0.8B", 1024) == (1.0, 0.95, 20, 1.5)
    assert values(StartPhase.CONTENT, "Qwen3.5-0.8B", 1024) == (1.0, 1.0, 20, 2.0)
    assert values(StartPhase.REASONING, "Qwen3.5-27B", 5120) == (1.0, 0.95, 20, 1.5)
    assert values(StartPhase.CONTENT, "Qwen3.5-27B", 5120) == (0.7, 0.8, 20, 1.5)
    assert values(StartPhase.REASONING, "Qwen3.8-27B", 5120) == (1.0, 0.95, 20, 0.0)
    assert values(StartPhase.RAW, "Qwen3.5-27B", 5120) == (1.0, 0.95, 20, 0.0)
    large = preset(StartPhase.CONTENT, "Qwen3.5-35B-A3B", 2048, mixture=True)
    assert large == preset(StartPhase.CONTENT, "Qwen3.5-27B", 5120)


def test_the_checkpoint_wins_over_the_preset() -> None:
    family = preset(StartPhase.CONTENT, "x", 1024)
    given = checkpoint_options({"temperature": 0.6, "top_k": 0, "do_sample": True})
    assert over(given, family) == SamplingOptions(
        temperature=0.6, top_p=1.0, top_k=0, min_p=0.0, presence_penalty=2.0
    )
    assert over(checkpoint_options({}), family) == family
    assert over(checkpoint_options({"do_sample": False}), family).greedy
