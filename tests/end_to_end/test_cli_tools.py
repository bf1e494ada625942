"""Tools, thinking budgets and continued messages on the command line."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infernix_core.cli.terminal import Answer, StatusLine, report_lines
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import (
    Event,
    FinishReason,
    GenerationEnd,
    GenerationHandle,
    GenerationResult,
    RequestOptions,
    TextDelta,
    Timings,
    ToolCall,
    Usage,
)
from infernix_core.interfaces.frontend import (
    Channel,
    PromptInput,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolChoice, ToolMode
from tests.end_to_end.command import Infernix, assert_one_line
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.test_random_weights import demo_directory

PROMPT = "How is the weather?"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
PARAMETERS = {
    "type": "object",
    "properties": {
        "days": {"type": "integer", "minimum": 1, "maximum": 14},
        "units": {"enum": ["metric", "imperial"]},
    },
    "required": ["days", "units"],
    "additionalProperties": False,
}
STRICT: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": PARAMETERS, "strict": True},
}
NOOP: dict[str, Any] = {"type": "function", "function": {"name": "noop"}}
LIKE_A_MODE: dict[str, Any] = {"type": "function", "function": {"name": "none"}}
TOOLS = [STRICT, NOOP, LIKE_A_MODE]

File = Callable[[Any], str]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """Writes a JSON document, or a text, to a file."""

    def write(document: Any) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(document if isinstance(document, str) else json.dumps(document))
        return str(path)

    return write


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine.load(demo_directory(), options=EngineOptions(lanes=1)) as engine:
        yield engine


def calls(out: str) -> list[tuple[str, Any]]:
    """One call on each line."""
    assert out.endswith("\n")
    return [(one["name"], one["arguments"]) for one in map(json.loads, out.splitlines())]


def test_a_named_tool_is_called_once(infernix: Infernix, file: File, engine: Engine) -> None:
    """The line on stdout is the engine's own call, under the tool's schema."""
    result = infernix(
        "generate", "--prompt", PROMPT, "--tools", file(TOOLS), "--tool-choice", "weather",
        "--seed", "4", "--temperature", "1.5",
    )  # fmt: skip
    assert result.code == 0, result.err
    ((name, arguments),) = calls(result.out)
    assert name == "weather"
    jsonschema.validate(arguments, PARAMETERS)
    assert "calls: 1 complete\n" in result.err
    assert "constraint: tools, complete, terminated" in result.err
    choice = ToolChoice(ToolMode.REQUIRED, allowed_names=["weather"], parallel=False)
    sampling = SamplingOptions(seed=4, temperature=1.5)
    prompt = engine.prepare(PromptInput(messages=MESSAGES, tools=TOOLS))
    expected = engine.submit(prompt, RequestOptions(tool_choice=choice, sampling=sampling))
    (one,) = expected.wait(WAIT).tool_calls
    assert result.out == f'{{"name": "weather", "arguments": {one.arguments_json}}}\n'


@pytest.mark.parametrize("wrapped", [False, True])
def test_tools_come_from_a_file_or_with_the_messages(
    infernix: Infernix, file: File, wrapped: bool
) -> None:
    seen = set()
    for given in (
        ("--prompt", PROMPT, "--tools", file({"tools": TOOLS} if wrapped else TOOLS)),
        ("--messages", file(MESSAGES), "--tools", file(TOOLS)),
        ("--messages", file({"messages": MESSAGES, "tools": TOOLS})),
    ):
        result = infernix("generate", *given, "--tool-choice", "weather", "--seed", "2")
        assert result.code == 0, result.err
        seen.add(result.out)
    assert len(seen) == 1


def test_allowed_tools_and_required_ones(infernix: Infernix, file: File) -> None:
    asked = ("generate", "--prompt", PROMPT, "--tools", file(TOOLS), "--tool-choice", "required")
    one = infernix(*asked, "--allowed-tool", "weather", "--no-parallel-tools")
    assert one.code == 0, one.err
    assert [name for name, _ in calls(one.out)] == ["weather"]
    # What a tool that is called as a mode is needs no spelling of its own.
    mode = infernix(*asked, "--allowed-tool", "none", "--no-parallel-tools", "--max-tokens", "300")
    assert mode.out.startswith('{"name": "none", "arguments": {')
    some = infernix(
        *asked, "--allowed-tool", "weather", "--allowed-tool", "noop", "--max-tokens", "80",
    )  # fmt: skip
    for line in some.out.splitlines()[: None if some.code == 0 else -1]:
        assert json.loads(line)["name"] in ("weather", "noop")


def test_none_calls_nothing_and_frees_the_content(infernix: Infernix, file: File) -> None:
    asked = ("generate", "--prompt", PROMPT, "--tools", file(TOOLS), "--tool-choice", "none")
    result = infernix(*asked, "--max-tokens", "20")
    assert "calls:" not in result.err
    assert infernix(*asked, "--choice", "yes", "--choice", "no").out in ("yes", "no")


def test_json_or_calls(infernix: Infernix, file: File) -> None:
    result = infernix(
        "generate", "--prompt", PROMPT, "--tools", file([STRICT]), "--json-object", "--greedy",
        "--compact-json", "--max-tokens", "300",
    )  # fmt: skip
    assert result.code in (0, 3)
    if result.code == 0:
        assert isinstance(json.loads(result.out.splitlines()[0]), dict)


def test_a_cut_call_is_said_to_be_one(infernix: Infernix, file: File) -> None:
    properties = {"text": {"type": "string", "minLength": 5000}}
    parameters = {**PARAMETERS, "properties": properties, "required": ["text"]}
    tools = [{"name": "write", "parameters": parameters, "strict": True}]
    result = infernix(
        "generate", "--prompt", PROMPT, "--tools", file(tools), "--tool-choice", "write",
        "--max-tokens", "80",
    )  # fmt: skip
    assert result.code == 3
    assert result.out.startswith('{"name": "write", "arguments": {"text": "')
    assert "calls: 0 complete; the last one was cut off" in result.err
    assert "finish: length" in result.err
    with pytest.raises(json.JSONDecodeError):
        json.loads(result.out)


def test_a_thinking_budget(infernix: Infernix) -> None:
    asked = ("generate", "--prompt", PROMPT, "--thinking", "--greedy", "--choice", "a")
    result = infernix(*asked, "--thinking-budget", "0")
    assert (result.code, result.out) == (0, "a")
    assert "based on the thinking directly now.\n" in result.err
    assert_one_line(
        infernix(*asked, "--thinking-budget", "5", "--max-tokens", "10"), "--thinking-budget"
    )


def test_a_last_message_of_the_assistants_is_gone_on_with(infernix: Infernix, file: File) -> None:
    begun = '{"file": "Par'
    messages = file([*MESSAGES, {"role": "assistant", "content": begun}])
    asked = ("generate", "--messages", messages, "--json-object", "--greedy")
    result = infernix(*asked, "--no-thinking")
    assert result.code == 0, result.err
    assert json.loads(begun + result.out)["file"].startswith("Par")
    for more in ((), ("--thinking",)):
        refused = infernix(*asked, *more)
        assert refused.code == 1
        assert_one_line(refused, "--no-thinking")


def test_it_runs_as_a_program(file: File) -> None:
    """Tools on stdin; nothing but the call on stdout, nothing on a quiet stderr."""
    command = [
        *(sys.executable, "-m", "infernix_core.cli.main", "generate", "--threads", "1", "--quiet"),
        *("--prompt", PROMPT, "--tools", "-", "--tool-choice", "weather", "--seed", "1"),
    ]
    result = subprocess.run(
        command, input=json.dumps(TOOLS).encode(), capture_output=True, check=False
    )
    assert (result.returncode, result.stderr) == (0, b"")
    jsonschema.validate(calls(result.stdout.decode())[0][1], PARAMETERS)


BAD: dict[str, tuple[Any, Sequence[str], int, str]] = {
    "no JSON": ("[", (), 1, "--tools: not JSON"),
    "a long number": ("[1" + "0" * 5000 + "]", (), 1, "--tools: not JSON"),
    "no array": ("{}", (), 1, "an object with one, tools"),
    "more than tools": ({"tools": [], "messages": []}, (), 1, "--tools: the file holds no tools"),
    "no object": ([5], (), 1, "--tools, tools[0]: a tool is an object, not int"),
    "no name": ([NOOP, {"type": "function", "function": {}}], (), 1, "tools[1].function.name"),
    "twice": ([NOOP, STRICT, NOOP], (), 1, "tools[2].function.name: two tools are called 'noop'"),
    "kind": ([{"type": "web_search"}], (), 1, "--tools, tools[0].type"),
    "unknown": (TOOLS, ("--tool-choice", "nop"), 2, "--tool-choice: no tool 'nop' is declared (one of 'weather', 'noop', 'none', auto, none, required)"),
    "not allowed": (TOOLS, ("--allowed-tool", "nop"), 2, "--allowed-tool: no tool 'nop'"),
    "two choices": (TOOLS, ("--tool-choice", "noop", "--allowed-tool", "noop"), 2, "--tool-choice"),
    "no UTF-8": (TOOLS, ("--tool-choice", "a\udcff"), 2, "--tool-choice"),
    "required nothing": ([], ("--tool-choice", "required"), 2, "--tool-choice"),
    "level": (TOOLS, ("--tool-constraints", "strict"), 2, "--tool-constraints"),
    "grammar": (TOOLS, ("--regex", "a"), 2, "--regex: a constraint of kind regex"),
    "choice": (TOOLS, ("--choice", "a"), 2, "--choice: a constraint of kind choice"),
    "stop": (TOOLS, ("--stop", "a"), 2, "--stop: cannot be combined with the strict tool 'weather'"),
    "raw output": (TOOLS, ("--raw-output",), 2, "--raw-output"),
    "budget": (TOOLS, ("--thinking-budget", "-1"), 2, "--thinking-budget: -1 is not possible"),
    "budget of words": (TOOLS, ("--thinking-budget", "x"), 2, "--thinking-budget"),
    "strict": (
        [{"type": "function", "function": {"name": "f", "strict": True, "parameters": {**PARAMETERS, "additionalProperties": True}}}],
        (), 1, "tool 'f'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_mistake_is_one_line(infernix: Infernix, file: File, name: str) -> None:
    document, options, code, expected = BAD[name]
    result = infernix("generate", "--prompt", PROMPT, "--tools", file(document), *options)
    assert result.code == code
    assert_one_line(result, expected)


def test_mistakes_of_whole_command_lines(infernix: Infernix, file: File) -> None:
    both = file({"messages": MESSAGES, "tools": TOOLS})
    doubled = file({"messages": MESSAGES, "tools": [NOOP, NOOP]})
    for arguments, expected in (
        (("--messages", both, "--tools", file(TOOLS)), "the messages bring tools of their own"),
        (("--messages", doubled), "--messages, tools[1].function.name"),
        (("--messages", "-", "--tools", "-"), "both read stdin"),
        (("--raw-prompt", "x", "--tools", file(TOOLS)), "--tools: a raw prompt has no tools"),
        (("--raw-prompt", "x", "--tool-choice", "required"), "--tool-choice"),
        (("--raw-prompt", "x", "--thinking-budget", "5"), "--thinking-budget"),
        (("--prompt", "x", "--tool-choice", "noop"), "declare tools with --tools"),
        (("--prompt", "x", "--tools", "/no/such.json"), "/no/such.json"),
    ):
        assert_one_line(infernix("generate", *arguments), expected)


def test_mistakes_are_found_before_a_model_is_loaded(
    infernix: Infernix, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("a model is loaded")

    monkeypatch.setattr(Engine, "load", load)
    for name, (document, options, _, expected) in BAD.items():
        if name != "strict":
            result = infernix("generate", "--prompt", PROMPT, "--tools", file(document), *options)
            assert_one_line(result, expected)


def printed(events: Sequence[Event], monkeypatch: pytest.MonkeyPatch) -> str:
    """What of an answer goes to stdout."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw))
    handle = GenerationHandle(lambda: None)
    for event in (*events, GenerationEnd(result_of(()))):
        handle.publish(event)
    Answer(StatusLine(), quiet=True).print(handle)
    return raw.getvalue().decode()


def result_of(made: Sequence[ToolCall]) -> GenerationResult:
    return GenerationResult(
        text="",
        reasoning="",
        finish_reason=FinishReason.STOP,
        token_ids=(),
        seed=0,
        usage=Usage(1),
        timings=Timings(),
        tool_calls=tuple(made),
    )


def text(content: str) -> TextDelta:
    return TextDelta(Channel.CONTENT, content, 1)


def one_call(index: int, *pieces: str) -> list[Event]:
    deltas = [ToolCallDelta(index, piece) for piece in pieces]
    return [ToolCallStart(index, 'a "tool"'), *deltas, ToolCallEnd(index)]


@pytest.mark.parametrize("before", ["", "Well.", "Well.\n"])
def test_each_call_is_a_line_of_its_own(before: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events = [text(before)] if before else []
    arguments = '{"a":\n[1,\r\n 2], "b": "x\\ny"}'
    out = printed([*events, *one_call(0, *arguments), *one_call(1, "{}")], monkeypatch)
    first, second = out.removeprefix(before.rstrip()).lstrip("\n").splitlines()
    assert json.loads(first) == {"name": 'a "tool"', "arguments": {"a": [1, 2], "b": "x\ny"}}
    assert json.loads(second) == {"name": 'a "tool"', "arguments": {}}
    assert out.endswith("}\n")


def test_the_report_counts_calls() -> None:
    whole, cut = ToolCall("a", "{}"), ToolCall("b", None)
    for made, line in (
        ((whole, whole), "calls: 2 complete"),
        ((whole, cut), "calls: 1 complete; the last one was cut off"),
    ):
        assert line in report_lines(result_of(made))
    assert not any("calls" in line for line in report_lines(result_of(())))
