"""Whatever drafts and whatever the weights, outputs are as valid as those of ordinary decoding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import FinishReason, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import LoadedModel, LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_qwen3_5.hooks import infernix_model_frontends
from tests.backends.settings import (
    DRAFTS,
    Drafts,
    demo_directory,
    make_engine,
    pairwise,
    randomised,
)
from tests.end_to_end.kinds import KINDS, Kind, assert_conforms

WAIT = 300
HEAVY_SEEDS = 50
WEIGHTS = ("trained", "random")
WIDTHS = (0, 1, 2)
CELLS = pairwise(WEIGHTS, KINDS, (False, True), DRAFTS, (1, 8), WIDTHS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, LoadedModel]]:
    frontend = next(iter(infernix_model_frontends())).create()
    directories = {
        "trained": demo_directory(),
        "random": randomised(tmp_path_factory.mktemp("random") / "demo"),
    }
    return {name: (path, frontend.load(path, LoadOptions())) for name, path in directories.items()}


def check(engine: Engine, kind: Kind, seeds: range, *, thinking: bool, limit: int) -> None:
    messages = [{"role": "user", "content": f"Extract {kind.name} as JSON from: line 3 of a.py"}]
    prompt = engine.prepare(PromptInput(messages=messages, enable_thinking=thinking))
    handles = [
        engine.submit(
            prompt,
            RequestOptions(
                constraint=kind.constraint,
                max_tokens=limit,
                sampling=SamplingOptions(
                    seed=seed, temperature=(0.0, 1.0, 2.0)[seed % 3], top_k=(0, 20)[seed % 2]
                ),
            ),
        )
        for seed in seeds
    ]
    for handle in handles:
        result = handle.wait(WAIT)
        assert_conforms(kind, result, engine.model.vocabulary, thinking=thinking)
        if kind.ends_itself and not thinking and limit >= 200:
            assert result.finish_reason is FinishReason.STOP


def named(cell: tuple[Any, ...]) -> str:
    weights, kind, thinking, drafts, lanes, width = cell
    return f"{weights}-{kind.name}-{drafts.name} {drafts.counts[width]}-{lanes}" + (
        "-thinking" * thinking
    )


@pytest.mark.parametrize("cell", CELLS, ids=named)
def test_outputs_conform(
    models: dict[str, tuple[Path, LoadedModel]], cell: tuple[Any, ...]
) -> None:
    weights, kind, thinking, drafts, lanes, width = cell
    directory, model = models[weights]
    with make_engine(directory, model, drafts, drafts.counts[width], lanes=lanes) as engine:
        check(engine, kind, range(3 if lanes == 1 else 8), thinking=thinking, limit=64)


@pytest.mark.heavy
@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("drafts", DRAFTS, ids=lambda drafts: drafts.name)
@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_outputs_conform_over_many_seeds(
    models: dict[str, tuple[Path, LoadedModel]],
    weights: str,
    kind: Kind,
    thinking: bool,
    drafts: Drafts,
    lanes: int,
) -> None:
    directory, model = models[weights]
    with make_engine(directory, model, drafts, drafts.counts[2], lanes=lanes) as engine:
        seeds = range(1000, 1000 + HEAVY_SEEDS)
        check(engine, kind, seeds, thinking=thinking, limit=200)


@pytest.fixture(scope="module", params=DRAFTS, ids=lambda drafts: drafts.name)
def widest(
    request: pytest.FixtureRequest, models: dict[str, tuple[Path, LoadedModel]]
) -> Iterator[Engine]:
    """Eight lanes with as many drafts as the backend takes."""
    drafts: Drafts = request.param
    directory, model = models["trained"]
    with make_engine(directory, model, drafts, drafts.counts[2], lanes=8) as engine:
        yield engine


def ask(engine: Engine, text: str, schema: Any, seed: int, **options: Any) -> Any:
    messages = [{"role": "user", "content": text}]
    prompt = engine.prepare(PromptInput(messages=messages, enable_thinking=False))
    sampling = SamplingOptions(seed=seed, temperature=(0.0, 1.0)[seed % 2])
    # Without blanks, of which a model that is made to say something else could write any number.
    constraint = JsonSchema.of(schema, compact=True)
    request = RequestOptions(constraint=constraint, sampling=sampling, **options)
    return engine.submit(prompt, request)


def test_a_constant_holds_against_a_prompt_that_asks_for_something_else(widest: Engine) -> None:
    """Every token of the answer is one that neither the model nor its drafter would choose."""
    constant = {"file": "Other.rs", "line": 7, "severity": "low", "note": ["no", {"x": None}]}
    text = "Extract file, line, and severity as JSON from: Deadlock in a/b.go at line 931, hangs the build"
    handles = [ask(widest, text, {"const": constant}, seed) for seed in range(8)]
    for handle in handles:
        result = handle.wait(WAIT).raise_for_error()
        assert result.finish_reason is FinishReason.STOP
        assert json.loads(result.text) == constant


@pytest.mark.parametrize(
    "drafts",
    [each for each in DRAFTS if "ngram_draft_tokens" in each.options],
    ids=lambda drafts: drafts.name,
)
def test_copies_in_front_are_taken(
    models: dict[str, tuple[Path, LoadedModel]], drafts: Drafts
) -> None:
    """A round is wider than all that the backend behind them drafts."""
    records = [{"file": "src/a.rs", "line": 11, "severity": "high"}] * 6
    count = drafts.counts[2]
    with make_engine(*models["trained"], drafts, count) as engine:
        result = ask(engine, "Repeat the record.", {"const": records}, 0).wait(WAIT)
    assert json.loads(result.raise_for_error().text) == records
    assert len(result.usage.drafts_by_position) > count


def test_eight_lanes_of_arrays_of_32_objects(widest: Engine) -> None:
    item = {
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["id"],
        "additionalProperties": False,
    }
    schema = {"type": "array", "items": item, "minItems": 32, "maxItems": 32}
    validator = jsonschema.Draft202012Validator(schema)
    handles = [
        ask(widest, f"List {seed} as JSON.", schema, seed, max_tokens=430) for seed in range(8)
    ]
    for handle in handles:
        result = handle.wait(WAIT).raise_for_error()
        assert result.finish_reason is FinishReason.STOP
        assert validator.is_valid(json.loads(result.text))
