"""Drafters with random weights, for any target: for tests, for benchmarks, for plugin authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from infernix_core.testing.checkpoints import (
    Initialiser,
    TensorSpec,
    as_dtype,
    fan_in,
    normal,
    write_checkpoint,
)
from infernix_dflash.config import FULL, SLIDING, default_feature_layers, parse_config
from infernix_dflash.weights import expected_shapes


def random_drafter(
    directory: Path | str,
    *,
    hidden_size: int,
    vocab_size: int,
    target_layers: int,
    feature_layers: Sequence[int] | None = None,
    layers: int = 2,
    windows: Sequence[int | None] | None = None,
    intermediate_size: int = 32,
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 8,
    block_size: int = 16,
    mask_token_id: int | None = None,
    causal: bool | None = None,
    dtype: torch.dtype | str = torch.float32,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a directory that the backend ``dflash`` takes for a target of these sizes.

    No parameter is left at a value that would hide it. The same arguments give the same files.

    Args:
        directory: Made if need be; it must hold no checkpoint yet.
        hidden_size: The target's.
        vocab_size: Rows of the target's output matrix.
        target_layers: Decoder blocks of the target.
        feature_layers: The blocks whose features are read; ``None`` leaves it to the rule for files without a list.
        layers: Draft layers.
        windows: W per draft layer, ``None`` for full attention; all sliding ones alike. Takes the place of ``layers``.
        intermediate_size: Of the MLP.
        heads: Query heads.
        kv_heads: Key and value heads.
        head_dim: D, an even number.
        block_size: An anchor and masks.
        mask_token_id: ``None`` is the embedding's last row.
        causal: ``None`` says nothing about it.
        dtype: Of the weights; a name does as well.
        seed: Other seeds give other weights.
        changes: Further keys of ``config.json``, or other values; ``None`` as a value takes a key out.

    Returns:
        ``directory``.
    """
    config = drafter_config(dict(locals()))
    config |= {"architectures": ["DFlashDraftModel"], "block_size": block_size, **(changes or {})}
    config = {key: value for key, value in config.items() if value is not None}
    count = len(feature_layers or default_feature_layers(len(config["layer_types"]), target_layers))
    shapes = expected_shapes(parse_config(config, "config.json"), count)
    return write_checkpoint(
        directory,
        config,
        {name: TensorSpec(shape, initialiser(name)) for name, shape in shapes.items()},
        seed=seed,
        dtype=as_dtype(dtype),
    )


def drafter_config(given: Mapping[str, Any]) -> dict[str, Any]:
    """``config.json`` from the arguments of :func:`random_drafter`, but for what tells its kind."""
    windows = given["windows"] or (None,) * given["layers"]
    mask = given["mask_token_id"]
    inner: dict[str, Any] = {
        "mask_token_id": given["vocab_size"] - 1 if mask is None else mask,
    }
    if given["feature_layers"] is not None:
        inner["target_layer_ids"] = list(given["feature_layers"])
    config: dict[str, Any] = {
        "model_type": "qwen3",
        "dtype": str(as_dtype(given["dtype"])).removeprefix("torch."),
        "vocab_size": given["vocab_size"],
        "hidden_size": given["hidden_size"],
        "intermediate_size": given["intermediate_size"],
        "num_hidden_layers": len(windows),
        "num_attention_heads": given["heads"],
        "num_key_value_heads": given["kv_heads"],
        "head_dim": given["head_dim"],
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "max_position_embeddings": 4096,
        "layer_types": [FULL if window is None else SLIDING for window in windows],
        "num_target_layers": given["target_layers"],
        "dflash_config": inner,
    }
    sizes = {window for window in windows if window is not None}
    if sizes:
        (config["sliding_window"],) = sizes
        config["use_sliding_window"] = True
    if given["causal"] is not None:
        config["is_causal"] = given["causal"]
    return config


def initialiser(name: str) -> Initialiser:
    """Values by the tensor's kind: matrices keep the size of what they multiply, and outputs halve it. Attention is
    sharp, since rows of masks differ by nothing but their positions.
    """
    if name.endswith(("q_norm.weight", "k_norm.weight")):
        return normal(0.5, mean=2.0)
    if name.endswith("norm.weight"):
        return normal(0.3, mean=1.0)
    if name.endswith("o_proj.weight"):
        return fan_in(2.0)
    return fan_in(0.5 if name.endswith("down_proj.weight") else 1.0)
