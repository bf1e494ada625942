"""The mixture of experts of a decoder layer (Shazeer et al. 2017): router, chosen experts, shared expert.

With p = softmax over all experts of the router's scores, the k experts of the largest p share the token in
proportion to p: ``y = sum_e p_e / (sum of the chosen p) * mlp_e(x) + sigmoid(s·x) * mlp_shared(x)``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor


@frozen(eq=False)
class MixtureWeights:
    """A layer's experts, and what every token passes.

    Attributes:
        inputs: [2*Is + E + 1, H]: the shared expert's gate rows and up rows, the router, the shared expert's
            own gate. All are products with the same input, so they are one.
        shared_down: [H, Is].
        gate_up: Per expert [2*I, H]: the gate's rows, then the up projection's.
        down: Per expert [H, I].
        chosen: k, the experts per token.
    """

    inputs: Tensor
    shared_down: Tensor
    gate_up: tuple[Tensor, ...]
    down: tuple[Tensor, ...]
    chosen: int


def mixture(x: Tensor, weights: MixtureWeights) -> Tensor:
    """The layer's feed-forward part for x [..., H] of any floating dtype."""
    rows = x.reshape(-1, x.shape[-1])
    inner = weights.shared_down.shape[1]
    sizes = [inner, inner, len(weights.down), 1]
    gate, up, scores, openness = torch.split(F.linear(rows, weights.inputs), sizes, dim=-1)
    shared = F.linear(F.silu(gate) * up, weights.shared_down)
    experts, shares = choose(scores, weights.chosen)
    routed = run_experts(rows, experts, shares, weights)
    return routed.addcmul_(openness.sigmoid(), shared).view(x.shape)


def choose(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The experts of each token and how they share it; of equal ones the lower index is taken.

    Args:
        scores: [T, E], the router's products.
        count: Experts per token, k.

    Returns:
        Experts int64 [T, k], the largest share first, and shares [T, k] in the dtype of the scores, which
        are computed in float32 and sum to one.
    """
    probabilities = torch.softmax(scores, dim=-1, dtype=torch.float32)
    # A stable sort, since topk leaves open which of two equal values it takes.
    ordered, experts = probabilities.sort(dim=-1, descending=True, stable=True)
    best = ordered[:, :count]
    return experts[:, :count], (best / best.sum(-1, keepdim=True)).to(scores.dtype)


def run_experts(x: Tensor, experts: Tensor, shares: Tensor, weights: MixtureWeights) -> Tensor:
    """Each token through its experts, summed by its shares.

    Tokens are grouped by expert, and an expert's matrices are read where they lie, once for all of its tokens. To
    gather them per token instead would copy more than a product of so few rows reads.

    Args:
        x: [T, H].
        experts: int64 [T, k], distinct in each row.
        shares: [T, k].
        weights: The layer's.

    Returns:
        A new [T, H]. The sum over a token's experts runs in their order in ``experts``, whatever the grouping.
    """
    tokens, count = experts.shape
    if tokens == 1:
        order = None
        used, sizes = experts[0].tolist(), [1] * count
        parts = [x] * count
    else:
        grouped, order = experts.flatten().sort(stable=True)
        found, counts = torch.unique_consecutive(grouped, return_counts=True)
        used, sizes = found.tolist(), counts.tolist()
        parts = list(torch.split(x[order // count], sizes))
    opened = [F.linear(part, weights.gate_up[e]) for part, e in zip(parts, used, strict=True)]
    gate, up = torch.cat(opened).chunk(2, dim=-1)
    inner = torch.split(F.silu(gate) * up, sizes)
    outputs = torch.cat(
        [F.linear(part, weights.down[e]) for part, e in zip(inner, used, strict=True)]
    )
    if order is not None:
        outputs = torch.empty_like(outputs).index_copy_(0, order, outputs)
    return torch.bmm(shares.unsqueeze(1), outputs.view(tokens, count, -1)).squeeze(1)
