"""The drafter on the CPU in float32: what ``block``, ``context`` and ``layers`` compute, in numpy over the same memory.

A block of a small drafter is some hundred operations on a few thousand numbers each, and a call of numpy costs a fifth
of one of torch. The torch code is the reference; sums run in another order here.

Products and attention are numpy's too where it and torch have one thread each as the drafter is bound. Otherwise they
are torch's: it shares a product out when that pays, and OpenBLAS shares out what is too small for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import torch
from attrs import frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.interfaces.model import StateViews, TargetModel
from infernix_core.threads import numpy_threads
from infernix_dflash.block import ATTENTION, MLP
from infernix_dflash.config import DrafterConfig
from infernix_dflash.context import Context
from infernix_dflash.layers import Rotary, attend, unseen
from infernix_dflash.weights import DrafterWeights, LayerWeights

Floats = NDArray[np.float32]

#: Multiplications of one BLAS call. OpenBLAS multiplies matrices below a million without packing them first, where it
#: has such a kernel; then it reads them once.
PRODUCT = 1_000_000

#: Most positions of a commit whose buffers are kept.
KEPT = 64

#: A Python number costs a ufunc as much again as all the rest of a small call.
_ONE = np.array(1, dtype=np.float32)


def new_floats(*shape: int) -> Floats:
    """Uninitialised memory at torch's alignment, which is one for all: BLAS libraries may order a sum by it."""
    values: Floats = torch.empty(shape, dtype=torch.float32).numpy()
    return values


def one_thread() -> bool:
    """Whether numpy multiplies in place of torch."""
    return numpy_threads() == torch.get_num_threads() == 1


class Product:
    """``x @ matrix.T`` for a matrix [O, I] that lies in memory as its transpose.

    Args:
        matrix: See ``weights.for_products``.
        blas: Whether numpy computes it.
    """

    def __init__(self, matrix: Tensor, *, blas: bool) -> None:
        self.width, self.size = matrix.shape
        self._matrix = matrix
        self._transposed: Floats = matrix.t().numpy()
        self._blas = blas

    def __call__(self, x: Floats, out: Floats) -> None:
        """Writes the product of x [M, I] into ``out`` [M, O]."""
        if not self._blas:
            torch.mm(torch.from_numpy(x), self._matrix.t(), out=torch.from_numpy(out))
            return
        step = max(64, PRODUCT // (len(x) * self.size) // 64 * 64)
        if step >= self.width or len(x) == 1:
            np.matmul(x, self._transposed, out=out)
            return
        for start in range(0, self.width, step):
            stop = start + step
            np.matmul(x, self._transposed[:, start:stop], out=out[:, start:stop])


def divide_by_length(x: Floats, square: float, dots: Floats, out: Floats) -> None:
    """``x / sqrt(sum(x²) + square)`` over the last dimension; ``dots`` [..., 1, 1] is scratch for x [..., D].

    A norm is this times ``sqrt(D) * weight``, for D times its epsilon as the square.
    """
    np.matmul(x[..., None, :], x[..., :, None], out=dots)
    np.add(dots, square, out=dots)
    np.sqrt(dots, out=dots)
    np.divide(x, dots[..., 0], out=out)


def norm_factor(weight: Tensor) -> Floats:
    """What :func:`divide_by_length` is multiplied by, of a norm's weight [..., D]."""
    factor: Floats = (weight * weight.shape[-1] ** 0.5).contiguous().numpy()
    return factor


class HostRotary:
    """Cosines [P, 1, D / 2] and sines [P, 2, D / 2], of which the first are negative, of absolute positions.

    Args:
        rotary: Where they come from.
    """

    def __init__(self, rotary: Rotary) -> None:
        self._rotary = rotary
        self._cos = self._sin = np.empty((0, 0, 0), dtype=np.float32)

    def upto(self, end: int) -> tuple[Floats, Floats]:
        """Both, for at least ``end`` positions."""
        if end > len(self._cos):
            cos, sin = self._rotary.upto(end).numpy()
            self._cos, self._sin = cos, np.concatenate((-sin, sin), axis=1)
        return self._cos, self._sin


def turn(heads: Floats, cos: Floats, sin: Floats, turned: Floats, crossed: Floats) -> None:
    """Turns heads [..., 2, D / 2] in place, by tables that broadcast to them; the rest is scratch of their shape."""
    np.multiply(heads, cos, out=turned)
    np.multiply(heads[..., ::-1, :], sin, out=crossed)
    np.add(turned, crossed, out=heads)


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
    """:class:`Context` in numpy."""

    def prepare(self) -> HostContext:
        """Lays the weights out. Called once."""
        blas = one_thread()
        self._fc = Product(self.weights.fc, blas=blas)
        self._pairs_of = Product(self.weights.pairs, blas=blas)
        self._norm = norm_factor(self.weights.norm)
        self._key_norm = norm_factor(self.weights.key_norm)
        self._tables = HostRotary(self.rotary)
        self._buffers: dict[int, ContextScratch] = {}
        return self

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

    def _pairs(self, features: Tensor, positions: Sequence[int]) -> Tensor:
        c, count = self.config, len(positions)
        s = self._buffers.get(count)
        if s is None:
            s = ContextScratch(c, count)
            # Commits are small; who computes more at once does so seldom.
            if count <= KEPT:
                self._buffers[count] = s
        self._fc(features.numpy(), s.hidden)
        divide_by_length(s.hidden, c.hidden_size * c.norm_eps, s.dots, s.hidden)
        np.multiply(s.hidden, self._norm, out=s.hidden)
        self._pairs_of(s.hidden, s.flat)
        divide_by_length(s.keys, c.head_dim * c.norm_eps, s.key_dots, s.normed)
        np.multiply(s.normed, self._key_norm, out=s.normed)
        cos, sin = self._tables.upto(max(positions) + 1)
        places: slice | list[int] = list(positions)
        if isinstance(positions, range):
            places = slice(positions.start, positions.stop)
        turn(s.turning, cos[places][:, None, None], sin[places][:, None, None], s.turned, s.crossed)
        np.copyto(s.keys, s.normed)
        return s.pairs


class HostAround(Protocol):
    """``block.Around`` in numpy."""

    def prepare(self, layer: int, part: int, x: Floats, out: Floats) -> Floats:
        """Writes what the sublayer reads, of x [N, B, H], and gives what :meth:`finish` needs."""

    def finish(self, layer: int, part: int, output: Floats, kept: Floats, out: Floats) -> None:
        """Writes what is added to the residual, of the sublayer's output [N, B, H]."""


@frozen(eq=False)
class HostLayer:
    """See ``LayerWeights``. ``head_norm`` includes the scale ``1 / sqrt(D)`` of the scores where numpy attends."""

    attention_norm: Floats
    inputs: Product
    head_norm: Floats
    out: Product
    mlp_norm: Floats
    gate_up: Product
    down: Product

    @classmethod
    def of(cls, config: DrafterConfig, weights: LayerWeights, *, blas: bool) -> HostLayer:
        """From the torch weights."""
        head_norm = norm_factor(weights.head_norm).copy()
        if blas:
            head_norm[: config.query_heads] *= config.head_dim**-0.5
        return cls(
            attention_norm=norm_factor(weights.attention_norm),
            inputs=Product(weights.inputs, blas=blas),
            head_norm=head_norm,
            out=Product(weights.out, blas=blas),
            mlp_norm=norm_factor(weights.mlp_norm),
            gate_up=Product(weights.gate_up, blas=blas),
            down=Product(weights.down, blas=blas),
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
        self.sums_heads = self.sums.reshape(c.kv_heads, width, group, dim).transpose(1, 0, 2, 3)

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
        square = c.hidden_size * c.norm_eps
        # exp overflows where a gate is shut.
        with np.errstate(over="ignore"):
            for index, layer in enumerate(self._layers):
                divide_by_length(s.x, square, s.dots, s.normed)
                np.multiply(s.normed, layer.attention_norm, out=s.normed)
                self._sublayer(s, index, ATTENTION, layer, lanes, starts, views)
                divide_by_length(s.x, square, s.dots, s.normed)
                np.multiply(s.normed, layer.mlp_norm, out=s.normed)
                self._sublayer(s, index, MLP, layer, lanes, starts, views)
        divide_by_length(s.x_block[:, 1:], square, s.hidden_dots, s.hidden_block)
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
            np.negative(s.gate, out=s.opened)
            np.exp(s.opened, out=s.opened)
            np.add(s.opened, _ONE, out=s.opened)
            np.divide(s.gate, s.opened, out=s.opened)
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
        divide_by_length(s.raw_heads, c.head_dim * c.norm_eps, s.head_dots, s.heads)
        np.multiply(s.heads, layer.head_norm, out=s.heads)
        turn(s.turning, s.cosines, s.sines, s.turned, s.crossed)
        for row, (lane, start) in enumerate(zip(lanes, starts, strict=True)):
            first, pages = self.context.read(index, lane, start, views)
            hidden = unseen(
                first, start, s.keys.shape[1], c.windows[index], c.causal, torch.device("cpu")
            )
            if self.blas:
                self._attend(s, row, pages.numpy(), None if hidden is None else hidden.numpy())
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
        self, s: Scratch, row: int, pages: Floats, hidden: NDArray[np.bool_] | None
    ) -> None:
        """``layers.attend`` of a row's queries over its context's pages [S, 2, Nkv, D] and its block."""
        length, _, kv_heads, _ = pages.shape
        queries = s.queries[row]
        width, count = len(queries), s.columns.shape[2]
        np.copyto(
            s.grouped, queries.reshape(width, kv_heads, count // width, -1).transpose(1, 0, 2, 3)
        )
        scores = new_floats(kv_heads, count, length + width)
        before, own = scores[..., :length], scores[..., length:]
        # The other way round, the product would read the keys against their grain.
        np.copyto(before, np.matmul(pages[:, 0].transpose(1, 0, 2), s.columns).transpose(0, 2, 1))
        np.copyto(own, np.matmul(s.keys[row].transpose(1, 0, 2), s.columns).transpose(0, 2, 1))
        if hidden is not None:
            by_row = scores.reshape(kv_heads, width, count // width, -1)
            np.copyto(by_row, -np.inf, where=hidden[:, None])
        np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        np.matmul(before, pages[:, 1].transpose(1, 0, 2), out=s.sums)
        np.matmul(own, s.values[row].transpose(1, 0, 2), out=s.more)
        np.add(s.sums, s.more, out=s.sums)
        np.divide(s.sums, np.add.reduce(scores, axis=-1, keepdims=True), out=s.sums)
        np.copyto(s.attended_heads[row].reshape(width, kv_heads, count // width, -1), s.sums_heads)
