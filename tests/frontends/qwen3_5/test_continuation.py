"""Going on with a final assistant message, closing reasoning early, and prompts that declare tools."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from infernix_core.errors import InvalidPrompt
from infernix_core.interfaces.constraints import Choice, JsonObject
from infernix_core.interfaces.frontend import (
    LoadOptions,
    OutputRequest,
    PreparedPrompt,
    PromptInput,
    StartPhase,
)
from infernix_core.interfaces.language import Literal, Repeat, TextExcept, Token, sequence
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolMode
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.plain_provider import PlainProvider
from infernix_qwen3_5.hooks import create
from infernix_qwen3_5.template import ChatTemplate
from tests.frontends.qwen3_5 import checkpoints
from tests.frontends.qwen3_5.transcripts import Output, joined, raw_members

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "look_up",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
            },
        },
    },
    {
        "name": "note",
        "strict": True,
        "parameters": {"properties": {}, "additionalProperties": False},
    },
]
FREE = ToolChoice(constraints=ToolConstraints.AUTOMATIC)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp("continuation")
    checkpoints.write_checkpoint(directory)
    return create().load(directory, LoadOptions())


def with_template(model: Any, source: str) -> Any:
    return evolve(model, template=ChatTemplate(source, model.tokenizer.control))


def chat(content: Any, **last: Any) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": "Which <tool_call>?"},
        {"role": "assistant", "content": content, **last},
    ]


def continuing(content: Any, tools: Sequence[Any] = (), **given: Any) -> PromptInput:
    options = {"messages": chat(content), "enable_thinking": False, "continue_final": True, **given}
    return PromptInput(tools=tools, **options)


def text_of(model: Any, ids: Sequence[int]) -> str:
    return b"".join(model.vocabulary.token_bytes[token] for token in ids).decode("utf-8")


def ids_of(model: Any, text: str) -> list[int]:
    """Bytes of a text, and control tokens where it spells them."""
    ids: list[int] = []
    while text:
        for spelling, token in model.vocabulary.framing.items():
            if text.startswith(spelling):
                ids.append(token)
                text = text.removeprefix(spelling)
                break
        else:
            ids += [model.tokenizer.byte_ids[byte] for byte in text[0].encode()]
            text = text[1:]
    return ids


def output(
    model: Any, prompt: PreparedPrompt, text: str, request: OutputRequest | None = None
) -> Output:
    """What is published of an output."""
    decoder = model.decoder(prompt, request or OutputRequest(), raw_members(prompt.tools))
    state, pieces = decoder.start(), []
    for token in ids_of(model, text):
        state, new = decoder.step(state, token)
        pieces += new
    return joined([*pieces, *decoder.finish(state)])


# ------------------------------------------------------------------ prompts with tools


def test_prompts_declare_what_they_show(model: Any) -> None:
    messages = [{"role": "user", "content": "a"}]
    prompt = model.prepare(PromptInput(messages=messages, tools=TOOLS))
    assert [(tool.name, tool.strict) for tool in prompt.tools] == [
        ("look_up", False),
        ("note", True),
    ]
    shown = text_of(model, prompt.token_ids)
    for tool in TOOLS:
        assert json.dumps(tool) in shown
    assert model.prepare(PromptInput(messages=messages)).tools == ()


def test_no_policy_is_part_of_a_prompt(model: Any) -> None:
    """A prompt is prepared before there is a policy, and none changes it."""
    source = PromptInput(messages=[{"role": "user", "content": "a"}], tools=TOOLS)
    prompt = model.prepare(source)
    before = prompt.token_ids
    for mode, names, parallel, constraints, constraint in product(
        ToolMode,
        (None, ["note"], ["look_up", "note"]),
        (True, False),
        ToolConstraints,
        (None, JsonObject()),
    ):
        choice = ToolChoice(mode, names, parallel, constraints)
        request = OutputRequest(constraint, choice)
        model.language(prompt, request)
        model.decoder(prompt, request, raw_members(prompt.tools))
        assert model.prefix(prompt, request) == ()
        assert model.prepare(source) == prompt
        assert prompt.token_ids == before


def test_tools_that_cannot_be_declared(model: Any) -> None:
    messages = [{"role": "user", "content": "a"}]
    with pytest.raises(InvalidPrompt, match=r"tools\[1\].function.name: two tools are called"):
        model.prepare(PromptInput(messages=messages, tools=[TOOLS[0], TOOLS[0]]))
    vocabulary: Vocabulary = model.vocabulary
    fewer = evolve(
        vocabulary,
        framing={name: id for name, id in vocabulary.framing.items() if name != "</tool_call>"},
    )
    other = evolve(model, tokenizer=evolve(model.tokenizer, vocabulary=fewer))
    with pytest.raises(InvalidPrompt, match=r"tools: .* has no token </tool_call>"):
        other.prepare(PromptInput(messages=messages, tools=TOOLS))
    assert other.prepare(PromptInput(messages=messages)).token_ids


@pytest.mark.parametrize("spelling", ["<tool_call>", "</tool_call>", "</think>", "<|im_end|>"])
def test_control_spellings_around_tools_are_text(model: Any, spelling: str) -> None:
    """In results, arguments, descriptions and contents."""

    def prompt(text: str) -> PreparedPrompt:
        call = {"function": {"name": "look_up", "arguments": {"city": text}}}
        return model.prepare(
            PromptInput(
                messages=[
                    {"role": "user", "content": text},
                    {"role": "assistant", "content": "So.", "tool_calls": [call]},
                    {"role": "tool", "content": text},
                ],
                tools=[{**TOOLS[1], "description": text}],
            )
        )

    control = set(model.tokenizer.control.values())
    harmless, spelled = (prompt(text).token_ids for text in ("x", f"a {spelling} b"))
    assert [id for id in spelled if id in control] == [id for id in harmless if id in control]
    assert text_of(model, spelled).count(spelling) >= 4


# ------------------------------------------------------------------ continuing


@pytest.mark.parametrize("content", ["The an", '{"name":', "Zü", "a\n\nb", "x <|im_end|> y", ""])
def test_the_prompt_ends_with_the_content(model: Any, content: str) -> None:
    """It is that of an answer up to there, without the turn's end."""
    prompt = model.prepare(continuing(content))
    assert prompt.phase is StartPhase.CONTENT
    assert prompt.continued == content
    start = model.prepare(PromptInput(messages=chat("")[:1], enable_thinking=False))
    assert text_of(model, prompt.token_ids) == text_of(model, start.token_ids) + content
    control = set(model.tokenizer.control.values())
    controls = [token for token in prompt.token_ids if token in control]
    assert controls == [token for token in start.token_ids if token in control]


def test_only_the_suffix_is_published(model: Any) -> None:
    prompt = model.prepare(continuing('{"name":'))
    request = OutputRequest(JsonObject())
    assert model.prefix(prompt, request) == (b'{"name":',)
    assert output(model, prompt, ' "x"}', request) == Output(content=' "x"}')
    assert model.prefix(prompt, OutputRequest()) == ()
    assert output(model, prompt, " so\n") == Output(content=" so\n")
    chosen = OutputRequest(Choice(['{"name":"x"}', "no"]))
    compiled = PlainProvider().bind(model.vocabulary).compile(model.language(prompt, chosen))
    matcher = compiled.start(model.prefix(prompt, chosen))
    assert all(matcher.accept(token) for token in ids_of(model, '"x"}'))
    assert matcher.may_end


def test_thinking_may_be_turned_off_by_the_template_option(model: Any) -> None:
    option = continuing("a", enable_thinking=None, template_options={"enable_thinking": False})
    assert model.prepare(option).token_ids == model.prepare(continuing("a")).token_ids


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"enable_thinking": None}, "enable_thinking"),
        ({"enable_thinking": True}, "enable_thinking"),
        ({"messages": chat("a", reasoning_content="b")}, "messages[1].reasoning_content"),
        (
            {"messages": chat("a", tool_calls=[{"function": {"name": "f"}}])},
            "messages[1].tool_calls",
        ),
        ({"messages": chat("a")[:1]}, "messages[0].role"),
        ({"messages": chat([{"type": "image"}])}, "messages[1].content[0]"),
        ({"messages": None, "text": "a", "enable_thinking": None}, "continue_final"),
        ({"messages": None, "token_ids": [1], "enable_thinking": None}, "continue_final"),
    ],
)
def test_what_cannot_be_continued(model: Any, given: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidPrompt) as caught:
        model.prepare(continuing("a", **given))
    assert caught.value.location is not None
    assert caught.value.location.field == where


@pytest.mark.parametrize("content", [" a", "a\n", "\ta", "b</think>c", "<think>\nb\n</think>\n\nc"])
def test_a_content_that_the_template_changes(model: Any, content: str) -> None:
    with pytest.raises(InvalidPrompt, match="changes the content") as caught:
        model.prepare(continuing(content))
    assert caught.value.location is not None
    assert caught.value.location.field == "messages[1].content"


def turns(turn: str) -> str:
    """A template of nothing but turns."""
    return f"{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{turn}{{% endfor %}}"


@pytest.mark.parametrize(
    ("turn", "problem"),
    [
        ("{{ m.content }}<|im_end|>\n", None),
        ("{{ m.content }}<|im_end|>", None),
        ("<think>\n\n</think>\n\n{{ m.content }}<|im_end|>\n", None),
        ("{{ m.content | upper }}<|im_end|>\n", "changes"),
        ("{{ m.content | replace('a', 'b') }}<|im_end|>\n", "changes"),
        ("{{ m.content }}{{ '!' if m.content | length < 9 }}<|im_end|>\n", "changes"),
        ("Answer: {{ m.content }}<|im_end|>\n", "writes more around"),
        ("{{ m.content }} <|im_end|>\n", "writes more around"),
        ("{{ m.content }}<|im_end|>\n<|im_start|>assistant\n", "writes more around"),
        ("{{ m.content }}{{ m.content }}<|im_end|>\n", "changes"),
        ("<think>\n\n</think>{{ m.content }}<|im_end|>\n", "writes more around"),
        ("<think>\n{{ m.content }}<|im_end|>\n", "writes more around"),
        ("{{ m.content }}<|im_end|>\n\n", "writes more around"),
        ("<|im_end|>\n", "changes"),
        ("{{ m.content }}<think>{{ m.content }}<|im_end|>\n", "changes"),
    ],
)
def test_templates(model: Any, turn: str, problem: str | None) -> None:
    """Nothing is guessed: a template writes the content as it is, in a turn of its own, or is refused."""
    other = with_template(model, turns(turn))
    if problem is not None:
        with pytest.raises(InvalidPrompt, match=problem):
            other.prepare(continuing("banana"))
        return
    prompt = other.prepare(continuing(" banana\n"))
    assert text_of(model, prompt.token_ids).endswith(" banana\n")
    assert prompt.token_ids.count(model.tokenizer.control["<|im_end|>"]) == 1


# ------------------------------------------------------------------ continuing calls

BEGUN = 'Let me.\n\n<tool_call>\n<function=look_up>\n<parameter=city>\nZü "x'


def test_a_call_that_the_client_began(model: Any) -> None:
    """What spells the opening token is the token, in the prompt, for the matcher and for the reader."""
    opener = model.vocabulary.framing["<tool_call>"]
    prompt = model.prepare(continuing(BEGUN, TOOLS))
    assert text_of(model, prompt.token_ids).endswith(BEGUN)
    own = model.prepare(continuing("", TOOLS)).token_ids.count(opener)
    assert prompt.token_ids.count(opener) == own + 1
    assert model.prepare(continuing(BEGUN)).token_ids.count(opener) == 0

    assert model.prefix(prompt, OutputRequest()) == tuple(ids_of(model, BEGUN))
    rest = "rich\n</parameter>\n</function>\n</tool_call>"
    assert output(model, prompt, rest) == Output(calls=[("look_up", '{"city": "Zü \\"xrich"}')])
    more = "\n<tool_call>\n<function=note>\n</function>\n</tool_call>"
    assert output(model, prompt, rest + more).calls[1] == ("note", "{}")
    cut = output(model, prompt, "ri")
    assert cut == Output(calls=[("look_up", None)], begun='{"city": "Zü \\"xri')
    assert output(model, prompt, "") == Output(calls=[("look_up", None)], begun='{"city": "Zü \\"x')


def test_a_call_goes_on_from_anywhere(model: Any) -> None:
    call = "<tool_call>\n<function=look_up>\n<parameter=days>\n7\n</parameter>\n</function>\n"
    whole = Output(calls=[("look_up", '{"days": 7}')])
    for cut in range(len("<tool_call>"), len(call)):
        if call[cut - 1].isspace():
            continue  # the template would trim it
        prompt = model.prepare(continuing(call[:cut], TOOLS))
        assert output(model, prompt, call[cut:] + "</tool_call>") == whole


def test_free_outputs_go_on_with_calls_too(model: Any) -> None:
    request = OutputRequest(tools=FREE)
    prompt = model.prepare(continuing(BEGUN, TOOLS[:1]))
    assert model.language(prompt, request) is None
    assert model.prefix(prompt, request) == ()
    rest = "\n</parameter>\n</function>\n</tool_call>"
    assert output(model, prompt, rest, request).calls == [("look_up", '{"city": "Zü \\"x"}')]
    # What becomes no call is content, as far as it is new.
    broken = output(model, prompt, "\n</parameter> so", request)
    assert broken == Output(content="\n</parameter> so")
    spoken = model.prepare(continuing("A <tool_call> is", TOOLS[:1]))
    assert output(model, spoken, " a token", request) == Output(content=" a token")


def test_what_is_framing_depends_on_the_policy(model: Any) -> None:
    """Where no tool may be called, the spelling is text for matcher and reader."""
    prompt = model.prepare(continuing("a <tool_call> b", TOOLS))
    none = ToolChoice(ToolMode.NONE)
    plain = tuple(model.tokenizer.byte_ids[byte] for byte in b"a <tool_call> b")
    assert model.prefix(prompt, OutputRequest(tools=none)) == plain
    assert model.prefix(prompt, OutputRequest(JsonObject(), none)) == (b"a <tool_call> b",)
    assert output(model, prompt, " c", OutputRequest(tools=none)) == Output(content=" c")


def test_line_breaks_of_the_prefix_are_not_published(model: Any) -> None:
    other = with_template(model, turns("{{ m.content }}<|im_end|>\n"))
    prompt = other.prepare(continuing("a\n\n", TOOLS))
    assert output(other, prompt, "b") == Output(content="b")
    assert output(other, prompt, "\n\nb") == Output(content="\n\nb")
    call = "<tool_call>\n<function=note>\n</function>\n</tool_call>"
    assert output(other, prompt, call) == Output(calls=[("note", "{}")])


@pytest.mark.parametrize(
    "call",
    [
        "<tool_call>\n<function=note>\n</function>\n</tool_call>",
        "a\n<tool_call>\n<function=other>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>b",
        # The first one is none.
        "<tool_call>\n<tool_call>\n<function=note>\n</function>\n</tool_call>",
    ],
)
def test_a_whole_call_is_not_made_again(model: Any, call: str) -> None:
    """Whatever a request allows: the prompt that declares tools is refused."""
    with pytest.raises(InvalidPrompt, match="whole call") as caught:
        model.prepare(continuing(call, TOOLS))
    assert caught.value.location is not None
    assert caught.value.location.field == "messages[1].content"
    untold = model.prepare(continuing(call))
    assert model.prefix(untold, OutputRequest(JsonObject())) == (call.encode(),)


@pytest.mark.parametrize(
    "content",
    [
        "<tool_call>\n<function=look_up>\n<parameter=city>\n</function>\n</tool_call> is text",
        "<tool_call>\n<function=look_up>\n</tool_call> is text",
        "<tool_call>\n<function=look_up>\n</function>\n<tool_call></tool_call>",
        "</tool_call>",
    ],
)
def test_what_is_no_whole_call_can_be_gone_on_with(model: Any, content: str) -> None:
    assert model.prefix(model.prepare(continuing(content, TOOLS)), OutputRequest())


@pytest.mark.parametrize("content", ["cafe\u0301", "\u212b", "x <tool_call>\ne\u0301 y", "\u0344"])
@pytest.mark.parametrize("tools", [(), TOOLS], ids=["plain", "tools"])
def test_a_content_that_the_tokenizer_changes(model: Any, content: str, tools: Any) -> None:
    """A grammar would go on with other bytes than the prompt holds."""
    with pytest.raises(InvalidPrompt, match="NFC") as caught:
        model.prepare(continuing(content, tools))
    assert caught.value.location is not None
    assert caught.value.location.field == "messages[1].content"
    composed = unicodedata.normalize("NFC", content)
    assert model.prepare(continuing(composed, tools)).continued == composed


def test_json_that_spells_a_call_beside_tools(model: Any) -> None:
    """It is the branch of the content, in which nothing but the token opens a call; the prompt knows no branches."""
    request = OutputRequest(JsonObject())
    for content in (
        '{"s": "use <tool_call> to',
        '{"s": "<tool_call>',
        '{"s": "<tool_call>\\n<function=note>',
    ):
        prompt = model.prepare(continuing(content, TOOLS))
        for asked in (request, evolve(request, tools=FREE)):
            assert model.prefix(prompt, asked) == (content.encode(),)
            assert output(model, prompt, 'day"}', asked) == Output(content='day"}')
        whole = OutputRequest(Choice([content + 'day"}']))
        compiled = PlainProvider().bind(model.vocabulary).compile(model.language(prompt, whole))
        matcher = compiled.start(model.prefix(prompt, whole))
        assert all(matcher.accept(token) for token in ids_of(model, 'day"}'))
        assert matcher.may_end
    begun = model.prepare(continuing("<tool_call>\n<function=no", TOOLS))
    assert model.prefix(begun, request) == tuple(ids_of(model, "<tool_call>\n<function=no"))
    rest = "te>\n</function>\n</tool_call>"
    assert output(model, begun, rest, request) == Output(calls=[("note", "{}")])


def test_a_prefix_that_no_grammar_admits_is_the_matchers_to_refuse(model: Any) -> None:
    prompt = model.prepare(continuing("<tool_call>\n<function=unknown>\n<", TOOLS))
    assert model.prefix(prompt, OutputRequest())
    assert output(model, prompt, "x") == Output(content="x")


# ------------------------------------------------------------------ early close

CONCLUSION = (
    "\n\nConsidering the limited time by the user, I have to give the solution based on the thinking "
    "directly now."
)


def test_reasoning_is_closed_early(model: Any) -> None:
    """With a fixed text that is shown as reasoning; the language goes on behind it as behind any other close."""
    messages = [{"role": "user", "content": "a"}]
    prompt = model.prepare(PromptInput(messages=messages, tools=TOOLS, enable_thinking=True))
    closing = model.early_close(prompt)
    close = model.vocabulary.framing["</think>"]
    assert closing.count(close) == 1
    assert text_of(model, closing) == f"{CONCLUSION}\n</think>\n\n"
    decoder = model.decoder(prompt, OutputRequest(), raw_members(prompt.tools))
    state, pieces = decoder.start(), []
    for token in (*ids_of(model, "hm\n"), *closing, *ids_of(model, "Yes.")):
        state, new = decoder.step(state, token)
        pieces += new
    assert joined(pieces) == Output(f"hm\n{CONCLUSION}", "Yes.")

    text = model.language(prompt, OutputRequest(tools=ToolChoice(ToolMode.NONE)))
    matcher = PlainProvider().bind(model.vocabulary).compile(text).start()
    assert all(matcher.accept(token) for token in (*ids_of(model, "hm"), *closing))
    thoughts = sequence(Repeat(TextExcept({close})), Token(close), Literal(b"\n\n"))
    matcher = PlainProvider().bind(model.vocabulary).compile(thoughts).start()
    assert all(matcher.accept(token) for token in closing)


def test_where_there_is_nothing_to_close(model: Any) -> None:
    for prompt in (
        PromptInput(messages=[{"role": "user", "content": "a"}], enable_thinking=False),
        PromptInput(text="a"),
        continuing("a"),
    ):
        assert model.early_close(model.prepare(prompt)) == ()
