"""The router and the grouping of tokens by expert, against plain loops."""

from __future__ import annotations

import pytest
import torch

from infernix_qwen3_5.mixture import MixtureWeights, choose, mixture, run_experts

HIDDEN, INNER, SHARED, EXPERTS, CHOSEN = 16, 12, 20, 7, 3


def random_weights(dtype: torch.dtype = torch.float32) -> MixtureWeights:
    generator = torch.Generator().manual_seed(5)

    def matrix(*shape: int) -> torch.Tensor:
        return (torch.randn(shape, generator=generator) * shape[-1] ** -0.5).to(dtype)

    return MixtureWeights(
        inputs=matrix(2 * SHARED + EXPERTS + 1, HIDDEN) * 2,
        shared_down=matrix(HIDDEN, SHARED),
        gate_up=matrix(EXPERTS, 2 * INNER, HIDDEN).unbind(),
        down=matrix(EXPERTS, HIDDEN, INNER).unbind(),
        chosen=CHOSEN,
    )


def plain(token: torch.Tensor, weights: MixtureWeights) -> torch.Tensor:
    """One token [H] in float64, term by term."""
    x = token.double()

    def mlp(gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
        gate, up = (gate_up.double() @ x).chunk(2)
        return down.double() @ (gate * gate.sigmoid() * up)

    rows = weights.inputs.double()
    probabilities = (rows[2 * SHARED : -1] @ x).softmax(0).tolist()
    best = sorted(range(EXPERTS), key=lambda expert: -probabilities[expert])[:CHOSEN]
    total = sum(probabilities[expert] for expert in best)
    result = (rows[-1] @ x).sigmoid() * mlp(weights.inputs[: 2 * SHARED], weights.shared_down)
    for expert in best:
        share = probabilities[expert] / total
        result += share * mlp(weights.gate_up[expert], weights.down[expert])
    return result


@pytest.mark.parametrize("lead", [(1, 1), (1, 2), (3, 5), (1, 64)], ids=str)
def test_it_is_the_sum_of_its_terms(lead: tuple[int, int]) -> None:
    weights = random_weights()
    x = torch.randn(*lead, HIDDEN, generator=torch.Generator().manual_seed(6))
    actual = mixture(x, weights)
    assert actual.shape == x.shape
    for row in range(lead[0]):
        for column in range(lead[1]):
            expected = plain(x[row, column], weights)
            torch.testing.assert_close(actual[row, column].double(), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_it_keeps_the_dtype(dtype: torch.dtype) -> None:
    weights = random_weights(dtype)
    x = torch.randn(2, 3, HIDDEN, generator=torch.Generator().manual_seed(6)).to(dtype)
    assert mixture(x, weights).dtype == dtype


def test_all_tokens_of_one_expert() -> None:
    weights = random_weights()
    x = torch.randn(5, HIDDEN)
    same = torch.tensor([[4, 0, 2]]).expand(5, -1)
    shares = torch.tensor([[0.5, 0.3, 0.2]]).expand(5, -1)
    together = run_experts(x, same, shares, weights)
    for row in range(5):
        alone = run_experts(x[row : row + 1], same[:1], shares[:1], weights)
        torch.testing.assert_close(together[row], alone[0])


@pytest.mark.parametrize("experts", [3, 40, 256])
def test_of_equal_experts_the_lower_is_taken(experts: int) -> None:
    scores = torch.zeros(9, experts)
    chosen, shares = choose(scores, 3)
    assert chosen.tolist() == [[0, 1, 2]] * 9
    torch.testing.assert_close(shares, torch.full((9, 3), 1 / 3))
    scores[:, experts // 2] = 1.0
    chosen, _ = choose(scores, 2)
    assert chosen.tolist() == [[experts // 2, 0]] * 9


def test_shares_are_computed_in_float32() -> None:
    """Experts whose probabilities are one number in bfloat16 are told apart."""
    generator = torch.Generator().manual_seed(8)
    scores = torch.randn(50, 256, generator=generator).to(torch.bfloat16)
    chosen, shares = choose(scores, 8)
    expected, exact = choose(scores.float(), 8)
    assert torch.equal(chosen, expected)
    assert torch.equal(shares, exact.to(torch.bfloat16))
    torch.testing.assert_close(exact.sum(-1), torch.ones(50))


def test_scores_that_are_no_numbers_choose_experts_that_exist() -> None:
    chosen, _ = choose(torch.full((2, EXPERTS), float("nan")), CHOSEN)
    assert ((chosen >= 0) & (chosen < EXPERTS)).all()
