"""DFlash2 drafters with random weights, for any target: for tests, for benchmarks, for plugin authors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from infernix_core.testing.checkpoints import (
    Initialiser,
    TensorSpec,
    as_dtype,
    constant,
    normal,
    write_checkpoint,
)
from infernix_dflash.config import default_feature_layers
from infernix_dflash.testing import drafter_config
from infernix_dflash.testing import initialiser as drafter_initialiser
from infernix_dflash2.config import parse_config
from infernix_dflash2.weights import expected_shapes


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
    causal: bool | None = False,
    taps: int = 2,
    group: int = 4,
    rank: int = 8,
    top_k: int = 16,
    output_multiplier: float | None = None,
    softcap: float | None = None,
    plain: bool = False,
    dtype: torch.dtype | str = torch.float32,
    seed: int = 0,
    changes: Mapping[str, Any] | None = None,
) -> Path:
    """Writes a directory that the backend ``dflash2`` takes for a target of these sizes.

    Tensors that DFlash drafters have too are those of ``infernix_dflash.testing.random_drafter`` at the same seed.

    Args:
        directory: Made if need be; it must hold no checkpoint yet.
        hidden_size: See ``infernix_dflash.testing.random_drafter``, as for all that is not named here.
        vocab_size: See there.
        target_layers: See there.
        feature_layers: See there.
        layers: See there.
        windows: See there.
        intermediate_size: See there.
        heads: See there.
        kv_heads: See there.
        head_dim: See there.
        block_size: See there.
        mask_token_id: See there.
        causal: See there.
        taps: Rows that a convolution joins.
        group: Channels of a convolution's group, a divisor of ``hidden_size``.
        rank: Of the selector.
        top_k: Candidates per place.
        output_multiplier: Of logits; ``None`` says nothing about it.
        softcap: Of logits; ``None`` says nothing about it.
        plain: Convolutions that change nothing, and a selector that adds nothing: then it drafts as DFlash does.
        dtype: See there.
        seed: See there.
        changes: See there.

    Returns:
        ``directory``.
    """
    config = drafter_config(dict(locals()))
    config["architectures"] = ["DFlash2DraftModel"]
    config["dflash_config"] |= {
        "block_size": block_size,
        "conv_kernel_size": taps,
        "conv_group_size": group,
        "selector_rank": rank,
        "selector_top_k": top_k,
    }
    further = {"output_multiplier": output_multiplier, "final_logit_softcapping": softcap}
    config["dflash_config"] |= {k: v for k, v in further.items() if v is not None}
    config |= changes or {}
    config = {key: value for key, value in config.items() if value is not None}
    count = len(feature_layers or default_feature_layers(len(config["layer_types"]), target_layers))
    shapes = expected_shapes(parse_config(config, "config.json"), count)
    return write_checkpoint(
        directory,
        config,
        {name: TensorSpec(shape, _initialiser(name, plain)) for name, shape in shapes.items()},
        seed=seed,
        dtype=as_dtype(dtype),
    )


def _initialiser(name: str, plain: bool) -> Initialiser:
    if name.endswith("base_kernel"):
        return _identity if plain else normal(0.5, mean=0.5)
    if name.endswith("kernel_projection.weight"):
        return constant(0.0) if plain else normal(0.1)
    if name.endswith("successor_codebook"):
        return constant(0.0) if plain else normal(0.5)
    return normal(0.5) if "selector" in name else drafter_initialiser(name)


def _identity(shape: tuple[int, ...], _: torch.Generator) -> torch.Tensor:
    """Kernels [2, taps, H] that pass each row on."""
    kernel = torch.zeros(shape)
    kernel[:, 0] = 1
    return kernel
