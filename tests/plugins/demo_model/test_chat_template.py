import json

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from infernix_demo_model.hooks import checkpoint_path
from training.data import END, THINK_OFF, THINK_ON, user_turn
from training.templates import SMALL_TALK_ANSWER


class TemplateError(Exception):
    pass


@pytest.fixture(scope="module")
def render():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(
            value,
            ensure_ascii=ensure_ascii,
            indent=indent,
            separators=separators,
            sort_keys=sort_keys,
        )

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    source = (checkpoint_path() / "chat_template.jinja").read_text(encoding="utf-8")
    template = environment.from_string(source)

    def render(*messages, **variables):
        return template.render(messages=list(messages), **variables)

    return render


def user(content):
    return {"role": "user", "content": content}


def assistant(content, **fields):
    return {"role": "assistant", "content": content, **fields}


def call(name, arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ({"enable_thinking": False}, "<|im_start|>assistant\n<think>\n\n</think>\n\n"),
        ({"enable_thinking": True}, "<|im_start|>assistant\n<think>\n"),
    ],
)
def test_the_generation_prompt_opens_the_think_block_only_when_asked(render, variables, expected):
    text = render(user("  Hi\n"), add_generation_prompt=True, **variables)
    assert text == f"<|im_start|>user\nHi<|im_end|>\n{expected}"


def test_without_a_generation_prompt_the_turns_stand_alone(render):
    assert render(user("Hi")) == "<|im_start|>user\nHi<|im_end|>\n"


def test_training_prompts_are_what_the_template_renders(render):
    turns = [user("Hi"), assistant(SMALL_TALK_ANSWER), user("Hello")]
    expected = (
        f"{user_turn('Hi')}<|im_start|>assistant\n{SMALL_TALK_ANSWER}{END}\n{user_turn('Hello')}"
    )
    for thinking, ending in ((False, THINK_OFF), (True, THINK_ON)):
        rendered = render(*turns, add_generation_prompt=True, enable_thinking=thinking)
        assert rendered == expected + ending


def test_a_system_message_comes_first_or_not_at_all(render):
    system = {"role": "system", "content": " Be brief. "}
    assert render(system, user("Hi")) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )
    with pytest.raises(TemplateError, match="must be the first"):
        render(user("Hi"), system)


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "no messages"),
        ([{"role": "system", "content": "Be brief."}], "no user message"),
        ([user("<tool_response>\n1\n</tool_response>")], "no user message"),
        ([user("Hi"), {"role": "developer", "content": "x"}], "Unknown message role: developer"),
        ([user([{"type": "image", "image": "x.png"}])], "text model"),
        ([user(7)], "string or a list"),
        ([user("Hi"), assistant("", tool_calls=[call("f", "{}")])], "must be an object"),
    ],
)
def test_bad_conversations_raise(render, messages, error):
    with pytest.raises(TemplateError, match=error):
        render(*messages)


def test_text_parts_are_joined(render):
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b "}]
    assert render(user(parts)) == render(user("ab"))


def test_reasoning_is_kept_only_after_the_last_question(render):
    text = render(
        user("a"),
        assistant("b", reasoning_content="old"),
        user("c"),
        assistant("d", reasoning_content="\nnew\n"),
    )
    assert text == (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n<think>\nnew\n</think>\n\nd<|im_end|>\n"
    )


def test_reasoning_inside_the_content_is_recognised(render):
    written = render(user("a"), assistant("<think>\nwhy\n</think>\n\nb"))
    assert written == render(user("a"), assistant("b", reasoning_content="why"))
    old = render(user("a"), assistant("<think>\nwhy\n</think>\n\nb"), user("c"))
    assert old == render(user("a"), assistant("b"), user("c"))


def test_an_answer_without_reasoning_gets_an_empty_block(render):
    assert render(user("a"), assistant("b")).endswith(
        "<|im_start|>assistant\n<think>\n\n</think>\n\nb<|im_end|>\n"
    )


def test_tools_are_listed_before_the_system_text(render):
    tools = [
        {"type": "function", "function": {"name": "größe", "parameters": {"b": 1, "a": True}}},
        {"type": "function", "function": {"name": "run"}},
    ]
    text = render({"role": "system", "content": "Be brief."}, user("Hi"), tools=tools)
    assert text.startswith(
        "<|im_start|>system\n# Tools\n\nYou have access to the following functions:\n\n<tools>\n"
        '{"type": "function", "function": {"name": "größe", "parameters": {"b": 1, "a": true}}}\n'
        '{"type": "function", "function": {"name": "run"}}\n</tools>\n\n'
    )
    assert text.endswith("</IMPORTANT>\n\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n")
    assert "</IMPORTANT><|im_end|>" in render(user("Hi"), tools=tools)


def test_calls_and_their_results(render):
    text = render(
        user("a"),
        assistant(
            "Looking.", tool_calls=[call("f", {"p": "x\ny", "n": 3, "l": ["é"]}), call("g", {})]
        ),
        {"role": "tool", "content": "1"},
        {"role": "tool", "content": "2"},
        assistant(None, tool_calls=[call("h", {})], reasoning_content="more"),
        {"role": "tool", "content": "3"},
    )
    assert text == (
        "<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>assistant\n<think>\n\n</think>\n\nLooking.\n\n"
        "<tool_call>\n<function=f>\n<parameter=p>\nx\ny\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
        '<parameter=l>\n["é"]\n</parameter>\n</function>\n</tool_call>\n'
        "<tool_call>\n<function=g>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n</tool_response>"
        "<|im_end|>\n"
        "<|im_start|>assistant\n<think>\nmore\n</think>\n\n"
        "<tool_call>\n<function=h>\n</function>\n</tool_call><|im_end|>\n"
        "<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>\n"
    )


def test_a_user_message_that_is_a_tool_result_is_no_question(render):
    result = user("<tool_response>\n1\n</tool_response>")
    text = render(user("a"), assistant("b", reasoning_content="kept"), result)
    assert "<think>\nkept\n</think>" in text
