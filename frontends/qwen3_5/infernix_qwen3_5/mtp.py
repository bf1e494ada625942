"""The MTP draft layer as a ``DraftHead``: one more decoder layer, from a token and the hidden before it.

For a cell at position t, with N the zero-centred RMS norm and all products without bias::

    u = fc [N(embed(x_{t+1})); N(hidden_t)]        hidden_t as ``lm_head`` takes it
    out = N(layer(u))                              gated full attention at rotary position t over cells 0 … t
    lm_head(out) predicts x_{t+2}, and out stands for hidden_{t+1} where a draft stands for x_{t+2}

The layer is the formulas of ``layers`` and ``mixers``; on the CPU in float32 those of ``host``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from infernix_core.interfaces.model import ForwardBatch, StateKind, StateSpec, StateViews
from infernix_qwen3_5.config import ModelConfig
from infernix_qwen3_5.host import HostStep, divide_by_length
from infernix_qwen3_5.layers import rms_norm, rotate
from infernix_qwen3_5.mixers import MTP, RotaryTables, VerifyMixer, run_layer, state_name
from infernix_qwen3_5.mtp_weights import MtpWeights
from infernix_qwen3_5.products import Floats
from infernix_qwen3_5.weights import AttentionWeights

#: Gives cosines and sines for starts [N] and ids [N, W].
Tables = Callable[[Sequence[int], Tensor], RotaryTables]


class MtpHead:
    """Implements ``DraftHead``.

    Args:
        config: Sizes.
        weights: Of the draft layer.
        embedding: The model's, [R, H].
        tables: The model's rotary tables.
        host: The model's numpy kernel, which then runs the layer too.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: MtpWeights,
        embedding: Tensor,
        tables: Tables,
        host: HostStep | None,
    ) -> None:
        self.config = config
        self.weights = weights
        self._embedding = embedding
        self._tables = tables
        self._host = HostMtp(host, weights) if host is not None else None

    def states(self) -> Sequence[StateSpec]:
        """See ``DraftHead``: one layer's KV."""
        c = self.config
        shape = (2, c.kv_heads, c.head_dim)
        return (StateSpec(state_name(MTP, "kv"), StateKind.PAGED, shape, self._embedding.dtype),)

    def forward(self, batch: ForwardBatch, hidden: Tensor, views: StateViews) -> Tensor:
        """See ``DraftHead``."""
        tables = self._tables(batch.starts, batch.ids)
        mixer = VerifyMixer(
            self.config, views, batch.lanes, batch.starts, batch.widths, tables, recording=False
        )
        if self._host is not None:
            return self._host.run(batch.ids, hidden, mixer)
        w, eps = self.weights, self.config.norm_eps
        with torch.inference_mode():
            x = run_layer(mixer, MTP, w.layer, self._joined(batch.ids, hidden), eps)
            output = rms_norm(x, w.final_norm, eps)
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
        kv = torch.stack((rotate(keys, *self._tables(batch.starts, batch.ids)), values), dim=-3)
        for row, (lane, start) in enumerate(zip(batch.lanes, batch.starts, strict=True)):
            views.write_pages(state_name(MTP, "kv"), lane, start, kv[row, : batch.widths[row]])

    def _joined(self, ids: Tensor, hidden: Tensor) -> Tensor:
        """What the layer runs over, [N, W, H]."""
        w, eps = self.weights, self.config.norm_eps
        embedded = rms_norm(F.embedding(ids, self._embedding), w.embedding_norm, eps)
        return F.linear(torch.cat((embedded, rms_norm(hidden, w.hidden_norm, eps)), -1), w.inputs)


class HostMtp:
    """The draft layer in numpy, over the buffers and by the layer of the model's own step."""

    def __init__(self, host: HostStep, weights: MtpWeights) -> None:
        self.host = host
        self._embedding_norm: Floats = weights.embedding_norm.numpy()
        self._hidden_norm: Floats = weights.hidden_norm.numpy()
        self._inputs = host.product(weights.inputs)
        self._layer = host.layer(weights.layer)
        self._final_norm: Floats = weights.final_norm.numpy()

    def run(self, ids: Tensor, hidden: Tensor, mixer: VerifyMixer) -> Tensor:
        """The layer over ids [N, W] and hidden [N, W, H]; the result is new."""
        host, (rows, width) = self.host, ids.shape
        buffers = host.buffers_of(mixer.views)
        s, joined = buffers.shape(rows, width), buffers.joined(rows * width)
        size = host.config.hidden_size
        square = size * host.config.norm_eps
        np.copyto(s.x, host.embedding[ids.numpy().ravel()])
        divide_by_length(s.x, square, s.dots, s.normed)
        np.multiply(s.normed, self._embedding_norm, out=joined.flat[:, :size])
        divide_by_length(hidden.numpy().reshape(-1, size), square, s.dots, s.normed)
        np.multiply(s.normed, self._hidden_norm, out=joined.flat[:, size:])
        self._inputs.into(joined, s.mixed_rows)
        np.copyto(s.x, s.mixed)
        host.load_tables(s, mixer)
        with np.errstate(over="ignore"):
            host.run_layer(s, buffers, MTP, self._layer, mixer)
        return host.final(s, self._final_norm).view(rows, width, size)
