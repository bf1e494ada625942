"""The mathematics of norms, rotary positions, attention and the MLP, as functions over tensors.

Formulas: Qwen3's decoder layer, that is RMSNorm (Zhang and Sennrich 2019) with its plain weight, also per query and
key head; RoPE (Su et al. 2021) over whole heads in its rotate-half layout; grouped-query attention (Ainslie et al.
2023); SwiGLU (Shazeer 2020). Norms, rotation and softmax are computed in float32.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

#: Positions by which the rotary tables grow.
ROTARY_STEP = 1024


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``x / sqrt(mean(x²) + eps) * weight`` over the last dimension, in the dtype of x.

    Args:
        x: [..., D].
        weight: float32 [D], or one per head [heads, D].
        eps: Added to the mean square.
    """
    return _normed(x, weight, eps).to(x.dtype)


def _normed(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    return wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight


class Rotary:
    """Cosines and sines of absolute positions, made as far as they are needed.

    Args:
        dim: D.
        theta: Base: pair j turns by ``position * theta^(-2j / D)``.
        device: Where the tables lie.
    """

    def __init__(self, dim: int, theta: float, device: torch.device) -> None:
        self.device = device
        # In float64 on the host, so that angles of late positions keep their digits.
        self._frequencies = theta ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        self._tables = torch.empty((2, 0, 1, dim // 2), dtype=torch.float32, device=device)

    def upto(self, end: int) -> Tensor:
        """float32 [2, P, 1, D / 2] for at least ``end`` positions: cosines, sines."""
        if end > self._tables.shape[1]:
            # Whole steps: a position's numbers then do not depend on where the table ends.
            size = -(-end // ROTARY_STEP) * ROTARY_STEP
            angles = torch.arange(size, dtype=torch.float64).unsqueeze(1) * self._frequencies
            tables = torch.stack((angles.cos(), angles.sin())).float().unsqueeze(2)
            self._tables = tables.to(self.device)
        return self._tables


def norm_and_rotate(x: Tensor, weight: Tensor, eps: float, tables: Tensor) -> Tensor:
    """Heads normed, then turned by their positions; pairs are (j, j + D / 2).

    Args:
        x: [..., heads, D].
        weight: float32 [heads, D] or broadcast to it.
        eps: Of the norm.
        tables: float32 [2, ..., 1, D / 2]: cosines and sines.
    """
    first, second = _normed(x, weight, eps).chunk(2, dim=-1)
    cos, sin = tables
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


def attend(query: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None) -> Tensor:
    """Grouped-query attention; query head h reads KV head ``h // (Nq / Nkv)``, the scale is ``1 / sqrt(D)``.

    Args:
        query: [B, Nq, D].
        keys: [S, Nkv, D].
        values: [S, Nkv, D].
        hidden: bool [B, S], what a row does not see; ``None``: every row sees all.

    Returns:
        [B, Nq * D].
    """
    width, query_heads, dim = query.shape
    length, kv_heads, _ = keys.shape
    group = query_heads // kv_heads
    # Rows of one KV head below each other: (row, head of its group).
    rows = query.reshape(width, kv_heads, group, dim).transpose(0, 1).reshape(kv_heads, -1, dim)
    scores = (rows @ keys.permute(1, 2, 0)).float() * dim**-0.5
    if hidden is not None:
        scores = scores.view(kv_heads, width, group, length)
        scores = scores.masked_fill(hidden.unsqueeze(1), float("-inf")).view(kv_heads, -1, length)
    weights = torch.softmax(scores, dim=-1).to(values.dtype)
    mixed = (weights @ values.transpose(0, 1)).view(kv_heads, width, group, dim)
    return mixed.transpose(0, 1).reshape(width, query_heads * dim)


def unseen(
    first: int, start: int, width: int, window: int | None, causal: bool, device: torch.device
) -> Tensor | None:
    """What the rows of a block do not see of the context from ``first`` on and of each other.

    A sliding layer's row sees positions less than ``window`` away, in both directions; a causal one's none
    behind itself.

    Args:
        first: The first context position.
        start: The block's first position, where the context ends.
        width: Rows B of the block.
        window: Of a sliding layer.
        causal: See ``DrafterConfig``.
        device: Where the attention is.

    Returns:
        bool [B, start - first + B], or ``None`` where every row sees all.
    """
    if not causal and (window is None or start + width - first <= window):
        return None
    rows = torch.arange(start, start + width, device=device).unsqueeze(1)
    distance = rows - torch.arange(first, start + width, device=device)
    if window is None:
        return distance < 0
    ahead = distance < 0 if causal else distance <= -window
    return ahead | (distance >= window)


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """``down(silu(gate(x)) * up(x))`` for x [..., H]; ``gate_up`` holds the gate's rows, then up's."""
    gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down)
