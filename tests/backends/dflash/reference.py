"""Block drafters by their definition: float64, one row at a time, over the whole history. Independent of the backends."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor


class Reference:
    """A drafter's directory beside the target's embedding and output matrix [rows, H]."""

    def __init__(self, directory: Path, embedding: Tensor, head: Tensor) -> None:
        self.config: dict[str, Any] = json.loads((directory / "config.json").read_text("utf-8"))
        self.inner: dict[str, Any] = self.config["dflash_config"]
        loaded = load_file(directory / "model.safetensors")
        self.tensors = {name: tensor.double() for name, tensor in loaded.items()}
        self.embedding, self.head = embedding.double(), head.double()

    def norm(self, x: Tensor, name: str) -> Tensor:
        scale = (x * x).mean(-1, keepdim=True) + self.config["rms_norm_eps"]
        return x / scale.sqrt() * self.tensors[name]

    def rope(self, head: Tensor, position: int) -> Tensor:
        """One head [D] at a position."""
        half = len(head) // 2
        turned = head.clone()
        for j in range(half):
            angle = position * self.config["rope_theta"] ** (-2 * j / len(head))
            a, b = float(head[j]), float(head[j + half])
            turned[j] = a * math.cos(angle) - b * math.sin(angle)
            turned[j + half] = b * math.cos(angle) + a * math.sin(angle)
        return turned

    def heads(self, x: Tensor, name: str, norm: str | None, position: int) -> list[Tensor]:
        """A projection of x [H], head by head, normed and turned where there is a norm."""
        dim = self.config["head_dim"]
        split = list((self.tensors[name] @ x).view(-1, dim))
        if norm is None:
            return split
        return [self.rope(self.norm(head, norm), position) for head in split]

    def causal(self) -> bool:
        if self.config.get("is_causal") is not None:
            return bool(self.config["is_causal"])
        return bool(self.inner.get("causal", False))

    def window(self, layer: int) -> float:
        sliding = self.config["layer_types"][layer] == "sliding_attention"
        return self.config["sliding_window"] if sliding else math.inf

    def convolved(self, rows: list[Tensor], base: Tensor, deltas: list[Tensor]) -> list[Tensor]:
        """``base`` [taps, H], ``deltas`` [taps, G] per row."""
        size = self.inner["conv_group_size"]
        out = []
        for i in range(len(rows)):
            total = torch.zeros_like(rows[i])
            for tap in range(len(base)):
                if i - tap >= 0:
                    kernel = base[tap] + deltas[i][tap].repeat_interleave(size)
                    total = total + kernel * rows[i - tap]
            out.append(total)
        return out

    def around(self, name: str, rows: list[Tensor], sublayer: Any) -> list[Tensor]:
        """The sublayer over rows, between its convolutions where the drafter has them."""
        base = self.tensors.get(f"{name}.base_kernel")
        if base is None:
            return list(sublayer(rows))
        taps = base.shape[1]
        projection = self.tensors[f"{name}.kernel_projection.weight"]
        deltas = [(projection @ x).view(2, taps, -1) for x in rows]
        inputs = self.convolved(rows, base[0], [delta[0] for delta in deltas])
        return self.convolved(sublayer(inputs), base[1], [delta[1] for delta in deltas])

    def hiddens(self, features: Tensor, anchor: int, drafts: int) -> Tensor:
        """[K, H] behind a context with these features [L, F], side by side in the drafter's order."""
        context = [
            self.norm(self.tensors["fc.weight"] @ f, "hidden_norm.weight")
            for f in features.double()
        ]
        start, scale = len(context), self.inner.get("input_embedding_scale", 1.0)
        mask = self.inner["mask_token_id"]
        x = [self.embedding[token] * scale for token in (anchor, *[mask] * drafts)]
        group = self.config["num_attention_heads"] // self.config["num_key_value_heads"]
        for layer in range(self.config["num_hidden_layers"]):
            prefix = f"layers.{layer}."
            own = f"{prefix}self_attn."

            def attention(rows: list[Tensor], own: str = own, layer: int = layer) -> list[Tensor]:
                cells = [*enumerate(context), *enumerate(rows, start)]
                keys = [
                    self.heads(c, f"{own}k_proj.weight", f"{own}k_norm.weight", t) for t, c in cells
                ]
                values = [self.heads(c, f"{own}v_proj.weight", None, t) for t, c in cells]
                out = []
                for position, row in enumerate(rows, start):
                    seen = [
                        t
                        for t in range(len(cells))
                        if abs(position - t) < self.window(layer)
                        and not (self.causal() and t > position)
                    ]
                    mixed = []
                    queries = self.heads(
                        row, f"{own}q_proj.weight", f"{own}q_norm.weight", position
                    )
                    for head, query in enumerate(queries):
                        scores = torch.stack([query @ keys[t][head // group] for t in seen])
                        weights = torch.softmax(scores / math.sqrt(len(query)), 0)
                        stack = torch.stack([values[t][head // group] for t in seen])
                        mixed.append(weights @ stack)
                    out.append(self.tensors[f"{own}o_proj.weight"] @ torch.cat(mixed))
                return out

            def inner(rows: list[Tensor], prefix: str = prefix) -> list[Tensor]:
                gate, up, down = (
                    self.tensors[f"{prefix}mlp.{kind}_proj.weight"]
                    for kind in ("gate", "up", "down")
                )
                return [down @ (torch.nn.functional.silu(gate @ r) * (up @ r)) for r in rows]

            normed = [self.norm(row, f"{prefix}input_layernorm.weight") for row in x]
            added = self.around(f"{prefix}attention_conv", normed, attention)
            x = [row + more for row, more in zip(x, added, strict=True)]
            normed = [self.norm(row, f"{prefix}post_attention_layernorm.weight") for row in x]
            added = self.around(f"{prefix}mlp_conv", normed, inner)
            x = [row + more for row, more in zip(x, added, strict=True)]
        return torch.stack([self.norm(row, "norm.weight") for row in x[1:]])

    def logits(self, features: Tensor, anchor: int, drafts: int) -> Tensor:
        """[K, rows]."""
        return self.hiddens(features, anchor, drafts) @ self.head.T
