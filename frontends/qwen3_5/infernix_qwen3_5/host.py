"""The verify step on the CPU in float32: what ``target`` and ``mixers`` compute, in numpy over the same memory.

A step of a small model is some 200 operations on a few thousand numbers each, and a call of numpy costs a fifth of
one of torch. The formulas are those of ``layers``, ``gated_delta`` and ``mixers``, which are the reference; sums run
in another order. Reading and updating the recurrent state are passes over much memory, which torch makes faster.

Products and attention are numpy's too where it and torch have one thread each as the model is loaded. Otherwise they
are torch's: it shares a product out when that pays, and OpenBLAS shares out what is too small for it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator, Sequence
from weakref import WeakKeyDictionary

import numpy as np
import torch
from attrs import frozen
from torch import Tensor

from infernix_core.host_arrays import Floats, aligned, divide_by_length, one_thread
from infernix_core.interfaces.model import StateViews, StepOutput
from infernix_qwen3_5.buffers import KEPT_SHAPES, Buffers, Scratch, StepScratch
from infernix_qwen3_5.config import ModelConfig
from infernix_qwen3_5.layers import attend, attend_last
from infernix_qwen3_5.mixers import RECORDS, VerifyMixer, state_name
from infernix_qwen3_5.mixture import MixtureWeights, mixture
from infernix_qwen3_5.products import Product, Rows, panels_pay
from infernix_qwen3_5.weights import AttentionWeights, DeltaWeights, LayerWeights, ModelWeights


def divide_by_sigmoid(x: Floats, out: Floats) -> None:
    """``1 + exp(-x)``: what a number is divided by to be gated by x."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, _ONE, out=out)


#: A Python number costs a ufunc as much again as all the rest of a small call.
_ZERO, _ONE = np.array(0, dtype=np.float32), np.array(1, dtype=np.float32)


@frozen(eq=False)
class HostAttention:
    """An attention layer: see ``AttentionWeights``. The norm's query part includes ``1 / sqrt(D)`` of the scores."""

    inputs: Product
    norm: Floats
    out: Product


@frozen(eq=False)
class HostDelta:
    """A Gated DeltaNet layer: see ``DeltaWeights``.

    Both gates are ``exp(rate * softplus(sign * x + bias))``: the strength's with -1, 0 and rate -1, which is its
    sigmoid.

    Attributes:
        sign: [2*Hv], of b, then of a; ``bias`` and ``rate`` likewise.
    """

    inputs: Product
    conv: Floats
    sign: Floats
    bias: Floats
    rate: Floats
    norm: Floats
    out: Product


@frozen(eq=False)
class HostMlp:
    """A dense MLP: see ``MlpWeights``."""

    gate_up: Product
    down: Product


@frozen(eq=False)
class HostLayer:
    """A decoder layer: see ``LayerWeights``. A mixture of experts is left to torch."""

    mixer_norm: Floats
    mixer: HostAttention | HostDelta
    mlp_norm: Floats
    mlp: HostMlp | MixtureWeights


def transition(
    scratch: StepScratch,
    state: Tensor,
    pair: Floats,
    value: Floats,
    decay: Floats,
    strength: Floats,
    after: Tensor,
    output: Floats,
) -> None:
    """``gated_delta.transition``: the one step function of decode, verify and fold here.

    Args:
        scratch: For these rows.
        state: float32 [N, Hv, Dk, Dv]; not modified, unless ``after`` is the same.
        pair: [N, 2, Hk, Dk], of any strides, like the next three.
        value: [N, Hv, Dv].
        decay: [N, Hv].
        strength: [N, Hv].
        after: Where the new state goes, contiguous.
        output: Where the output [N, Hv, Dv] goes, before the query's scale.
    """
    s = scratch
    # Copies, so that what a BLAS call makes of them depends on their values alone.
    np.copyto(s.grouped, pair.transpose(0, 2, 1, 3)[:, :, None])
    np.copyto(s.fade[..., 0, 0], decay)
    np.matmul(s.pairs, state.numpy(), out=s.seen)
    np.multiply(s.seen, s.fade, out=s.seen)
    np.subtract(value, s.seen[:, :, 1], out=s.written)
    np.multiply(s.written, strength[:, :, None], out=s.written)
    torch.mul(state, s.torch_fade, out=after).addcmul_(s.torch_key, s.torch_written)
    np.matmul(s.query, s.key, out=s.overlap)
    np.multiply(s.written, s.overlap[..., 0], out=s.product)
    np.add(s.seen[:, :, 0], s.product, out=output)


class HostStep:
    """The decoder over verify columns, and the replay of their records.

    Args:
        config: Sizes.
        weights: In float32 on the CPU.
    """

    def __init__(self, config: ModelConfig, weights: ModelWeights) -> None:
        self.config = config
        self.blas = one_thread()
        self.panels = self.blas and panels_pay(_matrices(weights))
        self._square = config.hidden_size * config.norm_eps
        self.embedding: Floats = weights.embedding.numpy()
        self._layers = [self.layer(layer) for layer in weights.layers]
        self._final_norm: Floats = weights.final_norm.numpy()
        self._head = self.product(weights.head)
        self._local = threading.local()
        self._buffers: WeakKeyDictionary[StateViews, Buffers] = WeakKeyDictionary()

    @classmethod
    def of(cls, config: ModelConfig, weights: ModelWeights) -> HostStep | None:
        """The kernel, where it can run these weights."""
        embedding = weights.embedding
        if embedding.device.type != "cpu" or embedding.dtype != torch.float32:
            return None
        return cls(config, weights)

    def lm_head(self, hidden: Tensor) -> Tensor:
        """See ``TargetModel``."""
        rows = hidden.shape[0]
        x, logits = self._head_rows(rows)
        np.copyto(x.flat, hidden.detach().numpy())
        self._head.into(x, logits)
        return torch.from_numpy(logits.flat.copy())

    def _head_rows(self, rows: int) -> tuple[Rows, Rows]:
        """Buffers of this thread's :meth:`lm_head`."""
        kept: dict[int, tuple[Rows, Rows]] = self._local.__dict__.setdefault("rows", {})
        found = kept.get(rows)
        if found is None:
            width, size = self._head.matrix.shape
            found = Rows(rows, size, panels=self.panels), Rows(rows, width, panels=self.panels)
            # Verifies have few rows; who asks for more does so seldom.
            if rows <= KEPT_SHAPES:
                kept[rows] = found
        return found

    def run(self, ids: Tensor, mixer: VerifyMixer, features: Sequence[str]) -> StepOutput:
        """The decoder over ids [N, W]; leaves in the mixer what the mixer itself would have.

        State that it leaves in the mixer's slots may lie in buffers: it is good until the next run over the
        same views. All else is new.
        """
        rows, width = ids.shape
        buffers = self.buffers_of(mixer.views)
        s = buffers.shape(rows, width)
        kept: dict[str, Tensor] = {}
        np.copyto(s.x, self.embedding[ids.numpy().ravel()])
        mixer.rotary.load(mixer.starts, s.cos, s.sin)
        # exp overflows where a gate is shut.
        with np.errstate(over="ignore"):
            for index, layer in enumerate(self._layers):
                self._run_layer(s, buffers, index, layer, mixer)
                if f"block:{index}" in features:
                    kept[f"block:{index}"] = torch.from_numpy(s.x.copy()).view(rows, width, -1)
        hidden = self.final(s, self._final_norm).view(rows, width, -1)
        if "final" in features:
            kept["final"] = hidden
        return StepOutput(hidden=hidden, features=kept)

    def _run_layer(
        self, s: Scratch, buffers: Buffers, index: int, layer: HostLayer, mixer: VerifyMixer
    ) -> None:
        """One layer over ``s.x``, in place."""
        self.norm(s, layer.mixer_norm)
        if isinstance(layer.mixer, HostAttention):
            self._run_attention(s, index, layer.mixer, mixer)
        else:
            self._run_delta(s, buffers, index, layer.mixer, mixer)
        np.add(s.x, s.mixed, out=s.x)
        self.run_mlp(s, layer)

    def norm(self, s: Scratch, weight: Floats) -> None:
        """``s.normed`` of ``s.x``."""
        divide_by_length(s.x, self._square, s.dots, s.normed)
        np.multiply(s.normed, weight, out=s.normed)

    def final(self, s: Scratch, weight: Floats) -> Tensor:
        """The norm behind the last layer, [M, H]; a new tensor."""
        self.norm(s, weight)
        return torch.from_numpy(s.normed.copy())

    def transition(
        self,
        state: Tensor,
        pair: Tensor,
        value: Tensor,
        decay: Tensor,
        strength: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """What ``gated_delta.transition`` gives, by the step function of :meth:`run`."""
        after = torch.empty_like(state, memory_format=torch.contiguous_format)
        output = torch.empty(value.shape)
        transition(
            StepScratch(self.config, state.shape[0]),
            state,
            pair.numpy(),
            value.numpy(),
            decay.numpy(),
            strength.numpy(),
            after,
            output.numpy(),
        )
        return after, output

    def buffers_of(self, views: StateViews) -> Buffers:
        """Those of a program's batches."""
        found = self._buffers.get(views)
        if found is None:
            found = self._buffers[views] = Buffers(self.config, self.panels)
        return found

    def layer(self, weights: LayerWeights) -> HostLayer:
        """A decoder layer laid out for this kernel."""
        mlp = weights.mlp
        return HostLayer(
            mixer_norm=weights.mixer_norm.numpy(),
            mixer=self._attention(weights.mixer)
            if isinstance(weights.mixer, AttentionWeights)
            else self._delta(weights.mixer),
            mlp_norm=weights.mlp_norm.numpy(),
            mlp=mlp
            if isinstance(mlp, MixtureWeights)
            else HostMlp(self.product(mlp.gate_up), self.product(mlp.down)),
        )

    def product(self, matrix: Tensor) -> Product:
        """A product with the matrix [O, I] laid out for this kernel."""
        return Product.of(matrix, blas=self.blas, panels=self.panels)

    def _attention(self, weights: AttentionWeights) -> HostAttention:
        norm = weights.norm.clone()
        if self.blas:
            norm[: self.config.query_heads] *= self.config.head_dim**-0.5
        return HostAttention(
            inputs=self.product(weights.inputs), norm=norm.numpy(), out=self.product(weights.out)
        )

    def _delta(self, weights: DeltaWeights) -> HostDelta:
        ones = torch.ones_like(weights.dt_bias)
        return HostDelta(
            inputs=self.product(weights.inputs),
            conv=weights.conv.numpy(),
            sign=torch.cat((-ones, ones)).numpy(),
            bias=torch.cat((0 * ones, weights.dt_bias)).numpy(),
            rate=torch.cat((-ones, weights.decay_rate)).numpy(),
            norm=weights.norm.numpy(),
            out=self.product(weights.out),
        )

    def run_mlp(self, s: Scratch, layer: HostLayer) -> None:
        """The layer's second half over ``s.x``, in place."""
        self.norm(s, layer.mlp_norm)
        weights = layer.mlp
        if isinstance(weights, MixtureWeights):
            np.copyto(s.mixed, mixture(torch.from_numpy(s.normed), weights).numpy())
        else:
            weights.gate_up.into(s.normed_rows, s.inner_rows)
            size = s.opened.shape[1]
            gate, up = s.inner[:, :size], s.inner[:, size:]
            divide_by_sigmoid(gate, s.opened)
            np.divide(gate, s.opened, out=s.opened)
            np.multiply(s.opened, up, out=s.opened)
            weights.down.into(s.opened_rows, s.mixed_rows)
        np.add(s.x, s.mixed, out=s.x)

    def _run_attention(
        self, s: Scratch, index: int, weights: HostAttention, mixer: VerifyMixer
    ) -> None:
        """``s.mixed`` of ``s.normed``."""
        self.project(s, weights)
        name, whole = state_name(index, "kv"), s.kv.shape[1]
        for row, lane in enumerate(mixer.lanes):
            start, width = mixer.starts[row], mixer.widths[row]
            mixer.views.write_pages(name, lane, start, s.torch_kv[row, :width])
            pages = mixer.views.read_pages(name, lane, start + width)
            if mixer.deterministic:
                pages = aligned(pages)
            self.attend(s.queries[row, :width], pages, s.attended_heads[row, :width])
            if width < whole:
                s.attended_heads[row, width:] = 0
        self.finish_attention(s, weights)

    def project(self, s: Scratch, weights: HostAttention) -> None:
        """``s.queries``, ``s.output_gate`` and ``s.kv`` of ``s.normed``."""
        c = self.config
        weights.inputs.into(s.normed_rows, s.attention_rows)
        divide_by_length(s.raw_heads, c.head_dim * c.norm_eps, s.head_dots, s.heads)
        np.multiply(s.heads, weights.norm, out=s.heads)
        np.multiply(s.turning, s.cosines, out=s.turned)
        np.multiply(s.swapped, s.sines, out=s.crossed)
        np.add(s.turned, s.crossed, out=s.turning)
        np.copyto(s.kv[:, :, 0], s.keys)
        np.copyto(s.kv[:, :, 1], s.raw_values)

    def finish_attention(self, s: Scratch, weights: HostAttention) -> None:
        """``s.mixed`` of ``s.attended`` and ``s.output_gate``."""
        divide_by_sigmoid(s.output_gate, s.open)
        np.divide(s.attended, s.open, out=s.attended)
        weights.out.into(s.attended_rows, s.mixed_rows)

    def attend(self, query: Floats, pages: Tensor, out: Floats) -> None:
        """``layers.attend`` of query [W, Nq, D] over pages [L, 2, Nkv, D] into out [W, Nq, D]."""
        if not self.blas:
            function = attend_last if len(query) == 1 else attend
            mixed = function(torch.from_numpy(query), *pages.unbind(1)).numpy()
            np.copyto(out, mixed.reshape(out.shape))
            return
        stored: Floats = pages.numpy()
        width, heads, dim = query.shape
        length, _, kv_heads, _ = stored.shape
        group = heads // kv_heads
        grouped = query.reshape(width, kv_heads, group, dim).transpose(1, 0, 2, 3)
        rows = grouped.reshape(kv_heads, width * group, dim).transpose(0, 2, 1)
        # The other way round, the product would read the keys against their grain.
        columns = np.matmul(stored[:, 0].transpose(1, 0, 2), rows)
        scores = np.ascontiguousarray(columns.transpose(0, 2, 1))
        if width > 1:
            recent = scores.reshape(kv_heads, width, group, length)[..., length - width :]
            recent += _future(width)[:, None]
        np.subtract(scores, np.maximum.reduce(scores, axis=-1, keepdims=True), out=scores)
        np.exp(scores, out=scores)
        mixed = np.matmul(scores, stored[:, 1].transpose(1, 0, 2))
        np.divide(mixed, np.add.reduce(scores, axis=-1, keepdims=True), out=mixed)
        places = out.reshape(width, kv_heads, group, dim).transpose(1, 0, 2, 3)
        np.copyto(places, mixed.reshape(kv_heads, width, group, dim))

    def _run_delta(
        self, s: Scratch, buffers: Buffers, index: int, weights: HostDelta, mixer: VerifyMixer
    ) -> None:
        """``s.mixed`` of ``s.normed``."""
        c = self.config
        weights.inputs.into(s.normed_rows, s.delta_rows)
        rows, width = s.columns.shape[:2]
        step = buffers.step(rows)
        window = s.windows[index]
        kept = c.conv_width - 1
        np.copyto(window[:, :kept], mixer.slot(index, "conv").numpy())
        np.copyto(window[:, kept:], s.columns)
        _convolve(s, window, weights.conv)
        divide_by_length(s.raw_pair, 1e-6, s.pair_dots, s.flat_pair)
        np.multiply(s.raw_gates, weights.sign, out=s.gates)
        np.add(s.gates, weights.bias, out=s.gates)
        np.logaddexp(s.gates, _ZERO, out=s.gates)
        np.multiply(s.gates, weights.rate, out=s.gates)
        np.exp(s.gates, out=s.gates)
        name = state_name(index, "delta")
        state = mixer.slot(index, "delta")
        last = (
            torch.empty_like(state, memory_format=torch.contiguous_format)
            if mixer.deterministic
            else mixer.views.spare_slot(name, rows)
        )
        afters = [last] * width
        if mixer.keeping:
            mixer.kept[name] = buffers.columns(index, rows, width - 1)
            afters = [*mixer.kept[name], last]
            mixer.kept[state_name(index, "conv")] = [
                torch.from_numpy(window[:, column : column + kept]) for column in range(1, width)
            ]
        for column, after in enumerate(afters):
            transition(
                step,
                state,
                s.pair[:, column],
                s.values[:, column],
                s.decay[:, column],
                s.strength[:, column],
                after,
                s.outputs[:, column],
            )
            state = after
        mixer.slots[name] = last
        mixer.slots[state_name(index, "conv")] = torch.from_numpy(window[:, width:])
        if mixer.recording:
            gates = np.stack((s.decay, s.strength), axis=-2)
            values = (s.columns.copy(), s.pair.copy(), s.values.copy(), gates)
            for what, value in zip(RECORDS, values, strict=True):
                mixer.records[state_name(index, what)] = torch.from_numpy(value)
        # The query's scale 1 / sqrt(Dk) is left out before the norm, and multiplies what is added to the square.
        square = c.value_dim * c.norm_eps * c.key_dim
        divide_by_length(s.flat_outputs, square, s.output_dots, s.gated)
        np.multiply(s.gated, weights.norm, out=s.gated)
        divide_by_sigmoid(s.delta_gate, s.silu)
        np.divide(s.delta_gate, s.silu, out=s.silu)
        np.multiply(s.gated, s.silu, out=s.gated)
        weights.out.into(s.gated_rows, s.mixed_rows)


def _matrices(weights: ModelWeights) -> Iterator[Tensor]:
    """All that :class:`Product` multiplies with."""
    yield weights.head
    for layer in weights.layers:
        yield layer.mixer.inputs
        yield layer.mixer.out
        if not isinstance(layer.mlp, MixtureWeights):
            yield layer.mlp.gate_up
            yield layer.mlp.down


def _convolve(s: Scratch, window: Floats, taps: Floats) -> None:
    """``gated_delta.causal_conv`` of the window into ``s.convolved``."""
    width = s.convolved.shape[1]
    if width == 1:
        np.multiply(window, taps, out=s.tapped)
        np.add.reduce(s.tapped, axis=1, keepdims=True, out=s.convolved)
    else:
        np.multiply(window[:, :width], taps[0], out=s.convolved)
        for offset, tap in enumerate(taps[1:], start=1):
            np.multiply(window[:, offset : offset + width], tap, out=s.conv_gate)
            np.add(s.convolved, s.conv_gate, out=s.convolved)
    divide_by_sigmoid(s.convolved, s.conv_gate)
    np.divide(s.convolved, s.conv_gate, out=s.convolved)


@functools.lru_cache(maxsize=64)
def _future(width: int) -> Floats:
    return np.triu(np.full((width, width), -np.inf, dtype=np.float32), 1)
