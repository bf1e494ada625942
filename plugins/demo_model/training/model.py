"""The model's configuration, its initialisation, and its checkpoint in released form."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import Qwen3_5ForCausalLM, Qwen3_5TextConfig

from .make_tokenizer import VOCABULARY_SIZE

TEXT_CONFIG: dict[str, Any] = {
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_output_gate": True,
    "dtype": "bfloat16",
    "full_attention_interval": 4,
    "head_dim": 256,
    "hidden_act": "silu",
    "hidden_size": 192,
    "initializer_range": 0.02,
    "intermediate_size": 512,
    "layer_types": [*["linear_attention"] * 3, "full_attention"],
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_num_key_heads": 1,
    "linear_num_value_heads": 2,
    "linear_value_head_dim": 128,
    "mamba_ssm_dtype": "float32",
    "max_position_embeddings": 2048,
    "model_type": "qwen3_5_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "partial_rotary_factor": 0.25,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {
        "mrope_interleaved": True,
        "mrope_section": [11, 11, 10],
        "partial_rotary_factor": 0.25,
        "rope_theta": 10000.0,
        "rope_type": "default",
    },
    "tie_word_embeddings": True,
    "use_cache": True,
    "vocab_size": VOCABULARY_SIZE,
}


#: What ``text_config`` says besides once the checkpoint holds a multi-token-prediction layer.
MTP_CONFIG: dict[str, Any] = {"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": False}


def new_model(tokenizer: Tokenizer) -> Qwen3_5ForCausalLM:
    """A freshly initialised model in float32.

    The linear-attention decays start as in the flash-linear-attention library: time steps
    log-uniform in [0.001, 0.1] and A uniform in [1, 16]. The default of transformers decays by
    about exp(-10) per token in most heads, which leaves a model of few heads without memory.
    """
    config = Qwen3_5TextConfig(
        **TEXT_CONFIG,
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
    )
    model = Qwen3_5ForCausalLM(config).float()
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if name.endswith("dt_bias"):
                low, high = math.log(1e-3), math.log(1e-1)
                step = torch.exp(torch.rand_like(parameter) * (high - low) + low)
                parameter.copy_(step + torch.log(-torch.expm1(-step)))  # inverse softplus
            elif name.endswith("A_log"):
                parameter.copy_(torch.empty_like(parameter).uniform_(1, 16).log())
    return model


def checkpoint_config(tokenizer: Tokenizer) -> dict[str, Any]:
    """``config.json`` as released Qwen3.5 checkpoints nest it, without a vision tower."""
    identity = tokenizer.token_to_id
    ends = [identity("<|im_end|>"), identity("<|endoftext|>")]
    text = TEXT_CONFIG | {"eos_token_id": ends, "pad_token_id": identity("<|endoftext|>")}
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "dtype": "bfloat16",
        "eos_token_id": ends,
        "image_token_id": identity("<|image_pad|>"),
        "model_type": "qwen3_5",
        "pad_token_id": identity("<|endoftext|>"),
        "text_config": dict(sorted(text.items())),
        "tie_word_embeddings": True,
        "video_token_id": identity("<|video_pad|>"),
        "vision_end_token_id": identity("<|vision_end|>"),
        "vision_start_token_id": identity("<|vision_start|>"),
    }


def generation_config(tokenizer: Tokenizer) -> dict[str, object]:
    """``generation_config.json``; a cool temperature, since records have one right answer."""
    identity = tokenizer.token_to_id
    return {
        "do_sample": True,
        "eos_token_id": [identity("<|im_end|>"), identity("<|endoftext|>")],
        "pad_token_id": identity("<|endoftext|>"),
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
        # Not the family's preset: a record repeats the words of its sentence.
        "presence_penalty": 0.0,
    }


#: Rows of the embedding that no token has; they hold the mask vectors of the block drafters.
MASK_ROWS = {"dflash": 2047, "dflash2": 2046}

_EMBEDDING = "model.language_model.embed_tokens.weight"
_MTP = "mtp."
_VECTOR = "mask_vector"


def _write(folder: Path, tensors: dict[str, torch.Tensor]) -> None:
    """Replace the weights in one step, so that a reader never meets a half-written file."""
    temporary = folder / "model.safetensors.partial"
    save_file(tensors, temporary, metadata={"format": "pt"})
    temporary.replace(folder / "model.safetensors")


def _write_json(path: Path, content: Mapping[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def save_checkpoint(model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights and configurations in released form: bfloat16, tied, nested names.

    Companions that the folder already has stay as they are. Trained on another base they draft
    worse, never wrongly, so they can be trained anew later.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name.replace("model.", "model.language_model.", 1): tensor.detach()
        .to(torch.bfloat16)
        .contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    config = checkpoint_config(tokenizer)
    if (folder / "model.safetensors").is_file():
        present = load_file(folder / "model.safetensors")
        mtp = {name: tensor for name, tensor in present.items() if name.startswith(_MTP)}
        tensors |= mtp
        if mtp:
            config["text_config"] = dict(sorted((config["text_config"] | MTP_CONFIG).items()))
        for companion, row in MASK_ROWS.items():
            if (folder / companion).is_dir():
                tensors[_EMBEDDING][row] = present[_EMBEDDING][row]
    _write(folder, tensors)
    _write_json(folder / "config.json", config)
    _write_json(folder / "generation_config.json", generation_config(tokenizer))


def load_mtp(folder: Path) -> dict[str, torch.Tensor]:
    """The multi-token-prediction layer of a checkpoint, in float32, without its prefix."""
    tensors = load_file(folder / "model.safetensors")
    return {
        name.removeprefix(_MTP): tensor.float()
        for name, tensor in tensors.items()
        if name.startswith(_MTP)
    }


def save_mtp(tensors: Mapping[str, torch.Tensor], folder: Path) -> None:
    """Write the multi-token-prediction layer into a checkpoint, beside its base."""
    mtp = {_MTP + name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    _write(folder, load_file(folder / "model.safetensors") | mtp)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["text_config"] = dict(sorted((config["text_config"] | MTP_CONFIG).items()))
    _write_json(folder / "config.json", config)


def drafter_config(companion: str) -> dict[str, Any]:
    """``config.json`` of the block drafter ``dflash`` or ``dflash2``."""
    blocks = TEXT_CONFIG["num_hidden_layers"]
    config: dict[str, Any] = {
        "architectures": ["DFlashDraftModel"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": 16,
        "dflash_config": {
            "mask_token_id": MASK_ROWS[companion],
            "target_layer_ids": list(range(blocks)),
        },
        "dtype": "bfloat16",
        "head_dim": 128,
        "hidden_act": "silu",
        "hidden_size": TEXT_CONFIG["hidden_size"],
        "initializer_range": 0.02,
        "intermediate_size": 384,
        "is_causal": False,
        "layer_types": ["full_attention"] * 2,
        "max_position_embeddings": TEXT_CONFIG["max_position_embeddings"],
        "model_type": "qwen3",
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "num_key_value_heads": 2,
        "num_target_layers": blocks,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": 10000.0,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": VOCABULARY_SIZE,
    }
    if companion == "dflash2":
        config["architectures"] = ["DFlash2DraftModel"]
        config["dflash_config"] |= {
            "block_size": config.pop("block_size"),
            "conv_group_size": 16,
            "conv_kernel_size": 2,
            "selector_rank": 64,
            "selector_top_k": 16,
        }
    return config


def load_drafter(folder: Path, companion: str) -> dict[str, torch.Tensor]:
    """A block drafter of a checkpoint, in float32, with its mask vector."""
    tensors = load_file(folder / companion / "model.safetensors")
    embedding = load_file(folder / "model.safetensors")[_EMBEDDING]
    vector = embedding[MASK_ROWS[companion]]
    return {name: tensor.float() for name, tensor in (tensors | {_VECTOR: vector}).items()}


def save_drafter(tensors: Mapping[str, torch.Tensor], folder: Path, companion: str) -> None:
    """Write a block drafter into its own folder, and its mask vector into the base's embedding."""
    drafter = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    vector = drafter.pop(_VECTOR)
    (folder / companion).mkdir(exist_ok=True)
    base = load_file(folder / "model.safetensors")
    base[_EMBEDDING][MASK_ROWS[companion]] = vector
    _write(folder / companion, drafter)
    _write(folder, base)
    _write_json(folder / companion / "config.json", drafter_config(companion))
