"""Checkpoints of the Qwen3.5 family with random weights, in any size: for tests, for benchmarks, for plugin authors."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from infernix_core.testing.checkpoints import (
    Initialiser,
    TensorSpec,
    as_dtype,
    byte_level_tokenizer,
    fan_in,
    normal,
    uniform,
    write_checkpoint,
)
from infernix_qwen3_5.config import FULL, LINEAR, parse_config
from infernix_qwen3_5.shapes import expected_shapes, mtp_shapes
from infernix_qwen3_5.tokenizer import END, FRAMING

#: Control tokens: those that a decoder skips; the others are the family's framing.
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

#: Pieces of JSON and a few words, so that tokens of several bytes meet constraints.
WORDS = ('{"', '":', '",', ' "', '"}', "true", "false", "null", "the", " the", " answer", "user")

#: Arguments that are no integers; the least value of one, where it is not 1.
UNCOUNTED = ("directory", "layer_types", "stacked_experts", "tied", "nested", "mtp", "dtype")
LEAST = {"experts": 0, "padding_rows": 0, "conv_width": 2}

TEMPLATE = """\
{%- for message in messages -%}
    {{- '<|im_start|>' + message.role + '\\n' + (message.content | trim) + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{- '<|im_start|>assistant\\n<think>\\n' -}}
    {%- if enable_thinking is not defined or not enable_thinking -%}{{- '\\n</think>\\n\\n' -}}{%- endif -%}
{%- endif -%}
"""


def random_checkpoint(
    directory: Path | str,
    *,
    hidden_size: int = 64,
    layers: int = 4,
    layer_types: Sequence[str] | None = None,
    intermediate_size: int = 128,
    experts: int = 0,
    chosen_experts: int = 2,
    expert_size: int = 32,
    shared_expert_size: int = 32,
    stacked_experts: bool = True,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 32,
    key_heads: int = 2,
    value_heads: int = 4,
    key_dim: int = 16,
    value_dim: int = 16,
    conv_width: int = 4,
    vocab_size: int = 512,
    padding_rows: int = 7,
    context_length: int = 4096,
    tied: bool = False,
    nested: bool = False,
    mtp: bool = False,
    dtype: torch.dtype | str = torch.float32,
    shards: int = 1,
    seed: int = 0,
) -> Path:
    """Writes a checkpoint that this frontend and transformers load: weights, tokenizer, template, presets.

    No parameter is left at a value that would hide it, such as a norm's zero; logits differ clearly between tokens.
    The same arguments give the same files.

    Args:
        directory: Made if need be; it must hold no checkpoint yet.
        hidden_size: H.
        layers: Decoder layers; every fourth is full attention unless ``layer_types`` says otherwise.
        layer_types: ``linear_attention`` or ``full_attention`` per layer; takes the place of ``layers``.
        intermediate_size: Of the dense MLP.
        experts: 0 is a dense model, more a mixture of experts in every layer.
        chosen_experts: Experts per token.
        expert_size: Intermediate size of each expert.
        shared_expert_size: Of the expert that every token passes.
        stacked_experts: One tensor for a layer's experts, as released checkpoints have it, or one for each.
        heads: Query heads of full attention.
        kv_heads: Key and value heads of full attention.
        head_dim: Of full attention; a quarter of it is rotated, so a multiple of 8.
        key_heads: Query and key heads of Gated DeltaNet.
        value_heads: Value heads of Gated DeltaNet, a multiple of ``key_heads``.
        key_dim: Of Gated DeltaNet's heads.
        value_dim: See ``key_dim``.
        conv_width: Of Gated DeltaNet's convolution.
        vocab_size: Rows of the embedding. All but ``padding_rows`` are tokens, 294 at least: bytes, words and
            control tokens.
        padding_rows: Rows without a token.
        context_length: ``max_position_embeddings``.
        tied: Whether the output matrix is the embedding.
        nested: The form of released checkpoints, with a ``text_config``, or that of a text-only save.
        mtp: Whether there is an MTP draft layer. It changes no other tensor.
        dtype: bfloat16, float16 or float32; a name does as well.
        shards: Weight files.
        seed: Other seeds give other weights.

    Returns:
        ``directory``.

    Raises:
        FileExistsError: The directory holds a checkpoint.
        ImportError: tokenizers is not installed.
        ValueError: An argument is impossible or contradicts another one; names it. Nothing is written then.
    """
    _check(dict(locals()))
    types = list(layer_types or (FULL if index % 4 == 3 else LINEAR for index in range(layers)))
    family = "qwen3_5_moe" if experts else "qwen3_5"
    tokenizer = _tokenizer(vocab_size, padding_rows)
    dtype = as_dtype(dtype)
    dtype_name = str(dtype).removeprefix("torch.")
    text: dict[str, Any] = {
        "model_type": f"{family}_text",
        "dtype": dtype_name,
        "vocab_size": vocab_size,
        "hidden_size": hidden_size,
        "num_hidden_layers": len(types),
        "layer_types": types,
        "hidden_act": "silu",
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
        "linear_num_key_heads": key_heads,
        "linear_num_value_heads": value_heads,
        "linear_key_head_dim": key_dim,
        "linear_value_head_dim": value_dim,
        "linear_conv_kernel_dim": conv_width,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": context_length,
        "rope_parameters": _rope(head_dim),
        "eos_token_id": tokenizer.token_to_id("<|im_end|>"),
        "tie_word_embeddings": tied,
    }
    if experts:
        text["num_experts"] = experts
        text["num_experts_per_tok"] = chosen_experts
        text["moe_intermediate_size"] = expert_size
        text["shared_expert_intermediate_size"] = shared_expert_size
    else:
        text["intermediate_size"] = intermediate_size
    if mtp:
        text["mtp_num_hidden_layers"] = 1
        text["mtp_use_dedicated_embeddings"] = False
    class_prefix = "Qwen3_5Moe" if experts else "Qwen3_5"
    config = {"architectures": [f"{class_prefix}ForCausalLM"], **text}
    prefix = "model."
    if nested:
        config = {
            "architectures": [f"{class_prefix}ForConditionalGeneration"],
            "model_type": family,
            "text_config": text,
            "tie_word_embeddings": tied,
        }
        prefix = "model.language_model."
    parsed = parse_config(config)
    shapes = expected_shapes(parsed, prefix, "lm_head.weight", stacked=stacked_experts)
    if mtp:
        shapes.update(mtp_shapes(parsed, "mtp.", stacked=stacked_experts))
    return write_checkpoint(
        directory,
        config,
        {name: TensorSpec(shape, _initialiser(name)) for name, shape in shapes.items()},
        tokenizer=tokenizer,
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
        },
        files={
            "chat_template.jinja": TEMPLATE,
            "generation_config.json": {
                "do_sample": True,
                "eos_token_id": [tokenizer.token_to_id(text) for text in END],
            },
        },
        seed=seed,
        dtype=dtype,
        shards=shards,
    )


def _check(given: dict[str, Any]) -> None:
    """Refuses arguments of :func:`random_checkpoint` that no model can have, by the names that they have there."""

    def wrong(name: str, expected: str) -> ValueError:
        return ValueError(f"{name} is {given[name]!r}; expected {expected}")

    for name, value in given.items():
        if name in UNCOUNTED:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise wrong(name, "an integer")
        if name != "seed" and value < (least := LEAST.get(name, 1)):
            raise wrong(name, f"at least {least}")
    if given["heads"] % given["kv_heads"]:
        raise wrong("kv_heads", f"a divisor of heads = {given['heads']}")
    if given["value_heads"] % given["key_heads"]:
        raise wrong("value_heads", f"a multiple of key_heads = {given['key_heads']}")
    if given["head_dim"] % 8:
        raise wrong("head_dim", "a multiple of 8")
    if given["experts"] and given["chosen_experts"] > given["experts"]:
        raise wrong("chosen_experts", f"at most experts = {given['experts']}")
    kinds = given["layer_types"]
    if kinds is not None and (isinstance(kinds, str) or not {*kinds} <= {LINEAR, FULL}):
        raise wrong("layer_types", f"a list of {LINEAR!r} and {FULL!r}")
    if as_dtype(given["dtype"]) not in (torch.bfloat16, torch.float16, torch.float32):
        raise wrong("dtype", "bfloat16, float16 or float32")


def _tokenizer(vocab_size: int, padding_rows: int) -> Any:
    """One of all rows but the padding, the control tokens among them."""
    parts: dict[str, Any] = {"ordinary": FRAMING, "words": WORDS}
    least = byte_level_tokenizer(SPECIAL, **parts).get_vocab_size()
    if vocab_size < least + padding_rows:
        raise ValueError(
            f"vocab_size is {vocab_size}; expected at least {least + padding_rows}: {least} tokens and "
            f"padding_rows = {padding_rows}"
        )
    size = vocab_size - padding_rows - len(SPECIAL) - len(FRAMING)
    return byte_level_tokenizer(SPECIAL, size=size, **parts)


def _rope(head_dim: int) -> dict[str, Any]:
    """A quarter of each head is rotated; sections are those of three equal position streams."""
    pairs = head_dim // 8
    rest = pairs // 3
    return {
        "rope_type": "default",
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.25,
        "mrope_interleaved": True,
        "mrope_section": [pairs - 2 * rest, rest, rest],
    }


def _initialiser(name: str) -> Initialiser:
    """Values by the tensor's kind: matrices keep the size of what they multiply, and outputs halve it."""
    if name.endswith("A_log"):
        return uniform(-2.0, 1.0)
    if name.endswith("dt_bias"):
        return uniform(-2.0, 0.5)
    if name.endswith("conv1d.weight"):
        return normal(0.5)
    if name.endswith("linear_attn.norm.weight"):
        return normal(0.3, mean=1.0)
    if name.endswith(("norm.weight", "norm_embedding.weight", "norm_hidden.weight")):
        return normal(0.3)
    outputs = ("o_proj.weight", "out_proj.weight", "down_proj.weight", "down_proj")
    return fan_in(0.5 if name.endswith(outputs) else 1.0)
