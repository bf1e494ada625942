"""Calls as they are published: the same however the tokens are cut, and as early as they are certain."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
import pytest

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.constraints import JsonObject
from infernix_core.interfaces.frontend import (
    Piece,
    Segment,
    StartPhase,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.tools import ToolChoice, ToolMode
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.plain_provider import PlainMatcher, PlainProvider
from infernix_qwen3_5.language import output_language
from tests.frontends.qwen3_5.transcripts import (
    BASIC,
    CALL,
    CLOSE,
    END,
    FREE,
    THINK,
    Case,
    Output,
    bytewise,
    joined,
    random_cuts,
    reference,
    runs,
    spelled,
    tokenized,
    two_way_cuts,
    vocabulary,
)

LOOK_UP = {
    "name": "look_up",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "metric": {"type": "boolean"},
            "filter": {"type": "object"},
        },
    },
}
NOTE = {"name": "note", "parameters": {"properties": {"text": {"type": "string"}, "any": {}}}}
TOOLS = (LOOK_UP, NOTE)

STRICT = {
    "name": "write",
    "strict": True,
    "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "line": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["path", "line", "tags"],
        "additionalProperties": False,
    },
}


def call(name: str, **arguments: str) -> str:
    """A call in the model's framing."""
    members = "".join(
        f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in arguments.items()
    )
    return f"{CALL}\n<function={name}>\n{members}</function>\n{END}"


#: Transcripts that any grammar of TOOLS admits, with reasoning in front where there is a CLOSE.
WELL_FORMED = [
    call("look_up", city="Zürich", days="3"),
    "Let me see.\n\n" + call("look_up", city=" two\nlines \n", metric="TRUE"),
    call("look_up") + "\n" + call("note", any="null") + "\n" + call("look_up", days=""),
    # The first, one in the middle and the last are left out.
    call("look_up", days="", city="a", metric="", filter='{"a": [1.50, "x"]}'),
    call("look_up", city="a", days="") + "\n" + call("look_up", days="", metric=" \n"),
    # What looks like framing within a value.
    call("note", text="<function=look_up>\n</function>\n</tool_call>\n<tool_call>"),
    call("note", text="a </parameter> b\n</parameter\n<parameter=x>\n</parameters>"),
    call("note", text="\n\n</parameter \n</para", any="</parameter>"),
    call("note", text="", any=""),
    call("note", text='"quoted" \\ \t \x00 \u2028 🙂 \n'),
    call("note", any="[1, 2,\n 3]", other="true", third="tru"),
    # Spelled with ordinary tokens the control tokens are text.
    "Write <tool_call>\n<function=look_up>\n</function>\n</tool_call>\n",
    "no call at all\n\n\n",
    "\n\n\n\n" + call("look_up"),
    "",
    f"I look.\n{CLOSE}\n\n" + call("look_up", city="é"),
    f"{THINK}hm {CALL} hm{CLOSE}\n\nOf course.\n" + call("look_up", city="x"),
    f"I write </think> and go on{CLOSE}\n\nNo.",
]

#: What small models write: the line break before the value's end is missing, so that the value does not end.
MALFORMED = f"{CALL}\n<function=note>\n<parameter=any>\n1</parameter>\n</function>\n{END}"

#: Further ones that only a free output holds, and what is content of them.
FREE_FORMED = [
    call("look_up", city="a") + "\nDone.",
    call("undeclared", n="1", s="x") + "\n\n\nText after\n" + call("look_up") + "\n\n",
    f"The token {CALL} opens and {END} closes.",
    f"{CALL}look_up{END} and " + call("look_up", days="1"),
    f"a\n\n{CALL}{CALL}\n<function=look_up>\n</function>\n{END}",
    call("note", text=f"a {END} b {THINK} c {END}"),
    # A call that another one begins in was none.
    call("note", text=f"a {CALL} b {END} c"),
    f"{MALFORMED}\n" + call("note", any="1"),
    "So:\n\n" + call("look_up") + f"\n{MALFORMED}\n\n{MALFORMED}" + call("look_up", city=f"{END}"),
    f"{CALL}\n<function=note>\n<parameter=a{CALL}\n<func{CALL}\n" + call("note", text="b"),
    f"{CALL}\n<function=note>\n</function>\n" + call("note"),
    f"{END}\n{CALL}\n\n<function=look_up>\n</function>\n{END}",
    call("look_up") + call("look_up") + "x",
]


def case(transcript: str, choice: ToolChoice) -> Case:
    phase = StartPhase.REASONING if CLOSE in transcript else StartPhase.CONTENT
    return Case(TOOLS, choice, phase)


def plain(output: Output) -> tuple[str, str, list[tuple[str, Any]]]:
    """Arguments as values, in their order."""
    calls = [
        (name, None if text is None else json.loads(text, object_pairs_hook=list))
        for name, text in output.calls
    ]
    return output.reasoning, output.content, calls


def expected(transcript: str) -> Output:
    """By the reference."""
    return reference(transcript, TOOLS, thinks=CLOSE in transcript)


@pytest.mark.parametrize("choice", [BASIC, FREE], ids=["basic", "free"])
@pytest.mark.parametrize("transcript", WELL_FORMED)
def test_every_cut_in_two_reads_the_same(transcript: str, choice: ToolChoice) -> None:
    whole = plain(expected(transcript))
    outputs = [case(transcript, choice).read(parts) for parts in two_way_cuts(transcript)]
    assert all(output == outputs[0] for output in outputs)
    assert plain(outputs[0]) == whole


@pytest.mark.parametrize("transcript", FREE_FORMED)
def test_every_cut_of_free_text_reads_the_same(transcript: str) -> None:
    whole = plain(expected(transcript))
    for parts in two_way_cuts(transcript):
        assert plain(case(transcript, FREE).read(parts)) == whole


@pytest.mark.parametrize("choice", [BASIC, FREE], ids=["basic", "free"])
@pytest.mark.parametrize("transcript", WELL_FORMED)
def test_random_cuts_and_single_bytes_read_the_same(transcript: str, choice: ToolChoice) -> None:
    reader, rng = case(transcript, choice), random.Random(transcript)
    whole = reader.read(runs(transcript))
    assert reader.read(bytewise(transcript)) == whole
    for _ in range(50):
        assert reader.read(random_cuts(transcript, rng)) == whole


def test_random_transcripts() -> None:
    """Calls of random values between random texts."""
    rng = random.Random(5)
    pieces = ["\n", "</parameter>", "\n</parameter", "é", "🙂", '"', "\\", " ", "<tool_call>", "a"]
    for _ in range(150):
        texts = ["".join(rng.choices(pieces, k=rng.randrange(6))) for _ in range(6)]
        while any("\n</parameter>" in f"{text}\n" for text in texts):
            texts = [text.replace("\n</parameter>", "") for text in texts]
        calls = [
            call("look_up", city=texts[0], days=rng.choice(["", "1", "-0", "1e5", "x"])),
            call("note", any=texts[1], text=texts[2]),
            call("note", **{"odd>name": texts[3]}),
        ]
        transcript = texts[5] + "\n".join(rng.sample(calls, rng.randrange(4)))
        whole = plain(expected(transcript))
        for choice in (BASIC, FREE):
            for _ in range(4):
                parts = random_cuts(transcript, rng)
                assert plain(case(transcript, choice).read(parts)) == whole


# ------------------------------------------------------------------ when pieces come


def steps(published: list[list[Piece]]) -> list[str]:
    """What each step publishes, shortly: names in <>, ends as |."""
    shown = []
    for pieces in published:
        text = ""
        for piece in pieces:
            if isinstance(piece, Segment):
                text += piece.text
            elif isinstance(piece, ToolCallStart):
                text += f"<{piece.name}>"
            elif isinstance(piece, ToolCallDelta):
                text += piece.arguments
            else:
                assert isinstance(piece, ToolCallEnd)
                text += "|"
        shown.append(text)
    return shown


def test_a_string_streams_as_it_comes() -> None:
    parts: list[bytes | str] = [
        b"Hi.\n",
        b"\n",
        CALL,
        b"\n<function=look",
        b"_up>\n<para",
        b"meter=city>\n",
        b'say "',
        b"\xc3",
        b"\xa9",
        b"\n</para",
        b"x\n",
        b"</parameter",
        b">\n<parameter=days>\n4",
        b"2\n</parameter>\n",
        b"</function>\n",
        END,
    ]
    assert steps(Case(TOOLS).published(parts)) == [
        "Hi.",
        "",
        "",
        "",
        "<look_up>{",
        '"city": "',
        'say \\"',
        "",
        "é",
        "",
        "\\n</parax",
        "",
        '"',
        ', "days": 42',
        "",
        "}|",
        "",
    ]


def test_strict_values_are_published_verbatim_as_they_come() -> None:
    parts: list[bytes | str] = [
        CALL,
        b"\n<function=write>\n<parameter=path>\n 7 ",
        b"\n</parameter>\n<parameter=line>\n",
        b"10",
        b"00\n</parameter>\n<parameter=tags>\n[",
        b'"\\u00e9", ',
        b'"b"]\n</parameter>\n</function>\n',
        END,
    ]
    assert steps(Case((STRICT,)).published(parts)) == [
        "",
        '<write>{"path": " 7 ',
        '", "line": ',
        "10",
        '00, "tags": [',
        '"\\u00e9", ',
        '"b"]',
        "}|",
        "",
    ]


def test_a_free_call_is_held_back_until_it_is_whole() -> None:
    transcript = "a\n\n" + call("look_up", city="b", days="1") + "\n" + call("note")
    shown = steps(Case(TOOLS, FREE).published(bytewise(transcript)))
    assert [text for text in shown if text] == [
        "a",
        '<look_up>{"city": "b", "days": 1}|',
        "<note>{}|",
    ]


def test_a_free_text_that_is_no_call_is_published_at_once() -> None:
    parts: list[bytes | str] = [b"a", CALL, b"\n", b"<function", b" ", b"b"]
    assert steps(Case(TOOLS, FREE).published(parts)) == [
        "a",
        "",
        "",
        "",
        "<tool_call>\n<function ",
        "b",
        "",
    ]


def test_a_new_call_shows_that_the_open_one_is_none() -> None:
    parts = [*runs(f"a\n\n{MALFORMED}\n"), *runs(call("look_up", days="2"))]
    shown = [text for text in steps(Case(TOOLS, FREE).published(parts)) if text]
    assert shown == [
        "a",
        "\n\n" + spelled(MALFORMED),
        '<look_up>{"days": 2}|',
    ]


def test_line_breaks_wait_for_what_follows() -> None:
    parts: list[bytes | str] = [b"a\n\n\n", b"b\n", b"\n", b"\n"]
    assert steps(Case(TOOLS).published(parts)) == ["a\n", "\n\nb", "", "\n", "\n\n"]


def test_arguments_are_no_whole_object_before_their_call_is() -> None:
    """Whoever sees a part cannot take it for all of it."""
    transcript = call("look_up", city="a", days="1")
    seen = ""
    for step in Case(TOOLS).published(bytewise(transcript))[:-2]:
        seen += "".join(piece.arguments for piece in step if isinstance(piece, ToolCallDelta))
        with pytest.raises(ValueError):
            json.loads(seen)


@pytest.mark.parametrize("parameter", ["city", "days", "undeclared"])
def test_long_values_take_linear_time(parameter: str) -> None:
    """A reader that looked at what it has again with every token would take minutes."""
    transcript = call("look_up", **{parameter: "a\n<b\n</parameter" * 7_000})
    words, tokens = tokenized(bytewise(transcript))
    for choice in (BASIC, FREE):
        decoder = Case(TOOLS, choice).decoder(words)
        state, before = decoder.start(), time.process_time()
        for token in tokens:
            state, _ = decoder.step(state, token)
        assert time.process_time() - before < 20


# ------------------------------------------------------------------ cut off


@pytest.mark.parametrize(
    ("cut", "begun"),
    [
        (f"{CALL}\n<function=look_u", None),
        (f"{CALL}\n<function=look_up>\n", "{"),
        (f"{CALL}\n<function=look_up>\n<parameter=ci", "{"),
        (f"{CALL}\n<function=look_up>\n<parameter=city>\n", '{"city": "'),
        (f"{CALL}\n<function=look_up>\n<parameter=city>\nab\n</parameter", '{"city": "ab'),
        (f"{CALL}\n<function=look_up>\n<parameter=city>\nab\n</parameter>", '{"city": "ab"'),
        (f"{CALL}\n<function=look_up>\n<parameter=days>\n12", "{"),
        (f"{CALL}\n<function=look_up>\n</function>\n", "{"),
    ],
)
def test_a_call_that_the_end_cuts_off(cut: str, begun: str | None) -> None:
    """Nothing of the framing gets into its arguments, and it has no end."""
    done = call("note", text="x")
    for transcript, calls in ((cut, []), (f"{done}\n{cut}", [("note", '{"text": "x"}')])):
        output = Case(TOOLS).read(bytewise(transcript))
        last = [] if begun is None else [("look_up", None)]
        assert output == Output(calls=[*calls, *last], begun=begun or "")


@pytest.mark.parametrize(
    ("cut", "content", "calls"),
    [
        # Its name is known, so it is a call; otherwise it is what it looks like.
        (f"a\n{CALL}\n<function=look_up>\n<parameter=city>\nab", "a", [("look_up", None)]),
        (f"a\n{CALL}\n<function=look_up>\n", "a", [("look_up", None)]),
        (f"a\n{CALL}\n<function=look_", "a\n<tool_call>\n<function=look_", []),
        (f"a{CALL}", "a<tool_call>", []),
        # The model closed it, though its value had no end.
        (
            f"{CALL}\n<function=note>\n<parameter=any>\n1\n{END}",
            "<tool_call>\n<function=note>\n<parameter=any>\n1\n</tool_call>",
            [],
        ),
        (call("note") + "\n", "", [("note", "{}")]),
        (
            f"{MALFORMED}\n{CALL}\n<function=look_up>\n<parameter=days>\n1",
            spelled(MALFORMED),
            [("look_up", None)],
        ),
        (f"{CALL}\n<function=note>\n{CALL}", "<tool_call>\n<function=note>\n<tool_call>", []),
    ],
)
def test_a_free_output_that_is_cut_off(cut: str, content: str, calls: list[Any]) -> None:
    assert Case(TOOLS, FREE).read(bytewise(cut)) == Output(content=content, calls=calls)


@pytest.mark.parametrize("parameter", ["city", "days"])
def test_cut_characters_are_replaced(parameter: str) -> None:
    """In values as in text, also by a line break that might begin a value's end."""
    opening = f"\n<function=look_up>\n<parameter={parameter}>\n".encode()
    parts: list[bytes | str] = [CALL, opening, b"\xf0\x9f", b"\n", b"a\xc3", b"\n</parameter>\n"]
    parts += [b"</function>\n", END, b"\n", b"\xc3", CALL]
    output = Case(TOOLS, FREE).read(parts)
    assert output.calls == [("look_up", f'{{"{parameter}": "\ufffd\\na\ufffd"}}')]
    assert output.content == "\n\ufffd<tool_call>"


# ------------------------------------------------------------------ what cannot be read

TWICE = f"{CALL}\n<function=note>\n" + 2 * "<parameter=any>\n1\n</parameter>\n" + "</function>\n"
BROKEN = [
    (TWICE + END, "twice"),
    (f"{CALL}\n<function=>\n</function>\n{END}", "name"),
    (f"{CALL}\n<function=note\n</function>\n{END}", "name"),
    (f"{CALL}\n<function=note>\n<parameter=\n</function>\n{END}", "name"),
    (f"{CALL}<function=note>\n</function>\n{END}", "due"),
    (f'{CALL}\n{{"name": "note", "arguments": {{}}}}\n{END}', "due"),
    (f"{CALL}\n<function=note>\n</function>{END}", "due"),
    (f"{CALL}\n<function=note>\n</function>\n\n{END}", "due"),
    (f"{CALL}\n<function=note>\n{END}", "</tool_call> where"),
    (f"{CALL}\n<function=note>\n<parameter=any>\n1\n</parameter></function>\n{END}", "line break"),
]


@pytest.mark.parametrize(("transcript", "reason"), BROKEN)
def test_a_grammar_that_lets_through_what_cannot_be_read(transcript: str, reason: str) -> None:
    """It is the program's fault, and never becomes content."""
    with pytest.raises(IntegrityError, match=reason):
        Case(TOOLS).read(bytewise(transcript))


@pytest.mark.parametrize(("transcript", "reason"), BROKEN)
def test_a_free_text_that_cannot_be_read_is_content(transcript: str, reason: str) -> None:
    whole = Case((), FREE).read(runs(f"a\n{transcript}\nb"))
    for parts in (runs, bytewise):
        assert Case(TOOLS, FREE).read(parts(f"a\n{transcript}\nb")) == whole
    assert not whole.calls


def test_more_that_no_grammar_lets_through() -> None:
    for transcript, reason in (
        (call("undeclared"), "none of the tools"),
        (call("note") + "\nDone.", "text after"),
        (call("note") + "\n\n ", "text after"),
    ):
        with pytest.raises(IntegrityError, match=reason):
            Case(TOOLS).read(bytewise(transcript))
    named = ToolChoice(allowed_names=["note"])
    with pytest.raises(IntegrityError, match="none of the tools"):
        Case(TOOLS, named).read(bytewise(call("look_up")))


# ------------------------------------------------------------------ tools that are not active


@pytest.mark.parametrize(
    "quiet",
    [
        Case(()),
        Case(TOOLS, ToolChoice(mode=ToolMode.NONE)),
        Case(TOOLS, raw=True),
        Case(TOOLS, ToolChoice(mode=ToolMode.NONE), constraint=JsonObject()),
    ],
)
def test_without_active_tools_nothing_is_a_call(quiet: Case) -> None:
    transcript = f"a\n\n{call('look_up')}\n\n"
    shown = "a\n\n<tool_call>\n<function=look_up>\n</function>\n</tool_call>\n\n"
    published = quiet.published(runs(transcript))
    assert steps(published)[0] == "a\n\n", "line breaks wait for nothing"
    assert quiet.read(bytewise(transcript)) == Output(content=shown)


def test_json_content_beside_tools() -> None:
    """The token alone opens a call; a string that spells it is text."""
    text = '{"a": "<tool_call>\\n<function=note>"}\n'
    both = Case(TOOLS, constraint=JsonObject())
    assert both.read(bytewise(text)) == Output(content=text)
    assert both.read(bytewise(call("note"))) == Output(calls=[("note", "{}")])


# ------------------------------------------------------------------ language and reader


def matcher_of(reader: Case, words: Vocabulary) -> PlainMatcher:
    prompt, request = reader.prompt, reader.request
    language = output_language(words, prompt.phase, prompt.tools, request)
    assert language is not None
    return PlainProvider().bind(words).compile(language).start()


@pytest.mark.parametrize("transcript", WELL_FORMED)
def test_the_language_holds_what_is_read(transcript: str) -> None:
    rng, cuts = random.Random(transcript), [bytewise(transcript)]
    if CLOSE not in transcript:
        # Free text begins with a whole token, so none holds both its beginning and what separates it from reasoning.
        cuts += [runs(transcript), random_cuts(transcript, rng), random_cuts(transcript, rng)]
    for parts in cuts:
        words, tokens = tokenized(parts)
        matcher = matcher_of(case(transcript, BASIC), words)
        assert all(matcher.accept(token) for token in tokens)
        assert matcher.may_end


@pytest.mark.parametrize(("transcript", "reason"), BROKEN)
def test_the_language_holds_nothing_that_cannot_be_read(transcript: str, reason: str) -> None:
    words, tokens = tokenized(bytewise(transcript))
    matcher = matcher_of(Case(TOOLS), words)
    assert not all(matcher.accept(token) for token in tokens)


@pytest.mark.parametrize("phase", [StartPhase.CONTENT, StartPhase.REASONING])
@pytest.mark.parametrize("mode", [ToolMode.AUTO, ToolMode.REQUIRED])
def test_random_outputs_of_the_language_are_read(mode: ToolMode, phase: StartPhase) -> None:
    """Whatever is legal: tokens that spell parts of the framing where nobody expects them, cut characters."""
    pieces = [
        "\n</parameter>",
        "\n<parameter=",
        ">\n",
        "\n\n",
        "</",
        "n</parameter>\n<",
        "</function>\n",
    ]
    pieces += [
        "<function=",
        "note",
        "look_up",
        "parameter",
        "city>\n",
        "\n</parameter>\n<parameter=days",
    ]
    words = vocabulary([piece.encode() for piece in pieces])
    reader = Case(TOOLS, ToolChoice(mode), phase)
    decoder = reader.decoder(words)
    for seed in range(8):
        rng, matcher = random.Random(seed), matcher_of(reader, words)
        state, published = decoder.start(), list[Piece]()
        for _ in range(60):
            row = np.zeros(words.words, dtype=np.int32)
            assert matcher.fill(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")[: words.size]
            legal = [int(token) for token in np.flatnonzero(bits)]
            longer = [token for token in legal if token >= 256]
            token = rng.choice(longer if longer and rng.random() < 0.8 else legal)
            assert matcher.accept(token)
            if matcher.terminated:
                break
            state, pieces = decoder.step(state, token)
            published += pieces
        output = joined([*published, *decoder.finish(state)])
        for _, arguments in output.calls:
            assert arguments is None or isinstance(json.loads(arguments), dict)
