"""Random weights over the real Qwen3.5 vocabulary and the demo vocabulary: whatever the weights, the shape holds."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from infernix_core.descriptors import BundledCheckpoint
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import FinishReason, RequestOptions
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.plugins import PluginRegistry
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.kinds import KINDS, Kind, assert_conforms

SEEDS = {"demo": 30, "qwen": 8}
HEAVY_SEEDS = 100
LIMIT = {"demo": 200, "qwen": 60}


def demo_directory() -> Path:
    (default,) = [c for c in PluginRegistry.discover().all(BundledCheckpoint) if c.default]
    return default.path()


def randomise(directory: Path, seed: int) -> None:
    """Replaces every weight by noise of a size that spreads the logits."""
    path = directory / "model.safetensors"
    generator = torch.Generator().manual_seed(seed)
    noise = {}
    for name, tensor in load_file(path).items():
        scale = 0.3 if tensor.dim() < 2 else tensor[0].numel() ** -0.5
        noise[name] = (torch.randn(tensor.shape, generator=generator) * scale).to(tensor.dtype)
    save_file(noise, path)


def qwen_directory(directory: Path) -> None:
    """A tiny random model under the real tokenizer, with the demo's template."""
    from tests.frontends.qwen3_5.oracle import FULL, GDN, saved_model
    from tests.frontends.qwen3_5.real_tokenizer import real_tokenizer

    saved_model("tied", directory, vocab_size=248320, layer_types=[GDN, FULL])
    shutil.copy(real_tokenizer() / "tokenizer.json", directory)
    shutil.copy(demo_directory() / "chat_template.jinja", directory)
    config = json.loads((directory / "config.json").read_text())
    config["eos_token_id"] = 248044
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").write_text(
        json.dumps({"eos_token_id": [248046, 248044], "do_sample": True})
    )


@pytest.fixture(scope="module", params=["demo", "qwen"])
def engine(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    directory = tmp_path_factory.mktemp(request.param) / request.param
    if request.param == "demo":
        shutil.copytree(demo_directory(), directory)
        randomise(directory, seed=1)
    else:
        qwen_directory(directory)
    options = EngineOptions(max_context=512, queue_limit=200)
    with Engine.load(directory, options=options) as made:
        yield made


def check(engine: Engine, kind: Kind, seeds: range, *, thinking: bool, limit: int) -> None:
    prompt = engine.prepare(
        PromptInput(
            messages=[{"role": "user", "content": "Say anything but JSON."}],
            enable_thinking=thinking,
        )
    )
    handles = [
        engine.submit(
            prompt,
            RequestOptions(
                constraint=kind.constraint,
                max_tokens=limit,
                sampling=SamplingOptions(
                    seed=seed, temperature=(0.0, 1.0, 3.0)[seed % 3], top_k=(0, 20)[seed % 2]
                ),
            ),
        )
        for seed in seeds
    ]
    for handle in handles:
        result = handle.wait(WAIT)
        assert_conforms(kind, result, engine.model.vocabulary, thinking=thinking)
        assert not any(token >= engine.model.vocabulary.size for token in result.token_ids)
        if kind.ends_itself and not thinking and limit >= 200:
            assert result.finish_reason is FinishReason.STOP


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_output_conforms(engine: Engine, kind: Kind) -> None:
    name = engine.model.name
    check(engine, kind, range(SEEDS[name]), thinking=False, limit=LIMIT[name])


@pytest.mark.parametrize("kind", KINDS[::3], ids=lambda kind: kind.name)
def test_every_output_conforms_after_thinking(engine: Engine, kind: Kind) -> None:
    check(engine, kind, range(4), thinking=True, limit=LIMIT[engine.model.name])


@pytest.mark.heavy
@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_output_conforms_over_many_seeds(engine: Engine, kind: Kind, thinking: bool) -> None:
    limit = LIMIT[engine.model.name]
    check(engine, kind, range(1000, 1000 + HEAVY_SEEDS), thinking=thinking, limit=limit)
