"""The draft layer a second time: its equations in float64 over a whole sequence, from a checkpoint's tensors by name.

Nothing here is shared with the frontend, and nothing is kept between calls.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor


class Plain:
    """A checkpoint's draft layer; dense or a mixture, tied or not."""

    def __init__(self, directory: Path) -> None:
        document = json.loads((directory / "config.json").read_text())
        self.c: dict[str, Any] = document.get("text_config", document)
        self.t: dict[str, Tensor] = {}
        for file in directory.glob("*.safetensors"):
            self.t.update({name: value.double() for name, value in load_file(file).items()})
        (self.embedding,) = (v for n, v in self.t.items() if n.endswith("embed_tokens.weight"))
        self.head = self.t.get("lm_head.weight", self.embedding)

    def norm(self, x: Tensor, name: str) -> Tensor:
        return (
            x / (x.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * (1 + self.t[f"mtp.{name}.weight"])
        )

    def times(self, x: Tensor, name: str) -> Tensor:
        return x @ self.t[f"mtp.{name}.weight"].T

    def turned(self, x: Tensor) -> Tensor:
        """x [T, heads, D]: the pair (j, j + r/2) of the first r dimensions by the angle t * theta^(-2j/r)."""
        rope = self.c["rope_parameters"]
        r = int(self.c["head_dim"] * rope["partial_rotary_factor"])
        result = x.clone()
        for j in range(r // 2):
            angle = torch.arange(len(x)).double() * rope["rope_theta"] ** (-2 * j / r)
            cos, sin = angle.cos()[:, None], angle.sin()[:, None]
            a, b = x[..., j], x[..., j + r // 2]
            result[..., j], result[..., j + r // 2] = a * cos - b * sin, b * cos + a * sin
        return result

    def attention(self, x: Tensor) -> Tensor:
        heads, groups, d = (
            self.c[k] for k in ("num_attention_heads", "num_key_value_heads", "head_dim")
        )
        count, at = len(x), "layers.0.self_attn"
        both = self.times(x, f"{at}.q_proj").view(count, heads, 2 * d)
        query, gate = both[..., :d], both[..., d:]
        query = self.turned(self.norm(query, f"{at}.q_norm"))
        key = self.times(x, f"{at}.k_proj").view(count, groups, d)
        key = self.turned(self.norm(key, f"{at}.k_norm"))
        value = self.times(x, f"{at}.v_proj").view(count, groups, d)
        future = torch.ones(count, count, dtype=torch.bool).triu(1)
        mixed = []
        for h in range(heads):
            g = h // (heads // groups)
            scores = query[:, h] @ key[:, g].T / math.sqrt(d)
            mixed.append(scores.masked_fill(future, -math.inf).softmax(-1) @ value[:, g])
        opened = torch.stack(mixed, 1) * gate.sigmoid()
        return self.times(opened.reshape(count, heads * d), f"{at}.o_proj")

    def dense(self, x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        opened = x @ gate.T
        return (opened * opened.sigmoid() * (x @ up.T)) @ down.T

    def mlp(self, x: Tensor) -> Tensor:
        at = "mtp.layers.0.mlp."
        names = ("gate_proj", "up_proj", "down_proj")
        if not self.c.get("num_experts"):
            return self.dense(x, *(self.t[f"{at}{name}.weight"] for name in names))
        shared = self.dense(x, *(self.t[f"{at}shared_expert.{name}.weight"] for name in names))
        result = (x @ self.t[f"{at}shared_expert_gate.weight"].T).sigmoid() * shared
        shares = (x @ self.t[f"{at}gate.weight"].T).softmax(-1)
        for row, of in enumerate(shares):
            chosen = sorted(range(len(of)), key=lambda e: -float(of[e]))[
                : self.c["num_experts_per_tok"]
            ]
            whole = sum(of[e] for e in chosen)
            for e in chosen:
                result[row] += of[e] / whole * self.dense(x[row], *self.expert(e))
        return result

    def expert(self, e: int) -> tuple[Tensor, Tensor, Tensor]:
        at = "mtp.layers.0.mlp.experts."
        if f"{at}gate_up_proj" in self.t:
            gate, up = self.t[f"{at}gate_up_proj"][e].chunk(2)
            return gate, up, self.t[f"{at}down_proj"][e]
        names = ("gate_proj", "up_proj", "down_proj")
        gate, up, down = (self.t[f"{at}{e}.{name}.weight"] for name in names)
        return gate, up, down

    def outputs(self, tokens: Sequence[int], hidden: Tensor) -> Tensor:
        """Of the cells 0 … T-1: tokens x_1 … x_T, hidden [T, H] of the positions 0 … T-1; gives [T, H]."""
        e = self.norm(self.embedding[list(tokens)], "pre_fc_norm_embedding")
        h = self.norm(hidden.double(), "pre_fc_norm_hidden")
        u = self.times(torch.cat((e, h), -1), "fc")
        u = u + self.attention(self.norm(u, "layers.0.input_layernorm"))
        u = u + self.mlp(self.norm(u, "layers.0.post_attention_layernorm"))
        return self.norm(u, "norm")

    def logits(self, output: Tensor) -> Tensor:
        return output @ self.head.T

    def drafts(
        self, history: Sequence[int], hidden: Tensor, count: int, allowed: Sequence[int]
    ) -> tuple[list[int], list[float]]:
        """Drafts behind a history, given the target's hidden [L, H] of all of it but the last token; with the gap
        between the best and the second of each.
        """
        tokens, hidden, found, gaps = list(history[1:]), hidden.double(), [], []
        for _ in range(count):
            last = self.outputs(tokens, hidden)[-1]
            scores = self.logits(last)[list(allowed)]
            best = scores.topk(2)
            found.append(allowed[int(best.indices[0])])
            gaps.append(float(best.values[0] - best.values[1]))
            tokens.append(found[-1])
            hidden = torch.cat((hidden, last[None]))
        return found, gaps
