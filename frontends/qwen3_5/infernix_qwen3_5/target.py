"""The Qwen3.5 text model as a ``TargetModel``: mathematics over state that the program owns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from infernix_core.errors import CheckpointError, IntegrityError
from infernix_core.interfaces.model import (
    DraftHead,
    ForwardBatch,
    StateKind,
    StateSpec,
    StateViews,
    StepKind,
    StepOutput,
)
from infernix_qwen3_5.config import FULL, ModelConfig
from infernix_qwen3_5.gated_delta import CHUNK, replay, transition
from infernix_qwen3_5.host import HostStep
from infernix_qwen3_5.layers import rms_norm
from infernix_qwen3_5.mixers import RECORDS, PrefillMixer, VerifyMixer, run_layer, state_name
from infernix_qwen3_5.mtp import MtpHead
from infernix_qwen3_5.mtp_weights import MtpSource
from infernix_qwen3_5.rotary import Rotary
from infernix_qwen3_5.weights import ModelWeights

#: Most bytes of recurrent state that a verify on the CPU keeps after columns before the last: a fold that takes fewer
#: columns reads its state there. Beyond that it computes the columns again.
KEPT_BYTES = 64 << 20


@frozen(eq=False)
class Ahead:
    """What a verify leaves behind for its fold, beside the records.

    Attributes:
        lanes: Its rows.
        width: Its columns W.
        slots: SLOT state after the last column, by name, [N, ...].
        kept: That after each column before it, by name, where it was kept.
    """

    lanes: tuple[int, ...]
    width: int
    slots: dict[str, Tensor]
    kept: dict[str, list[Tensor]]

    def holds(self, counts: Sequence[int]) -> bool:
        """Whether no step has to be computed again: every row's state after its columns is here."""
        return bool(self.kept) or all(count in (0, self.width) for count in counts)

    def after(self, name: str, rows: Sequence[int], counts: Sequence[int]) -> Tensor:
        """A slot of these rows after their first ``counts`` columns, 1 … W: [len(rows), ...]."""
        last = self.slots[name]
        if all(count == self.width for count in counts):
            return last if len(rows) == len(last) else last[rows]
        states = (*self.kept[name], last)
        return torch.stack(
            [states[count - 1][row] for row, count in zip(rows, counts, strict=True)]
        )


class Qwen3_5Target:  # noqa: N801 - the family's own name
    """Implements ``TargetModel``.

    Features: ``final``, the hidden after the final norm (what ``lm_head`` takes); ``block:i``, the residual
    stream after decoder layer i.

    Deterministic mode cuts a batch into pieces of one shape, a grid chunk of a prompt or one column of
    one row, and runs each alone. A piece's numbers then cannot depend on the batch, on the width or
    on the chunking, whatever kernels a BLAS library picks for a shape.

    Args:
        config: Sizes.
        weights: On one device and in one dtype (norms, convolution and gates in float32).
        deterministic: See above.
        reference: Whether verifying is left to torch where there is a kernel for the device, too.
        mtp: The checkpoint's draft layer, which is read when it is asked for.
    """

    def __init__(
        self,
        config: ModelConfig,
        weights: ModelWeights,
        *,
        deterministic: bool = False,
        reference: bool = False,
        mtp: MtpSource | None = None,
    ) -> None:
        self.config = config
        self.weights = weights
        self.deterministic = deterministic
        self._host = None if reference else HostStep.of(config, weights)
        self.rotary = Rotary(config.rotary_dim, config.rope_theta, self.device, self.dtype)
        self._state_bytes = 4 * config.value_heads * config.key_dim * config.value_dim
        self._state_bytes *= sum(kind != FULL for kind in config.layer_types)
        self._ahead: WeakKeyDictionary[StateViews, Ahead] = WeakKeyDictionary()
        self._mtp = mtp
        self._mtp_head: MtpHead | None = None
        names = ("final", *(f"block:{layer}" for layer in range(len(config.layer_types))))
        self.features: Mapping[str, int] = dict.fromkeys(names, config.hidden_size)

    @property
    def logits_width(self) -> int:
        """Rows of the output matrix, padding included."""
        return self.weights.head.shape[0]

    @property
    def grid(self) -> int:
        """Prompt chunks start at multiples of a recurrence chunk."""
        return CHUNK

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.weights.embedding.device

    @property
    def dtype(self) -> torch.dtype:
        """Of weights and activations."""
        return self.weights.embedding.dtype

    def states(self) -> Sequence[StateSpec]:
        """KV pages per attention layer; delta and convolution slots, and their records, per GDN layer."""
        c = self.config
        specs = []
        for layer, kind in enumerate(c.layer_types):
            if kind == FULL:
                shape = (2, c.kv_heads, c.head_dim)
                specs.append(StateSpec(state_name(layer, "kv"), StateKind.PAGED, shape, self.dtype))
                continue
            slots = {
                "delta": ((c.value_heads, c.key_dim, c.value_dim), torch.float32),
                "conv": ((c.conv_width - 1, c.conv_channels), self.dtype),
            }
            records = {
                "column": ((c.conv_channels,), self.dtype),
                "pair": ((2, c.key_heads, c.key_dim), torch.float32),
                "value": ((c.value_heads, c.value_dim), self.dtype),
                "gates": ((2, c.value_heads), torch.float32),
            }
            for kind_of, pieces in ((StateKind.SLOT, slots), (StateKind.RECORD, records)):
                specs += [
                    StateSpec(state_name(layer, what), kind_of, shape, dtype)
                    for what, (shape, dtype) in pieces.items()
                ]
        return tuple(specs)

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """See ``TargetModel``.

        Raises:
            ValueError: An unknown feature, or a prompt chunk that starts off the grid.
        """
        if unknown := set(features) - self.features.keys():
            raise ValueError(f"no features {sorted(unknown)}; there are {sorted(self.features)}")
        run = self._prefill if batch.kind is StepKind.PREFILL else self._verify
        with torch.inference_mode():
            output = run(batch, views, features)
        # Callers get ordinary tensors: those of inference mode refuse in-place changes outside of it.
        return StepOutput(
            hidden=output.hidden.clone(),
            features={name: value.clone() for name, value in output.features.items()},
        )

    @torch.inference_mode()
    def fold(self, lanes: Sequence[int], counts: Sequence[int], views: StateViews) -> None:
        """See ``TargetModel``."""
        if not self.deterministic:
            ahead = self._ahead.pop(views, None)
            if ahead is None or ahead.lanes != tuple(lanes):
                raise IntegrityError("a fold follows the verify of the same lanes")
            if ahead.holds(counts):
                live = [row for row, count in enumerate(counts) if count]
                taken, columns = [lanes[row] for row in live], [counts[row] for row in live]
                for name in ahead.slots if live else ():
                    views.write_slot(name, taken, ahead.after(name, live, columns))
                return
        rows = len(lanes)
        pieces = (
            [slice(row, row + 1) for row in range(rows)] if self.deterministic else [slice(rows)]
        )
        for piece in pieces:
            if max(counts[piece], default=0) == 0:
                continue
            for layer, kind in enumerate(self.config.layer_types):
                if kind != FULL:
                    records = [
                        views.read_records(state_name(layer, what), rows)[piece] for what in RECORDS
                    ]
                    self._fold_layer(layer, lanes[piece], counts[piece], records, views)

    def embed(self, ids: Tensor) -> Tensor:
        """See ``TargetModel``."""
        return F.embedding(ids, self.weights.embedding)

    def lm_head(self, hidden: Tensor) -> Tensor:
        """See ``TargetModel``."""
        if self.deterministic and hidden.shape[0] > 1:
            return torch.cat([self._logits(row.clone()) for row in torch.split(hidden, 1)])
        return self._logits(hidden)

    def draft_head(self, name: str) -> DraftHead | str:
        """See ``TargetModel``."""
        if name != "mtp":
            return f"Qwen3.5 checkpoints have no draft layer {name!r}"
        if self._mtp_head is None:
            if self._mtp is None:
                return "the model was made without its checkpoint's MTP layer"
            try:
                weights = self._mtp.read()
            except CheckpointError as error:
                return str(error)
            self._mtp_head = MtpHead(
                self.config, weights, self.weights.embedding, self.rotary, self._host
            )
        return self._mtp_head

    def _logits(self, hidden: Tensor) -> Tensor:
        if self._host is not None:
            return self._host.lm_head(hidden)
        return F.linear(hidden, self.weights.head).float()

    def _fold_layer(
        self,
        layer: int,
        lanes: Sequence[int],
        counts: Sequence[int],
        records: Sequence[Tensor],
        views: StateViews,
    ) -> None:
        """Records of these rows [N, W, ...], in the order of ``RECORDS``, into their slots."""
        columns, pair, value, gates = records
        read = views.read_slot if self.deterministic else views.peek_slot
        state = read(state_name(layer, "delta"), lanes)
        step = transition if self._host is None else self._host.transition
        state = replay(pair, value, gates[:, :, 0], gates[:, :, 1], state, counts, step)
        history = views.read_slot(state_name(layer, "conv"), lanes)
        kept = history.shape[1]
        window = torch.cat((history, columns[:, : max(counts)]), dim=1)
        # The last raw columns of (history, the first count columns).
        if min(counts) == max(counts):
            history = window[:, counts[0] : counts[0] + kept]
        else:
            history = torch.stack(
                [window[row, count : count + kept] for row, count in enumerate(counts)]
            )
        live = [row for row, count in enumerate(counts) if count]
        if len(live) < len(lanes):
            lanes, state, history = [lanes[row] for row in live], state[live], history[live]
        views.write_slot(state_name(layer, "delta"), lanes, state)
        views.write_slot(state_name(layer, "conv"), lanes, history)

    def _prefill(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str]
    ) -> StepOutput:
        (start,), (width,), (lane,) = batch.starts, batch.widths, batch.lanes
        if start % CHUNK:
            raise ValueError(f"a prompt chunk starts at {start}, not at a multiple of {CHUNK}")
        step = CHUNK if self.deterministic else width
        outputs = []
        for offset in range(0, width, step):
            ids = batch.ids[:, offset : min(offset + step, width)]
            mixer = PrefillMixer(
                self.config, views, lane, start + offset, self.rotary, self.deterministic
            )
            outputs.append(self._run(ids, mixer, features))
        return _joined(outputs, batch.ids.shape[1])

    def _verify(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str]
    ) -> StepOutput:
        if self.deterministic:
            rows = [
                self._verify_row(batch, row, views, features) for row in range(len(batch.lanes))
            ]
            output = StepOutput(
                hidden=torch.cat([row.hidden for row, _ in rows]),
                features={
                    name: torch.cat([row.features[name] for row, _ in rows]) for name in features
                },
            )
            records = {name: torch.cat([each[name] for _, each in rows]) for name in rows[0][1]}
        else:
            count, width = batch.ids.shape
            # A single column is folded whole or not at all.
            keeping = width > 1 and self._host is not None
            keeping = keeping and count * (width - 1) * self._state_bytes <= KEPT_BYTES
            mixer = VerifyMixer(
                self.config,
                views,
                batch.lanes,
                batch.starts,
                batch.widths,
                self.rotary,
                recording=width > 1 and not keeping,
                keeping=keeping,
            )
            output = self._run(batch.ids, mixer, features)
            records = mixer.records
            self._ahead[views] = Ahead(batch.lanes, width, mixer.slots, mixer.kept)
        for name, record in records.items():
            views.write_records(name, record)
        return output

    def _verify_row(
        self, batch: ForwardBatch, row: int, views: StateViews, features: Sequence[str]
    ) -> tuple[StepOutput, dict[str, Tensor]]:
        """One row, column after column, each like a batch of its own; zeros beyond its width."""
        columns = batch.ids.shape[1]
        slots: dict[str, Tensor] = {}
        outputs: list[StepOutput] = []
        records: dict[str, list[Tensor]] = {}
        for column in range(batch.widths[row]):
            ids = batch.ids[row : row + 1, column : column + 1]
            starts = (batch.starts[row] + column,)
            lanes = batch.lanes[row : row + 1]
            mixer = VerifyMixer(self.config, views, lanes, starts, (1,), self.rotary, True, slots)
            outputs.append(self._run(ids, mixer, features))
            for name, record in mixer.records.items():
                records.setdefault(name, []).append(record)
        return _joined(outputs, columns), {
            name: _padded(torch.cat(parts, dim=1), columns) for name, parts in records.items()
        }

    def _run(
        self, ids: Tensor, mixer: PrefillMixer | VerifyMixer, features: Sequence[str]
    ) -> StepOutput:
        """The decoder over ids [N, W], its mixers run by ``mixer``."""
        if self._host is not None and isinstance(mixer, VerifyMixer):
            return self._host.run(ids, mixer, features)
        eps = self.config.norm_eps
        kept: dict[str, Tensor] = {}
        x = F.embedding(ids, self.weights.embedding)
        for index, layer in enumerate(self.weights.layers):
            x = run_layer(mixer, index, layer, x, eps)
            if f"block:{index}" in features:
                kept[f"block:{index}"] = x
        hidden = rms_norm(x, self.weights.final_norm, eps)
        if "final" in features:
            kept["final"] = hidden
        return StepOutput(hidden=hidden, features=kept)


def _padded(x: Tensor, columns: int) -> Tensor:
    """[N, W', ...] with zeros up to W columns."""
    missing = columns - x.shape[1]
    return x if missing == 0 else torch.cat((x, x.new_zeros(x.shape[0], missing, *x.shape[2:])), 1)


def _joined(outputs: Sequence[StepOutput], columns: int) -> StepOutput:
    """Pieces side by side, with zeros up to ``columns``."""
    return StepOutput(
        hidden=_padded(torch.cat([output.hidden for output in outputs], dim=1), columns),
        features={
            name: _padded(torch.cat([output.features[name] for output in outputs], dim=1), columns)
            for name in outputs[0].features
        },
    )
