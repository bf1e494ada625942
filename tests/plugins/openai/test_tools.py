"""Tool calls through the official client: what is asked for, what comes back, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import openai
import pydantic
import pytest

from infernix_core.engine.engine import Engine
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.tools import ToolConstraints
from infernix_http.options import ServerOptions
from tests.plugins.openai.calling import (
    MESSAGES,
    NOOP,
    TOOLS,
    ULM,
    ULM_ARGUMENTS,
    WEATHER,
    Chat,
    arguments,
    call,
    calling,
)
from tests.plugins.serving import serving

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
SCHEMA = WEATHER["function"]["parameters"]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


CHOICES: list[Any] = ["auto", "none", "required", NAMED, allowed("auto", "noop")]


@pytest.fixture(scope="module")
def talking(demo: Engine) -> Iterator[Chat]:
    """Text, then two calls."""
    with calling(demo.model, f"Let me see.\n\n{ULM}\n{call('noop')}") as chat:
        yield chat


@pytest.fixture(scope="module")
def calls_alone(demo: Engine) -> Iterator[Chat]:
    """One call and nothing else."""
    with calling(demo.model, ULM) as chat:
        yield chat


def test_text_and_calls(talking: Chat) -> None:
    whole, streamed = talking.both()
    assert whole.message.content == streamed.content == "Let me see."
    assert [one.type for one in whole.message.tool_calls] == ["function"] * 2
    assert [one.function.name for one in whole.message.tool_calls] == ["get_weather", "noop"]
    assert [one.function.arguments for one in whole.message.tool_calls] == [ULM_ARGUMENTS, "{}"]
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"
    ids = [one.id for one in whole.message.tool_calls]
    assert len(set(ids)) == 2
    assert all(one.startswith("call_") for one in ids)
    assert streamed.arguments == {0: ULM_ARGUMENTS, 1: "{}"}


def test_the_pieces_of_a_stream(talking: Chat) -> None:
    """Index, id, type and name come once, in a call's first delta; then pieces of arguments.

    vllm-project/vllm#9693, run-llama/llama_index#17927: null as the first delta's arguments breaks clients.
    """
    chunks = list(talking.create(stream=True, stream_options={"include_usage": True}))
    first, *deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert (first.role, first.content, first.tool_calls) == ("assistant", "", None)
    started = 0
    for delta in deltas:
        assert delta.role is None
        for piece in delta.tool_calls or ():
            if piece.id is not None:
                assert (piece.index, piece.type) == (started, "function")
                assert piece.function.name == ["get_weather", "noop"][started]
                assert piece.function.arguments == ""
                started += 1
            else:
                assert piece.index == started - 1
                assert piece.function.arguments
                assert not {"id", "type"} & piece.model_fields_set
                assert piece.function.model_fields_set == {"arguments"}
    assert started == 2
    assert chunks[-1].usage == talking.create().usage


def test_the_streaming_helper_joins_them(talking: Chat) -> None:
    with talking.client.chat.completions.stream(
        model="demo", messages=MESSAGES, tools=TOOLS, temperature=0
    ) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    assert "tool_calls.function.arguments.done" in kinds
    assert message.tool_calls[0].function.arguments == ULM_ARGUMENTS


def test_content_is_null_beside_calls_alone(calls_alone: Chat) -> None:
    whole, streamed = calls_alone.both()
    assert whole.message.content is None
    assert streamed.content == ""
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"


def test_a_named_choice_ends_with_stop(calls_alone: Chat) -> None:
    """vllm-project/vllm#25054, #9209, #49496, the table of finish reasons: required ends with tool_calls, a named
    tool with stop, in both modes; truncation is length, also where a tool is named.
    """
    for choice, finish in (
        ("auto", "tool_calls"),
        ("required", "tool_calls"),
        (allowed("auto", "get_weather"), "tool_calls"),
        (allowed("required", "get_weather"), "tool_calls"),
        (NAMED, "stop"),
    ):
        whole, streamed = calls_alone.both(tool_choice=choice)
        assert whole.finish_reason == streamed.finish_reason == finish
        assert [one.function.arguments for one in whole.message.tool_calls] == [ULM_ARGUMENTS]
        assert streamed.arguments == {0: ULM_ARGUMENTS}
        cut, streamed = calls_alone.both(tool_choice=choice, max_tokens=20)
        assert cut.finish_reason == streamed.finish_reason == "length"
        assert cut.message.tool_calls is None


def test_none_calls_nothing(talking: Chat) -> None:
    whole, streamed = talking.both(tool_choice="none", max_tokens=60)
    assert whole.message.tool_calls is None
    assert not streamed.pieces
    assert whole.message.content == streamed.content
    assert whole.message.content.startswith("Let me see.\n\n")
    # Where no tool may be called, every constraint has the content for itself.
    free: Any = {"extra_body": {"structured_outputs": {"regex": "[a-z]{3}"}}}
    assert len(talking.ask(tool_choice="none", **free).message.content) == 3


def test_only_allowed_tools_are_called(talking: Chat) -> None:
    for mode in ("auto", "required"):
        for _ in range(3):
            reply = talking.ask(tool_choice=allowed(mode, "noop"), max_tokens=60, temperature=1)
            assert {name for name, _ in arguments(reply)} <= {"noop"}


def test_one_call_at_most(talking: Chat) -> None:
    """vllm-project/vllm#9451, sgl-project/sglang#9696: parallel_tool_calls false was ignored."""
    whole, streamed = talking.both(parallel_tool_calls=False)
    assert [name for name, _ in arguments(whole)] == ["get_weather"]
    assert streamed.arguments == {0: ULM_ARGUMENTS}


def test_strict_arguments_satisfy_their_schema(client: openai.OpenAI) -> None:
    """Whatever the model says; fragments of a stream join to the whole answer's arguments."""
    whole_calls = 0
    for seed in range(6):
        asked: Any = {
            "model": "demo",
            "messages": MESSAGES,
            "tools": TOOLS,
            "tool_choice": NAMED,
            "seed": seed,
            "temperature": 1.5,
            "max_tokens": 200,
        }
        chat = Chat(client, None)  # type: ignore[arg-type]
        whole, streamed = chat.both(**asked)
        assert whole.finish_reason == streamed.finish_reason
        for index, one in enumerate(whole.message.tool_calls or ()):
            whole_calls += 1
            assert streamed.arguments[index] == one.function.arguments
            jsonschema.validate(json.loads(one.function.arguments), SCHEMA)
    assert whole_calls >= 3


class Weather(pydantic.BaseModel):
    city: str
    days: int


def test_parse_gives_the_callers_class(demo: Engine) -> None:
    with calling(demo.model, call("Weather", city="Ulm", days="3")) as chat:
        reply = chat.client.chat.completions.parse(
            model="demo", messages=MESSAGES, tools=[openai.pydantic_function_tool(Weather)]
        )
    (one,) = reply.choices[0].message.tool_calls
    assert one.function.parsed_arguments == Weather(city="Ulm", days=3)


def test_the_streaming_helper_parses_strict_arguments(demo: Engine) -> None:
    with (
        calling(demo.model, call("Weather", city="Ulm", days="3")) as chat,
        chat.client.chat.completions.stream(
            model="demo", messages=MESSAGES, tools=[openai.pydantic_function_tool(Weather)]
        ) as stream,
    ):
        for event in stream:
            if event.type == "tool_calls.function.arguments.done":
                assert event.parsed_arguments == Weather(city="Ulm", days=3)
        (one,) = stream.get_final_completion().choices[0].message.tool_calls
    assert one.function.parsed_arguments == Weather(city="Ulm", days=3)


def test_parse_says_when_a_call_was_cut(calls_alone: Chat) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        calls_alone.client.chat.completions.parse(
            model="demo", messages=MESSAGES, tools=[WEATHER], max_completion_tokens=20
        )


def test_a_result_then_thinking_then_json_with_tools_still_active(client: openai.OpenAI) -> None:
    """A whole turn under one matcher: thoughts, then the record or another call, whatever the model prefers."""
    tools = json.loads((EXAMPLES / "tools.json").read_text("utf-8"))
    log = "[ERROR] billing-api: returned 503 after 1200 ms"
    function = {"name": "read_file", "arguments": '{"path": "logs/app.log"}'}
    record = {
        "type": "object",
        "properties": {
            "level": {"enum": ["INFO", "WARN", "ERROR"]},
            "service": {"type": "string", "maxLength": 24},
            "code": {"type": "integer", "minimum": 100, "maximum": 599},
        },
        "required": ["level", "service", "code"],
        "additionalProperties": False,
    }
    asked: Any = {
        "model": "demo",
        "messages": [
            {
                "role": "user",
                "content": "Read logs/app.log and extract level, service, and code as JSON",
            },
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": log},
        ],
        "tools": tools,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "record", "schema": record},
        },
        "extra_body": {"enable_thinking": True, "thinking_budget": 60},
        "temperature": 0,
        "max_tokens": 400,
    }
    whole, streamed = Chat(client, None).both(**asked)  # type: ignore[arg-type]
    assert whole.message.model_extra["reasoning_content"]
    assert whole.finish_reason == streamed.finish_reason
    assert (whole.message.content or "") == streamed.content
    if whole.finish_reason == "stop":
        jsonschema.validate(json.loads(whole.message.content), record)
    else:
        assert not whole.message.content
        schemas = {one["function"]["name"]: one["function"]["parameters"] for one in tools}
        for name, values in arguments(whole):
            jsonschema.validate(values, schemas[name])


def test_json_or_calls_in_one_turn(demo: Engine) -> None:
    """With a response format the answer is JSON or calls, and each can come.

    vllm-project/vllm#39929, ggml-org/llama.cpp#27114: a coin flip and a tool without parameters made tools
    impossible, or left no grammar at all.
    """
    form = {
        "type": "json_schema",
        "json_schema": {
            "name": "coin",
            "schema": {
                "type": "object",
                "properties": {"side": {"enum": ["heads", "tails"]}},
                "required": ["side"],
                "additionalProperties": False,
            },
        },
    }
    for said, finish in (('{"side": "tails"}', "stop"), (call("noop"), "tool_calls")):
        with calling(demo.model, said) as chat:
            whole, streamed = chat.both(response_format=form, tools=[NOOP])
            assert whole.finish_reason == streamed.finish_reason == finish
            if finish == "stop":
                assert json.loads(whole.message.content) == {"side": "tails"}
                assert streamed.content == whole.message.content
                # Where a call is required there is no content, and where none may come no call.
                required, none = (
                    chat.ask(response_format=form, tools=[NOOP], tool_choice=choice)
                    for choice in ("required", "none")
                )
                assert arguments(required)[0] == ("noop", {}) or required.finish_reason == "length"
                assert json.loads(none.message.content) == {"side": "tails"}
            else:
                assert arguments(whole) == [("noop", {})]
                assert whole.message.content is None


@pytest.mark.parametrize("limit", range(1, 40, 3))
def test_a_cut_answer_says_length_and_has_whole_calls_alone(talking: Chat, limit: int) -> None:
    """vllm-project/vllm#53269, #58228: a truncated call was reported as tool_calls now and then.

    vllm-project/vllm#55495: the end of a value leaked into truncated arguments.
    """
    whole, streamed = talking.both(max_tokens=limit)
    complete = talking.ask()
    if whole.finish_reason == "tool_calls":
        assert arguments(whole) == arguments(complete)
        return
    assert whole.finish_reason == streamed.finish_reason == "length"
    calls = arguments(whole)
    assert calls == arguments(complete)[: len(calls)]
    # Of a call that was cut, what came is a beginning, never an object that could be taken for the whole.
    for index, text in streamed.arguments.items():
        if index >= len(calls):
            assert ULM_ARGUMENTS.startswith(text) or text in ("", "{")
            with pytest.raises(json.JSONDecodeError):
                json.loads(text)


def test_a_result_goes_back(demo: Engine, talking: Chat) -> None:
    """What came is sent back as it came, with the tool's result: the model reads its own call again."""
    reply = talking.ask()
    history = [
        *MESSAGES,
        reply.message.model_dump(),
        *(
            {"role": "tool", "tool_call_id": one.id, "content": "sunny"}
            for one in reply.message.tool_calls
        ),
    ]
    answered = talking.create(messages=history)
    assert answered.choices[0].finish_reason == "tool_calls"
    rendered = demo.prepare(PromptInput(messages=history, tools=TOOLS))
    text = b"".join(demo.model.vocabulary.token_bytes[token] for token in rendered.token_ids)
    assert b"<parameter=city>\nUlm" in text
    assert text.count(b"sunny") == 2
    assert answered.usage.prompt_tokens == len(rendered.token_ids) + 1


def test_no_choice_changes_the_prompt(talking: Chat) -> None:
    """Policies shape the output alone."""
    counts = {
        talking.create(tool_choice=choice, max_tokens=1, **more).usage.prompt_tokens
        for choice in CHOICES
        for more in (
            {},
            {"parallel_tool_calls": False},
            {"response_format": {"type": "json_object"}},
            {"extra_body": {"tool_constraints": "automatic"}},
        )
    }
    assert len(counts) == 1
    without = talking.create(tools=openai.NOT_GIVEN, max_tokens=1).usage.prompt_tokens
    assert without < min(counts)


def test_harmless_fields_without_tools(talking: Chat) -> None:
    for more in ({"tool_choice": "none"}, {"tool_choice": "auto"}, {"parallel_tool_calls": True}):
        reply = talking.ask(tools=[], max_tokens=5, **more)
        assert reply.message.tool_calls is None


def test_the_level_of_enforcement(demo: Engine) -> None:
    """Basic enforces the framing of every call; automatic only what was asked for by name.

    vllm-project/vllm#49661 asks for a level that a whole server has.
    """
    broken = "<tool_call>\n<function=noop>\n</function>\n oops"
    automatic = ServerOptions(tool_constraints=ToolConstraints.AUTOMATIC)
    basic = {"extra_body": {"tool_constraints": "basic"}}
    free = {"extra_body": {"tool_constraints": "automatic"}}
    for server, levels in ((None, {"": {}, "free": free}), (automatic, {"": basic, "free": {}})):
        with calling(demo.model, broken, server) as chat:
            asked: Any = {"tools": [NOOP], "max_tokens": 40}
            enforced, loose = (chat.create(**asked, **levels[name]) for name in ("", "free"))
            assert enforced.model_extra["constraint"]["kind"] == "tools"
            assert arguments(enforced.choices[0])[:1] == [("noop", {})]
            assert "constraint" not in loose.model_extra
            assert loose.choices[0].message.content == broken
            assert loose.choices[0].message.tool_calls is None


def test_a_free_call_is_read_too(demo: Engine) -> None:
    with calling(demo.model, f"Well.\n\n{call('noop')}") as chat:
        whole, streamed = chat.both(
            tools=[NOOP], extra_body={"tool_constraints": "automatic"}, stop=["@"]
        )
    assert arguments(whole) == [("noop", {})]
    assert (whole.message.content, streamed.content) == ("Well.", "Well.")
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"


def test_a_thinking_budget(demo: Engine) -> None:
    """Used up, it closes the thoughts with the family's words; unused, it does nothing."""
    closing = "directly now."
    with calling(demo.model, "why " * 100) as chat:
        for tools in ([], TOOLS):
            lengths = []
            for budget in (0, 1, 7):
                thinking = {"enable_thinking": True, "thinking_budget": budget}
                asked: Any = {"tools": tools, "max_tokens": 100, "extra_body": thinking}
                whole, streamed = chat.both(**asked)
                reasoning = whole.message.model_extra["reasoning_content"]
                assert reasoning.endswith(closing)
                lengths.append(len(reasoning))
                assert whole.message.content == streamed.content
                assert "why" in whole.message.content
                silent = {"enable_thinking": False, "thinking_budget": budget}
                assert chat.ask(**{**asked, "extra_body": silent}).message.content.startswith("why")
            assert lengths == sorted(set(lengths))
    with calling(demo.model, "why\n</think>\n\nSo.") as chat:
        thinking = {"enable_thinking": True, "thinking_budget": 50}
        message = chat.ask(extra_body=thinking).message
        assert (message.model_extra["reasoning_content"], message.content) == ("why", "So.")


@pytest.mark.parametrize("said", ["", "I call it.\n\n"])
def test_a_call_that_a_message_begins_comes_back_whole(demo: Engine, said: str) -> None:
    """`<tool_call>` is the token there; what the message says before it is not said again."""
    begun, rest = ULM[:40], ULM[40:]
    messages = [*MESSAGES, {"role": "assistant", "content": said + begun}]
    with calling(demo.model, rest) as chat:
        whole, streamed = chat.both(messages=messages, reasoning_effort="none")
    assert [one.function.arguments for one in whole.message.tool_calls] == [ULM_ARGUMENTS]
    assert streamed.arguments == {0: ULM_ARGUMENTS}
    assert whole.message.content is None
    assert whole.finish_reason == streamed.finish_reason == "tool_calls"


def test_a_server_without_thinking_continues_without_being_told(demo: Engine) -> None:
    messages: Any = [*MESSAGES, {"role": "assistant", "content": '{"a":'}]
    asked: Any = {"model": "demo", "messages": messages, "max_tokens": 3}
    for thinking in (False, True, None):
        with (
            serving(demo, model_id="demo", enable_thinking=thinking) as server,
            openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client,
        ):
            if thinking is False:
                assert client.chat.completions.create(**asked).usage.completion_tokens
                continue
            with pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(**asked)
            assert caught.value.code == "invalid_prompt"


def test_a_last_message_of_the_assistants_is_gone_on_with(client: openai.OpenAI) -> None:
    """Only what is new comes back, and with it the JSON is whole."""
    begun = '{"file": "Par'
    messages = [*MESSAGES, {"role": "assistant", "content": begun}]
    reply = client.chat.completions.create(
        model="demo",
        messages=messages,
        response_format={"type": "json_object"},
        temperature=0,
        reasoning_effort="none",
    )
    assert reply.choices[0].finish_reason == "stop"
    assert json.loads(begun + reply.choices[0].message.content)["file"].startswith("Par")
