"""DFlash2 on the CPU in float32: what ``convolutions`` and ``selector`` compute, in numpy over the same memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.host_arrays import Floats, new_floats, one_thread
from infernix_dflash.arrays import Product
from infernix_dflash.choice import Candidates
from infernix_dflash2.config import DFlash2Config
from infernix_dflash2.selector import Selector, top
from infernix_dflash2.weights import ConvolutionWeights, SelectorWeights


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


#: Logits of which the largest one is found first, when the best few of many are looked for.
BLOCK = 64


class HostSelector(Selector):
    """:class:`Selector` in numpy.

    Args:
        config: Sizes.
        weights: See ``SelectorWeights``.
        candidates: What may be drafted.
    """

    def __init__(
        self, config: DFlash2Config, weights: SelectorWeights, candidates: Candidates
    ) -> None:
        super().__init__(config, weights, candidates)
        self._project = Product(weights.hidden, blas=one_thread())
        self._predecessors: Floats = weights.predecessors.numpy()
        self._successors: Floats = weights.successors.numpy()

    def tables(
        self, anchors: Sequence[int], hidden: Tensor
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """See ``Selector``."""
        c = self.config
        rows, drafts, size = hidden.shape
        flat = hidden.reshape(rows * drafts, size)
        values, ids = largest(self.candidates.logits(flat), self.count)
        if c.output_multiplier != 1:
            values = values * np.float32(c.output_multiplier)
        if c.softcap is not None:
            cap = np.float32(c.softcap)
            values = np.tanh(values / cap) * cap
        ids = ids.reshape(rows, drafts, self.count)
        before = np.empty_like(ids)
        before[:, 0] = np.array(anchors)[:, None]
        before[:, 1:] = ids[:, :-1]
        mixed = new_floats(rows * drafts, c.rank)
        self._project(flat.numpy(), mixed)
        left = self._predecessors[before]
        np.multiply(left, mixed.reshape(rows, drafts, 1, c.rank), out=left)
        scores: Floats = np.matmul(left, self._successors[ids].transpose(0, 1, 3, 2))
        np.add(scores, values.reshape(rows, drafts, 1, self.count), out=scores)
        return ids, scores


def largest(logits: Tensor, count: int) -> tuple[Floats, NDArray[np.int64]]:
    """``selector.top``: by the largest of blocks, among which the best few must be."""
    rows, size = logits.shape
    blocks = size // BLOCK
    if blocks >= count:
        values: Floats = logits.numpy()
        tops = values[:, : blocks * BLOCK].reshape(rows, blocks, BLOCK).max(axis=-1)
        # So many blocks reach this, and each has a logit that does.
        least = np.partition(tops, blocks - count, axis=-1)[:, blocks - count]
        row, token = np.nonzero(values >= least[:, None])
        found = np.bincount(row, minlength=rows)
        # Where logits are no numbers, fewer may be found.
        if int(found.min()) >= count:
            order = np.lexsort((token, -values[row, token], row))
            first = np.cumsum(found) - found
            best = order[first[:, None] + np.arange(count)]
            ids = token[best]
            return values[np.arange(rows)[:, None], ids], ids
    found_values, found_ids = top(logits, count)
    return found_values.numpy(), found_ids.numpy()
