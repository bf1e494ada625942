"""One-hot drafts change no token: in deterministic mode the text is that of ordinary decoding at the same seed."""

from __future__ import annotations

from typing import Any

import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import LoadedModel, LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_qwen3_5.hooks import infernix_model_frontends
from tests.backends.settings import DRAFTS, Drafts, demo_directory, make_engine
from tests.end_to_end.kinds import BUG, KINDS

WAIT = 300
EXTRACT = (
    "Extract file, line, and severity as JSON from: Deadlock in a/b.go at line 9, hangs the build"
)
REPEAT = "Repeat: a1 b2 a1 b2 a1 b2 a1 b2 a1 b2 a1 b2"

#: Message, constraint, thinking, sampling. Every kind of constraint with and without thinking, then what drafters
#: are good at.
REQUESTS: list[tuple[str, Any, bool, dict[str, Any]]] = [
    *(
        (f"Say {kind.name}.", kind.constraint, thinking, {"temperature": 1.0, "top_k": 20})
        for kind in KINDS
        for thinking in (False, True)
    ),
    (EXTRACT, JsonSchema.of(BUG), False, {"greedy": True}),
    (EXTRACT, JsonSchema.of(BUG), True, {"temperature": 0.7, "presence_penalty": 0.4}),
    (EXTRACT, None, True, {"temperature": 0.8, "top_p": 0.9}),
    (REPEAT, None, False, {"temperature": 0.5, "min_p": 0.05, "frequency_penalty": 0.1}),
    (REPEAT, None, False, {"greedy": True}),
]


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    frontend = next(iter(infernix_model_frontends())).create()
    return frontend.load(demo_directory(), LoadOptions(deterministic=True))


def run(engine: Engine) -> list[GenerationResult]:
    with engine:
        handles = []
        for seed, (text, constraint, thinking, law) in enumerate(REQUESTS):
            messages = [{"role": "user", "content": text}]
            prompt = engine.prepare(PromptInput(messages=messages, enable_thinking=thinking))
            options = RequestOptions(
                constraint=constraint,
                sampling=SamplingOptions(seed=seed, **law),
                max_tokens=32,
            )
            handles.append(engine.submit(prompt, options))
        return [handle.wait(WAIT) for handle in handles]


@pytest.fixture(scope="module")
def ordinary(model: LoadedModel) -> list[GenerationResult]:
    return run(make_engine(demo_directory(), model, None, deterministic=True, lanes=8))


@pytest.mark.parametrize(
    ("drafts", "lanes", "count"),
    [
        (drafts, lanes, drafts.counts[lanes % 3])
        for drafts, lanes in zip(
            [each for each in DRAFTS if each.one_hot for _ in range(2)], (3, 5) * 9, strict=False
        )
    ],
    ids=str,
)
def test_texts_are_those_of_ordinary_decoding(
    model: LoadedModel, ordinary: list[GenerationResult], drafts: Drafts, lanes: int, count: int
) -> None:
    engine = make_engine(demo_directory(), model, drafts, count, deterministic=True, lanes=lanes)
    results = run(engine)
    for result, expected, request in zip(results, ordinary, REQUESTS, strict=True):
        assert result.error is None
        assert result.token_ids == expected.token_ids, request
        assert (result.text, result.reasoning) == (expected.text, expected.reasoning)
        assert (result.finish_reason, result.stop) == (expected.finish_reason, expected.stop)
    assert sum(result.usage.accepted_tokens for result in results) > 20
    assert any(r.usage.accepted_tokens < r.usage.drafted_tokens for r in results)
    if "ngram_draft_tokens" in drafts.options:
        # Rounds were wider than any drafts behind the copies: some of those were taken.
        assert max(len(result.usage.drafts_by_position) for result in results) > count
