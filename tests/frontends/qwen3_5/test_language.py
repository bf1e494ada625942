"""The output language of every policy, as trees."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from infernix_core.interfaces.constraints import Grammar, JsonObject, JsonSchema, OutputConstraint
from infernix_core.interfaces.frontend import OutputRequest, StartPhase
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    MemberFraming,
    Members,
    Repeat,
    Separated,
    TextExcept,
    Token,
    Union,
    walk,
)
from infernix_core.interfaces.language import Sequence as Parts
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolMode, read_tools
from infernix_qwen3_5.language import output_language
from tests.frontends.qwen3_5.transcripts import vocabulary

WORDS = vocabulary()
THINK, CLOSE, CALL, END = (
    WORDS.framing[name] for name in ("<think>", "</think>", "<tool_call>", "</tool_call>")
)

STRICT = {
    "name": "strict",
    "strict": True,
    "parameters": {
        "properties": {"s": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["s"],
        "additionalProperties": False,
    },
}
TOOLS = read_tools([{"name": "loose", "parameters": {"properties": {"a": {}}}}, STRICT])
LOOSE = TOOLS[:1]

FRAMING = MemberFraming(b"<parameter=", b">\n", b"\n</parameter>", b"\n")
FUNCTIONS = {
    "loose": Parts(
        [Literal(b"loose>\n"), Members(FRAMING, owner="loose"), Literal(b"</function>\n")]
    ),
    "strict": Parts(
        [
            Literal(b"strict>\n"),
            Members(FRAMING, JsonSchema(TOOLS[1].parameters), owner="strict"),
            Literal(b"</function>\n"),
        ]
    ),
}
THOUGHTS = (Repeat(TextExcept({CLOSE})), Token(CLOSE), Literal(b"\n\n"))
TEXT = Label("content", Repeat(TextExcept({CALL})))


def a_call(*names: str) -> Language:
    functions = Union([FUNCTIONS[name] for name in names])
    return Parts([Token(CALL), Literal(b"\n<function="), functions, Token(END)])


def calls(*names: str) -> Language:
    return Label("tools", Separated(a_call(*names), Literal(b"\n")))


def language(
    choice: ToolChoice,
    constraint: OutputConstraint | None = None,
    phase: StartPhase = StartPhase.CONTENT,
    tools: Any = TOOLS,
) -> Language | None:
    return output_language(WORDS, phase, tools, OutputRequest(constraint, choice))


def test_without_tools() -> None:
    constraint = Grammar('root ::= "a"')
    answer = Label("content", Content(constraint))
    auto = ToolChoice()
    assert language(auto, constraint, StartPhase.RAW, ()) == Content(constraint)
    assert language(auto, constraint, StartPhase.CONTENT, ()) == answer
    assert language(auto, constraint, StartPhase.REASONING, ()) == Parts([*THOUGHTS, answer])
    for phase in StartPhase:
        assert language(auto, None, phase, ()) is None


def test_text_and_then_calls() -> None:
    ways = Union([Parts(()), calls("loose", "strict")])
    assert language(ToolChoice()) == Parts([TEXT, ways])
    thinking = language(ToolChoice(), phase=StartPhase.REASONING)
    assert thinking == Parts([*THOUGHTS, TEXT, ways])


def test_calls_alone() -> None:
    required = ToolMode.REQUIRED
    assert language(ToolChoice(required)) == calls("loose", "strict")
    assert language(ToolChoice(required, allowed_names=["loose"])) == calls("loose")
    named = ToolChoice(required, allowed_names=["strict"], parallel=False)
    assert language(named) == Label("tools", a_call("strict"))
    assert language(named, phase=StartPhase.REASONING) == Parts(
        [*THOUGHTS, Label("tools", a_call("strict"))]
    )


def test_no_calls() -> None:
    """The token that opens one is barred from the reasoning too."""
    none = ToolChoice(ToolMode.NONE)
    thoughts = Repeat(TextExcept({CLOSE, CALL}))
    assert language(none) == TEXT
    assert language(none, phase=StartPhase.REASONING) == Parts([thoughts, *THOUGHTS[1:], TEXT])
    json = Label("content", Content(JsonObject()))
    assert language(none, JsonObject()) == json
    assert language(none, JsonObject(), StartPhase.REASONING) == Parts(
        [thoughts, *THOUGHTS[1:], json]
    )
    grammar = Grammar('root ::= "a"')
    assert language(none, grammar) == Label("content", Content(grammar))


def test_json_or_calls() -> None:
    json = Label("content", Content(JsonObject()))
    assert language(ToolChoice(), JsonObject()) == Union([json, calls("loose", "strict")])
    one = ToolChoice(parallel=False)
    assert language(one, JsonObject()) == Union([json, Label("tools", a_call("loose", "strict"))])
    assert language(ToolChoice(ToolMode.REQUIRED), JsonObject()) == calls("loose", "strict")
    # Beside JSON calls keep their framing.
    free = ToolChoice(constraints=ToolConstraints.AUTOMATIC)
    assert language(free, JsonObject(), tools=LOOSE) == Union([json, calls("loose")])


@pytest.mark.parametrize("phase", [StartPhase.CONTENT, StartPhase.REASONING])
def test_automatic_constrains_only_what_is_asked_for(phase: StartPhase) -> None:
    def free(**asked: Any) -> Language | None:
        choice = ToolChoice(constraints=ToolConstraints.AUTOMATIC, **asked)
        return language(choice, None, phase, LOOSE)

    assert free() is None
    for asked in (
        {"mode": ToolMode.REQUIRED},
        {"mode": ToolMode.NONE},
        {"allowed_names": ["loose"]},
        {"parallel": False},
    ):
        basic = language(ToolChoice(**asked), None, phase, LOOSE)
        assert free(**asked) == basic is not None
    strict = language(ToolChoice(constraints=ToolConstraints.AUTOMATIC), None, phase, TOOLS)
    assert strict == language(ToolChoice(), None, phase, TOOLS)


def test_languages_are_equal_where_the_requests_are() -> None:
    """So they share a grammar; of a tool that is not strict the schema is no part."""
    other = read_tools(
        [{"name": "loose", "parameters": {"properties": {"b": {"type": "integer"}}}}]
    )
    for mode, constraint, phase in product(
        ToolMode, (None, JsonObject()), (StartPhase.CONTENT, StartPhase.REASONING)
    ):
        first = language(ToolChoice(mode), constraint, phase, LOOSE)
        assert first == language(ToolChoice(mode), constraint, phase, other)
        assert hash(first) == hash(language(ToolChoice(mode), constraint, phase, other))


def test_every_named_token_may_be_generated() -> None:
    for mode, constraint in product(ToolMode, (None, JsonObject())):
        tree = language(ToolChoice(mode), constraint, StartPhase.REASONING)
        assert tree is not None
        for node in walk(tree):
            if isinstance(node, Token):
                assert node.id in (CLOSE, CALL, END)


def test_schemas_are_not_read_here() -> None:
    """That may take long; the compilation of a language may be waited for and given up, this may not."""
    tools = read_tools([{"name": "bad", "strict": True, "parameters": {"type": "objekt"}}])
    made = language(ToolChoice(), tools=tools)
    assert made is not None
    (members,) = (node for node in walk(made) if isinstance(node, Members))
    assert members == Members(FRAMING, JsonSchema(tools[0].parameters), "bad")
    # Whoever may not call it does not meet its schema.
    none = language(ToolChoice(ToolMode.NONE), tools=tools)
    assert none is not None
    assert not any(isinstance(node, Members) for node in walk(none))
