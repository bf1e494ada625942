"""Random checkpoints of the family: transformers reads them as we do, and a constrained request runs on them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import FinishReason, RequestOptions
from infernix_core.interfaces.constraints import Choice, Regex
from infernix_core.interfaces.frontend import LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_qwen3_5.hooks import create
from infernix_qwen3_5.testing import random_checkpoint
from tests.frontends.qwen3_5 import oracle

FULL, GDN = "full_attention", "linear_attention"

MIXTURE = {"experts": 8, "chosen_experts": 3, "expert_size": 24, "shared_expert_size": 40}
FORMS: dict[str, dict[str, Any]] = {
    "dense": {},
    "dense, tied, in shards": {"tied": True, "shards": 3, "layer_types": [FULL, GDN]},
    "mixture": {**MIXTURE, "hidden_size": 48, "layers": 5},
    "mixture, expert by expert": {**MIXTURE, "stacked_experts": False},
    "mixture, tied, in shards": {**MIXTURE, "stacked_experts": False, "shards": 5, "tied": True},
    "one narrow layer": {"layers": 1, "hidden_size": 8, "heads": 1, "kv_heads": 1, "head_dim": 8},
    "bfloat16": {**MIXTURE, "dtype": torch.bfloat16},
}


def in_transformers(directory: Path) -> Any:
    """The directory as transformers reads it, all of it and nothing else, in float32."""
    from transformers import AutoModelForCausalLM

    model, report = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True, experts_implementation="eager"
    )
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not report[what], report
    return model.eval()


@pytest.mark.parametrize("form", FORMS)
def test_transformers_agrees(tmp_path: Path, form: str) -> None:
    from transformers import AutoTokenizer

    directory = random_checkpoint(tmp_path / "made", **FORMS[form])
    loaded = create().load(directory, LoadOptions(dtype=torch.float32))
    ids = torch.randint(0, 512, (1, 90), generator=torch.Generator().manual_seed(1))
    expected = oracle.Expected.of(in_transformers(directory), ids)[0]
    oracle.close(oracle.Runner.of(loaded.target).prompt_logits(0, ids[0].tolist()), expected)
    # Logits that tell tokens apart: an error in the weights would show.
    assert expected.exact.std(-1).min() > 0.3

    tokenizer = AutoTokenizer.from_pretrained(directory)
    text = 'The answer is {"a": null} 你好'
    assert tokenizer(text)["input_ids"] == loaded.tokenizer.encode(text)
    messages = [{"role": "user", "content": text}]
    for thinking in (True, False):
        rendered = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, enable_thinking=thinking
        )
        prompt = loaded.prepare(PromptInput(messages=messages, enable_thinking=thinking))
        assert list(prompt.token_ids) == list(rendered["input_ids"])


@pytest.mark.parametrize("sizes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_nested_is_the_same_model(tmp_path: Path, sizes: dict[str, Any]) -> None:
    """Values are drawn by name, so only the head, which has the same name in both, has the same ones."""
    plain = random_checkpoint(tmp_path / "plain", **sizes)
    nested = random_checkpoint(tmp_path / "nested", nested=True, **sizes)
    document = json.loads((nested / "config.json").read_text())
    assert document["architectures"][0].endswith("ForConditionalGeneration")
    left, right = (create().load(path, LoadOptions()) for path in (plain, nested))
    assert left.config == right.config
    assert torch.equal(left.target.weights.head, right.target.weights.head)


@pytest.mark.parametrize("sizes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_the_same_arguments_give_the_same_files(tmp_path: Path, sizes: dict[str, Any]) -> None:
    def files(name: str, **arguments: Any) -> dict[str, bytes]:
        directory = random_checkpoint(tmp_path / name, **sizes, **arguments)
        return {path.name: path.read_bytes() for path in directory.iterdir()}

    first = files("first")
    assert files("second") == first
    other = files("other", seed=1)
    assert {name for name in first if first[name] != other[name]} == {"model.safetensors"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"kv_heads": 3}, "kv_heads is 3; expected a divisor of heads = 4"),
        ({"value_heads": 3}, "value_heads is 3; expected a multiple of key_heads = 2"),
        ({"head_dim": 12}, "head_dim is 12; expected a multiple of 8"),
        ({"experts": 2, "chosen_experts": 3}, "chosen_experts is 3; expected at most experts = 2"),
        ({"layer_types": ["sliding"]}, r"layer_types is \['sliding'\]; expected a list of"),
        ({"layers": 0}, "layers is 0; expected at least 1"),
        ({"conv_width": 1}, "conv_width is 1; expected at least 2"),
        ({"hidden_size": 6.5}, "hidden_size is 6.5; expected an integer"),
        ({"dtype": torch.float64}, "dtype is torch.float64; expected bfloat16, float16 or float32"),
        ({"dtype": "int8"}, "dtype is 'int8'; expected bfloat16"),
        ({"dtype": "real"}, "dtype is 'real'; expected a torch.dtype or its name"),
        (
            {"vocab_size": 300},
            "vocab_size is 300; expected at least 301: 294 tokens and padding_rows = 7",
        ),
        ({"shards": 0}, "shards is 0; expected at least 1"),
        ({"shards": 1000}, "do not fill 1000 shards"),
    ],
)
def test_arguments_that_cannot_be(tmp_path: Path, arguments: dict[str, Any], words: str) -> None:
    """They are named as the caller knows them, and nothing is left behind."""
    with pytest.raises(ValueError, match=words):
        random_checkpoint(tmp_path / "x" / "y", **arguments)
    assert not (tmp_path / "x").exists()


def test_a_dtype_by_its_name(tmp_path: Path) -> None:
    named = random_checkpoint(tmp_path / "named", dtype="bfloat16")
    meant = random_checkpoint(tmp_path / "meant", dtype=torch.bfloat16)
    for path in named.iterdir():
        assert path.read_bytes() == (meant / path.name).read_bytes()


def test_padding_rows_are_no_tokens(tmp_path: Path) -> None:
    directory = random_checkpoint(tmp_path / "x", vocab_size=301)
    loaded = create().load(directory, LoadOptions())
    assert loaded.target.logits_width == 301
    assert loaded.vocabulary.size == 294


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("sizes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_a_constrained_request(tmp_path: Path, sizes: dict[str, Any], deterministic: bool) -> None:
    directory = random_checkpoint(tmp_path / "Random", **sizes)
    options = EngineOptions(max_context=256, deterministic=deterministic)
    with Engine.load(directory, options=options) as engine:
        assert engine.model.name == "Random"
        prompt = engine.prepare(
            PromptInput(messages=[{"role": "user", "content": "Anything."}], enable_thinking=False)
        )

        def run(constraint: Any, seed: int) -> Any:
            sampling = SamplingOptions(seed=seed, temperature=1.5)
            return engine.submit(
                prompt, RequestOptions(constraint=constraint, max_tokens=60, sampling=sampling)
            )

        date = r"\d{4}-\d{2}-\d{2} (?:true|false)"
        handles = [run(Regex(date), seed) for seed in range(6)]
        chosen = [run(Choice(("the answer", "null", "user")), seed) for seed in range(6)]
        texts = []
        for handle in handles:
            result = handle.wait(60).raise_for_error()
            assert result.finish_reason is FinishReason.STOP
            assert re.fullmatch(date, result.text), result.text
            texts.append(result.text)
        assert len(set(texts)) > 1
        for handle in chosen:
            result = handle.wait(60).raise_for_error()
            assert result.text in ("the answer", "null", "user")
        if deterministic:
            # Alone as in the batch, seed by seed.
            for seed, text in enumerate(texts):
                assert run(Regex(date), seed).wait(60).text == text
