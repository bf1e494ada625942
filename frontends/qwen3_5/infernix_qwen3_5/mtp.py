"""The MTP draft layer as a ``DraftHead``: one more decoder layer, from a token and the hidden before it.

For a cell at position t, with N the zero-centred RMS norm and all products without bias::

    u = fc [N(embed(x_{t+1})); N(hidden_t)]        hidden_t as ``lm_head`` takes it
    out = N(layer(u))                              gated full attention at rotary position t over cells 0 … t
    lm_head(out) predicts x_{t+2}, and out stands for hidden_{t+1} where a draft stands for x_{t+2}

The layer is the formulas of ``layers`` and ``mixers``; on the CPU in float32 those of ``host``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from infernix_core.host_arrays import Floats, divide_by_length
from infernix_core.interfaces.model import ForwardBatch, StateKind, StateSpec, StateViews
from infernix_qwen3_5.config import ModelConfig
from infernix_qwen3_5.host import HostAttention, HostStep
from infernix_qwen3_5.layers import rms_norm, rotate
from infernix_qwen3_5.mixers import MTP, VerifyMixer, run_layer, state_name
from infernix_qwen3_5.mtp_weights import MtpWeights
from infernix_qwen3_5.rotary import Rotary
from infernix_qwen3_5.weights import AttentionWeights


class MtpHead:
    """Implements ``DraftHead``.

    Args:
        config: Sizes.
        weights: Of the draft layer.
        embedding: The model's, [R, H].
        rotary: The model's.
        host: The model's numpy kernel, which then runs the layer too.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: MtpWeights,
        embedding: Tensor,
        rotary: Rotary,
        host: HostStep | None,
    ) -> None:
        self.config = config
        self.weights = weights
        self._embedding = embedding
        self._rotary = rotary
        self._host = HostMtp(host, weights) if host is not None else None

    def states(self) -> Sequence[StateSpec]:
        """See ``DraftHead``: one layer's KV."""
        c = self.config
        shape = (2, c.kv_heads, c.head_dim)
        return (StateSpec(state_name(MTP, "kv"), StateKind.PAGED, shape, self._embedding.dtype),)

    def forward(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> Tensor:
        """See ``DraftHead``."""
        if self._host is not None:
            return self._host.run(batch, hidden, self._rotary, views)
        w, eps = self.weights, self.config.norm_eps
        lanes, starts, widths = batch.lanes, batch.starts, batch.widths
        mixer = VerifyMixer(
            self.config, views, lanes, starts, widths, self._rotary, recording=False
        )
        with torch.inference_mode():
            x = run_layer(mixer, MTP, w.layer, self._joined(batch.ids, hidden), eps)
            last = x[range(len(widths)), [width - 1 for width in widths]]
            output = rms_norm(last, w.final_norm, eps)
        # An ordinary tensor: see ``Qwen3_5Target.forward``.
        return output.clone()

    @torch.inference_mode()
    def store(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> None:
        """See ``DraftHead``."""
        c, layer = self.config, self.weights.layer
        assert isinstance(layer.mixer, AttentionWeights)
        x = rms_norm(self._joined(batch.ids, hidden), layer.mixer_norm, c.norm_eps)
        queries, heads = c.query_heads, c.query_heads + c.kv_heads
        size = c.kv_heads * c.head_dim
        inputs = layer.mixer.inputs[queries * c.head_dim : heads * c.head_dim]
        lead = (*batch.ids.shape, c.kv_heads, c.head_dim)
        keys = rms_norm(F.linear(x, inputs).view(lead), layer.mixer.norm[queries:], c.norm_eps)
        values = F.linear(x, layer.mixer.inputs[-size:]).view(lead)
        tables = self._rotary.tables(batch.starts, batch.ids.shape[1])
        kv = torch.stack((rotate(keys, *tables), values), dim=-3)
        for row, (lane, start) in enumerate(zip(batch.lanes, batch.starts, strict=True)):
            views.write_pages(state_name(MTP, "kv"), lane, start, kv[row, : batch.widths[row]])

    def _joined(self, ids: Tensor, hidden: Tensor) -> Tensor:
        """What the layer runs over, [N, W, H]."""
        w, eps = self.weights, self.config.norm_eps
        embedded = rms_norm(F.embedding(ids, self._embedding), w.embedding_norm, eps)
        return F.linear(torch.cat((embedded, rms_norm(hidden, w.hidden_norm, eps)), -1), w.inputs)


class HostMtp:
    """The draft layer in numpy: the parts of the model's own step, over its buffers."""

    def __init__(self, host: HostStep, weights: MtpWeights) -> None:
        self.host = host
        norms = torch.stack((weights.embedding_norm, weights.hidden_norm))
        self._norms: Floats = norms.numpy()
        self._inputs = host.product(weights.inputs)
        self._layer = host.layer(weights.layer)
        self._final_norm: Floats = weights.final_norm.numpy()

    def run(self, batch: ForwardBatch, hidden: Tensor, rotary: Rotary, views: StateViews) -> Tensor:
        """The layer over N rows of W cells and hidden [N, W, H]; a new [N, H]."""
        host, layer, (rows, width) = self.host, self._layer, batch.ids.shape
        assert isinstance(layer.mixer, HostAttention)
        buffers = host.buffers_of(views)
        s, pairs = buffers.shape(rows, width), buffers.pairs(rows * width)
        size = s.x.shape[1]
        pairs.parts[:, 0] = host.embedding[batch.ids.numpy().ravel()]
        pairs.parts[:, 1] = hidden.numpy().reshape(-1, size)
        divide_by_length(pairs.parts, size * host.config.norm_eps, pairs.dots, pairs.parts)
        np.multiply(pairs.parts, self._norms, out=pairs.parts)
        self._inputs.into(pairs.rows, s.mixed_rows)
        np.copyto(s.x, s.mixed)
        rotary.load(batch.starts, s.cos, s.sin)
        host.norm(s, layer.mixer_norm)
        host.project(s, layer.mixer)
        # Only what the last cells predict is asked for.
        last = s if width == 1 else buffers.shape(rows, 1)
        name = state_name(MTP, "kv")
        for row, (lane, start) in enumerate(zip(batch.lanes, batch.starts, strict=True)):
            count = batch.widths[row]
            views.write_pages(name, lane, start, s.torch_kv[row, :count])
            pages = views.read_pages(name, lane, start + count)
            host.attend(s.queries[row, count - 1 : count], pages, last.attended_heads[row])
            if width > 1:
                end = row * width + count - 1
                last.x[row] = s.x[end]
                last.output_gate[row] = s.output_gate[end]
        # exp overflows where a gate is shut.
        with np.errstate(over="ignore"):
            host.finish_attention(last, layer.mixer)
            np.add(last.x, last.mixed, out=last.x)
            host.run_mlp(last, layer)
        return host.final(last, self._final_norm)
