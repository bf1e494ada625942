"""``config.json`` of the Qwen3.5 family as a checked value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from attrs import frozen

from infernix_core.checkpoint_files import Keys
from infernix_core.errors import CheckpointError
from infernix_qwen3_5.kinds import DENSE_TYPES, MIXTURE_TYPES, MODEL_TYPES

LINEAR = "linear_attention"
FULL = "full_attention"

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@frozen
class MixtureConfig:
    """The mixture of experts that each layer of a ``qwen3_5_moe`` model has in place of a dense MLP.

    Attributes:
        experts: Without the shared one.
        chosen: Experts per token.
        intermediate_size: Of each expert.
    """

    experts: int
    chosen: int
    intermediate_size: int


@frozen
class ModelConfig:
    """The text model's sizes.

    Attributes:
        intermediate_size: Of the MLP that every token passes: the dense one, or a mixture's shared expert.
        layer_types: ``linear_attention`` (Gated DeltaNet) or ``full_attention`` per layer.
        key_heads: GDN query/key heads; value heads are a multiple of them.
        rotary_dim: Leading dimensions of each attention head that RoPE turns.
        tied: Whether ``lm_head`` is the embedding matrix.
        dtype: What the checkpoint says it was saved in.
        eos_ids: End tokens that the configuration names.
        mixture: ``None`` for a dense model.
        mtp_layers: Draft layers that the checkpoint says it has.
        mtp_embeddings: Whether they have embeddings of their own.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layer_types: tuple[str, ...]
    query_heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    rope_theta: float
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_width: int
    norm_eps: float
    context_length: int
    tied: bool
    dtype: torch.dtype
    eos_ids: tuple[int, ...]
    mixture: MixtureConfig | None = None
    mtp_layers: int = 0
    mtp_embeddings: bool = False

    @property
    def conv_channels(self) -> int:
        """Channels of the GDN convolution: queries, keys and values side by side."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


def token_ids(keys: Keys, key: str) -> tuple[int, ...]:
    """A key that holds one token id, a list of them, or nothing."""
    value = keys.document.get(key)
    if value is None:
        return ()
    ids = value if isinstance(value, list) else [value]
    if any(isinstance(item, bool) or not isinstance(item, int) or item < 0 for item in ids):
        raise keys.wrong(key, value, "a token id or a list of token ids")
    return tuple(ids)


def parse_config(document: Mapping[str, Any]) -> ModelConfig:
    """Reads ``config.json``, nested (``text_config``) or flat (a text-only save).

    Raises:
        CheckpointError: A key is missing or impossible, or the model is of a kind that is not supported.
    """
    top = Keys(document, "config.json")
    nested = "text_config" in document
    text = Keys(top.section("text_config"), "config.json: text_config") if nested else top
    is_mixture = _is_mixture(top, text)
    _refuse_unsupported(top, text)

    query_heads = text.integer("num_attention_heads")
    kv_heads = text.integer("num_key_value_heads", query_heads)
    if query_heads % kv_heads:
        raise text.wrong("num_key_value_heads", kv_heads, f"a divisor of {query_heads} heads")
    key_heads = text.integer("linear_num_key_heads", 16)
    value_heads = text.integer("linear_num_value_heads", 32)
    if value_heads % key_heads:
        raise text.wrong("linear_num_value_heads", value_heads, f"a multiple of {key_heads} heads")
    head_dim = text.integer("head_dim", 256)
    rotary_dim, theta = _rope(text, head_dim)
    return ModelConfig(
        vocab_size=text.integer("vocab_size"),
        hidden_size=text.integer("hidden_size"),
        intermediate_size=(
            text.integer("shared_expert_intermediate_size", 512)
            if is_mixture
            else text.integer("intermediate_size")
        ),
        layer_types=_layer_types(text),
        query_heads=query_heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        rotary_dim=rotary_dim,
        rope_theta=theta,
        key_heads=key_heads,
        value_heads=value_heads,
        key_dim=text.integer("linear_key_head_dim", 128),
        value_dim=text.integer("linear_value_head_dim", 128),
        conv_width=text.integer("linear_conv_kernel_dim", 4, minimum=2),
        norm_eps=text.number("rms_norm_eps", 1e-6),
        context_length=text.integer("max_position_embeddings"),
        tied=top.flag("tie_word_embeddings", False) or text.flag("tie_word_embeddings", False),
        dtype=_dtype(top, text),
        eos_ids=tuple(
            dict.fromkeys(token_ids(top, "eos_token_id") + token_ids(text, "eos_token_id"))
        ),
        mixture=_mixture(text) if is_mixture else None,
        mtp_layers=text.integer("mtp_num_hidden_layers", 0, minimum=0),
        mtp_embeddings=text.flag("mtp_use_dedicated_embeddings", False),
    )


def _is_mixture(top: Keys, text: Keys) -> bool:
    """Whether the layers have experts, as ``model_type`` says and no other key contradicts."""
    model_type = top.document.get("model_type")
    if model_type not in MODEL_TYPES:
        names = ", ".join(map(repr, MODEL_TYPES))
        raise top.wrong("model_type", model_type, f"one of {names}")
    own = MIXTURE_TYPES if model_type in MIXTURE_TYPES else DENSE_TYPES
    kind = text.document.get("model_type")
    if kind is not None and kind not in own:
        raise text.wrong("model_type", kind, f"{own[1]!r} for a model of type {model_type!r}")
    if own is DENSE_TYPES and text.document.get("num_experts"):
        raise text.wrong(
            "num_experts", text.document["num_experts"], f"none in a dense model ({model_type!r})"
        )
    return own is MIXTURE_TYPES


def _mixture(text: Keys) -> MixtureConfig:
    """The experts' sizes. Keys that would make some layers dense belong to older families; here all have experts."""
    expected: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("mlp_only_layers", ([],)),
        ("decoder_sparse_step", (1,)),
        ("norm_topk_prob", (True,)),
    )
    for key, accepted in expected:
        text.one_of(key, accepted)
    experts = text.integer("num_experts", 256)
    chosen = text.integer("num_experts_per_tok", 8)
    if chosen > experts:
        raise text.wrong("num_experts_per_tok", chosen, f"at most num_experts = {experts}")
    return MixtureConfig(experts, chosen, text.integer("moe_intermediate_size", 512))


def _refuse_unsupported(top: Keys, text: Keys) -> None:
    for keys in (top, text):
        if keys.has("quantization_config"):
            raise CheckpointError(
                f"{keys.where}: 'quantization_config' says that the weights are quantised; "
                "expected bfloat16, float16 or float32 weights"
            )
    expected: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("hidden_act", ("silu",)),
        ("attention_bias", (False,)),
        ("attn_output_gate", (True,)),
        ("output_gate_type", ("swish", "silu")),
    )
    for key, accepted in expected:
        text.one_of(key, accepted)


def _layer_types(text: Keys) -> tuple[str, ...]:
    count = text.integer("num_hidden_layers")
    types = text.document.get("layer_types")
    if types is None:
        interval = text.integer("full_attention_interval", 4)
        return tuple(LINEAR if (index + 1) % interval else FULL for index in range(count))
    if not isinstance(types, list) or any(kind not in (LINEAR, FULL) for kind in types):
        raise text.wrong("layer_types", types, f"a list of {LINEAR!r} and {FULL!r}")
    if len(types) != count:
        raise CheckpointError(
            f"{text.where}: 'layer_types' has {len(types)} entries; expected num_hidden_layers = {count}"
        )
    return tuple(types)


def _rope(text: Keys, head_dim: int) -> tuple[int, float]:
    """Rotary dimensions and base; older files keep them beside the other keys."""
    name = "rope_parameters" if text.has("rope_parameters") else "rope_scaling"
    rope = Keys(text.section(name), f"{text.where}: {name}")
    kind = rope.document.get("rope_type", rope.document.get("type", "default"))
    if kind not in ("default", "mrope", None):
        raise rope.wrong("rope_type", kind, "'default'")
    factor = rope if rope.has("partial_rotary_factor") else text
    base = rope if rope.has("rope_theta") else text
    rotary_dim = int(head_dim * factor.number("partial_rotary_factor", 0.25))
    if rotary_dim % 2 or not 0 < rotary_dim <= head_dim:
        raise factor.wrong(
            "partial_rotary_factor",
            factor.document.get("partial_rotary_factor"),
            f"a share of head_dim {head_dim} that gives an even number of dimensions",
        )
    return rotary_dim, base.number("rope_theta", 1e7)


def _dtype(top: Keys, text: Keys) -> torch.dtype:
    for keys in (text, top):
        for key in ("dtype", "torch_dtype"):
            value = keys.document.get(key)
            if value is None:
                continue
            if not isinstance(value, str) or value not in _DTYPES:
                raise keys.wrong(key, value, ", ".join(_DTYPES))
            return _DTYPES[value]
    return torch.bfloat16
