"""The rotary tables of one model, made once for as many positions as were ever asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from infernix_qwen3_5.layers import inverse_frequencies, rotary_tables
from infernix_qwen3_5.products import Floats

#: Positions by which the tables grow.
STEP = 1024

#: Cosines and sines [N, W, 1, rotary_dim / 2].
RotaryTables = tuple[Tensor, Tensor]


class Rotary:
    """Cosines and sines of positions.

    Args:
        rotary_dim: Dimensions that are turned, in pairs.
        theta: The base.
        device: Where the tables are used.
        dtype: Of what is turned.
    """

    def __init__(
        self, rotary_dim: int, theta: float, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._frequencies = inverse_frequencies(rotary_dim, theta, device)
        self._tables: RotaryTables = (torch.empty(0), torch.empty(0))
        self._host: tuple[Floats, Floats] = (np.empty(0, np.float32), np.empty(0, np.float32))

    def tables(self, starts: Sequence[int], width: int) -> RotaryTables:
        """Of W positions from each start."""
        end = max(starts) + width
        self._grow(end)
        cos, sin = self._tables
        if len(starts) == 1:
            start = starts[0]
            return cos[start:end].unsqueeze(0), sin[start:end].unsqueeze(0)
        first = torch.tensor(starts, dtype=torch.int64, device=self._device)
        if width == 1:
            return cos[first].unsqueeze(1), sin[first].unsqueeze(1)
        positions = first.unsqueeze(1) + torch.arange(width, device=self._device)
        return cos[positions], sin[positions]

    def load(self, starts: Sequence[int], cos: Floats, sin: Floats) -> None:
        """Writes those of W positions from each start: on the CPU in float32.

        Args:
            starts: Of N rows.
            cos: [N, W, 1, 1, rotary_dim / 2].
            sin: [N, W, 1, 2, rotary_dim / 2], of both halves of a head: the sine negated, the sine.
        """
        width = cos.shape[1]
        self._grow(max(starts) + width)
        every_cos, every_sin = self._host
        for row, start in enumerate(starts):
            cos[row, :, 0] = every_cos[start : start + width]
            sin[row, :, 0, 1] = sine = every_sin[start : start + width, 0]
            np.negative(sine, out=sin[row, :, 0, 0])

    def _grow(self, end: int) -> None:
        if end <= len(self._tables[0]):
            return
        # Whole steps: then a position's numbers do not depend on where the table ends.
        size = -(-end // STEP) * STEP
        cos, sin = rotary_tables(torch.arange(size, device=self._device), self._frequencies)
        self._tables = cos.to(self._dtype), sin.to(self._dtype)
        if self._device.type == "cpu" and self._dtype == torch.float32:
            self._host = cos.numpy(), sin.numpy()
