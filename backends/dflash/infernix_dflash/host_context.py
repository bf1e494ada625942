"""The drafter's state on the CPU in float32: what ``context`` computes, in numpy over the same memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from infernix_core.host_arrays import divide_by_length, new_floats, one_thread
from infernix_core.interfaces.model import StateViews
from infernix_dflash.arrays import HostRotary, Product, norm_factor, scalar, turn
from infernix_dflash.config import DrafterConfig
from infernix_dflash.context import Context
from infernix_dflash.layers import Rotary
from infernix_dflash.weights import ContextWeights

#: Most positions of a commit whose buffers are kept.
KEPT = 64


class ContextScratch:
    """Buffers for T positions, and the views of them that computing keys and values needs."""

    def __init__(self, config: DrafterConfig, count: int) -> None:
        c = config
        self.hidden = new_floats(count, c.hidden_size)
        self.dots = new_floats(count, 1, 1)
        pairs = new_floats(count, c.layers, 2, c.kv_heads, c.head_dim)
        self.pairs = torch.from_numpy(pairs)
        self.flat = pairs.reshape(count, -1)
        self.keys = pairs[:, :, 0]
        self.key_dots = new_floats(count, c.layers, c.kv_heads, 1, 1)
        self.turning = new_floats(count, c.layers, c.kv_heads, 2, c.head_dim // 2)
        self.normed = self.turning.reshape(count, c.layers, c.kv_heads, c.head_dim)
        self.turned, self.crossed = np.empty_like(self.turning), np.empty_like(self.turning)


class HostContext(Context):
    """:class:`Context` in numpy; arguments are its own."""

    def __init__(
        self,
        owner: str,
        config: DrafterConfig,
        weights: ContextWeights,
        names: Sequence[str],
        rotary: Rotary,
        *,
        deterministic: bool = False,
    ) -> None:
        super().__init__(owner, config, weights, names, rotary, deterministic=deterministic)
        blas = one_thread()
        self._fc = Product(self.weights.fc, blas=blas)
        self._pairs_of = Product(self.weights.pairs, blas=blas)
        self._norm = norm_factor(self.weights.norm)
        self._square = scalar(self.config.hidden_size * self.config.norm_eps)
        self._key_square = scalar(self.config.head_dim * self.config.norm_eps)
        self._key_norm = norm_factor(self.weights.key_norm)
        self._tables = HostRotary(self.rotary)
        self._buffers: dict[int, ContextScratch] = {}

    def gather(self, features: Mapping[str, Tensor], counts: Sequence[int]) -> Tensor:
        """See ``Context``."""
        parts = [features[name].numpy() for name in self.names]
        size = parts[0].shape[-1]
        joined = new_floats(sum(counts), len(parts) * size)
        at = 0
        for row, count in enumerate(counts):
            if count:
                for place, part in enumerate(parts):
                    joined[at : at + count, place * size : (place + 1) * size] = part[row, :count]
                at += count
        return torch.from_numpy(joined)

    def write_rows(
        self, rows: Sequence[tuple[int, int, int]], features: Tensor, views: StateViews
    ) -> None:
        """See ``Context``."""
        # As in torch, numbers that overflow are no reason for a warning.
        with np.errstate(all="ignore"):
            super().write_rows(rows, features, views)

    def _pairs(self, features: Tensor, positions: Sequence[int]) -> Tensor:
        c, count = self.config, len(positions)
        s = self._buffers.get(count)
        if s is None:
            s = ContextScratch(c, count)
            # Commits are small; who computes more at once does so seldom.
            if count <= KEPT:
                self._buffers[count] = s
        self._fc(features.numpy(), s.hidden)
        divide_by_length(s.hidden, self._square, s.dots, s.hidden)
        np.multiply(s.hidden, self._norm, out=s.hidden)
        self._pairs_of(s.hidden, s.flat)
        divide_by_length(s.keys, self._key_square, s.key_dots, s.normed)
        np.multiply(s.normed, self._key_norm, out=s.normed)
        cos, sin = self._tables.upto(max(positions) + 1)
        places: slice | list[int] = list(positions)
        if isinstance(positions, range):
            places = slice(positions.start, positions.stop)
        turn(s.turning, cos[places][:, None, None], sin[places][:, None, None], s.turned, s.crossed)
        np.copyto(s.keys, s.normed)
        return s.pairs
