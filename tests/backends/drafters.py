"""Drafters of the tiny model in ``law``, whose head's bias they see as the model itself does."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from infernix_dflash import testing as dflash
from infernix_dflash2 import testing as dflash2
from tests.backends.law import HIDDEN, MASK_ROW, ROWS

MAKE = {"dflash": dflash.random_drafter, "dflash2": dflash2.random_drafter}


def tiny_drafter(name: str, directory: Path) -> None:
    """Random weights that hide nothing, and leave the constant dimension of the embeddings nearly constant."""
    MAKE[name](
        directory,
        hidden_size=HIDDEN,
        vocab_size=ROWS,
        target_layers=2,
        feature_layers=(0, 1),
        block_size=16,
        mask_token_id=MASK_ROW,
    )
    file = directory / "model.safetensors"
    tensors = load_file(file)
    for key, value in tensors.items():
        if key.endswith(("o_proj.weight", "down_proj.weight")):
            value *= 0.5
            value[0] *= 0.1
    tensors["norm.weight"][0] = 1.0
    save_file(tensors, file, metadata={"format": "pt"})
    assert all(torch.isfinite(value).all() for value in tensors.values())
