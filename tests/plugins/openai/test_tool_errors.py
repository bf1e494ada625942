"""Requests with tools that cannot be served: refused with the field at fault, before anything is generated."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any

import openai
import pytest

from infernix_core.testing.conformance.wire import VALUES
from tests.plugins.openai.calling import MESSAGES, NOOP, TOOLS, WEATHER
from tests.plugins.openai.test_errors import FORMAT, refused

USER = MESSAGES[0]
NAMED = {"type": "function", "function": {"name": "noop"}}


def function(**members: Any) -> list[Any]:
    return [{"type": "function", "function": {"name": "f", **members}}]


def strict(parameters: Any) -> list[Any]:
    """Two tools, of which the second has these strict parameters."""
    return [NOOP, *function(parameters=parameters, strict=True)]


def closed(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def allowed(**members: Any) -> dict[str, Any]:
    return {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED], **members}}


TOOL_LISTS: list[tuple[Any, str]] = [
    ({}, "tools"),
    ("noop", "tools"),
    ([1], "tools[0]"),
    ([NOOP, {}], "tools[1].type"),
    ([{"type": "custom", "custom": {"name": "x"}}], "tools[0].type"),
    ([{"type": "web_search"}], "tools[0].type"),
    ([{"type": "function"}], "tools[0].function"),
    ([{"type": "function", "name": "f", "parameters": {}}], "tools[0].function"),
    ([{"type": "function", "function": "f"}], "tools[0].function"),
    ([{"type": "function", "function": {}}], "tools[0].function.name"),
    ([{"type": "function", "function": {"name": 5}}], "tools[0].function.name"),
    ([{"type": "function", "function": {"name": ""}}], "tools[0].function.name"),
    ([{"type": "function", "function": {"name": "a\nb"}}], "tools[0].function.name"),
    ([NOOP, WEATHER, NOOP], "tools[2].function.name"),
    ([{**NOOP, "strict": True}], "tools[0].strict"),
    ([NOOP, {**NOOP, "parameters": {}}], "tools[1].parameters"),
    (function(strict="yes"), "tools[0].function.strict"),
    (function(parameters=[]), "tools[0].function.parameters"),
    (function(parameters="{}"), "tools[0].function.parameters"),
]

CHOICES: list[tuple[Any, str]] = [
    ("any", "tool_choice"),
    ("noop", "tool_choice"),
    (5, "tool_choice"),
    ([], "tool_choice"),
    ({}, "tool_choice.type"),
    ({"type": "custom", "custom": {"name": "x"}}, "tool_choice.type"),
    ({"type": "function"}, "tool_choice.function.name"),
    ({"type": "function", "name": "noop"}, "tool_choice.function.name"),
    ({"type": "function", "function": {"name": 5}}, "tool_choice.function.name"),
    ({"type": "function", "function": {"name": "nop"}}, "tool_choice.function.name"),
    ({"type": "allowed_tools"}, "tool_choice.allowed_tools"),
    ({"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}, "tool_choice.allowed_tools"),
    (allowed(mode="none"), "tool_choice.allowed_tools.mode"),
    (allowed(mode=None), "tool_choice.allowed_tools.mode"),
    (allowed(tools=[]), "tool_choice.allowed_tools.tools"),
    (allowed(tools=None), "tool_choice.allowed_tools.tools"),
    (allowed(tools=[5]), "tool_choice.allowed_tools.tools[0]"),
    (allowed(tools=["noop"]), "tool_choice.allowed_tools.tools[0]"),
    (allowed(tools=[NAMED, {"type": "mcp"}]), "tool_choice.allowed_tools.tools[1].type"),
    (
        allowed(tools=[NAMED, {"type": "function", "function": {"name": "x"}}]),
        "tool_choice.allowed_tools.tools[1].function.name",
    ),
]

OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"tool_constraints": "strict"}, "tool_constraints"),
    ({"tool_constraints": True}, "tool_constraints"),
    ({"thinking_budget": -1}, "thinking_budget"),
    ({"thinking_budget": 2.5}, "thinking_budget"),
    ({"thinking_budget": True}, "thinking_budget"),
    ({"thinking_budget": 5, "enable_thinking": True, "max_tokens": 9}, "thinking_budget"),
    ({"structured_outputs": {"grammar": 'root ::= "a"'}}, "structured_outputs.grammar"),
    ({"structured_outputs": {"regex": "a"}}, "structured_outputs.regex"),
    ({"structured_outputs": {"choice": ["a"]}, "tool_choice": NAMED}, "structured_outputs.choice"),
    ({"stop": "x"}, "stop"),
    ({"stop": "x", "tools": [NOOP], "tool_choice": "required"}, "stop"),
    ({"stop_token_ids": [5], "tools": [NOOP], "tool_choice": NAMED}, "stop_token_ids"),
    (
        {"tools": [NOOP], "tool_constraints": "automatic", "constraint_stats": True},
        "constraint_stats",
    ),
    ({"functions": [{"name": "f"}]}, "functions"),
    ({"function_call": {"name": "f"}}, "function_call"),
]

HISTORIES: list[tuple[list[Any], str]] = [
    ([USER, {"role": "assistant", "content": "I"}], "enable_thinking"),
    (
        [
            USER,
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "noop", "arguments": "{}"},
                    }
                ],
            },
        ],
        "messages[1].tool_calls",
    ),
    (
        [
            USER,
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "function", "function": {"name": "n", "arguments": "{"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
        "messages[1].tool_calls[0].function.arguments",
    ),
    (
        [USER, {"role": "assistant", "tool_calls": {}}, {"role": "tool", "content": "x"}],
        "messages[1].tool_calls",
    ),
    ([USER, {"role": "tool", "tool_call_id": "c"}], "messages[1].content"),
]


def check(client: openai.OpenAI, fields: dict[str, Any], param: str) -> openai.BadRequestError:
    error = refused(client, **{"tools": TOOLS, **fields})
    assert error.param == param
    assert error.type == "invalid_request_error"
    assert param in str(error)
    return error


@pytest.mark.parametrize(("tools", "param"), TOOL_LISTS, ids=lambda value: repr(value)[:60])
def test_tools_that_are_none(client: openai.OpenAI, tools: Any, param: str) -> None:
    check(client, {"tools": tools}, param)


@pytest.mark.parametrize(("choice", "param"), CHOICES, ids=lambda value: repr(value)[:60])
def test_choices_that_are_none(client: openai.OpenAI, choice: Any, param: str) -> None:
    check(client, {"tool_choice": choice}, param)


@pytest.mark.parametrize(("fields", "param"), OTHERS, ids=lambda value: repr(value)[:60])
def test_what_goes_with_tools(client: openai.OpenAI, fields: dict[str, Any], param: str) -> None:
    check(client, fields, param)


@pytest.mark.parametrize(("messages", "param"), HISTORIES, ids=lambda value: repr(value)[:60])
def test_histories(client: openai.OpenAI, messages: list[Any], param: str) -> None:
    error = check(client, {"messages": messages}, param)
    assert error.code == "invalid_prompt"


@pytest.mark.parametrize("tools", [None, []])
def test_a_choice_without_tools(client: openai.OpenAI, tools: Any) -> None:
    assert refused(client, tools=tools, tool_choice="required").param == "tool_choice"
    named = refused(client, tools=tools, tool_choice=NAMED)
    assert named.param == "tool_choice.function.name"
    listed = refused(client, tools=tools, tool_choice=allowed())
    assert listed.param == "tool_choice.allowed_tools.tools[0].function.name"


def test_a_name_that_is_not_declared_is_told_the_declared_ones(client: openai.OpenAI) -> None:
    choice = {"type": "function", "function": {"name": "nop"}}
    error = check(client, {"tool_choice": choice}, "tool_choice.function.name")
    assert '"get_weather", "noop"' in str(error)


UNENFORCEABLE: list[tuple[Any, str]] = [
    ({"type": "object", "properties": {}}, ""),
    (closed(a={"type": ["string", "null"]}), "/properties/a"),
    (closed(a={"anyOf": [{"type": "string"}, {"type": "integer"}]}), "/properties/a"),
    (closed(a={"type": "array", "uniqueItems": True}), "/properties/a"),
    (closed(a={"type": "string", "pattern": "("}), "/properties/a"),
    (closed(a={"type": "integer", "minimum": 5, "maximum": 4}), "/properties/a"),
    ({"type": "array"}, ""),
    ({"type": "object", "properties": 5}, ""),
]


@pytest.mark.parametrize(
    ("parameters", "pointer"), UNENFORCEABLE, ids=lambda value: repr(value)[:60]
)
def test_a_strict_schema_is_located_in_its_tool(
    client: openai.OpenAI, parameters: Any, pointer: str
) -> None:
    error = refused(client, tools=strict(parameters))
    assert error.param == f"tools[1].function.parameters{pointer}"
    assert "tool 'f'" in str(error)


def test_what_the_guide_says_instead_of_a_mixture_can_be_enforced(client: openai.OpenAI) -> None:
    mixed = {"type": ["string", "integer", "null"]}
    body = {"model": "demo", "messages": MESSAGES, "max_tokens": 1}
    for parameters in (
        {**closed(a={"type": "string"}), "required": []},
        closed(a={"type": "array", "items": mixed, "minItems": 1, "maxItems": 1}),
        closed(a=closed(value=mixed)),
        closed(a={"type": ["integer", "null"]}),
    ):
        asked = {**body, "tools": strict(parameters)}
        assert client.post("/chat/completions", body=asked, cast_to=object)


def test_what_is_not_strict_is_a_hint(client: openai.OpenAI) -> None:
    for parameters, _ in UNENFORCEABLE:
        body = {"model": "demo", "messages": MESSAGES, "max_tokens": 1}
        tools = deepcopy(strict(parameters))
        tools[1]["function"]["strict"] = False
        assert client.post("/chat/completions", body={**body, "tools": tools}, cast_to=object)


def test_a_response_format_beside_tools_keeps_its_own_place(client: openai.OpenAI) -> None:
    bad = {"type": "json_schema", "json_schema": {"schema": {"minimum": "x"}}}
    check(client, {"response_format": bad}, "response_format.json_schema.schema")
    error = check(client, {"response_format": FORMAT, "stop": "x"}, "stop")
    assert "constraint" in str(error)


def test_a_message_that_is_no_beginning_of_the_answer(client: openai.OpenAI) -> None:
    fields: dict[str, Any] = {
        "messages": [USER, {"role": "assistant", "content": "Well"}],
        "enable_thinking": False,
    }
    error = check(client, {**fields, "response_format": FORMAT}, "messages[1].content")
    assert "continued message" in str(error)
    error = check(client, {**fields, "tool_choice": "required"}, "messages[1].content")
    assert "continued message" in str(error)
    whole = "<tool_call>\n<function=noop>\n</function>\n</tool_call>"
    fields["messages"] = [USER, {"role": "assistant", "content": whole}]
    assert check(client, fields, "messages[1].content").code == "invalid_prompt"


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a JSON value."""
    yield path
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], (*path, key))


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.heavy)])
def test_nothing_in_a_request_is_a_fault_of_the_server(client: openai.OpenAI, step: int) -> None:
    """Every place in tools, choice and history with values of every kind: an answer, or an error of the client's."""
    called = {"id": "c", "type": "function", "function": {"name": "noop", "arguments": "{}"}}
    good = {
        "model": "demo",
        "max_tokens": 1,
        "messages": [
            USER,
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ],
        "tools": TOOLS,
        "tool_choice": allowed(),
        "thinking_budget": 100,
    }
    tried = [place for place in places(good) if place and place[0] not in ("model", "max_tokens")]
    for place, value in list(product(tried, VALUES))[::step]:
        body: Any = deepcopy(good)
        inside = body
        for key in place[:-1]:
            inside = inside[key]
        inside[place[-1]] = "@value@"
        text = json.dumps(body).replace('"@value@"', value)
        with contextlib.suppress(openai.BadRequestError):
            client.post("/chat/completions", content=text.encode(), cast_to=object)


def test_raw_texts_declare_no_tools(client: openai.OpenAI) -> None:
    for field, value in (("tools", [NOOP]), ("tool_choice", "required"), ("tool_choice", NAMED)):
        error = refused(client, "completions", **{field: value})
        assert error.param == field
        assert "/v1/chat/completions" in str(error)


def test_old_names_are_told_the_new_ones(client: openai.OpenAI) -> None:
    assert "use tools" in str(refused(client, functions=[{"name": "f"}]))
    assert "use tool_choice" in str(refused(client, function_call={"name": "f"}))
