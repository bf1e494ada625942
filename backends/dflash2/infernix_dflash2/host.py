"""The convolutions on the CPU in float32: what ``convolutions`` computes, in numpy over the same memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen

from infernix_dflash.host import Floats, Product, new_floats, one_thread
from infernix_dflash2.config import DFlash2Config
from infernix_dflash2.weights import ConvolutionWeights


class Kernels:
    """Buffers for N blocks of B rows."""

    def __init__(self, config: DFlash2Config, rows: int, width: int) -> None:
        sides = (rows, width, 2, config.taps, config.groups)
        self.projected = new_floats(rows * width, 2 * config.taps * config.groups)
        self.delta = self.projected.reshape(*sides, 1)
        kernels = new_floats(*sides, config.group)
        self.grouped = kernels
        self.kernels = kernels.reshape(rows, width, 2, config.taps, config.hidden_size)
        self.term = new_floats(rows, width, config.hidden_size)


@frozen(eq=False)
class HostConvolution:
    """See ``ConvolutionWeights``; ``base`` is [2, taps, G, H / G]."""

    base: Floats
    projection: Product


class HostConvolutions:
    """Implements ``infernix_dflash.host.HostAround``.

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
        blas = one_thread()
        shape = (2, config.taps, config.groups, config.group)
        self._weights = [
            [
                HostConvolution(
                    part.base.numpy().reshape(shape), Product(part.projection, blas=blas)
                )
                for part in layer
            ]
            for layer in weights
        ]
        self._buffers: dict[tuple[int, ...], Kernels] = {}

    def prepare(self, layer: int, part: int, x: Floats, out: Floats) -> Floats:
        """See ``HostAround``."""
        rows, width, size = x.shape
        k = self._buffers.get((rows, width))
        if k is None:
            k = self._buffers[rows, width] = Kernels(self.config, rows, width)
        weights = self._weights[layer][part]
        weights.projection(x.reshape(rows * width, size), k.projected)
        np.add(k.delta, weights.base, out=k.grouped)
        _convolve(x, k.kernels[:, :, 0], k.term, out)
        return k.kernels[:, :, 1]

    def finish(self, layer: int, part: int, output: Floats, kept: Floats, out: Floats) -> None:
        """See ``HostAround``."""
        rows, width, _ = output.shape
        _convolve(output, kept, self._buffers[rows, width].term, out)


def _convolve(x: Floats, kernel: Floats, term: Floats, out: Floats) -> None:
    """``convolutions.convolve`` of x [N, B, H] by kernels [N, B, taps, H] into ``out``; ``term`` is scratch."""
    np.multiply(x, kernel[:, :, 0], out=out)
    for tap in range(1, min(kernel.shape[2], x.shape[1])):
        shifted = term[:, tap:]
        np.multiply(x[:, :-tap], kernel[:, tap:, tap], out=shifted)
        np.add(out[:, tap:], shifted, out=out[:, tap:])
