"""How one forward runs the two kinds of mixers over the program's state: a prompt chunk, or verify columns."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from attrs import define, field, frozen
from torch import Tensor

from infernix_core.host_arrays import aligned
from infernix_core.interfaces.model import StateViews
from infernix_qwen3_5.config import ModelConfig
from infernix_qwen3_5.gated_delta import (
    DeltaInputs,
    causal_conv,
    delta_inputs,
    run_chunks,
    run_steps,
)
from infernix_qwen3_5.layers import (
    attend,
    attend_block,
    attend_last,
    gated_rms_norm,
    mlp,
    rms_norm,
    rotate,
)
from infernix_qwen3_5.mixture import MixtureWeights, mixture
from infernix_qwen3_5.rotary import Rotary, RotaryTables
from infernix_qwen3_5.weights import AttentionWeights, DeltaWeights, LayerWeights

#: What a verify records per column; ``fold`` replays it.
RECORDS = ("column", "pair", "value", "gates")


#: The draft layer's place among the layers.
MTP = -1


def state_name(layer: int, what: str) -> str:
    """The name of a layer's piece of state."""
    return f"qwen3_5.mtp.{what}" if layer == MTP else f"qwen3_5.layer{layer}.{what}"


@frozen(eq=False)
class AttentionInputs:
    """An attention layer's projections.

    Attributes:
        query: [N, W, Nq, D], normed and rotated.
        gate: [N, W, Nq * D], raw.
        kv: [N, W, 2, Nkv, D]: normed and rotated keys, raw values.
    """

    query: Tensor
    gate: Tensor
    kv: Tensor


def project_attention(
    config: ModelConfig, weights: AttentionWeights, x: Tensor, tables: RotaryTables
) -> AttentionInputs:
    """Queries, gates, keys and values of the normed input x [N, W, H]."""
    lead, dim, heads = x.shape[:-1], config.head_dim, config.query_heads
    turned = (heads + config.kv_heads) * dim
    projected = F.linear(x, weights.inputs)
    query_key = projected[..., :turned].view(*lead, -1, dim)
    query_key = rotate(rms_norm(query_key, weights.norm, config.norm_eps), *tables)
    values = projected[..., turned + heads * dim :].view(*lead, config.kv_heads, dim)
    return AttentionInputs(
        query=query_key[..., :heads, :],
        gate=projected[..., turned : turned + heads * dim],
        kv=torch.stack((query_key[..., heads:, :], values), dim=-3),
    )


def project_delta(
    config: ModelConfig, weights: DeltaWeights, x: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Raw convolution columns [..., C], gate z [..., Hv * Dv], b and a [..., Hv] of x [..., H]."""
    heads = config.value_heads
    sizes = [config.conv_channels, heads * config.value_dim, heads, heads]
    columns, gate, strength, step = torch.split(F.linear(x, weights.inputs), sizes, dim=-1)
    return columns, gate, strength, step


def finish_delta(
    config: ModelConfig, weights: DeltaWeights, outputs: Tensor, gate: Tensor
) -> Tensor:
    """Gated norm per value head and the output projection: float32 [..., Hv, Dv] → [..., H]."""
    gates = gate.reshape(outputs.shape)
    normed = gated_rms_norm(outputs, gates, weights.norm, config.norm_eps)
    return F.linear(normed.flatten(-2), weights.out)


def convolved_inputs(
    config: ModelConfig,
    weights: DeltaWeights,
    window: Tensor,
    strength: Tensor,
    step: Tensor,
    dtype: torch.dtype,
) -> DeltaInputs:
    """What the recurrence takes, from raw columns behind their history: [..., K - 1 + W, C] → [..., W, ...]."""
    return delta_inputs(
        causal_conv(window, weights.conv),
        strength,
        step,
        weights.decay_rate,
        weights.dt_bias,
        key_heads=config.key_heads,
        key_dim=config.key_dim,
        dtype=dtype,
    )


@define(eq=False)
class PrefillMixer:
    """A prompt chunk of one lane, from a position on the grid. Advances the lane's slots in place."""

    config: ModelConfig
    views: StateViews
    lane: int
    start: int
    rotary: Rotary
    deterministic: bool = False
    _tables: RotaryTables | None = field(default=None, init=False)

    def attention(self, layer: int, weights: AttentionWeights, x: Tensor) -> Tensor:
        """Causal over the chunk and all that came before: [1, W, H] → [1, W, H]."""
        inputs = project_attention(self.config, weights, x, self._turns(x.shape[1]))
        name = state_name(layer, "kv")
        self.views.write_pages(name, self.lane, self.start, inputs.kv[0])
        pages = self.views.read_pages(name, self.lane, self.start + x.shape[1])
        if self.deterministic:
            pages = aligned(pages)
        mixed = attend_block(inputs.query[0], pages[:, 0], pages[:, 1])
        return F.linear(mixed * inputs.gate[0].sigmoid(), weights.out).unsqueeze(0)

    def _turns(self, width: int) -> RotaryTables:
        """The chunk's rotary tables, the same for all layers."""
        if self._tables is None:
            self._tables = self.rotary.tables((self.start,), width)
        return self._tables

    def delta(self, layer: int, weights: DeltaWeights, x: Tensor) -> Tensor:
        """The chunked form: [1, W, H] → [1, W, H]."""
        config, lanes = self.config, (self.lane,)
        columns, gate, strength, step = project_delta(config, weights, x[0])
        history = self.views.read_slot(state_name(layer, "conv"), lanes)[0]
        window = torch.cat((history, columns))
        inputs = convolved_inputs(config, weights, window, strength, step, x.dtype)
        state = self.views.read_slot(state_name(layer, "delta"), lanes)[0]
        outputs, state = run_chunks(inputs, state)
        recent = window[columns.shape[0] :]
        self.views.write_slot(state_name(layer, "delta"), lanes, state.unsqueeze(0))
        self.views.write_slot(state_name(layer, "conv"), lanes, recent.unsqueeze(0))
        return finish_delta(config, weights, outputs, gate).unsqueeze(0)


@define(eq=False)
class VerifyMixer:
    """Columns of several lanes by the step form. Slots are read, records are collected.

    Attributes:
        slots: Slot state in scratch, by name. Read from the views where absent and left behind after the
            last column, so that a further column of the same rows can go on from it.
        recording: Whether ``records`` are collected.
        records: What ``fold`` needs where it takes a part of the columns, by name, [N, W, ...].
        keeping: Whether ``kept`` takes the place of the records.
        kept: The slot state after every column but the last, by name and column, [N, ...].
    """

    config: ModelConfig
    views: StateViews
    lanes: Sequence[int]
    starts: Sequence[int]
    widths: Sequence[int]
    rotary: Rotary
    deterministic: bool = False
    slots: dict[str, Tensor] = field(factory=dict)
    recording: bool = True
    records: dict[str, Tensor] = field(factory=dict)
    keeping: bool = False
    kept: dict[str, list[Tensor]] = field(factory=dict)
    _tables: RotaryTables | None = field(default=None, init=False)

    def attention(self, layer: int, weights: AttentionWeights, x: Tensor) -> Tensor:
        """Each row over exactly its own positions: [N, W, H] → [N, W, H]."""
        inputs = project_attention(self.config, weights, x, self._turns(x.shape[1]))
        name = state_name(layer, "kv")
        whole, rows = x.shape[1], []
        for row, lane in enumerate(self.lanes):
            start, width = self.starts[row], self.widths[row]
            self.views.write_pages(name, lane, start, inputs.kv[row, :width])
            pages = self.views.read_pages(name, lane, start + width)
            if self.deterministic:
                pages = aligned(pages)
            keys, values = pages.unbind(1)
            if width == 1:
                mixed = attend_last(inputs.query[row, :1], keys, values)
            else:
                mixed = attend(inputs.query[row, :width], keys, values)
            rows.append(mixed if width == whole else F.pad(mixed, (0, 0, 0, whole - width)))
        mixed = rows[0].unsqueeze(0) if len(rows) == 1 else torch.stack(rows)
        return F.linear(mixed * inputs.gate.sigmoid(), weights.out)

    def delta(self, layer: int, weights: DeltaWeights, x: Tensor) -> Tensor:
        """The step form, column after column: [N, W, H] → [N, W, H]."""
        config = self.config
        columns, gate, strength, step = project_delta(config, weights, x)
        window = torch.cat((self.slot(layer, "conv"), columns), dim=1)
        inputs = convolved_inputs(config, weights, window, strength, step, x.dtype)
        decay = inputs.log_decay.exp()
        spare = None
        if not self.deterministic:
            spare = self.views.spare_slot(state_name(layer, "delta"), x.shape[0])
        state = self.slot(layer, "delta")
        outputs, state = run_steps(inputs.pair, inputs.value, decay, inputs.strength, state, spare)
        self.slots[state_name(layer, "delta")] = state
        self.slots[state_name(layer, "conv")] = window[:, columns.shape[1] :]
        if self.recording:
            gates = torch.stack((decay, inputs.strength), dim=-2)
            values = (columns, inputs.pair, inputs.value, gates)
            for what, value in zip(RECORDS, values, strict=True):
                self.records[state_name(layer, what)] = value
        return finish_delta(config, weights, outputs, gate)

    def _turns(self, width: int) -> RotaryTables:
        """The columns' rotary tables, the same for all layers."""
        if self._tables is None:
            self._tables = self.rotary.tables(self.starts, width)
        return self._tables

    def slot(self, layer: int, what: str) -> Tensor:
        """The rows' SLOT state, from scratch or from the views; not to be written."""
        name = state_name(layer, what)
        value = self.slots.get(name)
        if value is not None:
            return value
        # What a copy has that a view has not: the same alignment whatever the lanes.
        read = self.views.read_slot if self.deterministic else self.views.peek_slot
        return read(name, self.lanes)


def run_layer(
    mixer: PrefillMixer | VerifyMixer, index: int, layer: LayerWeights, x: Tensor, eps: float
) -> Tensor:
    """A decoder layer over the residual stream x [N, W, H]."""
    normed = rms_norm(x, layer.mixer_norm, eps)
    if isinstance(layer.mixer, AttentionWeights):
        x = x + mixer.attention(index, layer.mixer, normed)
    else:
        x = x + mixer.delta(index, layer.mixer, normed)
    normed = rms_norm(x, layer.mlp_norm, eps)
    if isinstance(layer.mlp, MixtureWeights):
        return x + mixture(normed, layer.mlp)
    return x + mlp(normed, layer.mlp.gate_up, layer.mlp.down)
