"""Gated DeltaNet (Yang et al. 2024) as functions over tensors: convolution, gates, step form, chunked form.

Per value head with state S [Dk, Dv], decay a = exp(g) and write strength b:
``S ← a·S``, ``d = b·(v - Sᵀk)``, ``S ← S + k·dᵀ``, ``o = Sᵀq``. Everything here is float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

#: Tokens of one chunk; chunk boundaries lie at multiples of it from the sequence's start.
CHUNK = 64


@frozen(eq=False)
class DeltaInputs:
    """What the recurrence reads, per token; leading dimensions [...] are rows and columns.

    Attributes:
        query: float32 [..., Hk, Dk], normalised and scaled.
        key: float32 [..., Hk, Dk], normalised.
        value: [..., Hv, Dv] in the activations' dtype.
        log_decay: float32 [..., Hv], g.
        strength: float32 [..., Hv], b.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    log_decay: Tensor
    strength: Tensor


def unit(x: Tensor) -> Tensor:
    """``x / sqrt(sum(x²) + 1e-6)`` over the last dimension."""
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)


def causal_conv(window: Tensor, taps: Sequence[Tensor]) -> Tensor:
    """SiLU of the depthwise causal convolution, float32 [..., W, C].

    Args:
        window: [..., K-1 + W, C], the raw columns with the K-1 before them.
        taps: K times float32 [C], the oldest first.
    """
    width = window.shape[-2] - len(taps) + 1
    wide = window.float()
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
    paired = unit(convolved[..., : 2 * size].reshape(*lead, 2 * key_heads, key_dim))
    return DeltaInputs(
        query=paired[..., :key_heads, :] * key_dim**-0.5,
        key=paired[..., key_heads:, :],
        value=convolved[..., 2 * size :].reshape(*lead, strength.shape[-1], -1).to(dtype),
        log_decay=F.softplus(step.float() + dt_bias) * decay_rate,
        strength=strength.float().sigmoid(),
    )


def expand_heads(x: Tensor, heads: int) -> Tensor:
    """Gives each value head its query/key head, ``j // (heads / Hk)``: [N, Hk, D] → a new [N, heads, D].

    Always a fresh, contiguous tensor: what a BLAS call makes of it then depends on its values alone, and
    a replay from records equals the verify that wrote them bit for bit.
    """
    rows, key_heads, dim = x.shape
    expanded = x.unsqueeze(2).expand(rows, key_heads, heads // key_heads, dim)
    return expanded.clone(memory_format=torch.contiguous_format).view(rows, heads, dim)


def transition(
    state: Tensor, key: Tensor, value: Tensor, decay: Tensor, strength: Tensor
) -> Tensor:
    """The state after one token: the one step function of decode, verify and fold.

    It takes the decay itself, not its logarithm: a vectorised exp may differ in the last bit with the
    layout of its input, and verify and fold see different layouts.

    Args:
        state: float32 [N, Hv, Dk, Dv]; not modified.
        key: float32 [N, Hk, Dk], normalised.
        value: [N, Hv, Dv].
        decay: float32 [N, Hv], exp(g).
        strength: float32 [N, Hv].

    Returns:
        A new state [N, Hv, Dk, Dv].
    """
    rows, heads, key_dim, value_dim = state.shape
    keys = expand_heads(key, heads)
    decayed = state * decay[..., None, None]
    recalled = torch.bmm(
        keys.view(rows * heads, 1, key_dim), decayed.view(rows * heads, key_dim, value_dim)
    )
    delta = (value.float() - recalled.view(rows, heads, value_dim)).mul_(strength.unsqueeze(-1))
    return decayed.addcmul_(keys.unsqueeze(-1), delta.unsqueeze(-2))


def read_state(state: Tensor, query: Tensor) -> Tensor:
    """``Sᵀq`` per value head: state [N, Hv, Dk, Dv] and query [N, Hk, Dk] give [N, Hv, Dv]."""
    rows, heads, key_dim, value_dim = state.shape
    queries = expand_heads(query, heads).view(rows * heads, 1, key_dim)
    return torch.bmm(queries, state.view(rows * heads, key_dim, value_dim)).view(
        rows, heads, value_dim
    )


def run_steps(
    query: Tensor, key: Tensor, value: Tensor, decay: Tensor, strength: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """The step form over W columns of N rows.

    Args:
        query: float32 [N, W, Hk, Dk]; the others as in :func:`transition`, with a column dimension.
        key: See ``query``.
        value: See ``query``.
        decay: See ``query``.
        strength: See ``query``.
        state: float32 [N, Hv, Dk, Dv].

    Returns:
        Outputs float32 [N, W, Hv, Dv], and the state after the last column.
    """
    outputs = []
    for column in range(key.shape[1]):
        state = transition(
            state, key[:, column], value[:, column], decay[:, column], strength[:, column]
        )
        outputs.append(read_state(state, query[:, column]))
    mixed = outputs[0].unsqueeze(1) if len(outputs) == 1 else torch.stack(outputs, dim=1)
    return mixed, state


def replay(
    key: Tensor,
    value: Tensor,
    decay: Tensor,
    strength: Tensor,
    state: Tensor,
    counts: Sequence[int],
) -> Tensor:
    """Row n's state after its first ``counts[n]`` recorded columns.

    Every row takes part in every step, as it did in :func:`run_steps`: equal shapes make equal bits.

    Args:
        key: As recorded, with row and column dimensions, like the next three.
        value: See ``key``.
        decay: See ``key``.
        strength: See ``key``.
        state: float32 [N, Hv, Dk, Dv], the committed state.
        counts: Columns per row.
    """
    for column in range(max(counts)):
        after = transition(
            state, key[:, column], value[:, column], decay[:, column], strength[:, column]
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
    key_heads, key_dim = inputs.key.shape[1:]
    group = heads // key_heads

    def chunked(x: Tensor) -> Tensor:
        """[T, heads, ...] → [chunks, heads, CHUNK, ...], padded with zeros: they write nothing."""
        padding = -length % CHUNK
        x = F.pad(x, (0, 0) * (x.dim() - 1) + (0, padding))
        return x.view(-1, CHUNK, *x.shape[1:]).transpose(1, 2).contiguous()

    query, key = chunked(inputs.query), chunked(inputs.key)
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
