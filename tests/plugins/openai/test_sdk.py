"""The official client against the demo model: what its users do."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any, Literal

import jsonschema
import openai
import pydantic
import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from tests.plugins.serving import Server, serving, slow_toy, until

SENTENCE = "NullPointerException in Parser.java at line 88, crashes the build"
MESSAGES: Any = [
    {"role": "user", "content": f"Extract file, line, and severity as JSON from: {SENTENCE}"}
]
SCHEMA = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "maxLength": 64},
        "line": {"type": "integer", "minimum": 1, "maximum": 99999},
        "severity": {"enum": ["low", "high"]},
    },
    "required": ["file", "line", "severity"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "bug", "schema": SCHEMA}}
EDIT = 'root ::= "edit " [a-z]{1,8} ".java line " [1-9] [0-9]{0,3} "\\n"'


class Bug(pydantic.BaseModel):
    file: str
    line: int
    severity: Literal["low", "high"]


def test_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert (model.id, model.object, model.owned_by) == ("demo", "model", "infernix")
    assert client.models.retrieve("demo") == model
    assert model.max_model_len == 2048
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt/4")


def test_create_is_the_engines_own_answer(client: openai.OpenAI, demo: Engine) -> None:
    prompt = demo.prepare(PromptInput(messages=MESSAGES))
    options = RequestOptions(
        constraint=JsonSchema.of(SCHEMA), sampling=SamplingOptions(greedy=True)
    )
    expected = demo.submit(prompt, options).wait(60)
    reply = client.chat.completions.create(
        model="demo", messages=MESSAGES, response_format=FORMAT, temperature=0
    )
    (choice,) = reply.choices
    assert choice.message.content == expected.text
    assert json.loads(choice.message.content)["file"] == "Parser.java"
    assert (choice.finish_reason, choice.message.role) == ("stop", "assistant")
    assert (choice.index, choice.logprobs, choice.message.refusal) == (0, None, None)
    assert reply.id.startswith("chatcmpl-")
    assert (reply.object, reply.model) == ("chat.completion", "demo")
    assert reply.usage.prompt_tokens == len(prompt.token_ids)
    assert reply.usage.completion_tokens == len(expected.token_ids)
    assert reply.usage.total_tokens == len(prompt.token_ids) + len(expected.token_ids)
    assert reply._request_id.startswith("req_")
    report = reply.model_extra["constraint"]
    assert (report["kind"], report["complete"], report["terminated"]) == ("json_schema", True, True)
    assert report["kept_mass"] is None


def test_parse_gives_the_callers_class(client: openai.OpenAI) -> None:
    reply = client.chat.completions.parse(
        model="demo", messages=MESSAGES, response_format=Bug, temperature=0
    )
    assert reply.choices[0].message.parsed == Bug(file="Parser.java", line=88, severity="high")


def test_parse_says_when_the_answer_was_cut(client: openai.OpenAI) -> None:
    with pytest.raises(openai.LengthFinishReasonError):
        client.chat.completions.parse(
            model="demo", messages=MESSAGES, response_format=Bug, max_completion_tokens=5
        )


def test_a_stream_is_the_same_answer_in_pieces(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "demo",
        "messages": MESSAGES,
        "response_format": FORMAT,
        "seed": 7,
        "temperature": 1.5,
    }
    whole = client.chat.completions.create(**asked)
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    *texts, last, counts = chunks
    assert {(c.id, c.created, c.model, c.object) for c in chunks} == {
        (chunks[0].id, chunks[0].created, "demo", "chat.completion.chunk")
    }
    assert texts[0].choices[0].delta.role == "assistant"
    assert all(c.choices[0].delta.role is None for c in [*texts[1:], last])
    assert len(texts) > 5
    assert "".join(c.choices[0].delta.content for c in texts) == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in [*texts, last]] == [None] * len(texts) + ["stop"]
    assert [c.usage for c in [*texts, last]] == [None] * (len(texts) + 1)
    assert counts.choices == []
    assert counts.usage == whole.usage
    assert last.model_extra["constraint"]["terminated"]


def test_the_streaming_helper(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="demo", messages=MESSAGES, response_format=Bug, temperature=0
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    assert final.choices[0].message.parsed.line == 88


def test_thinking_comes_apart_from_the_content(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "demo",
        "messages": MESSAGES,
        "response_format": FORMAT,
        "temperature": 0,
        "extra_body": {"enable_thinking": True},
    }
    message = client.chat.completions.create(**asked).choices[0].message
    assert json.loads(message.content)["line"] == 88
    assert message.model_extra["reasoning_content"]
    deltas = [c.choices[0].delta for c in client.chat.completions.create(**asked, stream=True)]
    reasoning = "".join((d.model_extra or {}).get("reasoning_content", "") for d in deltas)
    assert reasoning == message.model_extra["reasoning_content"]
    assert "".join(d.content or "" for d in deltas) == message.content
    effort: Any = {**asked, "extra_body": {}, "reasoning_effort": "low"}
    assert client.chat.completions.create(**effort).choices[0].message.model_extra
    silent: Any = {**asked, "extra_body": {}, "reasoning_effort": "none"}
    assert not client.chat.completions.create(**silent).choices[0].message.model_extra


def test_completions_with_a_grammar(client: openai.OpenAI) -> None:
    asked: Any = {
        "model": "demo",
        "prompt": "Next: ",
        "max_tokens": 60,
        "seed": 5,
        "extra_body": {"structured_outputs": {"grammar": EDIT}},
    }
    reply = client.completions.create(**asked)
    (choice,) = reply.choices
    assert re.fullmatch(r"edit [a-z]{1,8}\.java line [1-9][0-9]{0,3}\n", choice.text)
    assert (choice.finish_reason, reply.object) == ("stop", "text_completion")
    streamed = list(client.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in streamed) == choice.text
    assert streamed[-1].choices[0].finish_reason == "stop"


def test_completions_from_token_ids_and_lists_of_one(client: openai.OpenAI, demo: Engine) -> None:
    ids = list(demo.prepare(PromptInput(text="Next: ")).token_ids)
    asked: Any = {"model": "demo", "max_tokens": 5, "temperature": 0}
    texts = {
        client.completions.create(prompt=prompt, **asked).choices[0].text
        for prompt in ("Next: ", ["Next: "], ids, [ids])
    }
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("outputs", "pattern"),
    [
        ({"regex": "[0-9]{3}"}, r"[0-9]{3}"),
        ({"choice": ["yes", "no"]}, r"yes|no"),
        ({"grammar": 'root ::= "a"{2,4}'}, r"a{2,4}"),
        ({"regex": "x", "grammar": None, "choice": None}, "x"),
    ],
    ids=repr,
)
def test_structured_outputs(client: openai.OpenAI, outputs: Any, pattern: str) -> None:
    reply = client.chat.completions.create(
        model="demo", messages=MESSAGES, extra_body={"structured_outputs": outputs}
    )
    assert re.fullmatch(pattern, reply.choices[0].message.content)
    assert reply.choices[0].finish_reason == "stop"


def test_lesson_9_the_response_formats(client: openai.OpenAI) -> None:
    asked: Any = {"model": "demo", "messages": MESSAGES, "temperature": 0}
    free = client.chat.completions.create(**asked, response_format={"type": "text"}, max_tokens=9)
    assert "constraint" not in free.model_extra
    json_object = client.chat.completions.create(**asked, response_format={"type": "json_object"})
    assert isinstance(json.loads(json_object.choices[0].message.content), dict)
    schema = client.chat.completions.create(**asked, response_format=FORMAT)
    jsonschema.validate(json.loads(schema.choices[0].message.content), SCHEMA)
    with pytest.raises(openai.BadRequestError, match="yaml") as caught:
        client.chat.completions.create(**asked, response_format={"type": "yaml"})  # type: ignore[typeddict-item]
    assert caught.value.param == "response_format.type"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            **asked, response_format=FORMAT, extra_body={"structured_outputs": {"grammar": EDIT}}
        )
    assert caught.value.param == "structured_outputs"


def test_lesson_9_a_cut_object_is_a_prefix_and_says_so(client: openai.OpenAI) -> None:
    """With few tokens json_object ends inside; the finish reason is length and the text is no JSON."""
    for limit in (1, 2, 5):
        reply = client.chat.completions.create(
            model="demo",
            messages=MESSAGES,
            response_format={"type": "json_object"},
            max_tokens=limit,
            temperature=0,
        )
        assert reply.choices[0].finish_reason == "length"
        with pytest.raises(json.JSONDecodeError):
            json.loads(reply.choices[0].message.content)
        assert reply.usage.completion_tokens == limit


@pytest.mark.parametrize(
    ("outputs", "param"),
    [
        ({}, "structured_outputs"),
        ({"grammar": EDIT, "regex": "a"}, "structured_outputs"),
        ({"grammar": None}, "structured_outputs"),
        ({"json": {"type": "object"}}, "structured_outputs.json"),
        ({"json_object": True}, "structured_outputs.json_object"),
    ],
    ids=repr,
)
def test_lesson_10_structured_outputs_take_exactly_one_kind(
    client: openai.OpenAI, outputs: Any, param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="demo", messages=MESSAGES, extra_body={"structured_outputs": outputs}
        )
    assert caught.value.param == param
    if param != "structured_outputs":
        assert "response_format" in str(caught.value)


def test_compact_json(client: openai.OpenAI) -> None:
    asked: Any = {"model": "demo", "messages": MESSAGES, "seed": 3, "temperature": 2.0}
    for form in (FORMAT, {"type": "json_object"}):
        reply = client.chat.completions.create(
            **asked, response_format=form, extra_body={"compact_json": True}, max_tokens=400
        )
        text = reply.choices[0].message.content
        if reply.choices[0].finish_reason == "stop":
            strings = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
            assert not re.search(r"\s", strings)
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**asked, extra_body={"compact_json": True})
    assert caught.value.param == "compact_json"


def test_kept_mass_on_request(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(
        model="demo",
        messages=MESSAGES,
        temperature=0,
        extra_body={"structured_outputs": {"choice": ["qqq"]}, "constraint_stats": True},
    )
    report = reply.model_extra["constraint"]
    assert 0 <= report["kept_mass_minimum"] <= report["kept_mass"] < 1
    assert report["kept_mass_below_tenth"] >= 1


def test_breaking_off_a_stream_frees_its_lane(
    make_engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Left alone, each answer would take a minute and more."""
    caplog.set_level(logging.INFO)
    engine = make_engine(slow_toy(0.02))
    with serving(engine) as server:
        with openai.OpenAI(base_url=f"{server.url}/v1", api_key="x", max_retries=0) as client:
            for _ in range(3):
                stream = client.completions.create(
                    model="toy",
                    prompt="x",
                    extra_body={"structured_outputs": {"choice": ["ab" * 2000]}},
                    stream=True,
                )
                next(iter(stream))
                stream.close()
        until(lambda: engine.outstanding == 0, 15)
    assert caplog.text.count("finish=cancelled") == 3


def test_the_asynchronous_client(server: Server) -> None:
    async def main() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="x") as client:

            async def one(choice: str) -> str:
                reply = await client.chat.completions.create(
                    model="demo",
                    messages=MESSAGES,
                    extra_body={"structured_outputs": {"choice": [choice]}},
                )
                return reply.choices[0].message.content or ""

            return list(await asyncio.gather(*(one(f"answer {n}") for n in range(12))))

    assert asyncio.run(main()) == [f"answer {n}" for n in range(12)]
