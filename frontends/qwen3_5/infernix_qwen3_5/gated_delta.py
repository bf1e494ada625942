"""Gated DeltaNet (Yang et al. 2024) as functions over tensors: convolution, gates, step form, chunked form.

Per value head with state S [Dk, Dv], decay a = exp(g) and write strength b:
``S ← a·S``, ``d = b·(v - Sᵀk)``, ``S ← S + k·dᵀ``, ``o = Sᵀq``. Everything here is float32. The step form reads
both products from the state as it was: ``d = b·(v - a·Sᵀk)`` and ``o = a·Sᵀq + (k·q)·d``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from infernix_qwen3_5.layers import divided_by_length

#: Tokens of one chunk; chunk boundaries lie at multiples of it from the sequence's start.
CHUNK = 64


@frozen(eq=False)
class DeltaInputs:
    """What the recurrence reads, per token; leading dimensions [...] are rows and columns.

    Attributes:
        pair: float32 [..., 2, Hk, Dk]: query and key, normalised.
        value: [..., Hv, Dv] in the activations' dtype.
        log_decay: float32 [..., Hv], g.
        strength: float32 [..., Hv], b.
    """

    pair: Tensor
    value: Tensor
    log_decay: Tensor
    strength: Tensor


def causal_conv(window: Tensor, taps: Tensor) -> Tensor:
    """SiLU of the depthwise causal convolution, float32 [..., W, C].

    Args:
        window: [..., K-1 + W, C], the raw columns with the K-1 before them.
        taps: float32 [K, C], the oldest first.
    """
    width = window.shape[-2] - len(taps) + 1
    wide = window.float()
    if width == 1:
        return F.silu((wide * taps).sum(-2, keepdim=True), inplace=True)
    total = wide[..., :width, :] * taps[0]
    for offset, tap in enumerate(taps[1:], start=1):
        total.addcmul_(wide[..., offset : offset + width, :], tap)
    return F.silu(total, inplace=True)


def delta_inputs(
    convolved: Tensor,
    strength: Tensor,
    step: Tensor,
    decay_rate: Tensor,
    dt_bias: Tensor,
    *,
    key_heads: int,
    key_dim: int,
    dtype: torch.dtype,
) -> DeltaInputs:
    """Splits and normalises the convolved channels and computes the gates.

    ``b = sigmoid(strength)``, ``g = -exp(A_log) * softplus(step + dt_bias)``.

    Args:
        convolved: float32 [..., C]: queries, keys, values.
        strength: [..., Hv], the projection "b".
        step: [..., Hv], the projection "a".
        decay_rate: float32 [Hv], -exp(A_log).
        dt_bias: float32 [Hv].
        key_heads: Hk.
        key_dim: Dk.
        dtype: Of the values, as a record stores them.
    """
    size = key_heads * key_dim
    lead = convolved.shape[:-1]
    paired = convolved[..., : 2 * size].reshape(*lead, 2, key_heads, key_dim)
    return DeltaInputs(
        pair=divided_by_length(paired, 1e-6),
        value=convolved[..., 2 * size :].reshape(*lead, strength.shape[-1], -1).to(dtype),
        log_decay=F.softplus(step.float() + dt_bias) * decay_rate,
        strength=strength.float().sigmoid(),
    )


def expand_heads(pair: Tensor, heads: int) -> Tensor:
    """Gives each value head its query and key head, ``j // (heads / Hk)``: [N, 2, Hk, Dk] → a new [N * heads, 2, Dk].

    Always a fresh, contiguous tensor: what a BLAS call makes of it then depends on its values alone, and
    a replay from records equals the verify that wrote them bit for bit.
    """
    rows, _, key_heads, dim = pair.shape
    expanded = pair.transpose(1, 2).unsqueeze(2).expand(rows, key_heads, heads // key_heads, 2, dim)
    return expanded.clone(memory_format=torch.contiguous_format).view(rows * heads, 2, dim)


def transition(
    state: Tensor,
    pair: Tensor,
    value: Tensor,
    decay: Tensor,
    strength: Tensor,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The state after one token, and its output: the one step function of decode, verify and fold.

    It takes the decay itself, not its logarithm: a vectorised exp may differ in the last bit with the
    layout of its input, and verify and fold see different layouts.

    Args:
        state: float32 [N, Hv, Dk, Dv]; not modified.
        pair: float32 [N, 2, Hk, Dk]: query and key, normalised.
        value: [N, Hv, Dv].
        decay: float32 [N, Hv], exp(g).
        strength: float32 [N, Hv].
        out: Where the new state goes, contiguous and apart from ``state``; ``None`` allocates.

    Returns:
        The new state [N, Hv, Dk, Dv], and the output [N, Hv, Dv] before the query's scale.
    """
    rows, heads, key_dim, value_dim = state.shape
    pairs = expand_heads(pair, heads)
    query, key = pairs.unbind(1)
    flat = state.reshape(rows * heads, key_dim, value_dim)
    fade = decay.reshape(-1, 1, 1)
    seen, recalled = torch.bmm(pairs, flat).mul_(fade).unbind(1)
    written = value.reshape(-1, value_dim).float() - recalled
    written.mul_(strength.reshape(-1, 1))
    after = torch.empty_like(flat) if out is None else out.view(flat.shape)
    torch.mul(flat, fade, out=after).addcmul_(key.unsqueeze(-1), written.unsqueeze(1))
    overlap = (query * key).sum(-1, keepdim=True)
    output = torch.addcmul(seen, overlap, written)
    return after.view(state.shape), output.view(rows, heads, value_dim)


def run_steps(
    pair: Tensor,
    value: Tensor,
    decay: Tensor,
    strength: Tensor,
    state: Tensor,
    out: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """The step form over W columns of N rows.

    Args:
        pair: float32 [N, W, 2, Hk, Dk]; the others as in :func:`transition`, with a column dimension.
        value: See ``pair``.
        decay: See ``pair``.
        strength: See ``pair``.
        state: float32 [N, Hv, Dk, Dv].
        out: Where the last state goes, see :func:`transition`.

    Returns:
        Outputs float32 [N, W, Hv, Dv], and the state after the last column.
    """
    outputs = []
    last = pair.shape[1] - 1
    for column in range(last + 1):
        state, output = transition(
            state,
            pair[:, column],
            value[:, column],
            decay[:, column],
            strength[:, column],
            out if column == last else None,
        )
        outputs.append(output)
    mixed = outputs[0].unsqueeze(1) if len(outputs) == 1 else torch.stack(outputs, dim=1)
    return mixed.mul_(pair.shape[-1] ** -0.5), state


def replay(
    pair: Tensor,
    value: Tensor,
    decay: Tensor,
    strength: Tensor,
    state: Tensor,
    counts: Sequence[int],
    step: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]] = transition,
) -> Tensor:
    """Row n's state after its first ``counts[n]`` recorded columns.

    Every row takes part in every step, as it did in :func:`run_steps`: equal shapes make equal bits.

    Args:
        pair: As recorded, with row and column dimensions, like the next three.
        value: See ``pair``.
        decay: See ``pair``.
        strength: See ``pair``.
        state: float32 [N, Hv, Dk, Dv], the committed state.
        counts: Columns per row.
        step: The step function that the verify used.
    """
    for column in range(max(counts)):
        after, _ = step(
            state, pair[:, column], value[:, column], decay[:, column], strength[:, column]
        )
        if min(counts) > column:
            state = after
        else:
            active = torch.tensor([count > column for count in counts], device=state.device)
            state = torch.where(active[:, None, None, None], after, state)
    return state


def run_chunks(inputs: DeltaInputs, state: Tensor) -> tuple[Tensor, Tensor]:
    """The chunked form over T tokens of one sequence, which start at a chunk boundary.

    With G the running sum of g inside a chunk, D_ij = exp(G_i - G_j) for i ≥ j and
    L = strictly lower (b_i · k_i·k_j · D_ij), the writes of a chunk solve (I + L) X = b (v - exp(G) k S);
    then O = exp(G) q S + (q kᵀ ∘ D) X and S ← exp(G_last) S + (exp(G_last - G) k)ᵀ X.

    Args:
        inputs: Leading dimension [T].
        state: float32 [Hv, Dk, Dv], before the first token.

    Returns:
        Outputs float32 [T, Hv, Dv], and the state after the last token.
    """
    length, heads, value_dim = inputs.value.shape
    key_heads, key_dim = inputs.pair.shape[2:]
    group = heads // key_heads

    def chunked(x: Tensor) -> Tensor:
        """[T, heads, ...] → [chunks, heads, CHUNK, ...], padded with zeros: they write nothing."""
        padding = -length % CHUNK
        x = F.pad(x, (0, 0) * (x.dim() - 1) + (0, padding))
        return x.view(-1, CHUNK, *x.shape[1:]).transpose(1, 2).contiguous()

    query, key = (chunked(x) for x in inputs.pair.unbind(1))
    query = query * key_dim**-0.5
    value = chunked(inputs.value.float())
    strength = chunked(inputs.strength).unsqueeze(-1)
    total = chunked(inputs.log_decay).cumsum(-1)

    # The upper triangle is cut before exp, where it would overflow.
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=state.device).tril()
    decays = (total.unsqueeze(-1) - total.unsqueeze(-2)).masked_fill(~lower, float("-inf")).exp()
    products = (torch.cat((key, query), dim=-2) @ key.transpose(-1, -2)).repeat_interleave(group, 1)
    system = products[..., :CHUNK, :] * decays * strength
    within = products[..., CHUNK:, :] * decays
    if group > 1:
        query, key = query.repeat_interleave(group, 1), key.repeat_interleave(group, 1)
    grown = total.exp().unsqueeze(-1)
    # unitriangular: the diagonal is taken as ones, whatever the product holds there.
    solved = torch.linalg.solve_triangular(
        system,
        torch.cat((value * strength, key * (strength * grown)), dim=-1),
        upper=False,
        unitriangular=True,
    )
    fresh, readers = solved.split((value_dim, key_dim), dim=-1)
    query = query * grown
    last = total[..., -1:]
    writers = (key * (last - total).exp().unsqueeze(-1)).transpose(-1, -2)
    fade = last.exp().unsqueeze(-1)

    outputs = []
    for chunk in range(query.shape[0]):
        writes = fresh[chunk] - readers[chunk] @ state
        outputs.append(query[chunk] @ state + within[chunk] @ writes)
        state = state * fade[chunk] + writers[chunk] @ writes
    mixed = torch.stack(outputs).transpose(1, 2).reshape(-1, heads, value_dim)
    return mixed[:length], state
