"""The companions' modules: the multi-token-prediction layer and the block drafters.

They compute drafts for many places of a sequence in one pass, which is what training needs. The
parameters bear the names that the released layouts give their tensors.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

EPSILON = 1e-6
ROPE_THETA = 10000.0


def rms_norm(x: Tensor, scale: Tensor) -> Tensor:
    """``x`` brought to a root mean square of one, times ``scale``, computed in float32."""
    wide = x.float()
    wide = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + EPSILON)
    return (wide * scale).type_as(x)


class ZeroCentredNorm(nn.Module):
    """The norm of Qwen3.5, whose weight is the scale's distance from one."""

    def __init__(self, size: int) -> None:
        """Start as a norm without scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return rms_norm(x, 1 + self.weight)


class PlainNorm(nn.Module):
    """The norm of Qwen3, whose weight is the scale."""

    def __init__(self, size: int) -> None:
        """Start as a norm without scale."""
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        return rms_norm(x, self.weight)


def rotate(x: Tensor, positions: Tensor, dimensions: int) -> Tensor:
    """Rotary embedding of the first ``dimensions`` of ``x`` ``[..., heads, size]``.

    ``positions`` has the shape of ``x`` without its last two dimensions, or broadcasts to it. For
    text this is also what the interleaved multimodal form computes: its three positions are equal.
    """
    steps = torch.arange(0, dimensions, 2, dtype=torch.float32) / dimensions
    angles = positions[..., None, None].float() * ROPE_THETA**-steps
    cosine, sine = angles.cos(), angles.sin()
    turned, rest = x[..., :dimensions].float(), x[..., dimensions:]
    first, second = turned.chunk(2, dim=-1)
    turned = torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)
    return torch.cat((turned.type_as(x), rest), dim=-1)


def swiglu(x: Tensor, mlp: nn.ModuleDict) -> Tensor:
    """The gated MLP."""
    return mlp["down_proj"](F.silu(mlp["gate_proj"](x)) * mlp["up_proj"](x))


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A matrix without bias, initialised as the base's."""
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, std=0.02)
    return layer


def mlp_of(hidden: int, inner: int) -> nn.ModuleDict:
    """The three matrices of a gated MLP."""
    return nn.ModuleDict(
        {
            "gate_proj": linear(hidden, inner),
            "up_proj": linear(hidden, inner),
            "down_proj": linear(inner, hidden),
        }
    )


def attend(
    queries: Tensor, context: tuple[Tensor, Tensor], seen: Tensor, own: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Attention of groups of rows over a shared context and over keys of the group's own.

    ``queries`` is ``[batch, groups, rows, heads, size]``; ``context`` holds keys and values
    ``[batch, tokens, kv_heads, size]`` of which group g of batch b sees the first
    ``seen[b, g]``; ``own`` holds keys and values ``[batch, groups, own_rows, kv_heads, size]``,
    all seen by every row of their group.
    """
    batch, groups, rows, heads, size = queries.shape
    keys, values = (part.transpose(1, 2) for part in context)  # [batch, kv_heads, tokens, size]
    kv_heads, tokens = keys.shape[1:3]
    share = heads // kv_heads
    split = queries.reshape(batch, groups, rows, kv_heads, share, size) * size**-0.5
    # [batch, kv_heads, groups, rows, share, size]
    split = split.permute(0, 3, 1, 2, 4, 5)
    flat = split.reshape(batch, kv_heads, -1, size)
    scores = (flat @ keys.transpose(-1, -2)).view(batch, kv_heads, groups, rows * share, tokens)
    hidden = torch.arange(tokens) >= seen[..., None]
    scores = scores.float().masked_fill(hidden[:, None, :, None], -torch.inf)
    if own is not None:
        own_keys, own_values = (part.permute(0, 3, 1, 2, 4) for part in own)
        own_split = split.reshape(batch, kv_heads, groups, rows * share, size)
        scores = torch.cat((scores, (own_split @ own_keys.transpose(-1, -2)).float()), dim=-1)
    weights = scores.softmax(-1).type_as(values)
    context_weights = weights[..., :tokens].reshape(batch, kv_heads, -1, tokens)
    mixed = (context_weights @ values).view(batch, kv_heads, groups, rows * share, size)
    if own is not None:
        mixed = mixed + weights[..., tokens:] @ own_values
    mixed = mixed.view(batch, kv_heads, groups, rows, share, size).permute(0, 2, 3, 1, 4, 5)
    return mixed.reshape(batch, groups, rows, heads * size)


class GatedDecoderLayer(nn.Module):
    """A full-attention decoder layer of Qwen3.5: gated attention, then the MLP."""

    def __init__(self, hidden: int, inner: int, heads: int, kv_heads: int, size: int) -> None:
        """Make the layer with the base's sizes."""
        super().__init__()
        self.shape = (heads, kv_heads, size)
        self.rotary = size // 4
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": linear(hidden, 2 * heads * size),
                "k_proj": linear(hidden, kv_heads * size),
                "v_proj": linear(hidden, kv_heads * size),
                "o_proj": linear(heads * size, hidden),
                "q_norm": ZeroCentredNorm(size),
                "k_norm": ZeroCentredNorm(size),
            }
        )
        self.mlp = mlp_of(hidden, inner)
        self.input_layernorm = ZeroCentredNorm(hidden)
        self.post_attention_layernorm = ZeroCentredNorm(hidden)

    def keys_values(self, u: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values ``[..., kv_heads, size]`` of the cells ``u`` ``[..., hidden]``."""
        _, kv_heads, size = self.shape
        x, attention = self.input_layernorm(u), self.self_attn
        keys = attention["k_norm"](attention["k_proj"](x).unflatten(-1, (kv_heads, size)))
        values = attention["v_proj"](x).unflatten(-1, (kv_heads, size))
        return rotate(keys, positions, self.rotary), values

    def forward(
        self,
        u: Tensor,
        positions: Tensor,
        context: tuple[Tensor, Tensor],
        seen: Tensor,
        own: tuple[Tensor, Tensor] | None,
    ) -> Tensor:
        """The outputs of the cells ``u`` ``[batch, groups, hidden]``; see ``attend``."""
        heads, _, size = self.shape
        attention = self.self_attn
        wide = attention["q_proj"](self.input_layernorm(u)).unflatten(-1, (heads, 2 * size))
        queries, gate = wide.chunk(2, dim=-1)
        queries = rotate(attention["q_norm"](queries), positions, self.rotary)
        mixed = attend(queries[:, :, None], context, seen, own)[:, :, 0]
        u = u + attention["o_proj"](mixed * torch.sigmoid(gate.flatten(-2)))
        return u + swiglu(self.post_attention_layernorm(u), self.mlp)


class MtpLayer(nn.Module):
    """The multi-token-prediction layer: from h_t and x_{t+1} to the hidden state of x_{t+2}."""

    def __init__(self, hidden: int, inner: int, heads: int, kv_heads: int, size: int) -> None:
        """Make the layer with the base's sizes."""
        super().__init__()
        self.fc = linear(2 * hidden, hidden)
        self.pre_fc_norm_embedding = ZeroCentredNorm(hidden)
        self.pre_fc_norm_hidden = ZeroCentredNorm(hidden)
        self.layers = nn.ModuleList([GatedDecoderLayer(hidden, inner, heads, kv_heads, size)])
        self.norm = ZeroCentredNorm(hidden)

    def stem(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """The layer's input: embedding first, then the hidden state."""
        parts = (self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden))
        return self.fc(torch.cat(parts, dim=-1))

    def cells(self, embedded: Tensor, hidden: Tensor, first: int) -> tuple[Tensor, Tensor, Tensor]:
        """Inputs, keys and values of true cells ``[batch, cells]`` from position ``first`` on."""
        u = self.stem(embedded, hidden)
        positions = torch.arange(first, first + u.shape[1])
        return (u, *self.layers[0].keys_values(u, positions))

    def start(
        self, u: Tensor, positions: Tensor, context: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, "Chain"]:
        """First drafts of the chains that start at the true cells ``u`` ``[batch, chains]``.

        ``context`` holds the true cells from position 0 on; a chain that starts at position p
        sees those up to p, in this and in all its further steps.
        """
        chain = Chain(self, positions, context)
        return self.norm(self.layers[0](u, positions, context, positions + 1, None)), chain


class Chain:
    """The drafts that go on from true cells, each step from the hidden state of the one before."""

    def __init__(self, layer: MtpLayer, positions: Tensor, context: tuple[Tensor, Tensor]) -> None:
        """Start behind the true cells at ``positions`` ``[batch, chains]``."""
        self.layer, self.context, self.seen = layer, context, positions + 1
        self.positions = positions
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def step(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        """The hidden states after one more cell each: the token drafted last, and its state."""
        self.positions = self.positions + 1
        u = self.layer.stem(embedded, hidden)
        decoder = self.layer.layers[0]
        keys, values = decoder.keys_values(u, self.positions)
        self.keys.append(keys)
        self.values.append(values)
        own = (torch.stack(self.keys, dim=2), torch.stack(self.values, dim=2))
        return self.layer.norm(decoder(u, self.positions, self.context, self.seen, own))


class GroupedConvolution(nn.Module):
    """A causal convolution over a block's rows, before and after a sublayer.

    Its kernel is a base plus what the sublayer's input adds to it, one value for each group of
    channels. It starts as the identity.
    """

    def __init__(self, hidden: int, taps: int, group: int) -> None:
        """Make the identity."""
        super().__init__()
        self.taps, self.group = taps, group
        base = torch.zeros(2, taps, hidden)
        base[:, 0] = 1
        self.base_kernel = nn.Parameter(base)
        self.kernel_projection = nn.Linear(hidden, 2 * taps * hidden // group, bias=False)
        nn.init.zeros_(self.kernel_projection.weight)

    def _convolve(self, x: Tensor, base: Tensor, delta: Tensor) -> Tensor:
        """``delta`` is ``[..., rows, taps, groups]``."""
        kernel = base + delta.repeat_interleave(self.group, dim=-1)
        moved = [F.pad(x, (0, 0, tap, 0))[..., : x.shape[-2], :] for tap in range(self.taps)]
        return (kernel * torch.stack(moved, dim=-2)).sum(-2).type_as(x)

    def prepare(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """What the sublayer reads in place of ``x`` ``[..., rows, hidden]``, and what to keep."""
        delta = self.kernel_projection(x).unflatten(-1, (2, self.taps, -1))
        return self._convolve(x, self.base_kernel[0], delta[..., 0, :, :]), delta[..., 1, :, :]

    def finish(self, output: Tensor, kept: Tensor) -> Tensor:
        """What is added to the residual in place of the sublayer's ``output``."""
        return self._convolve(output, self.base_kernel[1], kept)


class CandidateSelector(nn.Module):
    """Scores of pairs (token before, candidate) in a low rank, given the row's hidden state."""

    def __init__(self, hidden: int, vocabulary: int, rank: int) -> None:
        """Start with a score of zero for every pair."""
        super().__init__()
        self.hidden_projection = linear(hidden, rank)
        self.predecessor_codebook = nn.Parameter(torch.randn(vocabulary, rank) * 0.5)
        self.successor_codebook = nn.Parameter(torch.zeros(vocabulary, rank))

    def forward(self, before: Tensor, hidden: Tensor, candidates: Tensor) -> Tensor:
        """What is added to the logits of ``candidates`` ``[rows, n]`` after tokens ``before``."""
        mixed = F.embedding(before, self.predecessor_codebook) * self.hidden_projection(hidden)
        return (F.embedding(candidates, self.successor_codebook) @ mixed[..., None])[..., 0]


class BlockLayer(nn.Module):
    """A decoder layer of Qwen3 whose rows see the context and each other in both directions."""

    def __init__(
        self,
        hidden: int,
        inner: int,
        shape: tuple[int, int, int],
        convolution: tuple[int, int] | None,
    ) -> None:
        """``shape`` is query heads, key/value heads and head size; see ``GroupedConvolution``."""
        super().__init__()
        heads, kv_heads, size = self.shape = shape
        self.self_attn = nn.ModuleDict(
            {
                "q_proj": linear(hidden, heads * size),
                "k_proj": linear(hidden, kv_heads * size),
                "v_proj": linear(hidden, kv_heads * size),
                "o_proj": linear(heads * size, hidden),
                "q_norm": PlainNorm(size),
                "k_norm": PlainNorm(size),
            }
        )
        self.mlp = mlp_of(hidden, inner)
        self.input_layernorm = PlainNorm(hidden)
        self.post_attention_layernorm = PlainNorm(hidden)
        if convolution:
            self.attention_conv = GroupedConvolution(hidden, *convolution)
            self.mlp_conv = GroupedConvolution(hidden, *convolution)
        self.convolved = convolution is not None

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values ``[..., kv_heads, size]`` of ``x`` ``[..., hidden]``."""
        _, kv_heads, size = self.shape
        attention = self.self_attn
        keys = attention["k_norm"](attention["k_proj"](x).unflatten(-1, (kv_heads, size)))
        values = attention["v_proj"](x).unflatten(-1, (kv_heads, size))
        return rotate(keys, positions, size), values

    def _attention(
        self, x: Tensor, positions: Tensor, context: tuple[Tensor, Tensor], seen: Tensor
    ) -> Tensor:
        heads, _, size = self.shape
        attention = self.self_attn
        queries = attention["q_norm"](attention["q_proj"](x).unflatten(-1, (heads, size)))
        queries = rotate(queries, positions, size)
        own = self.keys_values(x, positions)
        return attention["o_proj"](attend(queries, context, seen, own))

    def forward(
        self, x: Tensor, positions: Tensor, context: tuple[Tensor, Tensor], seen: Tensor
    ) -> Tensor:
        """The outputs of blocks ``[batch, groups, rows, hidden]``; see ``attend``."""
        inner = self.input_layernorm(x)
        if self.convolved:
            inner, kept = self.attention_conv.prepare(inner)
            output = self._attention(inner, positions, context, seen)
            x = x + self.attention_conv.finish(output, kept)
            inner, kept = self.mlp_conv.prepare(self.post_attention_layernorm(x))
            return x + self.mlp_conv.finish(swiglu(inner, self.mlp), kept)
        x = x + self._attention(inner, positions, context, seen)
        return x + swiglu(self.post_attention_layernorm(x), self.mlp)


class BlockDrafter(nn.Module):
    """DFlash: all tokens of a block at once, from the target's features; or DFlash2.

    ``mask_vector`` is the embedding of the rows to fill in. It goes into the target's embedding
    and not into the drafter's file.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        """Make a drafter for a ``config.json``."""
        super().__init__()
        hidden = config["hidden_size"]
        names = ("num_attention_heads", "num_key_value_heads", "head_dim")
        extra = config["dflash_config"]
        convolution = None
        self.candidate_selector = None
        if "conv_kernel_size" in extra:
            convolution = (extra["conv_kernel_size"], extra["conv_group_size"])
            self.candidate_selector = CandidateSelector(
                hidden, config["vocab_size"], extra["selector_rank"]
            )
        self.fc = linear(len(extra["target_layer_ids"]) * hidden, hidden)
        self.hidden_norm = PlainNorm(hidden)
        shape = tuple(config[name] for name in names)
        self.layers = nn.ModuleList(
            BlockLayer(hidden, config["intermediate_size"], shape, convolution)
            for _ in range(config["num_hidden_layers"])
        )
        self.norm = PlainNorm(hidden)
        self.mask_vector = nn.Parameter(torch.zeros(hidden))

    def context(self, features: Tensor, first: int) -> list[tuple[Tensor, Tensor]]:
        """Every layer's keys and values of the target's features from position ``first`` on."""
        x = self.hidden_norm(self.fc(features))
        positions = torch.arange(first, first + x.shape[1])
        return [layer.keys_values(x, positions) for layer in self.layers]

    def forward(
        self,
        anchors: Tensor,
        positions: Tensor,
        masks: int,
        context: list[tuple[Tensor, Tensor]],
    ) -> Tensor:
        """Normalised states ``[batch, groups, masks, hidden]`` of the tokens after every anchor.

        ``anchors`` are embedded tokens ``[batch, groups, hidden]`` at ``positions``; a block sees
        the context before its anchor.
        """
        rows = self.mask_vector.expand(*anchors.shape[:-1], masks, -1)
        x = torch.cat((anchors[..., None, :], rows), dim=-2)
        row_positions = positions[..., None] + torch.arange(masks + 1)
        for layer, layer_context in zip(self.layers, context, strict=True):
            x = layer(x, row_positions, layer_context, positions)
        return self.norm(x[..., 1:, :])
