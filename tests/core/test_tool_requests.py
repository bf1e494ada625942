"""Requests where tools are declared: what is refused before queueing, how calls become results, where outputs continue.

The toy knows no tools. A model here declares those of its prompt, and says what its tests need said.
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from attrs import evolve

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import FinishReason, RequestOptions, TextDelta, ToolCall
from infernix_core.engine.request_checks import check_request, check_tools
from infernix_core.engine.service import GenerationService
from infernix_core.errors import ConstraintDeadEnd, InvalidOption, InvalidSchema
from infernix_core.exact_json import ExactFloat, json_text
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.frontend import (
    Channel,
    OutputRequest,
    Piece,
    PreparedPrompt,
    PromptInput,
    Segment,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.language import Content, Label, Language, Union
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import (
    ToolChoice,
    ToolConstraints,
    ToolDeclaration,
    ToolMode,
    read_tools,
)
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.scripted_model import ScriptedModel, saying
from infernix_core.testing.toy import ToyDecoder, ToyModel, ToyTarget, toy_vocabulary
from tests.core.conftest import WAIT, answer, ask, chat

Make = Callable[..., Engine]
FREE, OTHER = ToolDeclaration("lookup"), ToolDeclaration("add")
STRICT = ToolDeclaration("exact", strict=True)
JSON = (JsonObject(), JsonSchema("{}"))
PLAIN: tuple[OutputConstraint, ...] = (Grammar('root ::= "a"'), Regex("a"), Choice(["a"]))
AUTO, NONE, REQUIRED = ToolChoice(), ToolChoice(ToolMode.NONE), ToolChoice(ToolMode.REQUIRED)
LOOSE = ToolChoice(constraints=ToolConstraints.AUTOMATIC)
NAMED = ToolChoice(allowed_names=("lookup",))


def checked(options: RequestOptions, tools: Sequence[ToolDeclaration]) -> None:
    check_request(options, chat=True)
    check_tools(options, tools)


def refused(tools: Sequence[ToolDeclaration], **options: Any) -> InvalidOption:
    with pytest.raises(InvalidOption) as caught:
        checked(RequestOptions(**options), tools)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("auto", "'auto' is no ToolChoice"),
        (None, "None is no ToolChoice"),
        (ToolChoice("required"), "'required' is not possible"),  # type: ignore[arg-type]
        (ToolChoice(constraints="basic"), "'basic' is not possible"),  # type: ignore[arg-type]
        (ToolChoice(parallel=1), "1 is not possible"),  # type: ignore[arg-type]
        (ToolChoice(allowed_names=(3,)), "3 is not possible"),  # type: ignore[arg-type]
        (ToolChoice(allowed_names=([],)), "[] is not possible"),  # type: ignore[arg-type]
        (ToolChoice(allowed_names=()), "list of allowed names is empty"),
        (ToolChoice(allowed_names=("lookup", "gone")), "declares no tool 'gone'"),
    ],
    ids=str,
)
def test_an_impossible_choice_is_refused(choice: Any, message: str) -> None:
    error = refused([FREE, OTHER], tool_choice=choice)
    assert error.location.field == "tool_choice"
    assert message in error.message


def test_a_name_that_is_not_declared_is_told_those_that_are() -> None:
    assert refused([FREE, OTHER], tool_choice=ToolChoice(allowed_names=("gone",))).hint == (
        "it declares 'lookup', 'add'"
    )


@pytest.mark.parametrize("choice", [REQUIRED, NAMED])
def test_a_choice_without_tools_is_refused(choice: ToolChoice) -> None:
    error = refused([], tool_choice=choice)
    assert error.location.field == "tool_choice"
    assert "declares none" in error.message


@pytest.mark.parametrize("constraint", PLAIN, ids=lambda c: c.kind)
@pytest.mark.parametrize("choice", [AUTO, REQUIRED, NAMED, LOOSE])
def test_only_json_stands_beside_active_tools(
    choice: ToolChoice, constraint: OutputConstraint
) -> None:
    error = refused([FREE], tool_choice=choice, constraint=constraint)
    assert error.location.field == "constraint"
    assert constraint.kind in error.message
    for other in JSON:
        check_tools(RequestOptions(tool_choice=choice, constraint=other), [FREE])
    check_tools(RequestOptions(tool_choice=NONE, constraint=constraint), [FREE])
    check_tools(RequestOptions(constraint=constraint), [])


STOPS: list[dict[str, Any]] = [{"stop": ["x"]}, {"stop_token_ids": [3]}]


@pytest.mark.parametrize("stop", STOPS, ids=str)
@pytest.mark.parametrize(
    ("tools", "choice", "what"),
    [
        ([FREE], REQUIRED, "required call"),
        ([FREE], evolve(NAMED, mode=ToolMode.REQUIRED), "required call"),
        ([FREE, STRICT], AUTO, "'exact'"),
        ([FREE, STRICT], LOOSE, "'exact'"),
    ],
    ids=str,
)
def test_nothing_else_ends_what_is_guaranteed(
    tools: list[ToolDeclaration], choice: ToolChoice, what: str, stop: dict[str, Any]
) -> None:
    error = refused(tools, tool_choice=choice, **stop)
    assert error.location.field in stop
    assert what in error.message


@pytest.mark.parametrize("stop", STOPS, ids=str)
def test_stop_rules_go_with_calls_that_are_free(stop: dict[str, Any]) -> None:
    for tools, choice in (
        ([FREE], AUTO),
        ([FREE], NAMED),
        ([FREE], LOOSE),
        ([FREE], ToolChoice(parallel=False)),
        ([STRICT], NONE),
        ([FREE, STRICT], NONE),
        ([], AUTO),
    ):
        checked(RequestOptions(tool_choice=choice, **stop), tools)
    # A strict tool that may not be called guarantees nothing.
    check_tools(RequestOptions(tool_choice=NAMED, **stop), [FREE, STRICT])


def test_raw_output_goes_with_tools_only_where_nothing_is_constrained() -> None:
    for choice in (AUTO, NONE, REQUIRED, NAMED):
        assert refused([FREE], tool_choice=choice, raw_output=True).location.field == "raw_output"
    assert refused([STRICT], tool_choice=LOOSE, raw_output=True).location.field == "raw_output"
    check_tools(RequestOptions(tool_choice=LOOSE, raw_output=True), [FREE])
    check_tools(RequestOptions(raw_output=True), [])


def test_statistics_need_something_that_constrains() -> None:
    for tools, choice in (([], AUTO), ([FREE], LOOSE)):
        error = refused(tools, tool_choice=choice, constraint_stats=True)
        assert error.location.field == "constraint_stats"
    for tools, options in (
        ([FREE], {"tool_choice": AUTO}),
        ([FREE], {"tool_choice": NONE}),
        ([], {"constraint": Choice(["a"])}),
    ):
        check_tools(RequestOptions(constraint_stats=True, **options), tools)


class Declaring:
    """Mixin of models whose prompts declare the tools that their input names."""

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        prepared = super().prepare(prompt)  # type: ignore[misc]
        tools = tuple(ToolDeclaration(name) for name in prompt.tools)
        return type(prepared)(
            prepared.token_ids,
            prepared.phase,
            prompt,
            tools,
            "…" if prompt.continue_final else None,
        )


class Tools(Declaring, ToyModel):
    """Its output language with tools is a content of colours, or one of two calls."""

    def language(self, prompt: PreparedPrompt, request: OutputRequest) -> Language | None:
        if not request.tools.constrains(prompt.tools):
            return super().language(prompt, request)
        calls = Label("tools", Content(Choice(["<one>", "<two>"])))
        content = Label("content", Content(Choice(["red", "blue"])))
        wanted = [calls] if request.tools.mode is ToolMode.REQUIRED else [calls, content]
        return Union(wanted)


def asking(text: str, *tools: str, **options: Any) -> PromptInput:
    return PromptInput(
        messages=[{"role": "user", "content": text}], enable_thinking=False, tools=tools, **options
    )


def test_refusals_come_before_the_queue(make_engine: Make) -> None:
    engine = make_engine(Tools(ToyModel.make().target))
    for prompt, options in (
        (asking("?"), {"tool_choice": REQUIRED}),
        (asking("?", "lookup"), {"constraint": Choice(["a"])}),
        (asking("?", "lookup"), {"tool_choice": REQUIRED, "stop": ["x"]}),
        (asking("?"), {"constraint_stats": True}),
    ):
        with pytest.raises(InvalidOption):
            ask(engine, prompt, **options)
        assert engine.outstanding == 0


def test_tools_alone_constrain_and_are_reported(make_engine: Make) -> None:
    engine = make_engine(Tools(ToyModel.make().target))
    seen = set()
    for seed in range(30):
        result = answer(engine, asking("?", "lookup"), seed=seed, constraint_stats=True)
        report = result.constraint
        assert (report.kind, report.terminated) == ("tools", True)
        assert report.branch == ("tools" if result.text.startswith("<") else "content")
        assert report.kept_mass is not None
        seen.add(report.branch)
    assert seen == {"tools", "content"}
    for seed in range(10):
        required = answer(engine, asking("?", "lookup"), seed=seed, tool_choice=REQUIRED)
        assert required.text in ("<one>", "<two>")
    free = answer(engine, asking("?", "lookup"), tool_choice=LOOSE, max_tokens=5)
    assert free.constraint is None


def test_a_presets_penalty_stays_where_tools_alone_constrain(make_engine: Make) -> None:
    """It is content that a penalty pushes off its structure."""
    card = SamplingOptions(temperature=0.0, frequency_penalty=2.0)
    model = Tools(ToyTarget(toy_vocabulary()), defaults=card)
    engine = make_engine(model)
    handle = ask(engine, asking("?", "lookup"), tool_choice=LOOSE, max_tokens=20)
    free = answer(engine, asking("?"), max_tokens=20)
    assert handle.wait(WAIT).token_ids == free.token_ids
    seen: list[float] = []
    plan = engine._program._plan
    run = plan.run
    plan.run = lambda round_: seen.append(round_.configs[0].frequency_penalty) or run(round_)
    answer(engine, asking("?", "lookup"))
    answer(engine, asking("?", "lookup"), constraint=JsonObject(), tool_choice=REQUIRED)
    assert set(seen[:2]) == {2.0}
    assert seen[-1] == 0.0


class Continuing(Declaring, ToyModel):
    """A continued prompt holds the beginning ``gre`` of its content."""

    def prefix(self, prompt: PreparedPrompt, request: OutputRequest) -> tuple[bytes | int, ...]:
        return (b"gr", ord("e")) if prompt.continued is not None else ()


def test_a_continued_output_completes_what_the_prompt_begins(make_engine: Make) -> None:
    engine = make_engine(Continuing(ToyModel.make().target))
    colours = Choice(["red", "green", "grey", "greatest"])
    seen = set()
    for seed in range(30):
        result = answer(engine, asking("?", continue_final=True), seed=seed, constraint=colours)
        assert "gre" + result.text in colours.literals
        assert (result.constraint.branch, result.constraint.terminated) == ("content", True)
        assert result.constraint.positions == len(result.token_ids)
        seen.add(result.text)
        # One language, whatever the prefix: only the matcher differs.
        whole = answer(engine, asking("?"), seed=seed, constraint=colours)
        assert whole.text in colours.literals
        assert whole.constraint.cache == "hit"
    assert len(seen) > 1


def test_a_continuation_may_have_nothing_but_its_end_left(make_engine: Make) -> None:
    engine = make_engine(Continuing(ToyModel.make().target))
    result = answer(engine, asking("?", continue_final=True), constraint=Choice(["gre"]))
    assert (result.text, result.finish_reason) == ("", FinishReason.STOP)
    assert (result.constraint.complete, len(result.token_ids)) == (True, 1)
    cut = answer(engine, asking("?", continue_final=True), constraint=Choice(["gre"]), max_tokens=0)
    assert (cut.constraint.branch, cut.constraint.complete) == ("content", False)


def test_a_continued_message_that_does_not_fit_is_refused(make_engine: Make) -> None:
    engine = make_engine(Continuing(ToyModel.make().target))
    with pytest.raises(ConstraintDeadEnd, match="continued message") as caught:
        ask(engine, asking("?", continue_final=True), constraint=Choice(["red"]))
    assert caught.value.location.field == "messages[0].content"
    assert engine.outstanding == 0
    # The same language is fine without the message.
    assert answer(engine, asking("?"), constraint=Choice(["red"])).text == "red"


class Spelt(ToyDecoder):
    """Bytes ``0`` … ``9`` are pieces of a script, others text."""

    pieces: dict[int, Sequence[Piece]]

    def step(self, state: Any, token: int) -> tuple[Any, tuple[Any, ...]]:
        if token in self.pieces:
            return state, tuple(self.pieces[token])
        return super().step(state, token)


class Calling(ScriptedModel):
    """A scripted model whose decoder tells the pieces given for single digits."""

    pieces: dict[int, Sequence[Piece]]

    def decoder(self, prompt: Any, request: Any, raw_members: Any = None) -> Any:
        decoder = Spelt(self.vocabulary, False)
        object.__setattr__(decoder, "pieces", self.pieces)
        return decoder


def calling(text: str, **pieces: Sequence[Piece] | Piece) -> Calling:
    model = Calling(saying(text).target)
    model.pieces = {
        ord(name[1:]): value if isinstance(value, list) else [value]  # type: ignore[misc]
        for name, value in pieces.items()
    }
    return model


TWO_CALLS = {
    "_0": ToolCallStart(0, "lookup"),
    "_1": ToolCallDelta(0, '{"city": "'),
    "_2": [ToolCallDelta(0, "Rome"), ToolCallDelta(0, '"}')],
    "_3": ToolCallEnd(0),
    "_4": [ToolCallStart(1, "add"), ToolCallDelta(1, "{}"), ToolCallEnd(1)],
}


@pytest.mark.parametrize("drafts", [0, 3])
def test_calls_are_told_as_they_come_and_whole_in_the_result(
    make_engine: Make, drafts: int
) -> None:
    model = calling("So:01234", **TWO_CALLS)
    script = list(model.target.script)
    backend = ScriptedBackend(lambda row: script[len(row.history) - row.prompt_length :])
    options = {"backend": backend, "draft_tokens": drafts} if drafts else {}
    handle = ask(make_engine(model, **options), chat("?"))
    events = list(handle)[1:-1]
    result = handle.wait(WAIT)
    assert result.tool_calls == (
        ToolCall("lookup", '{"city": "Rome"}'),
        ToolCall("add", "{}"),
    )
    assert (result.text, result.finish_reason) == ("So:", FinishReason.STOP)
    told = [event for event in events if not isinstance(event, TextDelta)]
    assert [type(event).__name__ for event in told if not isinstance(event, ToolCallDelta)] == [
        "ToolCallStart",
        "ToolCallEnd",
    ] * 2
    for index, call in enumerate(result.tool_calls):
        deltas = [e.arguments for e in told if isinstance(e, ToolCallDelta) and e.index == index]
        assert "".join(deltas) == call.arguments_json


@pytest.mark.parametrize(("limit", "names"), [(3, []), (4, ["lookup"]), (6, ["lookup"])])
def test_a_call_that_is_cut_off_has_no_arguments(
    make_engine: Make, limit: int, names: list[str]
) -> None:
    result = answer(make_engine(calling("So:01234", **TWO_CALLS)), chat("?"), max_tokens=limit)
    assert result.tool_calls == tuple(ToolCall(name, None) for name in names)
    assert result.finish_reason is FinishReason.LENGTH
    whole = answer(make_engine(calling("So:01234", **TWO_CALLS)), chat("?"), max_tokens=7)
    assert whole.tool_calls == (ToolCall("lookup", '{"city": "Rome"}'),)
    assert whole.finish_reason is FinishReason.LENGTH


def test_a_stop_string_does_not_reach_across_a_call(make_engine: Make) -> None:
    call = [ToolCallStart(0, "add"), ToolCallDelta(0, "{}"), ToolCallEnd(0)]
    result = answer(make_engine(calling("ab0cd", _0=call)), chat("?"), stop=["bc"])
    assert (result.text, result.tool_calls) == ("abcd", (ToolCall("add", "{}"),))


@pytest.mark.parametrize(
    "pieces",
    [
        [ToolCallDelta(0, "{}")],
        [ToolCallEnd(0)],
        [ToolCallStart(1, "a")],
        [ToolCallStart(0, "")],
        [ToolCallStart(0, "a"), ToolCallStart(1, "b")],
        [ToolCallStart(0, "a"), ToolCallDelta(1, "{}")],
        [ToolCallStart(0, "a"), ToolCallDelta(0, "")],
        [ToolCallStart(0, "a"), ToolCallEnd(0)],
        [ToolCallStart(0, "a"), Segment(Channel.CONTENT, "x")],
        [ToolCallStart(0, "a"), ToolCallDelta(0, "{}"), ToolCallEnd(0), ToolCallDelta(0, "{}")],
        [ToolCallStart(0, "a"), ToolCallDelta(0, "{}"), ToolCallEnd(1)],
    ],
    ids=str,
)
def test_pieces_out_of_order_are_a_fault_of_the_program(
    make_engine: Make, pieces: list[Piece]
) -> None:
    engine = make_engine(calling("ab0c", _0=pieces))
    result = answer(engine, chat("?"))
    assert result.error.kind == "IntegrityError"
    assert "the decoder gives" in result.error.message
    assert (result.text, result.tool_calls) == ("ab", ())
    assert engine.outstanding == 0


def test_a_service_passes_calls_on(make_engine: Make) -> None:
    engine = make_engine(calling("So:01234", **TWO_CALLS))

    async def ask_it() -> list[Any]:
        service = GenerationService(engine, model_id="toy")
        generation = await service.submit(chat("?"), RequestOptions(), request_id="r")
        return [event async for event in generation]

    events = asyncio.run(ask_it())
    assert [type(event).__name__ for event in events] == [
        "GenerationStart",
        *["TextDelta"] * 3,
        "ToolCallStart",
        *["ToolCallDelta"] * 2,
        "ToolCallEnd",
        "ToolCallStart",
        "ToolCallDelta",
        "ToolCallEnd",
        "GenerationEnd",
    ]
    assert len(events[-1].result.tool_calls) == 2


def test_numbers_of_a_declared_schema_keep_their_digits() -> None:
    """0.30000000000000000001 is not 0.3: read as binary64, a strict limit would move."""
    text = '{"type":"number","maximum":0.30000000000000000001,"minimum":-1E-2}'
    parameters = json.loads(text, parse_float=ExactFloat)
    (tool,) = read_tools([{"name": "f", "parameters": parameters}])
    assert tool.parameters == text
    assert JsonSchema.of(parameters).source == text
    (plain,) = read_tools([{"name": "f", "parameters": {"maximum": 0.5, "enum": ["é", None]}}])
    assert json.loads(plain.parameters) == {"maximum": 0.5, "enum": ["é", None]}


def test_both_ways_of_writing_json_agree() -> None:
    """The interpreter's encoder, and the exact one where a number keeps its spelling."""
    exact = ExactFloat("0.10000000000000000000001")
    assert json_text(OrderedDict(a=exact, b=(exact,))) == f'{{"a":{exact.text},"b":[{exact.text}]}}'
    with pytest.raises(TypeError):
        json_text({1: exact})
    itself: dict[str, Any] = {}
    itself["a"] = itself
    with pytest.raises(InvalidSchema):
        JsonSchema.of(itself)
