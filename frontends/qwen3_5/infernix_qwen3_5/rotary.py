"""The rotary tables of one model, made once for as many positions as were ever asked for."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from infernix_core.host_arrays import Floats
from infernix_qwen3_5.layers import inverse_frequencies, rotary_tables

#: Positions by which the tables grow.
STEP = 1024

#: Cosines and sines [N, W, 1, rotary_dim / 2].
RotaryTables = tuple[Tensor, Tensor]


@frozen(eq=False)
class _Every:
    """Both of every position so far.

    Attributes:
        cos: [end, 1, rotary_dim / 2], like ``sin``.
        host: The same on the CPU in float32; empty elsewhere.
    """

    cos: Tensor
    sin: Tensor
    host: tuple[Floats, Floats]

    @property
    def end(self) -> int:
        """Positions."""
        return len(self.cos)


class Rotary:
    """Cosines and sines of positions. Two programs may ask in two threads.

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
        self._growing = threading.Lock()
        nothing = np.empty(0, np.float32)
        self._every = _Every(torch.empty(0), torch.empty(0), (nothing, nothing))

    def tables(self, starts: Sequence[int], width: int) -> RotaryTables:
        """Of W positions from each start."""
        end = max(starts) + width
        every = self._up_to(end)
        cos, sin = every.cos, every.sin
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
        every_cos, every_sin = self._up_to(max(starts) + width).host
        for row, start in enumerate(starts):
            cos[row, :, 0] = every_cos[start : start + width]
            sin[row, :, 0, 1] = sine = every_sin[start : start + width, 0]
            np.negative(sine, out=sin[row, :, 0, 0])

    def _up_to(self, end: int) -> _Every:
        """The tables, grown to at least so many positions. They never shrink."""
        every = self._every
        if end <= every.end:
            return every
        with self._growing:
            # Another thread may have been first.
            if end > self._every.end:
                self._every = self._made(end)
            return self._every

    def _made(self, end: int) -> _Every:
        # Whole steps: then a position's numbers do not depend on where the table ends.
        size = -(-end // STEP) * STEP
        cos, sin = rotary_tables(torch.arange(size, device=self._device), self._frequencies)
        host = self._every.host
        if self._device.type == "cpu" and self._dtype == torch.float32:
            host = cos.numpy(), sin.numpy()
        return _Every(cos.to(self._dtype), sin.to(self._dtype), host)
