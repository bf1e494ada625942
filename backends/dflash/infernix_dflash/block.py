"""One forward of the drafter: an anchor and K masks per row, over the context that the target's features left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from infernix_core.interfaces.model import StateViews, TargetModel
from infernix_dflash.config import DrafterConfig
from infernix_dflash.context import Context
from infernix_dflash.layers import Rotary, attend, mlp, norm_and_rotate, rms_norm, unseen
from infernix_dflash.weights import DrafterWeights, LayerWeights

#: The two sublayers of a layer.
ATTENTION, MLP = 0, 1


class BlockForward(Protocol):
    """The draft layers over blocks of an anchor and K masks."""

    def run(
        self,
        anchors: Sequence[int],
        drafts: int,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> Tensor:
        """The normed hiddens of the masks.

        Args:
            anchors: The token of each row.
            drafts: K.
            lanes: The sequence of each row.
            starts: Position of each anchor: as many positions as the row's context has.
            views: The program's state.

        Returns:
            [N, K, H], what the target's ``lm_head`` takes.
        """


class Around(Protocol):
    """What a kind of drafter does around each sublayer, between its norm and the residual sum."""

    def prepare(self, layer: int, part: int, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the sublayer reads in place of the normed x [N, B, H], and what :meth:`finish` needs.

        Args:
            layer: The draft layer.
            part: ``ATTENTION`` or ``MLP``.
            x: Rows of N blocks.
        """

    def finish(self, layer: int, part: int, output: Tensor, kept: Tensor) -> Tensor:
        """What is added to the residual in place of the sublayer's output [N, B, H]."""


class Block:
    """The draft layers over blocks of 1 + K rows; implements :class:`BlockForward` on any device.

    The block's own keys and values are temporary. All B rows run whatever a row's limit is, since they see each
    other: a shorter block would give other drafts.

    Args:
        config: Sizes.
        weights: See ``DrafterWeights``.
        context: The state.
        rotary: Positions.
        target: Gives embeddings.
        around: See :class:`Around`; ``None`` leaves the sublayers as they are.
    """

    def __init__(
        self,
        config: DrafterConfig,
        weights: DrafterWeights,
        context: Context,
        rotary: Rotary,
        target: TargetModel,
        around: Around | None = None,
    ) -> None:
        self.config = config
        self.weights = weights
        self.context = context
        self.rotary = rotary
        self.target = target
        self.around = around

    def run(
        self,
        anchors: Sequence[int],
        drafts: int,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> Tensor:
        """See :class:`BlockForward`."""
        eps, width = self.config.norm_eps, 1 + drafts
        masks = [self.config.mask_token_id] * drafts
        ids = torch.tensor([[anchor, *masks] for anchor in anchors], device=self.target.device)
        x = self.target.embed(ids)
        if self.config.embedding_scale != 1:
            x = x * self.config.embedding_scale
        tables = self.rotary.upto(max(starts) + width)
        first = torch.tensor(list(starts), device=x.device).unsqueeze(1)
        tables = tables[:, first + torch.arange(width, device=x.device)]
        for index, layer in enumerate(self.weights.layers):
            normed = rms_norm(x, layer.attention_norm, eps)
            normed, kept = self._prepare(index, ATTENTION, normed)
            mixed = self._attention(index, layer, normed, tables, lanes, starts, views)
            x = x + self._finish(index, ATTENTION, mixed, kept)
            normed = rms_norm(x, layer.mlp_norm, eps)
            normed, kept = self._prepare(index, MLP, normed)
            mixed = mlp(normed, layer.gate_up, layer.down)
            x = x + self._finish(index, MLP, mixed, kept)
        return rms_norm(x[:, 1:], self.weights.norm, eps)

    def _prepare(self, layer: int, part: int, x: Tensor) -> tuple[Tensor, Tensor]:
        return (x, x) if self.around is None else self.around.prepare(layer, part, x)

    def _finish(self, layer: int, part: int, output: Tensor, kept: Tensor) -> Tensor:
        return output if self.around is None else self.around.finish(layer, part, output, kept)

    def _attention(
        self,
        index: int,
        layer: LayerWeights,
        x: Tensor,
        tables: Tensor,
        lanes: Sequence[int],
        starts: Sequence[int],
        views: StateViews,
    ) -> Tensor:
        """Attention [N, B, H] of the normed x over context and block, row by row: contexts differ in length."""
        c = self.config
        rows, width, _ = x.shape
        heads = c.query_heads + c.kv_heads
        projected = F.linear(x, layer.inputs)
        raw = projected[..., : heads * c.head_dim].view(rows, width, heads, c.head_dim)
        turned = norm_and_rotate(raw, layer.head_norm, c.norm_eps, tables)
        values = projected[..., heads * c.head_dim :].view(rows, width, c.kv_heads, c.head_dim)
        mixed = []
        for row, (lane, start) in enumerate(zip(lanes, starts, strict=True)):
            first, pages = self.context.read(index, lane, start, views)
            hidden = unseen(first, start, width, c.windows[index], c.causal, x.device)
            mixed.append(
                attend(
                    turned[row, :, : c.query_heads],
                    torch.cat((pages[:, 0], turned[row, :, c.query_heads :])),
                    torch.cat((pages[:, 1], values[row])),
                    hidden,
                )
            )
        return F.linear(torch.stack(mixed), layer.out)
