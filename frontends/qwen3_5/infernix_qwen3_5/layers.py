"""The mathematics of norms, rotary positions, attention and the MLP, as functions over tensors.

Formulas: Qwen3.5's architecture; RoPE (Su et al. 2021) in its rotate-half layout; grouped-query attention
(Ainslie et al. 2023) with an output gate.
"""

from __future__ import annotations

import functools

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``x / sqrt(mean(x²) + eps) * weight`` over the last dimension, computed in float32.

    Args:
        x: [..., D] of any floating dtype, which the result keeps.
        weight: float32 [D], or one per head [heads, D], times ``sqrt(D)`` (see ``weights.norm_weight``).
        eps: Added to the mean square.
    """
    # x / hypot(|x|, sqrt(D * eps)) * (sqrt(D) * weight): the same number in fewer passes, which are what a
    # decode step of a small model costs.
    return divided_by_length(x.float(), x.shape[-1] * eps).mul_(weight).to(x.dtype)


def divided_by_length(x: Tensor, square: float) -> Tensor:
    """``x / sqrt(sum(x²) + square)`` over the last dimension of float32 x; a new tensor."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    return x / torch.hypot(length, _constant(square**0.5, x.device))


@functools.lru_cache(maxsize=64)
def _constant(value: float, device: torch.device) -> Tensor:
    return torch.tensor(value, dtype=torch.float32, device=device)


def gated_rms_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """``rms_norm(x) * silu(gate)``: the norm of Gated DeltaNet's output, per value head.

    Args:
        x: float32 [..., D].
        gate: [..., D]; its dtype is the result's.
        weight: See :func:`rms_norm`.
        eps: Added to the mean square.
    """
    return rms_norm(x, weight, eps).mul_(F.silu(gate.float())).to(gate.dtype)


def mlp(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    """``down(silu(gate(x)) * up(x))`` for x [..., H]; ``gate_up`` holds the gate's rows, then up's."""
    gate, up = F.linear(x, gate_up).chunk(2, dim=-1)
    return F.linear(F.silu(gate) * up, down)


def inverse_frequencies(rotary_dim: int, theta: float, device: torch.device) -> Tensor:
    """float32 [rotary_dim / 2]: ``theta^(-2j / rotary_dim)``."""
    exponents = torch.arange(0, rotary_dim, 2, dtype=torch.float32, device=device) / rotary_dim
    return 1.0 / theta**exponents


def rotary_tables(positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines, float32 [..., 1, rotary_dim / 2], of int64 positions [...].

    For text the three position streams of interleaved mRoPE are equal, which makes it plain RoPE.
    """
    angles = (positions.unsqueeze(-1).float() * frequencies).unsqueeze(-2)
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turns the leading dimensions of each head by its position; pairs are (j, j + rotary_dim / 2).

    Args:
        x: [..., heads, D].
        cos: [..., 1, rotary_dim / 2] in the dtype of x; ``sin`` likewise.
        sin: See ``cos``.
    """
    half = cos.shape[-1]
    first, second = x[..., :half], x[..., half : 2 * half]
    turned = (
        torch.addcmul(first * cos, second, sin, value=-1),
        torch.addcmul(second * cos, first, sin),
        x[..., 2 * half :],
    )
    return torch.cat(turned, dim=-1)


def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Causal grouped-query attention of the last W positions of one sequence, softmax in float32.

    Query head h reads KV head ``h // (Nq / Nkv)``; the scale is ``1 / sqrt(D)``.

    Args:
        query: [W, Nq, D], positions L-W … L-1.
        keys: [L, Nkv, D].
        values: [L, Nkv, D].

    Returns:
        [W, Nq * D].
    """
    width, query_heads, dim = query.shape
    length, kv_heads, _ = keys.shape
    group = query_heads // kv_heads
    # Rows of one KV head side by side: column-major over (W, group).
    rows = query.view(width, kv_heads, group, dim).transpose(0, 1).reshape(kv_heads, -1, dim)
    scores = (rows @ keys.permute(1, 2, 0)).float() * dim**-0.5
    if width > 1:
        future = torch.full((width, width), float("-inf"), device=query.device).triu(1)
        recent = scores.view(kv_heads, width, group, length)[..., length - width :]
        recent += future.unsqueeze(1)
    weights = torch.softmax(scores, dim=-1).to(values.dtype)
    mixed = (weights @ values.transpose(0, 1)).view(kv_heads, width, group, dim)
    return mixed.transpose(0, 1).reshape(width, query_heads * dim)


def attend_last(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What :func:`attend` computes for one position, the last: query [1, Nq, D] gives [1, Nq * D].

    It sees everything, so the query heads of a KV head can stand as rows of one attention without a mask.
    """
    _, query_heads, dim = query.shape
    grouped = query.view(1, keys.shape[1], -1, dim)
    return F.scaled_dot_product_attention(
        grouped, keys.transpose(0, 1).unsqueeze(0), values.transpose(0, 1).unsqueeze(0)
    ).view(1, query_heads * dim)


def attend_block(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """What :func:`attend` computes, for many positions: without the matrix of all scores.

    Args:
        query: [W, Nq, D], positions L-W … L-1.
        keys: [L, Nkv, D].
        values: [L, Nkv, D].

    Returns:
        [W, Nq * D].
    """
    width, length = query.shape[0], keys.shape[0]
    past = length - width
    mask = None
    if past:
        # is_causal aligns the diagonal at the top left, so a chunk with a past brings its own mask.
        visible = torch.ones((width, length), dtype=torch.bool, device=query.device)
        mask = visible.tril_(past)
    mixed = F.scaled_dot_product_attention(
        query.transpose(0, 1).unsqueeze(0),
        keys.transpose(0, 1).unsqueeze(0),
        values.transpose(0, 1).unsqueeze(0),
        attn_mask=mask,
        is_causal=mask is None,
        enable_gqa=query.shape[1] != keys.shape[1],
    )
    return mixed[0].transpose(0, 1).reshape(width, -1)
