"""Which tensors a checkpoint of the family has, by name and shape."""

from __future__ import annotations

from infernix_qwen3_5.config import FULL, MixtureConfig, ModelConfig


def attention_shapes(config: ModelConfig, prefix: str) -> dict[str, tuple[int, ...]]:
    """Tensors of an attention mixer below ``prefix``."""
    size, dim = config.hidden_size, config.head_dim
    return {
        f"{prefix}q_proj.weight": (2 * config.query_heads * dim, size),
        f"{prefix}k_proj.weight": (config.kv_heads * dim, size),
        f"{prefix}v_proj.weight": (config.kv_heads * dim, size),
        f"{prefix}o_proj.weight": (size, config.query_heads * dim),
        f"{prefix}q_norm.weight": (dim,),
        f"{prefix}k_norm.weight": (dim,),
    }


def delta_shapes(config: ModelConfig, prefix: str) -> dict[str, tuple[int, ...]]:
    """Tensors of a Gated DeltaNet mixer below ``prefix``."""
    size, heads = config.hidden_size, config.value_heads
    return {
        f"{prefix}in_proj_qkv.weight": (config.conv_channels, size),
        f"{prefix}in_proj_z.weight": (heads * config.value_dim, size),
        f"{prefix}in_proj_b.weight": (heads, size),
        f"{prefix}in_proj_a.weight": (heads, size),
        f"{prefix}conv1d.weight": (config.conv_channels, 1, config.conv_width),
        f"{prefix}A_log": (heads,),
        f"{prefix}dt_bias": (heads,),
        f"{prefix}norm.weight": (config.value_dim,),
        f"{prefix}out_proj.weight": (size, heads * config.value_dim),
    }


def mlp_shapes(size: int, inner: int, prefix: str) -> dict[str, tuple[int, ...]]:
    """Tensors of a dense MLP of one width below ``prefix``."""
    return {
        f"{prefix}gate_proj.weight": (inner, size),
        f"{prefix}up_proj.weight": (inner, size),
        f"{prefix}down_proj.weight": (size, inner),
    }


def mixture_shapes(
    config: ModelConfig, mixture: MixtureConfig, prefix: str, stacked: bool
) -> dict[str, tuple[int, ...]]:
    """Tensors of a mixture of experts below ``prefix``; see :func:`expected_shapes`."""
    size, inner, count = config.hidden_size, mixture.intermediate_size, mixture.experts
    shapes: dict[str, tuple[int, ...]] = {
        f"{prefix}gate.weight": (count, size),
        f"{prefix}shared_expert_gate.weight": (1, size),
        **mlp_shapes(size, config.intermediate_size, f"{prefix}shared_expert."),
    }
    if stacked:
        shapes[f"{prefix}experts.gate_up_proj"] = (count, 2 * inner, size)
        shapes[f"{prefix}experts.down_proj"] = (count, size, inner)
    else:
        for expert in range(count):
            shapes.update(mlp_shapes(size, inner, f"{prefix}experts.{expert}."))
    return shapes


def layer_shapes(
    config: ModelConfig, kind: str, prefix: str, stacked: bool = True
) -> dict[str, tuple[int, ...]]:
    """Tensors of a decoder layer below ``prefix``; see :func:`expected_shapes`."""
    size = config.hidden_size
    mixer = (
        attention_shapes(config, f"{prefix}self_attn.")
        if kind == FULL
        else delta_shapes(config, f"{prefix}linear_attn.")
    )
    mlp = (
        mlp_shapes(size, config.intermediate_size, f"{prefix}mlp.")
        if config.mixture is None
        else mixture_shapes(config, config.mixture, f"{prefix}mlp.", stacked)
    )
    return {
        f"{prefix}input_layernorm.weight": (size,),
        f"{prefix}post_attention_layernorm.weight": (size,),
        **mlp,
        **mixer,
    }


def expected_shapes(
    config: ModelConfig, prefix: str, head: str, *, stacked: bool = True
) -> dict[str, tuple[int, ...]]:
    """Every tensor of the text model.

    Args:
        config: Sizes.
        prefix: Of all names but the head's.
        head: The output matrix's name; it has none when it is tied.
        stacked: Whether a mixture's experts lie in one tensor per layer, or each in tensors of its own.
    """
    rows = (config.vocab_size, config.hidden_size)
    shapes = {
        f"{prefix}embed_tokens.weight": rows,
        f"{prefix}norm.weight": (config.hidden_size,),
    }
    if not config.tied:
        shapes[head] = rows
    for index, kind in enumerate(config.layer_types):
        shapes.update(layer_shapes(config, kind, f"{prefix}layers.{index}.", stacked))
    return shapes


def mtp_shapes(
    config: ModelConfig, prefix: str, *, stacked: bool = True
) -> dict[str, tuple[int, ...]]:
    """Every tensor of the draft layer below ``prefix``; embedding and output matrix are the model's.

    Args:
        config: Sizes.
        prefix: Of all names.
        stacked: See :func:`expected_shapes`.
    """
    size = config.hidden_size
    return {
        f"{prefix}fc.weight": (size, 2 * size),
        f"{prefix}pre_fc_norm_embedding.weight": (size,),
        f"{prefix}pre_fc_norm_hidden.weight": (size,),
        f"{prefix}norm.weight": (size,),
        **layer_shapes(config, FULL, f"{prefix}layers.0.", stacked),
    }
