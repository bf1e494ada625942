"""The engine's deterministic mode on the trained model: texts do not depend on company, chunks or drafts."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema, Regex
from infernix_core.interfaces.frontend import LoadedModel, LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import ScriptedBackend
from infernix_qwen3_5.hooks import infernix_model_frontends
from infernix_sampling.hooks import infernix_samplers
from infernix_xgrammar.hooks import infernix_mask_providers
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.kinds import BUG
from tests.end_to_end.test_random_weights import demo_directory

PROMPTS = [
    "Extract file, line, and severity as JSON from: NullPointerException in Parser.java at line 88, crashes the build",
    "Extract file, line, and severity as JSON from: Typo in README.md line 3",
    "Hello " * 90,
    "Repeat: abc",
]
CONSTRAINTS = [None, JsonSchema.of(BUG), Regex("[a-z ]{5,20}")]
REQUESTS = [(p, c, t) for p in PROMPTS for c in CONSTRAINTS for t in (False, True)][:18]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    frontend = next(iter(infernix_model_frontends())).create()
    return frontend.load(demo_directory(), LoadOptions(deterministic=True))


def run(
    model: LoadedModel,
    *,
    one_by_one: bool = False,
    backend: Any = None,
    **options: Any,
) -> list[GenerationResult]:
    engine = Engine(
        model,
        mask_provider=next(iter(infernix_mask_providers())).create,
        sampler=next(iter(infernix_samplers())).create(),
        backend=backend,
        options=EngineOptions(deterministic=True, max_context=512, **options),
    )
    with engine:
        results, handles = [], []
        for seed, (prompt, constraint, thinking) in enumerate(REQUESTS):
            messages = [{"role": "user", "content": prompt}]
            prepared = engine.prepare(PromptInput(messages=messages, enable_thinking=thinking))
            sampling = SamplingOptions(seed=seed, temperature=1.0, top_k=20)
            handle = engine.submit(
                prepared,
                RequestOptions(constraint=constraint, sampling=sampling, max_tokens=24),
            )
            handles.append(handle)
            if one_by_one:
                results.append(handle.wait(WAIT))
        return results or [handle.wait(WAIT) for handle in handles]


@pytest.fixture(scope="module")
def alone(loaded: LoadedModel) -> list[GenerationResult]:
    return run(loaded, one_by_one=True, lanes=1)


def assert_equal(results: Sequence[GenerationResult], expected: Sequence[GenerationResult]) -> None:
    for result, other in zip(results, expected, strict=True):
        assert result.error is None
        assert result.token_ids == other.token_ids
        assert (result.text, result.reasoning) == (other.text, other.reasoning)


@pytest.mark.parametrize(("lanes", "chunk"), [(8, 64), (5, 512)])
def test_texts_do_not_depend_on_company_or_chunks(
    loaded: LoadedModel, alone: list[GenerationResult], lanes: int, chunk: int
) -> None:
    assert_equal(run(loaded, lanes=lanes, prefill_chunk=chunk), alone)


@pytest.mark.parametrize("name", ["right", "partly"])
def test_speculative_text_equals_ordinary_text_on_a_recurrent_model(
    loaded: LoadedModel, alone: list[GenerationResult], name: str
) -> None:
    known = {}
    for (prompt, _, thinking), seed, result in zip(REQUESTS, range(99), alone, strict=False):
        messages = [{"role": "user", "content": prompt}]
        ids = loaded.prepare(PromptInput(messages=messages, enable_thinking=thinking)).token_ids
        known[ids, seed] = result.token_ids

    def right(row: DraftRow) -> list[int]:
        prompt = tuple(row.history[: row.prompt_length])
        return list(known[prompt, row.seed][len(row.history) - row.prompt_length :])

    def partly(row: DraftRow) -> list[int]:
        rng = random.Random(len(row.history) + row.seed)
        return right(row)[: rng.randint(0, 3)] + rng.choices(range(loaded.vocabulary.size), k=3)

    script: Callable[[DraftRow], list[int]] = {"right": right, "partly": partly}[name]
    results = run(loaded, lanes=4, backend=ScriptedBackend(script), draft_tokens=4)
    assert_equal(results, alone)
    assert any(result.usage.accepted_tokens for result in results)
