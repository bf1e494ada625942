"""The draft layer: how it is found and read, and its numpy kernel against the torch code.

Its equations are tested with the backend, against a plain second implementation (tests/backends/mtp).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.interfaces.model import ForwardBatch, StepKind
from infernix_qwen3_5 import host, products
from infernix_qwen3_5.hooks import create
from infernix_qwen3_5.testing import random_checkpoint
from tests.frontends.qwen3_5 import checkpoints, oracle

MIXTURE = {"experts": 5, "chosen_experts": 2, "expert_size": 24, "shared_expert_size": 40}
SIZES: dict[str, dict[str, Any]] = {
    "dense": {"hidden_size": 48, "heads": 6},
    "wide heads": {"head_dim": 256, "heads": 2, "kv_heads": 1},
    "mixture": MIXTURE,
}


def head_of(directory: Path, **options: Any) -> Any:
    head = create().load(directory, LoadOptions(**options)).target.draft_head("mtp")
    assert not isinstance(head, str), head
    return head


def same(left: Any, right: Any) -> None:
    for name in ("embedding_norm", "hidden_norm", "inputs", "final_norm"):
        assert torch.equal(getattr(left.weights, name), getattr(right.weights, name)), name
    one, two = left.weights.layer, right.weights.layer
    assert torch.equal(one.mixer_norm, two.mixer_norm)
    assert torch.equal(one.mlp_norm, two.mlp_norm)
    for name in ("inputs", "norm", "out"):
        assert torch.equal(getattr(one.mixer, name), getattr(two.mixer, name)), name
    for name in ("gate_up", "down"):
        pairs = zip(getattr(one.mlp, name), getattr(two.mlp, name), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)


@pytest.mark.parametrize("sizes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_it_changes_no_other_tensor(tmp_path: Path, sizes: dict[str, Any]) -> None:
    with_it = random_checkpoint(tmp_path / "with", mtp=True, **sizes)
    without = random_checkpoint(tmp_path / "without", **sizes)
    left, right = (load_file(path / "model.safetensors") for path in (with_it, without))
    assert {name for name in left if not name.startswith("mtp.")} == right.keys()
    assert all(torch.equal(left[name], value) for name, value in right.items())
    norms = [value for name, value in left.items() if name.startswith("mtp.") and "norm" in name]
    assert len(norms) == 7
    assert all(0.1 < value.std() < 0.6 for value in norms)


@pytest.mark.parametrize("sizes", [{}, MIXTURE], ids=["dense", "mixture"])
def test_forms_of_checkpoints(tmp_path: Path, sizes: dict[str, Any]) -> None:
    """Nested, in shards, expert by expert, half as wide, and as MLX writes it."""
    plain = random_checkpoint(tmp_path / "plain", mtp=True, **sizes)
    expected = head_of(plain)
    same(head_of(random_checkpoint(tmp_path / "nested", mtp=True, nested=True, **sizes)), expected)
    checkpoints.as_shards(random_checkpoint(tmp_path / "shards", mtp=True, **sizes))
    same(head_of(tmp_path / "shards"), expected)

    mlx = random_checkpoint(tmp_path / "mlx", mtp=True, **sizes)

    def convert(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        for name, tensor in tensors.items():
            if name.endswith("conv1d.weight"):
                tensors[name] = tensor.transpose(1, 2).contiguous()
            elif "norm" in name and "linear_attn" not in name:
                tensors[name] = tensor + 1
        return {name.replace("mtp.", "language_model.mtp."): t for name, t in tensors.items()}

    checkpoints.rewrite_tensors(mlx, convert)
    same(head_of(mlx), expected)
    head = head_of(plain, dtype=torch.bfloat16)
    assert head.weights.inputs.dtype == torch.bfloat16
    assert head.weights.final_norm.dtype == torch.float32
    (spec,) = head.states()
    assert (spec.name, spec.dtype) == ("qwen3_5.mtp.kv", torch.bfloat16)


def test_experts_may_lie_in_another_form_than_the_models(tmp_path: Path) -> None:
    """One by one in the draft layer, stacked in the model."""
    directory = random_checkpoint(tmp_path / "x", mtp=True, **MIXTURE)
    expected = head_of(directory)

    def edit(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        at = "mtp.layers.0.mlp.experts."
        both, down = tensors.pop(f"{at}gate_up_proj"), tensors.pop(f"{at}down_proj")
        for e in range(len(down)):
            gate, up = both[e].chunk(2)
            parts = {"gate_proj": gate, "up_proj": up, "down_proj": down[e]}
            tensors |= {f"{at}{e}.{name}.weight": t.clone() for name, t in parts.items()}
        return tensors

    checkpoints.rewrite_tensors(directory, edit)
    same(head_of(directory), expected)


@pytest.fixture(scope="module", params=SIZES)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mtp") / "x"
    return random_checkpoint(path, mtp=True, layers=1, **SIZES[request.param])


@pytest.mark.parametrize("kernel", ["panels", "own products", "products of torch"])
@pytest.mark.parametrize(
    ("lanes", "widths"), [([0], [1]), ([2], [4]), ([3, 1], [1, 1]), ([1, 0, 3, 2], [3, 1, 4, 2])]
)
def test_the_kernel_and_its_reference(
    directory: Path, kernel: str, lanes: list[int], widths: list[int], monkeypatch: Any
) -> None:
    threads = 2 if kernel == "products of torch" else 1
    monkeypatch.setattr(host, "one_thread", lambda: threads == 1)
    kernels = "SkylakeX" if kernel == "panels" else "Haswell"
    monkeypatch.setattr(products, "numpy_kernels", lambda: kernels)
    targets = [oracle.load_target(directory, reference=reference) for reference in (False, True)]
    heads: list[Any] = [target.draft_head("mtp") for target in targets]
    assert [head._host is None for head in heads] == [False, True]
    generator = torch.Generator().manual_seed(len(lanes))
    (spec,) = heads[0].states()
    states = [oracle.LaneState((spec,), 4, 64, 1, torch.device("cpu")) for _ in heads]
    kv = torch.randn(states[0]._tensors[spec.name].shape, generator=generator)
    for state in states:
        state._tensors[spec.name].copy_(kv)
    starts = [7 * row + 3 for row in range(len(lanes))]
    for _ in range(3):
        shape = (len(lanes), max(widths))
        ids = torch.randint(0, 500, shape, generator=generator)
        hidden = torch.randn(*shape, targets[0].config.hidden_size, generator=generator)
        batch = ForwardBatch(StepKind.VERIFY, ids, tuple(starts), tuple(widths), tuple(lanes))
        given = hidden.clone()
        with np.errstate(all="raise", under="ignore"):
            left, right = (h.forward(batch, hidden, s) for h, s in zip(heads, states, strict=True))
        assert torch.equal(hidden, given)
        assert not left.is_inference()
        assert not right.is_inference()
        assert left.shape == (len(lanes), targets[0].config.hidden_size)
        torch.testing.assert_close(left, right, atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(
            *(state._tensors[spec.name] for state in states), atol=2e-4, rtol=1e-4
        )
        starts = [start + width for start, width in zip(starts, widths, strict=True)]


def test_what_it_gives_is_its_own(directory: Path) -> None:
    """Nothing that was handed out lies in the buffers, which the model's own step uses as well."""
    target = oracle.load_target(directory)
    head: Any = target.draft_head("mtp")
    specs = (*target.states(), *head.states())
    state = oracle.LaneState(specs, 2, 64, 4, torch.device("cpu"))
    hidden = torch.randn(1, 2, target.config.hidden_size, generator=torch.manual_seed(1))
    batch = ForwardBatch(StepKind.VERIFY, torch.tensor([[1, 2]]), (0,), (2,), (0,))
    output = head.forward(batch, hidden, state)
    kept = output.clone()
    target.forward(batch, state)
    head.forward(
        ForwardBatch(StepKind.VERIFY, torch.tensor([[3, 4]]), (2,), (2,), (0,)), 2 * hidden, state
    )
    assert torch.equal(output, kept)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_round_between_a_verify_and_its_fold(directory: Path, count: int) -> None:
    """The head may run there: what the verify left for its fold stays."""
    target = oracle.load_target(directory)
    head: Any = target.draft_head("mtp")
    specs = (*target.states(), *head.states())
    states = [oracle.LaneState(specs, 2, 64, 4, torch.device("cpu")) for _ in range(2)]
    ids = torch.tensor([[5, 9, 7]])
    batch = ForwardBatch(StepKind.VERIFY, ids, (0,), (3,), (0,))
    for index, state in enumerate(states):
        hidden = target.forward(batch, state).hidden
        if index:
            head.forward(batch, hidden, state)
        target.fold((0,), (count,), state)
    for spec in target.states():
        if spec.kind.value == "slot":
            assert torch.equal(*(state.read_slot(spec.name, (0,)) for state in states))


def test_other_names(directory: Path) -> None:
    assert "'eagle'" in str(oracle.load_target(directory).draft_head("eagle"))
    target = oracle.load_target(directory)
    assert target.draft_head("mtp") is target.draft_head("mtp")
    alone = type(target)(target.config, target.weights)
    assert isinstance(alone.draft_head("mtp"), str)
