"""What users of such servers report of calls, thinking and ends of answers, seen through the official client.

The tables of finish reasons, one call at most, first deltas, truncation, and JSON beside tools are in test_tools.py.
"""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from infernix_core.engine.engine import Engine
from tests.plugins.openai.calling import (
    MESSAGES,
    NOOP,
    TOOLS,
    ULM,
    ULM_ARGUMENTS,
    arguments,
    call,
    calling,
)

COIN = {
    "type": "object",
    "properties": {"side": {"enum": ["heads", "tails"]}},
    "required": ["side"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "coin", "schema": COIN}}
TAILS = '{"side": "tails"}'
LEVELS = ["basic", "automatic"]


def tool(name: str, *, strict: bool = False, **properties: Any) -> dict[str, Any]:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return {
        "type": "function",
        "function": {"name": name, "parameters": parameters, "strict": strict},
    }


def level(name: str) -> dict[str, Any]:
    return {"extra_body": {"tool_constraints": name}}


@pytest.mark.parametrize("drafts", [0, 1, 3, 7])
def test_arguments_are_whole_however_many_tokens_come_at_once(demo: Engine, drafts: int) -> None:
    """vllm-project/vllm#55082, #48347, #48852: arguments were empty unless each token had a delta of its own."""
    with calling(demo.model, f"Well.\n\n{ULM}\n{ULM}", drafts=drafts) as chat:
        for name in LEVELS:
            whole, streamed = chat.both(**level(name))
            assert [one.function.arguments for one in whole.message.tool_calls] == [
                ULM_ARGUMENTS,
                ULM_ARGUMENTS,
            ]
            assert streamed.arguments == {0: ULM_ARGUMENTS, 1: ULM_ARGUMENTS}
            assert whole.message.content == streamed.content == "Well."


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("strict", [False, True])
def test_markers_in_an_argument_are_text(demo: Engine, name: str, strict: bool) -> None:
    """raullenchai/Rapid-MLX#1515, ollama/ollama#18340: a literal ``</tool_call>`` or ``</parameter>`` cut an
    argument short.
    """
    value = "a </tool_call> b </parameter> <function=noop> </think> <|im_end|>\n<parameter=x>"
    before, after = call("write", text="@").split("@")
    with calling(demo.model, [before, value.encode(), after]) as chat:
        whole, streamed = chat.both(
            tools=[tool("write", strict=strict, text={"type": "string"})], **level(name)
        )
    assert arguments(whole) == [("write", {"text": value})]
    assert json.loads(streamed.arguments[0]) == {"text": value}
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"


def test_a_truncated_call_does_no_harm_to_later_requests(demo: Engine) -> None:
    """vllm-project/vllm#55495: replaying a truncated call made every later request fail."""
    with calling(demo.model, ULM) as chat:
        for limit in range(8, 60, 5):
            message = chat.ask(max_tokens=limit).message
            messages = [*MESSAGES, message.model_dump(), {"role": "user", "content": "Go on."}]
            assert chat.ask(messages=messages).finish_reason == "tool_calls"


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("strict", [False, True])
def test_numbers_are_numbers_under_auto(demo: Engine, name: str, strict: bool) -> None:
    """vllm-project/vllm#21756: integer parameters came as strings (``"offset": "1"``) in auto mode."""
    read = tool("read", strict=strict, path={"type": "string"}, offset={"type": "integer"})
    with calling(demo.model, call("read", path="12", offset="1")) as chat:
        whole, streamed = chat.both(tools=[read], tool_choice="auto", **level(name))
    assert arguments(whole) == [("read", {"path": "12", "offset": 1})]
    assert streamed.arguments == {0: '{"path": "12", "offset": 1}'}


def test_long_arguments_flow(demo: Engine) -> None:
    """vllm-project/vllm#43267, #50627: a long argument came in one piece, after more than a minute."""
    text = "all work and no play\n" * 40
    with calling(demo.model, call("write", text=text)) as chat:
        _, streamed = chat.both(tools=[tool("write", text={"type": "string"})])
    assert json.loads(streamed.arguments[0]) == {"text": text}
    assert len(streamed.pieces) > 200
    assert max(len(piece.function.arguments) for piece in streamed.pieces) < 40


@pytest.mark.parametrize("name", LEVELS)
def test_what_is_no_call_is_text_and_what_is_no_json_is_a_string(demo: Engine, name: str) -> None:
    """ml-explore/mlx-lm#1616: ``<function=`` without its wrapper, and Python's spelling of an object, gave a 500."""
    bare = "<function=noop>\n</function>"
    with calling(demo.model, bare) as chat:
        whole, streamed = chat.both(**level(name), tools=[NOOP])
    assert whole.message.content == streamed.content == bare
    assert (whole.message.tool_calls, whole.finish_reason) == (None, "stop")
    with calling(demo.model, call("put", value="{'a': True}")) as chat:
        whole, _ = chat.both(**level(name), tools=[tool("put", value={"type": "object"})])
    assert arguments(whole) == [("put", {"value": "{'a': True}"})]


@pytest.mark.parametrize("form", [FORMAT, {"type": "json_object"}], ids=["schema", "object"])
@pytest.mark.parametrize("tools", [[], TOOLS], ids=["alone", "tools"])
@pytest.mark.parametrize("drafts", [0, 5])
def test_thinking_and_a_shape_go_together(
    demo: Engine, form: Any, tools: list[Any], drafts: int
) -> None:
    """JSON in the thoughts is a thought, and the shape is the content's.

    vllm-project/vllm#50948: JSON routed to reasoning; #47027: JSON mode turned thinking off;
    lmstudio-ai/lmstudio-bug-tracker#1773, #1783: the schema was matched against the thoughts, the content empty;
    vllm-project/vllm#46118: the end of thinking within a draft made the grammar refuse the request.
    """
    thought = '{"side": "neither"} or </tool_call>?'
    with calling(demo.model, [thought.encode(), f"\n</think>\n\n{TAILS}"], drafts=drafts) as chat:
        asked: Any = {"tools": tools, "response_format": form}
        whole, streamed = chat.both(**asked, extra_body={"enable_thinking": True})
    assert whole.message.model_extra["reasoning_content"] == thought
    assert whole.message.content == streamed.content == TAILS
    assert whole.finish_reason == streamed.finish_reason == "stop"


def test_no_thinking_leaves_the_shape_alone(demo: Engine) -> None:
    """ollama/ollama#14645, #14850, #15260: without thinking the format was ignored."""
    with calling(demo.model, f"Sure! {TAILS}") as chat:
        for asked in ({"reasoning_effort": "none"}, {"extra_body": {"enable_thinking": False}}):
            choice = chat.ask(tools=[], response_format=FORMAT, **asked)
            jsonschema.validate(json.loads(choice.message.content), COIN)


@pytest.mark.parametrize("tools", [[], [NOOP]], ids=["alone", "tools"])
def test_a_stop_string_in_the_thoughts_stops_nothing(demo: Engine, tools: list[Any]) -> None:
    """vllm-project/vllm#14170: it cut the answer, and ``/think>`` leaked into it."""
    with calling(demo.model, "No STOP here.\n</think>\n\nThe end. STOP it.") as chat:
        whole, streamed = chat.both(
            tools=tools, stop=["STOP"], extra_body={"enable_thinking": True}
        )
    assert whole.message.model_extra["reasoning_content"] == "No STOP here."
    assert whole.message.content == streamed.content == "The end. "
    assert whole.finish_reason == streamed.finish_reason == "stop"


@pytest.mark.parametrize(
    "said",
    [
        '{"side": ',
        f"{TAILS}<tool_call>",
        f"{TAILS} and another: {TAILS}",
        f"{TAILS}{TAILS}",
    ],
)
def test_a_shape_ends_where_it_is_whole_and_nowhere_else(demo: Engine, said: str) -> None:
    """vllm-project/vllm#49227, ggml-org/llama.cpp#27279: an end token, or a stop, came within the object.

    vllm-project/vllm#51693: a special token after the whole object gave a 500.
    tetherto/qvac#3225: generation went on after it.
    """
    with calling(demo.model, said) as chat:
        for tools in ([], TOOLS):
            whole, streamed = chat.both(tools=tools, response_format=FORMAT, max_tokens=100)
            jsonschema.validate(json.loads(whole.message.content), COIN)
            assert streamed.content == whole.message.content
            assert whole.finish_reason == streamed.finish_reason == "stop"
