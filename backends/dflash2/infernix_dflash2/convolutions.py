"""Grouped dynamic causal convolutions over the rows of a block, before and behind each sublayer.

For a sublayer's normed input x of B rows and G groups of channels, with both sides' kernels from one projection::

    delta = projection(x) as [row, side, tap, group]
    y[i, c] = sum over t <= i of (base[side, t, c] + delta[i, side, t, group of c]) * x[i - t, c]

Side 0 makes the sublayer's input, side 1 works on its output, with the delta of its input. Terms from before the
block's first row are absent: neither the context nor another block is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor

from infernix_dflash2.config import DFlash2Config
from infernix_dflash2.weights import ConvolutionWeights


class Convolutions:
    """Implements ``infernix_dflash.block.Around``.

    Args:
        config: Sizes.
        weights: Per layer, those of both sublayers.
    """

    def __init__(
        self,
        config: DFlash2Config,
        weights: Sequence[tuple[ConvolutionWeights, ConvolutionWeights]],
    ) -> None:
        self.config = config
        self.weights = weights

    def prepare(self, layer: int, part: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Around``."""
        c, w = self.config, self.weights[layer][part]
        delta = F.linear(x, w.projection).float().view(*x.shape[:2], 2, c.taps, c.groups)
        return convolve(x, w.base[0], delta[:, :, 0]), delta[:, :, 1]

    def finish(self, layer: int, part: int, output: Tensor, kept: Tensor) -> Tensor:
        """See ``Around``."""
        return convolve(output, self.weights[layer][part].base[1], kept)


def convolve(x: Tensor, base: Tensor, delta: Tensor) -> Tensor:
    """One side's convolution, computed in float32.

    Args:
        x: [N, B, H].
        base: float32 [taps, H].
        delta: float32 [N, B, taps, G].

    Returns:
        [N, B, H] in the dtype of x.
    """
    rows, width, size = x.shape
    taps, groups = delta.shape[2:]
    split = x.float().view(rows, width, groups, -1)
    kernel = base.view(taps, groups, -1) + delta.unsqueeze(-1)
    total = kernel[:, :, 0] * split
    for tap in range(1, min(taps, width)):
        total[:, tap:] += kernel[:, tap:, tap] * split[:, :-tap]
    return total.view(rows, width, size).to(x.dtype)
