"""Checkpoints in every published form load; broken ones say in one line what is wrong."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_core.errors import CheckpointError
from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_qwen3_5.hooks import create, recognises
from tests.frontends.qwen3_5 import checkpoints, oracle


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """A shape's checkpoint as transformers saves it, with the model."""

    @cache
    def write(shape: str) -> tuple[Path, Any]:
        directory = tmp_path_factory.mktemp(shape) / "Tiny-3.5"
        return directory, checkpoints.write_checkpoint(directory, shape)

    return write


@pytest.fixture(params=["grouped", "mixture"])
def published(request: pytest.FixtureRequest, saved: Any) -> tuple[Path, Any]:
    """One to read."""
    return saved(request.param)


@pytest.fixture
def form(published: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of it to bring into another form."""
    return Path(shutil.copytree(published[0], tmp_path / "Tiny-3.5"))


@pytest.fixture
def directory(saved: Any, tmp_path: Path) -> Path:
    """A dense checkpoint to break."""
    return Path(shutil.copytree(saved("grouped")[0], tmp_path / "Tiny-3.5"))


@pytest.fixture
def mixture(saved: Any, tmp_path: Path) -> Path:
    """A mixture of experts to break; each expert has tensors of its own."""
    return Path(shutil.copytree(saved("mixture")[0], tmp_path / "Tiny-3.5"))


def load(directory: Path, **options: Any) -> Any:
    return create().load(directory, LoadOptions(**options))


def logits_agree(loaded: Any, model: Any, tolerance: float = 1e-4) -> None:
    ids = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5]
    with torch.no_grad():
        expected = model(torch.tensor([ids]), use_cache=False).logits[0].float()
    actual = oracle.Runner.of(loaded.target).prompt_logits(0, ids)
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def fails(directory: Path, *words: str, **options: Any) -> None:
    with pytest.raises(CheckpointError) as caught:
        load(directory, **options)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message, message


def test_as_transformers_saves_it(published: tuple[Path, Any]) -> None:
    directory, model = published
    loaded = load(directory)
    assert loaded.name == "Tiny-3.5"
    assert loaded.context_length == 4096
    assert loaded.target.logits_width == 384
    assert loaded.target.embed(torch.tensor([[1, 2]])).dtype == torch.float32
    assert isinstance(loaded.target.draft_head("mtp"), str)
    logits_agree(loaded, model)


@pytest.mark.parametrize("prefix", ["model.language_model.", "language_model.model."])
def test_as_released(form: Path, published: tuple[Path, Any], prefix: str) -> None:
    checkpoints.as_released(form, prefix)
    logits_agree(load(form), published[1])


def test_as_mlx_converts_it(form: Path, published: tuple[Path, Any]) -> None:
    """MLX moves the convolution's channels last and adds one to zero-centred norms."""

    def convert(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        for name, tensor in tensors.items():
            if name.endswith("conv1d.weight"):
                tensors[name] = tensor.transpose(1, 2).contiguous()
            elif "norm" in name and "linear_attn" not in name:
                tensors[name] = tensor + 1
        return tensors

    checkpoints.rewrite_tensors(form, convert)
    checkpoints.as_released(form, "language_model.model.")
    logits_agree(load(form), published[1])


def test_shards(form: Path, published: tuple[Path, Any]) -> None:
    checkpoints.as_shards(form)
    logits_agree(load(form), published[1])


@pytest.mark.parametrize("shape", ["tied", "tied mixture"])
@pytest.mark.parametrize("level", ["text_config", "top"])
def test_tied(tmp_path: Path, level: str, shape: str) -> None:
    model = checkpoints.write_checkpoint(tmp_path, shape)
    checkpoints.as_released(tmp_path)
    if level == "text_config":
        document = json.loads((tmp_path / "config.json").read_text())
        document["text_config"]["tie_word_embeddings"] = document.pop("tie_word_embeddings")
        checkpoints.write_json(tmp_path / "config.json", document)
    loaded = load(tmp_path)
    assert loaded.target.weights.head is loaded.target.weights.embedding
    logits_agree(loaded, model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_computed_in_float32(
    form: Path, published: tuple[Path, Any], dtype: torch.dtype
) -> None:
    checkpoints.rewrite_tensors(
        form, lambda tensors: {name: tensor.to(dtype) for name, tensor in tensors.items()}
    )
    model = type(published[1]).from_pretrained(form, dtype=torch.float32)
    loaded = load(form)
    assert loaded.target.dtype == torch.float32
    logits_agree(loaded, model)


def test_bfloat16_compute_keeps_gates_and_state_in_float32(published: tuple[Path, Any]) -> None:
    loaded = load(published[0], dtype=torch.bfloat16)
    delta = loaded.target.weights.layers[0].mixer
    assert delta.inputs.dtype == torch.bfloat16
    assert delta.decay_rate.dtype == delta.dt_bias.dtype == torch.float32
    kinds = {spec.name.rsplit(".", 1)[1]: spec.dtype for spec in loaded.target.states()}
    assert kinds["delta"] == torch.float32
    assert kinds["kv"] == torch.bfloat16
    logits_agree(loaded, published[1], 0.25)


def test_deterministic_is_passed_on(published: tuple[Path, Any]) -> None:
    assert load(published[0], deterministic=True).target.deterministic


@pytest.mark.parametrize(("shape", "interval"), [("grouped", None), ("mixture", 2)])
def test_layer_types_are_derived_when_absent(
    tmp_path: Path, shape: str, interval: int | None
) -> None:
    model = checkpoints.write_checkpoint(tmp_path, shape)
    checkpoints.change_json(
        tmp_path / "config.json", layer_types=None, full_attention_interval=interval
    )
    logits_agree(load(tmp_path), model)


def test_the_template_of_the_tokenizer_config(directory: Path) -> None:
    (directory / "chat_template.jinja").unlink()
    path = directory / "tokenizer_config.json"
    checkpoints.change_json(path, chat_template=checkpoints.TEMPLATE)
    assert load(directory).template is not None
    named = [{"name": "tool_use", "template": ""}, {"name": "default", "template": "x"}]
    checkpoints.change_json(path, chat_template=named)
    assert load(directory).template is not None
    checkpoints.change_json(path, chat_template=None)
    assert load(directory).template is None
    checkpoints.change_json(path, chat_template=7)
    fails(directory, "tokenizer_config.json", "chat_template")


def test_end_tokens_are_the_union(directory: Path) -> None:
    model = load(directory)
    control = model.tokenizer.control
    family = {control["<|im_end|>"], control["<|endoftext|>"]}
    assert model.vocabulary.end_ids == family
    checkpoints.change_json(directory / "config.json", eos_token_id=7)
    checkpoints.change_json(directory / "generation_config.json", eos_token_id=[8, 9])
    assert load(directory).vocabulary.end_ids == {7, 8, 9, *family}


def test_a_missing_generation_config_is_no_error(directory: Path) -> None:
    (directory / "generation_config.json").unlink()
    (directory / "tokenizer_config.json").unlink()
    assert load(directory).vocabulary.end_ids


def test_names() -> None:
    from infernix_qwen3_5.frontend import public_name

    assert public_name(Path("models/Qwen3.5-0.8B")) == "Qwen3.5-0.8B"
    assert public_name(Path("models/Qwen3.5-0.8B/x/..")) == "Qwen3.5-0.8B"
    assert public_name(Path("hub/models--Qwen--Qwen3.5-2B/snapshots/0123abc")) == "Qwen3.5-2B"


def test_a_repetition_penalty_is_not_dropped_silently(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    load(directory)
    assert not caplog.records
    checkpoints.change_json(directory / "generation_config.json", repetition_penalty=1.1)
    load(directory)
    assert "repetition_penalty" in caplog.text


def test_the_hooks_module_is_light() -> None:
    check = "import infernix_qwen3_5.hooks, sys; print({'torch', 'tokenizers'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
    assert shown.stdout.strip() == "set()", shown.stderr


def test_recognises() -> None:
    assert recognises({"model_type": "qwen3_5"})
    assert recognises({"model_type": "qwen3_5_moe"})
    assert not recognises({"model_type": "qwen3_next"})
    assert not recognises({"model_type": ["qwen3_5"]})
    assert not recognises({})


@pytest.mark.parametrize(
    ("family", "sizes"),
    [
        (
            "Qwen3_5",
            {
                "hidden_size": 1024,
                "intermediate_size": 3584,
                "num_hidden_layers": 24,
                "num_attention_heads": 8,
                "num_key_value_heads": 2,
                "linear_num_value_heads": 16,
                "tie_word_embeddings": True,
            },
        ),
        (
            "Qwen3_5",
            {
                "hidden_size": 5120,
                "intermediate_size": 17408,
                "num_hidden_layers": 64,
                "num_attention_heads": 24,
                "num_key_value_heads": 4,
                "linear_num_value_heads": 48,
            },
        ),
        ("Qwen3_5Moe", {}),
    ],
    ids=["0.8B", "27B", "35B-A3B"],
)
def test_the_tensors_of_released_sizes(family: str, sizes: dict[str, Any]) -> None:
    """Every text tensor of the real shapes, by name and shape, is expected, and no other."""
    import transformers

    from infernix_qwen3_5.config import parse_config
    from infernix_qwen3_5.shapes import expected_shapes

    tied = sizes.get("tie_word_embeddings", False)
    config = getattr(transformers, f"{family}Config")(text_config=sizes, tie_word_embeddings=tied)
    with torch.device("meta"):
        model = getattr(transformers, f"{family}ForConditionalGeneration")(config)
    shapes = {
        name: tuple(parameter.shape)
        for name, parameter in model.named_parameters()
        if not name.startswith("model.visual.")
    }
    parsed = parse_config(config.to_dict())
    assert parsed.rotary_dim == 64
    expected = expected_shapes(parsed, "model.language_model.", "lm_head.weight")
    assert expected == shapes


# ------------------------------------------------------------------ configuration


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": None}, ["config.json", "hidden_size", "missing"]),
        ({"hidden_size": "48"}, ["hidden_size", '"48"', "integer"]),
        ({"num_key_value_heads": 4}, ["num_key_value_heads", "4", "6"]),
        ({"linear_num_value_heads": 5}, ["linear_num_value_heads", "multiple of 2"]),
        (
            {"layer_types": ["full_attention"]},
            ["layer_types", "1 entries", "num_hidden_layers = 4"],
        ),
        ({"layer_types": ["sliding_attention"] * 4}, ["layer_types", "linear_attention"]),
        ({"hidden_act": "gelu"}, ["hidden_act", "gelu", "silu"]),
        ({"attention_bias": True}, ["attention_bias"]),
        ({"max_position_embeddings": None}, ["max_position_embeddings", "missing"]),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, ["rope_type", "yarn"]),
        ({"dtype": "float8"}, ["dtype", "float8", "bfloat16"]),
        (
            {"model_type": "qwen3_5_moe_text"},
            ["config.json", "a mixture of experts", "no router", "layers.0.mlp.gate_proj.weight"],
        ),
        ({"num_experts": 8}, ["config.json", "num_experts", "8", "dense", "qwen3_5_text"]),
        ({"quantization_config": {"bits": 4}}, ["quantization_config"]),
        ({"model_type": "llama"}, ["model_type", "llama", "qwen3_5"]),
        ({"eos_token_id": "end"}, ["eos_token_id", "end"]),
        ({"eos_token_id": 379}, ["eos_token_id", "379", "tokenizer.json"]),
        ({"vocab_size": 300}, ["tokenizer.json", "300", "vocab_size"]),
        ({"vocab_size": 385}, ["embed_tokens.weight", "[384, 48]", "[385, 48]"]),
        ({"intermediate_size": 81}, ["gate_proj.weight", "[80, 48]", "[81, 48]"]),
    ],
)
def test_configurations_that_do_not_fit(
    directory: Path, changes: dict[str, Any], words: list[str]
) -> None:
    checkpoints.change_json(directory / "config.json", **changes)
    fails(directory, *words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"num_experts_per_tok": 11}, ["config.json", "num_experts_per_tok", "num_experts = 10"]),
        ({"num_experts": 0}, ["num_experts", "0", "at least 1"]),
        ({"num_experts": 9}, ["layers.0.mlp.gate.weight", "[10, 48]", "[9, 48]"]),
        ({"num_experts": 11}, ["9 tensors are missing", "layers.0.mlp.experts.10.gate_proj"]),
        ({"moe_intermediate_size": 41}, ["experts.0.gate_proj.weight", "[40, 48]", "[41, 48]"]),
        (
            {"shared_expert_intermediate_size": 57},
            ["shared_expert.gate_proj.weight", "[56, 48]", "[57, 48]"],
        ),
        ({"mlp_only_layers": [0]}, ["config.json", "mlp_only_layers", "[0]", "[]"]),
        ({"decoder_sparse_step": 2}, ["decoder_sparse_step", "2", "1"]),
        ({"norm_topk_prob": False}, ["norm_topk_prob", "false", "True"]),
        (
            {"model_type": "qwen3_5_text", "num_experts": None, "intermediate_size": 40},
            ["config.json", "dense", "layer 0", "a router", "layers.0.mlp.gate.weight"],
        ),
    ],
)
def test_mixtures_that_do_not_fit(mixture: Path, changes: dict[str, Any], words: list[str]) -> None:
    checkpoints.change_json(mixture / "config.json", **changes)
    fails(mixture, *words)


def test_keys_of_older_families_that_change_nothing(
    mixture: Path, saved: Callable[[str], tuple[Path, Any]]
) -> None:
    checkpoints.change_json(
        mixture / "config.json", mlp_only_layers=[], decoder_sparse_step=1, norm_topk_prob=True
    )
    logits_agree(load(mixture), saved("mixture")[1])


def test_a_text_part_of_the_other_kind(mixture: Path) -> None:
    checkpoints.as_released(mixture)
    checkpoints.change_json(mixture / "config.json", model_type="qwen3_5")
    fails(mixture, "config.json: text_config", "model_type", "qwen3_5_moe_text", "qwen3_5")


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "model.safetensors"])
def test_files_that_are_missing(directory: Path, file: str) -> None:
    (directory / file).unlink()
    fails(directory, file)


@pytest.mark.parametrize("file", ["config.json", "tokenizer.json", "generation_config.json"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_files_that_are_no_json(directory: Path, file: str, content: bytes) -> None:
    (directory / file).write_bytes(content)
    fails(directory, file)


def test_no_directory(tmp_path: Path) -> None:
    fails(tmp_path / "nowhere", "nowhere", "not a directory")


def test_no_device(directory: Path) -> None:
    fails(directory, "toaster", device="toaster")


# ------------------------------------------------------------------ tensors


def without(*names: str) -> Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]:
    return lambda tensors: {
        name: tensor for name, tensor in tensors.items() if not any(part in name for part in names)
    }


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        ("layers.1.linear_attn.dt_bias", ["layers.1.linear_attn.dt_bias is missing"]),
        ("mlp.up_proj", ["4 tensors are missing", "layers.0.mlp.up_proj.weight"]),
        ("embed_tokens", ["embed_tokens.weight is missing"]),
        ("lm_head", ["lm_head.weight", "tie_word_embeddings"]),
        ("model.", ["no text model", "model.language_model."]),
    ],
)
def test_tensors_that_are_missing(directory: Path, removed: str, words: list[str]) -> None:
    checkpoints.rewrite_tensors(directory, without(removed))
    fails(directory, *words)


def test_a_layer_of_the_other_kind(directory: Path) -> None:
    kinds = ["linear_attention"] * 4
    checkpoints.change_json(directory / "config.json", layer_types=kinds)
    fails(directory, "layer 3", "linear_attention", "self_attn")


def test_a_layer_too_many(directory: Path) -> None:
    kinds = ["linear_attention"] * 3
    checkpoints.change_json(directory / "config.json", layer_types=kinds, num_hidden_layers=3)
    fails(directory, "layers.3.", "no place", "more")


def test_a_tensor_of_the_wrong_type(directory: Path) -> None:
    def edit(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        name = "model.layers.0.mlp.up_proj.weight"
        return {**tensors, name: tensors[name].to(torch.float8_e4m3fn)}

    checkpoints.rewrite_tensors(directory, edit)
    fails(directory, "model.safetensors", "layers.0.mlp.up_proj.weight", "F8_E4M3", "BF16")


def test_both_forms_of_experts_load_to_the_same(mixture: Path) -> None:
    each = load(mixture).target.weights.layers
    checkpoints.rewrite_tensors(mixture, checkpoints.stacked)
    together = load(mixture).target.weights.layers
    for left, right in zip(each, together, strict=True):
        assert torch.equal(left.mlp.inputs, right.mlp.inputs)
        for name in ("gate_up", "down"):
            pairs = zip(getattr(left.mlp, name), getattr(right.mlp, name), strict=True)
            assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("removed", "words"),
    [
        (
            "layers.1.mlp.experts.7.down_proj",
            ["layers.1.mlp.experts.7.down_proj.weight is missing"],
        ),
        (".experts.9.", ["9 tensors are missing", "layers.0.mlp.experts.9.gate_proj.weight"]),
        (".experts.", ["6 tensors are missing", "layers.0.mlp.experts.gate_up_proj"]),
        ("layers.2.mlp.gate.", ["layers.2.mlp.gate.weight is missing"]),
        ("shared_expert_gate", ["layers.0.mlp.shared_expert_gate.weight"]),
    ],
)
def test_experts_that_are_missing(mixture: Path, removed: str, words: list[str]) -> None:
    checkpoints.rewrite_tensors(mixture, without(removed))
    fails(mixture, *words, "model.safetensors")


def test_stacked_experts_that_do_not_fit(mixture: Path) -> None:
    checkpoints.rewrite_tensors(mixture, checkpoints.stacked)
    name = "model.layers.1.mlp.experts.gate_up_proj"
    for shape in ([9, 80, 48], [10, 48, 80], [10, 81, 48]):
        checkpoints.rewrite_tensors(
            mixture, lambda tensors, shape=shape: {**tensors, name: torch.zeros(shape)}
        )
        fails(mixture, "model.safetensors", name, str(shape), "[10, 80, 48]")
    checkpoints.rewrite_tensors(mixture, without(name))
    fails(mixture, f"{name} is missing", "model.safetensors")


@pytest.mark.parametrize("layer", [0, 1])
def test_experts_in_two_forms(mixture: Path, layer: int) -> None:
    """In one layer, and in one file of shards that were made differently."""

    def edit(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        other = {name: t for name, t in checkpoints.stacked(tensors).items() if "experts." in name}
        drop = without("layers.1.mlp.experts.")(tensors) if layer else tensors
        return {**drop, **{name: t for name, t in other.items() if f"layers.{layer}." in name}}

    checkpoints.rewrite_tensors(mixture, edit)
    fails(
        mixture,
        "model.safetensors",
        "one form",
        "layers.0.mlp.experts.",
        f"layers.{layer}.mlp.experts.",
        "_proj in model.safetensors",
    )


def test_an_expert_in_a_shard_that_is_not_there(mixture: Path) -> None:
    checkpoints.as_shards(mixture)
    (mixture / "model-00002-of-00003.safetensors").unlink()
    fails(mixture, "model-00002-of-00003.safetensors", "missing", "index.json")


@pytest.mark.parametrize("size", [0, 5, 100, 20_000])
def test_a_truncated_file(directory: Path, size: int) -> None:
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:size])
    fails(directory, "model.safetensors", "truncated")


def test_shards_that_are_missing_or_disagree(directory: Path) -> None:
    checkpoints.as_shards(directory)
    index = directory / "model.safetensors.index.json"
    shard = "model-00002-of-00003.safetensors"
    weight_map = json.loads(index.read_text())["weight_map"]
    (directory / shard).rename(directory / "gone")
    fails(directory, shard, "missing", "tensors")
    (directory / "gone").rename(directory / shard)
    checkpoints.change_json(index, weight_map={**weight_map, "model.norm.weight": "../x"})
    fails(directory, "index.json", "model.norm.weight", "../x")
    checkpoints.change_json(index, weight_map={**weight_map, "model.extra": shard})
    fails(directory, shard, "model.extra")
    checkpoints.change_json(index, weight_map=None)
    fails(directory, "index.json", "weight_map")


# ------------------------------------------------------------------ tokenizer


def change_tokenizer(directory: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = directory / "tokenizer.json"
    document = json.loads(path.read_text("utf-8"))
    change(document)
    checkpoints.write_json(path, document)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d["model"].update(type="Unigram"), ["tokenizer.json", "Unigram", "BPE"]),
        (lambda d: d.update(pre_tokenizer=None), ["pre_tokenizer", "ByteLevel"]),
        (lambda d: d["model"].update(vocab=[]), ["model.vocab"]),
        (lambda d: d["model"]["vocab"].pop("a"), ["0x61"]),
        (lambda d: d["model"]["vocab"].update({"€": 350}), ["'€'", "350"]),
        (lambda d: d["model"]["vocab"].update({"zzz": 3}), ["model.vocab", "one id"]),
        (lambda d: d["added_tokens"][0].update(lstrip=True), ["added_tokens[0]", "lstrip"]),
        (lambda d: d["added_tokens"][0].update(id=None), ["added_tokens[0]", "id"]),
        (lambda d: d["model"]["merges"].append(["never", "heard"]), ["tokenizer.json"]),
    ],
)
def test_tokenizers_that_do_not_fit(
    directory: Path, change: Callable[[dict[str, Any]], None], words: list[str]
) -> None:
    change_tokenizer(directory, change)
    fails(directory, *words)


def test_no_end_token(directory: Path) -> None:
    def drop(document: dict[str, Any]) -> None:
        document["added_tokens"] = document["added_tokens"][3:]

    change_tokenizer(directory, drop)
    (directory / "generation_config.json").unlink()
    fails(directory, "no end token", "<|im_end|>")


def test_holes_are_forbidden(directory: Path) -> None:
    def move(document: dict[str, Any]) -> None:
        document["added_tokens"][-1]["id"] = 370

    change_tokenizer(directory, move)
    vocabulary = load(directory).vocabulary
    assert vocabulary.size == 371
    assert vocabulary.token_bytes[369] == b""
    assert vocabulary.classes[369] is TokenClass.FORBIDDEN
    assert vocabulary.framing["</think>"] == 370


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"temperature": -1}, ["generation_config.json", "temperature", "at least 0"]),
        ({"top_p": 0}, ["top_p"]),
        ({"top_k": 1.5}, ["top_k"]),
        ({"do_sample": "yes"}, ["do_sample"]),
    ],
)
def test_generation_configs_that_do_not_fit(
    directory: Path, changes: dict[str, Any], words: list[str]
) -> None:
    checkpoints.change_json(directory / "generation_config.json", **changes)
    fails(directory, *words)


def test_a_template_that_is_not_well_formed(directory: Path) -> None:
    (directory / "chat_template.jinja").write_text("a\n{% if %}", "utf-8")
    fails(directory, "chat template", "line 2")
