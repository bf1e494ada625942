"""Whole turns of the bundled model with its two tools: it thinks, talks, calls, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import FinishReason, GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolChoice, ToolMode
from infernix_demo_model.hooks import checkpoint_path
from tests.end_to_end.conftest import WAIT

#: A bounded record of a log line.
RECORD = {
    "type": "object",
    "properties": {
        "level": {"enum": ["INFO", "WARN", "ERROR"]},
        "service": {"type": "string", "maxLength": 20},
        "code": {"type": "integer", "minimum": 100, "maximum": 599},
    },
    "required": ["level", "service", "code"],
    "additionalProperties": False,
}
QUESTION = "Read logs/app.log and extract level, service, and code as JSON"
LINE = "[ERROR] billing-api: returned 503 after 1200 ms"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(checkpoint_path(), options=EngineOptions(lanes=2)) as made:
        yield made


@pytest.fixture(scope="module", params=["as shipped", "strict"])
def tools(request: pytest.FixtureRequest) -> Any:
    shipped = json.loads((checkpoint_path().parent / "tools.json").read_text("utf-8"))
    if request.param == "strict":
        for tool in shipped:
            tool["function"]["strict"] = True
            tool["function"]["parameters"]["additionalProperties"] = False
    return shipped


def turn(
    engine: Engine, messages: list[Any], tools: Any, *, thinks: bool, **options: Any
) -> GenerationResult:
    prompt = engine.prepare(PromptInput(messages=messages, tools=tools, enable_thinking=thinks))
    asked = RequestOptions(sampling=SamplingOptions(greedy=True), max_tokens=300, **options)
    return engine.submit(prompt, asked).wait(WAIT).raise_for_error()


def user(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


def calls(result: GenerationResult) -> list[tuple[str, Any]]:
    assert all(call.arguments_json is not None for call in result.tool_calls)
    return [(call.name, json.loads(call.arguments_json or "")) for call in result.tool_calls]


@pytest.mark.parametrize("thinks", [False, True])
def test_it_calls_a_tool(engine: Engine, tools: Any, thinks: bool) -> None:
    result = turn(engine, user("Open src/Main.java"), tools, thinks=thinks)
    assert calls(result) == [("read_file", {"path": "src/Main.java"})]
    assert bool(result.reasoning) == thinks
    assert (result.text, result.finish_reason) == ("", FinishReason.STOP)


def test_it_talks_and_then_calls(engine: Engine, tools: Any) -> None:
    result = turn(engine, user("Say what you do, then open src/Main.java"), tools, thinks=False)
    assert calls(result) == [("read_file", {"path": "src/Main.java"})]
    assert result.text == "I read src/Main.java."


def test_it_calls_twice_unless_that_is_forbidden(engine: Engine, tools: Any) -> None:
    question = user("Read a.py and b.py")
    both = [("read_file", {"path": "a.py"}), ("read_file", {"path": "b.py"})]
    assert calls(turn(engine, question, tools, thinks=True)) == both
    one = turn(engine, question, tools, thinks=True, tool_choice=ToolChoice(parallel=False))
    assert calls(one) == both[:1]


@pytest.mark.parametrize("thinks", [False, True])
def test_a_result_becomes_bounded_json_with_the_tools_still_active(
    engine: Engine, tools: Any, thinks: bool
) -> None:
    """Two turns under one schema: a call, since nothing else could be known, and then the JSON."""
    shape = JsonSchema.of(RECORD, compact=True)
    first = turn(engine, user(QUESTION), tools, thinks=thinks, constraint=shape)
    assert calls(first) == [("read_file", {"path": "logs/app.log"})]
    assert first.constraint is not None
    assert first.constraint.branch == "tools"
    (call,) = first.tool_calls
    called = {"name": call.name, "arguments": call.arguments_json}
    messages = [
        *user(QUESTION),
        {
            "role": "assistant",
            "content": first.text,
            "reasoning_content": first.reasoning,
            "tool_calls": [{"id": "one", "type": "function", "function": called}],
        },
        {"role": "tool", "tool_call_id": "one", "content": LINE},
    ]
    budget = 80 if thinks else None
    second = turn(engine, messages, tools, thinks=thinks, constraint=shape, thinking_budget=budget)
    assert not second.tool_calls
    assert second.constraint is not None
    assert (second.constraint.branch, second.constraint.terminated) == ("content", True)
    record = json.loads(second.text)
    jsonschema.validate(record, RECORD, jsonschema.Draft202012Validator)
    assert record == {"level": "ERROR", "service": "billing-api", "code": 503}
    assert bool(second.reasoning) == thinks


def test_no_policy_lets_another_answer_through(engine: Engine, tools: Any) -> None:
    """Against what the model would rather say."""
    none = turn(
        engine, user("Open a.py"), tools, thinks=False, tool_choice=ToolChoice(ToolMode.NONE)
    )
    assert not none.tool_calls
    named = ToolChoice(ToolMode.REQUIRED, ["search"], parallel=False)
    result = turn(engine, user("Open src/Main.java"), tools, thinks=False, tool_choice=named)
    assert [name for name, _ in calls(result)] == ["search"]
