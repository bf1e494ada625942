"""Small checkpoints with a draft layer."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from infernix_qwen3_5.testing import random_checkpoint

MIXTURE = {"experts": 6, "chosen_experts": 2, "expert_size": 24, "shared_expert_size": 40}

#: What is easy to get wrong: KV groups, ties, kinds of feed-forward, a model that has no recurrence.
FORMS: dict[str, dict[str, Any]] = {
    "dense": {},
    "tied": {"tied": True, "hidden_size": 48, "heads": 6, "kv_heads": 2, "nested": True},
    "mixture": {**MIXTURE, "kv_heads": 1},
    "tied mixture": {**MIXTURE, "tied": True, "stacked_experts": False, "kv_heads": 4},
}


def made(directory: Path, form: str = "dense", **changes: Any) -> Path:
    return random_checkpoint(directory, **{"mtp": True, "layers": 4, **FORMS[form], **changes})


def change_config(directory: Path, **changes: Any) -> None:
    """Sets keys of a flat configuration; ``None`` removes one."""
    path = directory / "config.json"
    document = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in document.items() if v is not None}))


def rewrite(directory: Path, edit: Callable[[dict[str, Tensor]], dict[str, Tensor]]) -> None:
    path = directory / "model.safetensors"
    save_file(edit(load_file(path)), path, metadata={"format": "pt"})


def foresighted(directory: Path, **changes: Any) -> Path:
    """A model whose next token depends on the last one alone, with a draft layer that knows it.

    Layers add nothing to the residual stream, so a hidden is the final norm of an embedding; the draft layer takes
    the embedding through, and norms it likewise. Its drafts are what the model finds likeliest.
    """
    made(directory, "dense", **changes)

    def edit(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        for name, tensor in tensors.items():
            if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                tensor.zero_()
        size = tensors["mtp.fc.weight"].shape[0]
        tensors["mtp.fc.weight"].zero_()[:, :size].fill_diagonal_(1.0)
        tensors["mtp.pre_fc_norm_embedding.weight"].zero_()
        tensors["mtp.norm.weight"] = tensors["model.norm.weight"].clone()
        return tensors

    rewrite(directory, edit)
    return directory
