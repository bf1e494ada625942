import json
import math
import struct
import subprocess
import sys

import pytest
from tokenizers import Tokenizer

from infernix_demo_model.hooks import checkpoint_path, infernix_bundled_checkpoints

LIMIT_BYTES = 16_000_000


@pytest.fixture(scope="module")
def config():
    return json.loads((checkpoint_path() / "config.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def header():
    """The tensors' entries of the safetensors header: dtype, shape, data_offsets."""
    with (checkpoint_path() / "model.safetensors").open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        entries = json.loads(file.read(length))
    entries.pop("__metadata__", None)
    return entries


def expected_shapes(text):
    hidden, inner = text["hidden_size"], text["intermediate_size"]
    queries = text["num_attention_heads"] * text["head_dim"]
    keys = text["num_key_value_heads"] * text["head_dim"]
    value_heads = text["linear_num_value_heads"]
    values = value_heads * text["linear_value_head_dim"]
    mixed = 2 * text["linear_num_key_heads"] * text["linear_key_head_dim"] + values
    shapes = {"embed_tokens.weight": [text["vocab_size"], hidden], "norm.weight": [hidden]}
    for index, kind in enumerate(text["layer_types"]):
        layer = {
            "input_layernorm.weight": [hidden],
            "post_attention_layernorm.weight": [hidden],
            "mlp.gate_proj.weight": [inner, hidden],
            "mlp.up_proj.weight": [inner, hidden],
            "mlp.down_proj.weight": [hidden, inner],
        }
        attention = {
            "self_attn.q_proj.weight": [2 * queries, hidden],
            "self_attn.k_proj.weight": [keys, hidden],
            "self_attn.v_proj.weight": [keys, hidden],
            "self_attn.o_proj.weight": [hidden, queries],
            "self_attn.q_norm.weight": [text["head_dim"]],
            "self_attn.k_norm.weight": [text["head_dim"]],
        }
        if index == 0:
            drafting = {
                f"mtp.layers.0.{name}": shape for name, shape in (layer | attention).items()
            }
        if kind == "full_attention":
            layer |= attention
        else:
            layer |= {
                "linear_attn.in_proj_qkv.weight": [mixed, hidden],
                "linear_attn.in_proj_z.weight": [values, hidden],
                "linear_attn.in_proj_a.weight": [value_heads, hidden],
                "linear_attn.in_proj_b.weight": [value_heads, hidden],
                "linear_attn.conv1d.weight": [mixed, 1, text["linear_conv_kernel_dim"]],
                "linear_attn.A_log": [value_heads],
                "linear_attn.dt_bias": [value_heads],
                "linear_attn.norm.weight": [text["linear_value_head_dim"]],
                "linear_attn.out_proj.weight": [hidden, values],
            }
        shapes |= {f"layers.{index}.{name}": shape for name, shape in layer.items()}
    drafting |= {
        "mtp.fc.weight": [hidden, 2 * hidden],
        "mtp.pre_fc_norm_embedding.weight": [hidden],
        "mtp.pre_fc_norm_hidden.weight": [hidden],
        "mtp.norm.weight": [hidden],
    }
    assert text["mtp_num_hidden_layers"] == 1
    return {f"model.language_model.{name}": shape for name, shape in shapes.items()} | drafting


def test_tensors_match_the_config(config, header):
    shapes = {name: entry["shape"] for name, entry in header.items()}
    assert shapes == expected_shapes(config["text_config"])
    assert {entry["dtype"] for entry in header.values()} == {"BF16"}


def test_the_file_holds_exactly_the_tensors(header):
    end = max(entry["data_offsets"][1] for entry in header.values())
    assert end == sum(2 * math.prod(entry["shape"]) for entry in header.values())


def test_the_checkpoint_is_small():
    root = checkpoint_path()
    files = {
        path.relative_to(root).as_posix(): path.stat().st_size
        for path in root.rglob("*")
        if path.is_file()
    }
    assert set(files) == {
        "chat_template.jinja",
        "config.json",
        "dflash/config.json",
        "dflash/model.safetensors",
        "dflash2/config.json",
        "dflash2/model.safetensors",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert sum(files.values()) <= LIMIT_BYTES


def test_head_sizes_are_those_of_released_checkpoints(config):
    text = config["text_config"]
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert config["model_type"] == "qwen3_5"
    assert text["model_type"] == "qwen3_5_text"
    assert text["head_dim"] == 256
    assert text["linear_key_head_dim"] == text["linear_value_head_dim"] == 128
    rope = text["rope_parameters"]
    assert 2 * sum(rope["mrope_section"]) == text["head_dim"] * rope["partial_rotary_factor"]
    for index, kind in enumerate(text["layer_types"]):
        assert (kind == "full_attention") == ((index + 1) % text["full_attention_interval"] == 0)


def test_ids_agree_between_the_files(config):
    folder = checkpoint_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    generation = json.loads((folder / "generation_config.json").read_text(encoding="utf-8"))
    settings = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    ends = [tokenizer.token_to_id("<|im_end|>"), tokenizer.token_to_id("<|endoftext|>")]
    assert config["eos_token_id"] == config["text_config"]["eos_token_id"] == ends
    assert generation["eos_token_id"] == ends
    assert config["pad_token_id"] == generation["pad_token_id"] == ends[1]
    assert config["image_token_id"] == tokenizer.token_to_id("<|image_pad|>")
    assert tokenizer.get_vocab_size() < config["text_config"]["vocab_size"]
    for identity, entry in settings["added_tokens_decoder"].items():
        assert tokenizer.token_to_id(entry["content"]) == int(identity)


def test_the_hook_names_the_folder():
    (checkpoint,) = infernix_bundled_checkpoints()
    assert checkpoint.default
    assert (checkpoint.path() / "config.json").is_file()


def test_hooks_are_import_light():
    code = (
        "import sys, infernix_demo_model.hooks\n"
        "heavy = {'torch', 'transformers', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or None)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(filter(None, sys.path))},
    )
    assert result.returncode == 0, result.stderr
