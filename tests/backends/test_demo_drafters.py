"""The bundled drafters do real work: what each is worth on sentences that no training has seen."""

from __future__ import annotations

import json

import pytest

from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import LoadedModel, LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_qwen3_5.hooks import infernix_model_frontends
from tests.backends.settings import DRAFTS, demo_directory, make_engine

WAIT = 300
SCHEMA = {
    "type": "object",
    "properties": {
        "file": {"type": "string"},
        "line": {"type": "integer", "minimum": 1},
        "severity": {"enum": ["low", "medium", "high"]},
    },
    "required": ["file", "line", "severity"],
    "additionalProperties": False,
}
BUGS = [
    ("NullPointerException in Parser.java at line 88, crashes the build", "Parser.java", 88),
    (
        "TimeoutError in src/net/HttpClient.kt at line 1207, slow under load",
        "src/net/HttpClient.kt",
        1207,
    ),
    ("Deadlock in core/scheduler.go at line 931, hangs the build", "core/scheduler.go", 931),
    ("Typo in README.md line 3", "README.md", 3),
]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    frontend = next(iter(infernix_model_frontends())).create()
    return frontend.load(demo_directory(), LoadOptions(deterministic=True))


def extracted(model: LoadedModel, name: str, count: int) -> list[GenerationResult]:
    drafts = next((each for each in DRAFTS if each.name == name), None)
    directory = demo_directory()
    with make_engine(directory, model, drafts, count, deterministic=True, lanes=1) as engine:
        results = []
        for text, *_ in BUGS:
            content = f"Extract file, line, and severity as JSON from: {text}"
            messages = [{"role": "user", "content": content}]
            prompt = engine.prepare(PromptInput(messages=messages, enable_thinking=False))
            request = RequestOptions(
                constraint=JsonSchema.of(SCHEMA), sampling=SamplingOptions(greedy=True)
            )
            results.append(engine.submit(prompt, request).wait(WAIT).raise_for_error())
        return results


@pytest.fixture(scope="module")
def ordinary(model: LoadedModel) -> list[GenerationResult]:
    return extracted(model, "ordinary", 0)


@pytest.mark.parametrize(
    ("name", "count", "worth"), [("mtp", 3, 3.2), ("dflash", 7, 4.0), ("dflash2", 7, 4.5)]
)
def test_tokens_per_round_of_extraction(
    model: LoadedModel, ordinary: list[GenerationResult], name: str, count: int, worth: float
) -> None:
    results = extracted(model, name, count)
    for result, plain, (_, file, line) in zip(results, ordinary, BUGS, strict=True):
        # Greedy texts are those of ordinary decoding, for every backend; and they are right.
        assert result.token_ids == plain.token_ids
        found = json.loads(result.text)
        assert (found["file"], found["line"]) == (file, line)
    tokens = sum(len(result.token_ids) for result in results)
    assert tokens / sum(result.usage.rounds for result in results) >= worth
    for result in results:
        places = result.usage.drafts_by_position
        assert sum(drafted for drafted, _ in places) == result.usage.drafted_tokens
        assert sum(accepted for _, accepted in places) == result.usage.accepted_tokens
        # The first token and each round give one token that nobody drafted, unless the last draft ends the output.
        assert len(result.token_ids) - result.usage.accepted_tokens in (
            result.usage.rounds,
            result.usage.rounds - 1,
        )
        assert result.timings.drafts <= result.timings.decode
