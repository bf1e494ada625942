"""The drafter on the CPU in float32: what ``block`` and ``layers`` compute, in numpy over the same memory.

A block of a small drafter is some hundred operations on a few thousand numbers each, and a call of numpy costs a fifth
of one of torch. The torch code is the reference; sums run in another order here.

Products and attention are numpy's too where it and torch have one thread each as the drafter is bound. Otherwise they
are torch's: it shares a product out when that pays, and OpenBLAS shares out what is too small for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.host_arrays import Floats, divide_by_length, for_products, new_floats, one_thread
from infernix_core.interfaces.model import StateViews, TargetModel
from infernix_dflash.arrays import HostRotary, Product, norm_factor, scalar, turn
from infernix_dflash.block import ATTENTION, MLP
from infernix_dflash.config import DrafterConfig
from infernix_dflash.context import Context
from infernix_dflash.layers import Rotary, attend, unseen
from infernix_dflash.weights import DrafterWeights, LayerWeights

#: Scores up to here need no maximum taken off before the softmax: neither a power of e nor a sum of many overflows.
SMALL = 60.0

_ONE = scalar(1)


class HostAround(Protocol):
    """``block.Around`` in numpy."""

    def prepare(self, layer: int, part: int, x: Floats, out: Floats) -> Floats:
        """Writes what the sublayer reads, of x [N, B, H], and gives what :meth:`finish` needs."""

    def finish(self, layer: int, part: int, output: Floats, kept: Floats, out: Floats) -> None:
        """Writes what is added to the residual, of the sublayer's output [N, B, H]."""


@frozen(eq=False)
class HostLayer:
    """See ``LayerWeights``.

    Attributes:
        head_norm: It includes the scale ``1 / sqrt(D)`` of the scores where numpy attends.
        gate_up: The gate's rows are halved.
        small: Whether no score can be large: heads are normed, so their norms' weights bound every product.
    """

    attention_norm: Floats
    inputs: Product
    head_norm: Floats
    out: Product
    mlp_norm: Floats
    gate_up: Product
    down: Product
    small: bool

    @classmethod
    def of(cls, config: DrafterConfig, weights: LayerWeights, *, blas: bool) -> HostLayer:
        """From the torch weights."""
        head_norm = norm_factor(weights.head_norm).copy()
        if blas:
            head_norm[: config.query_heads] *= config.head_dim**-0.5
        queries, keys = weights.head_norm.abs().tensor_split([config.query_heads])
        bound = config.head_dim**0.5 * float(queries.max()) * float(keys.max())
        gate, up = weights.gate_up.chunk(2)
        return cls(
            attention_norm=norm_factor(weights.attention_norm),
            inputs=Product(weights.inputs, blas=blas),
            head_norm=head_norm,
            out=Product(weights.out, blas=blas),
            mlp_norm=norm_factor(weights.mlp_norm),
            gate_up=Product(for_products(torch.cat((gate / 2, up))), blas=blas),
            down=Product(weights.down, blas=blas),
            small=bound < SMALL,
        )


class Scratch:
    """Buffers of N blocks of B rows, M = N * B, shared by the layers, and the views of them that a block needs."""

    def __init__(self, config: DrafterConfig, rows: int, width: int) -> None:
        c, count, half = config, rows * width, config.head_dim // 2
        size, inner, dim = c.hidden_size, c.intermediate_size, c.head_dim
        heads, queries = c.query_heads + c.kv_heads, c.query_heads * c.head_dim
        block = (rows, width, size)
        self.x, self.normed, self.mixed = (new_floats(count, size) for _ in range(3))
        self.joined = new_floats(count, size)
        self.embedded = new_floats(*block)
        self.x_block, self.normed_block, self.mixed_block, self.joined_block = (
            value.reshape(block) for value in (self.x, self.normed, self.mixed, self.joined)
        )
        self.dots = new_floats(count, 1, 1)
        self.inner = new_floats(count, 2 * inner)
        self.gate, self.up = self.inner[:, :inner], self.inner[:, inner:]
        self.opened = new_floats(count, inner)

        self.projected = new_floats(count, (heads + c.kv_heads) * dim)
        self.raw_heads = self.projected[:, : heads * dim].reshape(count, heads, dim)
        self.values = self.projected[:, heads * dim :].reshape(rows, width, c.kv_heads, dim)
        self.heads = new_floats(count, heads, dim)
        self.head_dots = new_floats(count, heads, 1, 1)
        self.turning = self.heads.reshape(count, heads, 2, half)
        self.turned, self.crossed = np.empty_like(self.turning), np.empty_like(self.turning)
        self.cos, self.sin = new_floats(rows, width, 1, half), new_floats(rows, width, 2, half)
        self.cosines = self.cos.reshape(count, 1, 1, half)
        self.sines = self.sin.reshape(count, 1, 2, half)
        by_row = self.heads.reshape(rows, width, heads, dim)
        self.queries, self.keys = by_row[:, :, : c.query_heads], by_row[:, :, c.query_heads :]
        self.attended = new_floats(count, queries)
        self.attended_heads = self.attended.reshape(rows, width, c.query_heads, dim)
        # Queries of one KV head below each other: (row, head of its group).
        group = c.query_heads // c.kv_heads
        self.grouped = new_floats(c.kv_heads, width, group, dim)
        self.columns = self.grouped.reshape(c.kv_heads, width * group, dim).transpose(0, 2, 1)
        self.sums = new_floats(c.kv_heads, width * group, dim)
        self.more = new_floats(c.kv_heads, width * group, dim)
        # The same by row, with the attention of each row as [B, Nkv, group, D].
        self.sums_heads = self.sums.reshape(c.kv_heads, width, group, dim).transpose(1, 0, 2, 3)
        self.totals = new_floats(c.kv_heads, width * group)
        self.totals_heads = self.totals.reshape(c.kv_heads, width, group, 1).transpose(1, 0, 2, 3)
        self.query_groups = self.queries.reshape(rows, width, c.kv_heads, group, dim)
        self.attended_groups = self.attended.reshape(rows, width, c.kv_heads, group, dim)

        self._attention = new_floats(2, 0)

        self.hidden = torch.empty((rows, width - 1, size))
        self.hidden_block: Floats = self.hidden.numpy()
        self.hidden_dots = new_floats(rows, width - 1, 1, 1)

    def attention(self, length: int) -> tuple[Floats, Floats]:
        """Room for the scores [Nkv, C, S] of C columns at S positions, and for the products [Nkv, S, C]."""
        kv_heads, _, count = self.columns.shape
        size = kv_heads * count * length
        if size > self._attention.shape[1]:
            # Ahead of what is needed: contexts grow by a few positions at a time. Both parts are aligned.
            self._attention = new_floats(2, 2 * -(-size // 16) * 16)
        scores, products = self._attention[:, :size]
        return scores.reshape(kv_heads, count, length), products.reshape(kv_heads, length, count)


class HostBlock:
    """:class:`Block` in numpy.

    Args:
        config: Sizes.
        weights: In float32 on the CPU.
        context: The state.
        rotary: Positions.
        target: Gives embeddings.
        around: See :class:`HostAround`; ``None`` leaves the sublayers as they are.
    """

    def __init__(
        self,
        config: DrafterConfig,
        weights: DrafterWeights,
        context: Context,
        rotary: Rotary,
        target: TargetModel,
        around: HostAround | None = None,
    ) -> None:
        self.config = config
        self.context = context
        self.around = around
        self.blas = one_thread()
        self._target = target
        self._layers = [HostLayer.of(config, layer, blas=self.blas) for layer in weights.layers]
        self._norm = norm_factor(weights.norm)
        self._square = scalar(config.hidden_size * config.norm_eps)
        self._head_square = scalar(config.head_dim * config.norm_eps)
        self._tables = HostRotary(rotary)
        mask = target.embed(torch.tensor([config.mask_token_id]))
        self._mask: Floats = (mask * config.embedding_scale).numpy().copy()
        self._buffers: dict[tuple[int, int], Scratch] = {}

    def run(
        self,
        anchors: Sequence[int],
        drafts: int,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> Tensor:
        """See ``Block``. The result is a buffer: it is good until the next run."""
        c, rows, width = self.config, len(anchors), 1 + drafts
        s = self._buffers.get((rows, width))
        if s is None:
            s = self._buffers[rows, width] = Scratch(c, rows, width)
            s.embedded[:, 1:] = self._mask
        s.embedded[:, 0] = self._target.embed(torch.tensor(anchors)).numpy()
        if c.embedding_scale != 1:
            s.embedded[:, 0] *= np.float32(c.embedding_scale)
        np.copyto(s.x_block, s.embedded)
        cos, sin = self._tables.upto(max(starts) + width)
        for row, start in enumerate(starts):
            s.cos[row] = cos[start : start + width]
            s.sin[row] = sin[start : start + width]
        for index, layer in enumerate(self._layers):
            divide_by_length(s.x, self._square, s.dots, s.normed)
            np.multiply(s.normed, layer.attention_norm, out=s.normed)
            self._sublayer(s, index, ATTENTION, layer, lanes, starts, views)
            divide_by_length(s.x, self._square, s.dots, s.normed)
            np.multiply(s.normed, layer.mlp_norm, out=s.normed)
            self._sublayer(s, index, MLP, layer, lanes, starts, views)
        divide_by_length(s.x_block[:, 1:], self._square, s.hidden_dots, s.hidden_block)
        np.multiply(s.hidden_block, self._norm, out=s.hidden_block)
        return s.hidden

    def _sublayer(
        self,
        s: Scratch,
        index: int,
        part: int,
        layer: HostLayer,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> None:
        """Adds a sublayer of ``s.normed`` to ``s.x``."""
        x, added = s.normed, s.mixed
        if self.around is not None:
            kept = self.around.prepare(index, part, s.normed_block, s.joined_block)
            x = s.joined
        if part == ATTENTION:
            self._attention(s, x, index, layer, lanes, starts, views)
        else:
            layer.gate_up(x, s.inner)
            # silu(2 * g) = g * (1 + tanh(g)), which overflows nowhere.
            np.tanh(s.gate, out=s.opened)
            np.add(s.opened, _ONE, out=s.opened)
            np.multiply(s.opened, s.gate, out=s.opened)
            np.multiply(s.opened, s.up, out=s.opened)
            layer.down(s.opened, s.mixed)
        if self.around is not None:
            self.around.finish(index, part, s.mixed_block, kept, s.joined_block)
            added = s.joined
        np.add(s.x, added, out=s.x)

    def _attention(
        self,
        s: Scratch,
        x: Floats,
        index: int,
        layer: HostLayer,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> None:
        """``s.mixed`` of x."""
        c = self.config
        layer.inputs(x, s.projected)
        divide_by_length(s.raw_heads, self._head_square, s.head_dots, s.heads)
        np.multiply(s.heads, layer.head_norm, out=s.heads)
        turn(s.turning, s.cosines, s.sines, s.turned, s.crossed)
        for row, (lane, start) in enumerate(zip(lanes, starts, strict=True)):
            first, pages = self.context.read(index, lane, start, views)
            hidden = unseen(
                first, start, s.keys.shape[1], c.windows[index], c.causal, torch.device("cpu")
            )
            if self.blas:
                seen = None if hidden is None else hidden.numpy()
                self._attend(s, row, pages.numpy(), seen, small=layer.small)
                continue
            keys, values = torch.from_numpy(s.keys[row]), torch.from_numpy(s.values[row])
            mixed = attend(
                torch.from_numpy(s.queries[row]),
                torch.cat((pages[:, 0], keys)),
                torch.cat((pages[:, 1], values)),
                hidden,
            )
            np.copyto(s.attended_heads[row], mixed.numpy().reshape(s.attended_heads[row].shape))
        layer.out(s.attended, s.mixed)

    def _attend(
        self, s: Scratch, row: int, pages: Floats, hidden: NDArray[np.bool_] | None, *, small: bool
    ) -> None:
        """``layers.attend`` of a row's queries over its context's pages [S, 2, Nkv, D] and its block.

        Args:
            s: The buffers.
            row: Which row.
            pages: Keys and values.
            hidden: What the rows of the block do not see, see ``layers.unseen``.
            small: See :class:`HostLayer`.
        """
        length, width = len(pages), s.keys.shape[1]
        np.copyto(s.grouped, s.query_groups[row].transpose(1, 0, 2, 3))
        scores, products = s.attention(length + width)
        # The other way round, the product would read the keys against their grain.
        np.matmul(pages[:, 0].transpose(1, 0, 2), s.columns, out=products[:, :length])
        np.matmul(s.keys[row].transpose(1, 0, 2), s.columns, out=products[:, length:])
        np.copyto(scores, products.transpose(0, 2, 1))
        if hidden is not None:
            by_row = scores.reshape(len(scores), width, -1, length + width)
            np.copyto(by_row, -np.inf, where=hidden[:, None])
        if not small:
            np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.matmul(scores[..., :length], pages[:, 1].transpose(1, 0, 2), out=s.sums)
        np.matmul(scores[..., length:], s.values[row].transpose(1, 0, 2), out=s.more)
        np.add(s.sums, s.more, out=s.sums)
        np.add.reduce(scores, axis=-1, out=s.totals)
        np.divide(s.sums_heads, s.totals_heads, out=s.attended_groups[row])
