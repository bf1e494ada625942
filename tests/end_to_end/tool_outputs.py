"""Tools to call, and what a plain program says of an output that may call them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import jsonschema

from infernix_core.engine.request import (
    Event,
    FinishReason,
    GenerationEnd,
    GenerationResult,
    TextDelta,
)
from infernix_core.interfaces.frontend import Channel, ToolCallDelta, ToolCallEnd, ToolCallStart
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolMode

LOOKUP = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 30},
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "units": {"enum": ["metric", "imperial"]},
        "where": {
            "type": "object",
            "properties": {
                "lat": {"type": "number"},
                "tags": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["lat"],
            "additionalProperties": False,
        },
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
NOOP = {"type": "object", "properties": {}, "additionalProperties": False}
RUN = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "pattern": "^[a-z]+( [a-z./-]+)*$"},
        "background": {"type": "boolean"},
    },
    "required": ["command"],
    "additionalProperties": False,
}
SCHEMAS = {"lookup": LOOKUP, "noop": NOOP, "run": RUN}
COIN = {
    "type": "object",
    "properties": {"side": {"enum": ["heads", "tails"]}},
    "required": ["side"],
    "additionalProperties": False,
}

POLICIES = {
    "auto": ToolChoice(),
    "automatic": ToolChoice(constraints=ToolConstraints.AUTOMATIC),
    "none": ToolChoice(ToolMode.NONE),
    "required": ToolChoice(ToolMode.REQUIRED),
    "allowed": ToolChoice(allowed_names=("run", "noop")),
    "named": ToolChoice(ToolMode.REQUIRED, ("lookup",), parallel=False),
}


def tools(*, strict: bool) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": f"The tool {name}.",
                "parameters": schema,
                "strict": strict,
            },
        }
        for name, schema in SCHEMAS.items()
    ]


def choice_of(policy: str, *, parallel: bool) -> ToolChoice:
    base = POLICIES[policy]
    return ToolChoice(base.mode, base.allowed_names, base.parallel and parallel, base.constraints)


def once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"a name occurs twice in {names}"
    return dict(pairs)


def assert_allowed(
    result: GenerationResult, choice: ToolChoice, *, strict: bool, json_output: bool
) -> None:
    """What the contract says of one output, read from the result alone."""
    assert result.error is None, result.error
    ended = result.finish_reason is FinishReason.STOP
    calls = result.tool_calls
    whole = [call for call in calls if call.arguments_json is not None]
    assert whole == list(calls[: len(whole)]), "only the last call may be cut off"
    assert len(calls) - len(whole) <= (0 if ended else 1)
    if choice.mode is ToolMode.NONE:
        assert not calls
    if choice.mode is ToolMode.REQUIRED:
        assert not result.text
        assert calls or not ended
    if not choice.parallel:
        assert len(calls) <= 1
    for call in calls:
        assert call.name in (choice.allowed_names or SCHEMAS)
    for call in whole:
        assert call.arguments_json is not None
        arguments = json.loads(call.arguments_json, object_pairs_hook=once)
        if strict:
            jsonschema.validate(arguments, SCHEMAS[call.name], jsonschema.Draft202012Validator)
    if json_output:
        assert not (calls and result.text), "JSON or calls, never both"
        if ended and not calls:
            jsonschema.validate(json.loads(result.text), COIN, jsonschema.Draft202012Validator)


def assert_streamed(events: Iterable[Event]) -> None:
    """The events of one output join to its result."""
    texts = dict.fromkeys(Channel, "")
    names: list[str] = []
    arguments: dict[int, str] = {}
    ended: list[int] = []
    result = None
    for event in events:
        assert result is None, "nothing comes after the end"
        match event:
            case TextDelta(channel, text):
                texts[channel] += text
                assert text
            case ToolCallStart(index, name):
                assert index == len(names) == len(ended), "calls come one after the other"
                names.append(name)
                arguments[index] = ""
            case ToolCallDelta(index, piece):
                assert piece
                assert index == len(names) - 1 == len(ended)
                arguments[index] += piece
            case ToolCallEnd(index):
                assert index == len(ended)
                ended.append(index)
            case GenerationEnd(result):
                pass
    assert result is not None
    assert result.text == texts[Channel.CONTENT]
    assert result.reasoning == texts[Channel.REASONING]
    assert [call.name for call in result.tool_calls] == names
    for index, call in enumerate(result.tool_calls):
        if index in ended:
            assert call.arguments_json == arguments[index]
        else:
            assert call.arguments_json is None
            assert not is_json(arguments[index]), "a part must not be taken for a whole"


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True
