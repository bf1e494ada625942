"""The buffers of the verify step on the CPU, by the shapes of batches; every view of them that the step needs."""

from __future__ import annotations

import math
from typing import Any

import torch
from attrs import define, field
from torch import Tensor

from infernix_core.host_arrays import new_floats
from infernix_qwen3_5.config import LINEAR, ModelConfig
from infernix_qwen3_5.products import Rows

#: Shapes whose buffers are kept per state: rows times columns of the batches that were seen.
KEPT_SHAPES = 32


class StepScratch:
    """The recurrence's buffers for N rows."""

    def __init__(self, config: ModelConfig, rows: int) -> None:
        heads, size = config.value_heads, config.value_dim
        groups = heads // config.key_heads
        self.grouped = new_floats(rows, config.key_heads, groups, 2, config.key_dim)
        self.pairs = self.grouped.reshape(rows, heads, 2, config.key_dim)
        self.query = self.pairs[:, :, :1]
        self.key = self.pairs[:, :, 1, :, None]
        self.seen = new_floats(rows, heads, 2, size)
        self.written = new_floats(rows, heads, size)
        self.product = new_floats(rows, heads, size)
        self.overlap = new_floats(rows, heads, 1, 1)
        self.fade = new_floats(rows, heads, 1, 1)
        self.torch_key = torch.from_numpy(self.key)
        self.torch_written = torch.from_numpy(self.written).unsqueeze(2)
        self.torch_fade = torch.from_numpy(self.fade)


class Scratch:
    """Buffers of a forward of N rows and W columns, M = N * W: shared by the layers, but for the windows."""

    def __init__(self, config: ModelConfig, rows: int, width: int, *, panels: bool) -> None:
        c, count = config, rows * width
        size = c.hidden_size

        def new_rows(columns: int) -> Rows:
            return Rows(count, columns, panels=panels)

        self.x = new_floats(count, size)
        self.dots = new_floats(count, 1, 1)
        self.normed_rows, self.mixed_rows = new_rows(size), new_rows(size)
        self.normed, self.mixed = self.normed_rows.flat, self.mixed_rows.flat
        self.inner_rows = new_rows(2 * c.intermediate_size)
        self.opened_rows = new_rows(c.intermediate_size)
        self.inner, self.opened = self.inner_rows.flat, self.opened_rows.flat

        heads = c.query_heads + c.kv_heads
        turned, queries = heads * c.head_dim, c.query_heads * c.head_dim
        self.attention_rows = new_rows(2 * turned)
        attention = self.attention_rows.flat
        self.raw_heads = attention[:, :turned].reshape(count, heads, c.head_dim)
        self.output_gate = attention[:, turned : turned + queries]
        self.raw_values = attention[:, turned + queries :].reshape(
            rows, width, c.kv_heads, c.head_dim
        )
        self.heads = new_floats(count, heads, c.head_dim)
        self.head_dots = new_floats(count, heads, 1, 1)
        half = c.rotary_dim // 2
        self.turning = self.heads[..., : c.rotary_dim].reshape(count, heads, 2, half)
        self.swapped = self.turning[:, :, ::-1]
        self.turned = new_floats(count, heads, 2, half)
        self.crossed = new_floats(count, heads, 2, half)
        self.cos = new_floats(rows, width, 1, 1, half)
        self.sin = new_floats(rows, width, 1, 2, half)
        rotary = (count, 1, -1, half)
        self.cosines, self.sines = self.cos.reshape(rotary), self.sin.reshape(rotary)
        by_row = self.heads.reshape(rows, width, heads, c.head_dim)
        self.queries, self.keys = by_row[:, :, : c.query_heads], by_row[:, :, c.query_heads :]
        self.kv = new_floats(rows, width, 2, c.kv_heads, c.head_dim)
        self.torch_kv = torch.from_numpy(self.kv)
        self.attended_rows = new_rows(queries)
        self.attended = self.attended_rows.flat
        self.attended_heads = self.attended.reshape(rows, width, c.query_heads, c.head_dim)
        self.open = new_floats(count, queries)

        channels, values = c.conv_channels, c.value_heads * c.value_dim
        self.delta_rows = new_rows(channels + values + 2 * c.value_heads)
        delta = self.delta_rows.flat
        self.columns = delta[:, :channels].reshape(rows, width, channels)
        self.delta_gate = delta[:, channels : channels + values].reshape(
            count, c.value_heads, c.value_dim
        )
        self.raw_gates = delta[:, channels + values :]
        kept = c.conv_width - 1
        #: By the index of a Gated DeltaNet layer.
        self.windows = {
            index: new_floats(rows, kept + width, channels)
            for index, kind in enumerate(c.layer_types)
            if kind == LINEAR
        }
        self.tapped = new_floats(rows, kept + width, channels)
        self.convolved = new_floats(rows, width, channels)
        self.conv_gate = new_floats(rows, width, channels)
        pairs = self.convolved[..., : channels - values]
        self.raw_pair = pairs.reshape(count, 2 * c.key_heads, c.key_dim)
        self.pair_dots = new_floats(count, 2 * c.key_heads, 1, 1)
        self.pair = new_floats(rows, width, 2, c.key_heads, c.key_dim)
        self.flat_pair = self.pair.reshape(count, 2 * c.key_heads, c.key_dim)
        self.values = self.convolved[..., channels - values :].reshape(
            rows, width, c.value_heads, c.value_dim
        )
        self.gates = new_floats(count, 2 * c.value_heads)
        gates = self.gates.reshape(rows, width, 2, c.value_heads)
        self.strength, self.decay = gates[:, :, 0], gates[:, :, 1]
        self.outputs = new_floats(rows, width, c.value_heads, c.value_dim)
        self.flat_outputs = self.outputs.reshape(count, c.value_heads, c.value_dim)
        self.output_dots = new_floats(count, c.value_heads, 1, 1)
        self.silu = new_floats(count, c.value_heads, c.value_dim)
        self.gated_rows = new_rows(values)
        self.gated = self.gated_rows.flat.reshape(count, c.value_heads, c.value_dim)


class Pairs:
    """What the draft layer begins with for M cells: an embedding and a hidden side by side."""

    def __init__(self, config: ModelConfig, count: int, *, panels: bool) -> None:
        self.rows = Rows(count, 2 * config.hidden_size, panels=panels)
        self.parts = self.rows.flat.reshape(count, 2, config.hidden_size)
        self.dots = new_floats(count, 2, 1, 1)


@define(eq=False)
class Buffers:
    """What one program's batches reuse: two programs may run one model in two threads."""

    config: ModelConfig
    panels: bool
    shapes: dict[tuple[int, int], Scratch] = field(factory=dict)
    steps: dict[int, StepScratch] = field(factory=dict)
    states: dict[int, Tensor] = field(factory=dict)
    joints: dict[int, Pairs] = field(factory=dict)

    def shape(self, rows: int, width: int) -> Scratch:
        """Those of a batch of N rows and W columns."""
        found = self.shapes.get((rows, width))
        if found is None:
            _make_room(self.shapes)
            found = Scratch(self.config, rows, width, panels=self.panels)
            self.shapes[rows, width] = found
        return found

    def columns(self, layer: int, rows: int, count: int) -> list[Tensor]:
        """For the recurrent state of a layer after each of so many columns: [rows, Hv, Dk, Dv] each."""
        c = self.config
        shape = (rows, c.value_heads, c.key_dim, c.value_dim)
        size = math.prod(shape)
        found = self.states.get(layer)
        if found is None or len(found) < size * count:
            found = self.states[layer] = torch.empty(size * count)
        return [found[at * size : (at + 1) * size].view(shape) for at in range(count)]

    def step(self, rows: int) -> StepScratch:
        """Those of the recurrence over N rows."""
        found = self.steps.get(rows)
        if found is None:
            found = self.steps[rows] = StepScratch(self.config, rows)
        return found

    def pairs(self, count: int) -> Pairs:
        """Those of M cells of the draft layer."""
        found = self.joints.get(count)
        if found is None:
            _make_room(self.joints)
            found = self.joints[count] = Pairs(self.config, count, panels=self.panels)
        return found


def _make_room(kept: dict[Any, Any]) -> None:
    """Drops what was made first, when there are as many as are kept."""
    if len(kept) >= KEPT_SHAPES:
        del kept[next(iter(kept))]
