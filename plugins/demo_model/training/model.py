"""The model's configuration, its initialisation, and its checkpoint in released form."""

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
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


def checkpoint_config(tokenizer: Tokenizer) -> dict[str, object]:
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


def save_checkpoint(model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, folder: Path) -> None:
    """Write weights and configurations in released form: bfloat16, tied, nested names.

    The weights are replaced in one step, so a reader never meets a half-written file.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {
        name.replace("model.", "model.language_model.", 1): tensor.detach()
        .to(torch.bfloat16)
        .contiguous()
        for name, tensor in model.state_dict().items()
        if name != "lm_head.weight"
    }
    temporary = folder / "model.safetensors.partial"
    save_file(tensors, temporary, metadata={"format": "pt"})
    temporary.replace(folder / "model.safetensors")
    for name, content in (
        ("config.json", checkpoint_config(tokenizer)),
        ("generation_config.json", generation_config(tokenizer)),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
