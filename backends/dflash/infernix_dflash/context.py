"""The drafter's state: keys and values of the target's features, per draft layer and position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from infernix_core.host_arrays import aligned
from infernix_core.interfaces.model import StateKind, StateSpec, StateViews
from infernix_dflash.config import DrafterConfig
from infernix_dflash.layers import Rotary, norm_and_rotate, rms_norm
from infernix_dflash.weights import ContextWeights

#: Positions computed at once: what bounds the memory of a long prompt.
PIECE = 512


class Context:
    """Writes and reads the state.

    Keys and values of a position come straight from ``c = RMSNorm(fc(features))``, the same c for every layer;
    no layer runs over the prompt. They are PAGED: what lies at or behind the committed frontier is never read.

    Args:
        owner: The backend's name, which the state's names begin with.
        config: Sizes.
        weights: See ``ContextWeights``.
        names: The target's features, in the order in which they stand side by side.
        rotary: Positions.
        deterministic: Compute each position alone, so that its bits depend on nothing else.
    """

    def __init__(
        self,
        owner: str,
        config: DrafterConfig,
        weights: ContextWeights,
        names: Sequence[str],
        rotary: Rotary,
        *,
        deterministic: bool = False,
    ) -> None:
        self.config = config
        self.weights = weights
        self.names = tuple(names)
        self.rotary = rotary
        self.deterministic = deterministic
        self.states = tuple(
            StateSpec(
                f"{owner}.layer{layer}.kv",
                StateKind.PAGED,
                (2, config.kv_heads, config.head_dim),
                weights.fc.dtype,
            )
            for layer in range(config.layers)
        )

    def write(
        self, lane: int, start: int, features: Mapping[str, Tensor], count: int, views: StateViews
    ) -> None:
        """Keys and values of ``count`` positions from ``start`` on, of features [count, width] by name."""
        rows = {name: features[name].unsqueeze(0) for name in self.names}
        self.write_rows([(lane, start, count)], self.gather(rows, [count]), views)

    def gather(self, features: Mapping[str, Tensor], counts: Sequence[int]) -> Tensor:
        """The first ``counts[n]`` columns of each row n of features [B, W, width], side by side: [T, F]."""
        return torch.cat(
            [
                torch.cat([features[name][row, :count] for name in self.names], dim=-1)
                for row, count in enumerate(counts)
                if count
            ]
        )

    def write_rows(
        self, rows: Sequence[tuple[int, int, int]], features: Tensor, views: StateViews
    ) -> None:
        """Keys and values of several lanes' positions.

        Args:
            rows: Lane, first position and count of each.
            features: [T, F], those of the rows one after the other.
            views: The program's state.
        """
        if len(rows) == 1 and not self.deterministic and rows[0][2] <= PIECE:
            ((lane, start, count),) = rows
            self._store(lane, start, self._pairs(features, range(start, start + count)), views)
            return
        places = [(lane, start + offset) for lane, start, count in rows for offset in range(count)]
        step = 1 if self.deterministic else PIECE
        for at in range(0, len(places), step):
            piece, part = places[at : at + step], features[at : at + step]
            # A copy lies at the alignment of all tensors: BLAS libraries may order a sum by it.
            part = part.clone() if self.deterministic else part
            lane, first = piece[0]
            positions: Sequence[int] = [position for _, position in piece]
            if piece == [(lane, first + index) for index in range(len(piece))]:
                positions = range(first, first + len(piece))
            pairs = self._pairs(part, positions)
            begin = 0
            for end in range(1, len(piece) + 1):
                # A run of one lane's positions goes in one write.
                lane, first = piece[begin]
                if end == len(piece) or piece[end] != (lane, first + end - begin):
                    self._store(lane, first, pairs[begin:end], views)
                    begin = end

    def _pairs(self, features: Tensor, positions: Sequence[int]) -> Tensor:
        """[T, layers, 2, Nkv, D] of features [T, F] at these positions; a range where they follow each other."""
        c, w = self.config, self.weights
        hidden = rms_norm(F.linear(features, w.fc), w.norm, c.norm_eps)
        shape = (len(positions), c.layers, 2, c.kv_heads, c.head_dim)
        keys, values = F.linear(hidden, w.pairs).view(shape).unbind(2)
        tables = self.rotary.upto(max(positions) + 1)
        first = positions[0]
        if isinstance(positions, range):
            turned = tables[:, first : first + len(positions)]
        else:
            turned = tables[:, torch.tensor(positions, device=tables.device)]
        keys = norm_and_rotate(keys, w.key_norm, c.norm_eps, turned.unsqueeze(2))
        return torch.stack((keys, values), dim=2)

    def _store(self, lane: int, start: int, pairs: Tensor, views: StateViews) -> None:
        for layer, spec in enumerate(self.states):
            views.write_pages(spec.name, lane, start, pairs[:, layer])

    def read(self, layer: int, lane: int, length: int, views: StateViews) -> tuple[int, Tensor]:
        """The context that a layer's block behind ``length`` positions sees: its first position, [S, 2, Nkv, D]."""
        pages = views.read_pages(self.states[layer].name, lane, length)
        window = self.config.windows[layer]
        first = 0
        if window is not None and length >= window:
            first = length - window + 1
            pages = pages[first:]
        return first, aligned(pages) if self.deterministic else pages
