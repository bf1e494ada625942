"""What cannot be served is refused with its field, as the official client tells it; the server lives on."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import openai
import pytest

from infernix_core.engine.engine import Engine
from infernix_http.json_body import decode_object
from infernix_openai.content import content_source
from infernix_openai.refused import CHAT, COMPLETIONS, FOREIGN
from infernix_openai.requests import read_chat
from tests.plugins.openai.test_sdk import FORMAT, MESSAGES

SOURCES = {
    "grammar": ("root ::= x", "line 1, column 10"),
    "regex": ("foo**", "offset 4"),
    "choice": ([], "empty"),
}


def refused(client: openai.OpenAI, path: str = "chat", **fields: Any) -> openai.BadRequestError:
    """The error of a request with these fields; nothing of it is checked by the client."""
    if path == "chat":
        body = {"model": "demo", "messages": MESSAGES, "max_tokens": 4, **fields}
        url = "/chat/completions"
    else:
        body = {"model": "demo", "prompt": "x", "max_tokens": 4, **fields}
        url = "/completions"
    with pytest.raises(openai.BadRequestError) as caught:
        client.post(url, body=body, cast_to=object)
    return caught.value


BAD: list[tuple[dict[str, Any], str]] = [
    ({"messages": None}, "messages"),
    ({"messages": "hi"}, "messages"),
    ({"messages": []}, "messages"),
    ({"messages": ["hi"]}, "messages[0]"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [*MESSAGES, {"role": "user", "content": 5}]}, "messages[1].content"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
        "messages[0].content[0]",
    ),
    ({"messages": [{"role": "user", "content": "x" * 9000}]}, "messages"),
    ({"model": None}, "model"),
    ({"stream": "yes"}, "stream"),
    ({"stream_options": {"include_usage": True}}, "stream_options"),
    ({"stream": True, "stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
    ({"max_tokens": "4"}, "max_tokens"),
    ({"max_tokens": -4}, "max_tokens"),
    ({"max_tokens": None, "max_completion_tokens": -4}, "max_completion_tokens"),
    ({"max_tokens": 4, "max_completion_tokens": 5}, "max_tokens"),
    ({"temperature": "hot"}, "temperature"),
    ({"temperature": -0.5}, "temperature"),
    ({"top_p": 0}, "top_p"),
    ({"top_p": 1.5}, "top_p"),
    ({"top_k": 2.5}, "top_k"),
    ({"min_p": 2}, "min_p"),
    ({"presence_penalty": []}, "presence_penalty"),
    ({"seed": 1.5}, "seed"),
    ({"stop": [""]}, "stop"),
    ({"stop": [1]}, "stop[0]"),
    ({"stop": "x", "response_format": FORMAT}, "stop"),
    ({"stop_token_ids": [10**9]}, "stop_token_ids"),
    ({"stop_token_ids": [1], "response_format": FORMAT}, "stop_token_ids"),
    ({"constraint_stats": 1}, "constraint_stats"),
    ({"response_format": "json"}, "response_format"),
    ({"response_format": {}}, "response_format.type"),
    ({"response_format": {"type": None}}, "response_format.type"),
    ({"response_format": {"type": "structural_tag", "format": {}}}, "response_format.type"),
    ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
    ({"response_format": {"type": "json_schema", "schema": {}}}, "response_format.schema"),
    ({"response_format": {"type": "json_object", "schema": {}}}, "response_format.schema"),
    (
        {"response_format": {"type": "json_object", "json_schema": {"name": "x", "schema": {}}}},
        "response_format.json_schema",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format.json_schema.schema",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"pattern": 5}}}},
        "response_format.json_schema.schema",
    ),
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "sctrict": 1}}},
        "response_format.json_schema.sctrict",
    ),
    ({"structured_outputs": []}, "structured_outputs"),
    ({"structured_outputs": {"whitespace_pattern": " "}}, "structured_outputs.whitespace_pattern"),
    ({"structured_outputs": {"choice": "yes"}}, "structured_outputs.choice"),
    ({"structured_outputs": {"choice": [1]}}, "structured_outputs.choice[0]"),
    ({"structured_outputs": {"regex": 5}}, "structured_outputs.regex"),
    ({"enable_thinking": "yes"}, "enable_thinking"),
    ({"enable_thinking": True, "reasoning_effort": "none"}, "reasoning_effort"),
    (
        {"enable_thinking": True, "chat_template_kwargs": {"enable_thinking": False}},
        "chat_template_kwargs.enable_thinking",
    ),
    ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs.messages"),
    ({"logit_bias": {"5": 1}}, "logit_bias"),
    ({"n": True}, "n"),
]


@pytest.mark.parametrize(("fields", "param"), BAD, ids=lambda value: repr(value)[:60])
def test_the_field_at_fault_is_named(client: openai.OpenAI, fields, param) -> None:
    error = refused(client, **fields)
    assert error.param == param
    assert error.type == "invalid_request_error"
    assert param in str(error)


@pytest.mark.parametrize("path", ["chat", "completions"])
@pytest.mark.parametrize("kind", SOURCES)
def test_a_constraints_own_place_is_told_too(client: openai.OpenAI, path: str, kind: str) -> None:
    source, said = SOURCES[kind]
    error = refused(client, path, structured_outputs={kind: source})
    assert error.param == f"structured_outputs.{kind}"
    assert said in str(error)


def test_a_schemas_pointer_is_told(client: openai.OpenAI) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "minLength": -1}}}
    error = refused(
        client, response_format={"type": "json_schema", "json_schema": {"schema": schema}}
    )
    assert error.param == "response_format.json_schema.schema"
    assert "'/properties/a'" in str(error)
    assert "minLength" in str(error)


IMPOSSIBLE: dict[str, Any] = {
    "n": 2,
    "best_of": 3,
    "logprobs": True,
    "top_logprobs": 5,
    "echo": True,
    "suffix": "end",
    "store": True,
    "verbosity": "high",
}


@pytest.mark.parametrize(("path", "table"), [("chat", CHAT), ("completions", COMPLETIONS)])
def test_neutral_values_pass_and_others_do_not(
    client: openai.OpenAI, path: str, table: dict[str, tuple[tuple[Any, ...], str]]
) -> None:
    body = {"model": "demo", "max_tokens": 1, "logit_bias": {"7": 0}, "user": "u", "metadata": {}}
    body |= {"prompt": "x"} if path == "completions" else {"messages": MESSAGES}
    url = "/completions" if path == "completions" else "/chat/completions"
    longest = max(len(values) for values, _ in table.values())
    for index in range(longest):
        neutral = {
            name: values[min(index, len(values) - 1)]
            for name, (values, _) in table.items()
            if values
        }
        fractions = {name: float(value) for name, value in neutral.items() if type(value) is int}
        for extra in (neutral, fractions):
            assert client.post(url, body={**body, **extra}, cast_to=object)
    for extra in (dict.fromkeys(table), {"unheard_of": 1}, {"logit_bias": {"5": 0.0, "6": -0.0}}):
        assert client.post(url, body={**body, **extra}, cast_to=object)
    for name in table:
        error = refused(client, path, **{name: IMPOSSIBLE.get(name, {"a": "value"})})
        assert error.param == name
        assert "cannot be given" in str(error)


def test_true_is_no_neutral_number(client: openai.OpenAI) -> None:
    for name in ("n", "repetition_penalty", "length_penalty", "best_of"):
        assert refused(client, **{name: True}).param == name
    assert refused(client, min_tokens=False).param == "min_tokens"
    assert refused(client, logit_bias={"5": False}).param == "logit_bias"


@pytest.mark.parametrize("name", sorted([*FOREIGN, "guided_unheard_of"]))
def test_a_constraint_in_another_servers_spelling_is_not_ignored(
    client: openai.OpenAI, name: str
) -> None:
    for path in ("chat", "completions"):
        error = refused(client, path, **{name: {"type": "object"}})
        assert error.param == name


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format"),
        ({"output_config": {"effort": "low", "format": {}}}, "output_config.format"),
        ({"nvext": {"guided_json": {}}}, "nvext.guided_json"),
        ({"nvext": {"a": 1, "guided_regex": "x"}}, "nvext.guided_regex"),
    ],
    ids=repr,
)
def test_a_constraint_inside_of_another_servers_field_is_not_ignored(
    client: openai.OpenAI, fields: dict[str, Any], param: str
) -> None:
    for path in ("chat", "completions"):
        assert refused(client, path, **fields).param == param


def test_what_asks_for_no_constraint_passes(client: openai.OpenAI) -> None:
    body: dict[str, Any] = {"model": "demo", "prompt": "x", "max_tokens": 1}
    for fields in (
        dict.fromkeys(FOREIGN),
        dict.fromkeys(FOREIGN, False),
        {"text": {"format": {"type": "text"}, "verbosity": "low"}},
        {"text": "a"},
        {"nvext": {"ignore_eos": True, "guided_json": None}},
        {"output_config": {"effort": "low"}},
    ):
        assert client.post("/completions", body={**body, **fields}, cast_to=object)


def test_the_other_endpoints_prompt_is_not_ignored(client: openai.OpenAI) -> None:
    error = refused(client, prompt="x")
    assert (error.param, "/v1/completions" in str(error)) == ("prompt", True)
    for fields in ({"messages": MESSAGES}, {"messages": MESSAGES, "prompt": None}):
        error = refused(client, "completions", **fields)
        assert (error.param, "/v1/chat/completions" in str(error)) == ("messages", True)


def test_completions_know_both_names_of_the_limit(client: openai.OpenAI) -> None:
    body = {"model": "demo", "prompt": "x", "max_completion_tokens": 3, "temperature": 0}
    reply: Any = client.post("/completions", body=body, cast_to=object)
    assert reply["usage"]["completion_tokens"] <= 3
    assert reply["choices"][0]["finish_reason"] == "length"
    error = refused(client, "completions", max_tokens=4, max_completion_tokens=5)
    assert error.param == "max_tokens"
    error = refused(client, "completions", max_tokens=None, max_completion_tokens=-1)
    assert error.param == "max_completion_tokens"


LONG = "y" * 5000


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": LONG, "content": "x"}]},
        {"messages": [{"role": "user", "content": [{"type": LONG}]}]},
        {"response_format": {"type": LONG}},
        {"reasoning_effort": [LONG]},
        {"tool_choice": LONG},
        {"stop": [LONG]},
        {"structured_outputs": {LONG: 1}},
        {"structured_outputs": {"grammar": f"root ::= {LONG}"}},
        {"structured_outputs": {"regex": f"(?<{LONG}"}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": LONG}}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": LONG}}}},
        {"chat_template_kwargs": {LONG: {"-": 1}, "a-" + LONG: 1}},
        {f"guided_{LONG}": 1},
    ],
    ids=lambda fields: repr(fields)[:50],
)
def test_nobody_gets_everything_back_that_was_wrong(client: openai.OpenAI, fields: Any) -> None:
    error: Any = refused(client, **fields)
    assert len(error.body["message"]) < 1100


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": [{"role": "user", "content": "\ud800"}]},
        {"messages": [{"role": "\ud800", "content": "x"}]},
        {"messages": MESSAGES, "structured_outputs": {"choice": ["\ud800"]}},
        {"messages": MESSAGES, "structured_outputs": {"regex": "\ud800"}},
        {"messages": MESSAGES, "structured_outputs": {"grammar": 'root ::= "\ud800"'}},
        {"messages": MESSAGES, "structured_outputs": {"\ud800": 1}},
        {"messages": MESSAGES, "chat_template_kwargs": {"\ud800": "\ud800"}},
    ],
    ids=ascii,
)
def test_half_a_character_is_told_in_words(client: openai.OpenAI, fields: Any) -> None:
    body = json.dumps({"model": "demo", "max_tokens": 1, **fields}).encode()
    with pytest.raises(openai.BadRequestError) as caught:
        client.post("/chat/completions", content=body, cast_to=object)
    assert "codec" not in str(caught.value)
    assert "position" not in str(caught.value)


def test_an_error_of_a_schema_says_at_what_level_it_stands(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"type": "object", "properties": {}}}
    error = refused(client, response_format=form)
    assert error.param == "response_format.json_schema.schema"
    assert "one level deeper" in str(error)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("", "prompt"),
        ([], "prompt"),
        (["a", "b"], "prompt"),
        ([[1], [2]], "prompt"),
        ([1, "a"], "prompt"),
        (5, "prompt"),
        ([5, 10**9], "prompt[1]"),
        ([-1], "prompt[0]"),
        ([True], "prompt"),
        ("x" * 9000, "prompt"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_prompts_of_completions(client: openai.OpenAI, prompt: Any, param: str) -> None:
    assert refused(client, "completions", prompt=prompt).param == param


def test_an_overflow_has_its_code_and_both_numbers(client: openai.OpenAI) -> None:
    error = refused(client, "completions", prompt=[5] * 2048)
    assert error.code == "context_length_exceeded"
    assert "2048 tokens, the context 2048" in str(error)


def test_another_model_is_not_there(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gpt-4", messages=MESSAGES)
    assert (caught.value.param, caught.value.code) == ("model", "model_not_found")
    assert "'demo'" in str(caught.value)


def test_bad_grammars_after_good_ones_harm_nobody(client: openai.OpenAI, demo: Engine) -> None:
    """vllm-project/vllm#37642, #17313: a bad constraint took the server down."""
    for regex in ("^(.*)$", "^(|.*)$", "foo**", "(" * 300, "a{9999999}"):
        body = {"model": "demo", "messages": MESSAGES, "max_tokens": 4}
        with contextlib.suppress(openai.BadRequestError):
            client.post(
                "/chat/completions",
                body={**body, "structured_outputs": {"regex": regex}},
                cast_to=object,
            )
    nested = {"type": "array", "items": json.loads('{"items":' * 900 + "{}" + "}" * 900)}
    deep = {"type": "json_schema", "json_schema": {"schema": nested}}
    refused(client, response_format=deep)
    refused(client, structured_outputs={"grammar": "root ::= " + "(" * 60_000 + ")" * 60_000})
    reply = client.chat.completions.create(
        model="demo", messages=MESSAGES, extra_body={"structured_outputs": {"choice": ["ok"]}}
    )
    assert reply.choices[0].message.content == "ok"
    assert demo.outstanding == 0


def test_a_schema_keeps_its_order_and_its_numbers_own_digits() -> None:
    text = '{"properties":{"z":{"maximum":0.30000000000000000001},"a":{"minimum":1e3}}}'
    form = f'{{"type":"json_schema","json_schema":{{"schema":{text}}}}}'
    body = f'{{"model":"m","messages":[],"response_format":{form}}}'
    asked = read_chat(decode_object(body.encode()), "m")
    source = content_source(asked.response_format, asked.structured_outputs)
    assert source.constraint.source == text
    assert source.path == "response_format.json_schema.schema"
