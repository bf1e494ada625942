"""The numpy kernel of the verify step against the torch code, which is its reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infernix_qwen3_5 import host, products
from infernix_qwen3_5 import target as target_module
from tests.frontends.qwen3_5 import oracle

TOLERANCE: dict[str, Any] = {"atol": 2e-4, "rtol": 1e-4}


@pytest.fixture(scope="module", params=sorted(oracle.SHAPES))
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp(request.param)
    oracle.saved_model(request.param, path)
    return path


@pytest.fixture(params=["panels", "own products", "products of torch"])
def runners(
    directory: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> tuple[oracle.Runner, oracle.Runner]:
    threads = 2 if request.param == "products of torch" else 1
    monkeypatch.setattr(host, "one_thread", lambda: threads == 1)
    kernels = "SkylakeX" if request.param == "panels" else "Haswell"
    monkeypatch.setattr(products, "numpy_kernels", lambda: kernels)
    kernel = oracle.load_target(directory)
    assert kernel._host is not None
    assert kernel._host.blas == (threads == 1)
    assert kernel._host.panels == (request.param == "panels")
    plain = oracle.load_target(directory, reference=True)
    assert plain._host is None
    return oracle.Runner.of(kernel), oracle.Runner.of(plain)


def fill(runners: tuple[oracle.Runner, ...], seed: int) -> None:
    """The same random state everywhere, of the size that real state has."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in runners[0].state._tensors.items():
        scale = 0.1 if name.endswith("delta") else 1.0
        value = scale * torch.randn(tensor.shape, generator=generator)
        for runner in runners:
            runner.state._tensors[name].copy_(value)


def slots(runner: oracle.Runner) -> dict[str, torch.Tensor]:
    names = [spec.name for spec in runner.target.states() if spec.kind.value == "slot"]
    return {name: runner.state.read_slot(name, list(range(8))) for name in names}


@pytest.mark.parametrize("lanes", [[3], [0], [1, 2, 3], [5, 0, 3], list(range(8)), [7, 1, 0, 4]])
@pytest.mark.parametrize("widths", [[1], [4], [3, 1, 2, 5]])
@pytest.mark.parametrize("kept_bytes", [0, target_module.KEPT_BYTES])
def test_a_step_from_any_state(
    runners: tuple[oracle.Runner, oracle.Runner],
    lanes: list[int],
    widths: list[int],
    kept_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(target_module, "KEPT_BYTES", kept_bytes)
    fill(runners, seed=len(lanes))
    starts = [(37 * row + 5) % 200 for row in range(len(lanes))]
    vocabulary = runners[0].target.config.vocab_size
    features = ["block:0", "final"]
    for step in range(3):
        columns = [
            [(11 * row + 3 * step + i) % vocabulary for i in range(widths[row % len(widths)])]
            for row in range(len(lanes))
        ]
        left, right = (runner.verify(lanes, starts, columns, features) for runner in runners)
        for row, tokens in enumerate(columns):
            count = len(tokens)
            for one, two in (
                (left.hidden, right.hidden),
                *((left.features[name], right.features[name]) for name in features),
            ):
                torch.testing.assert_close(one[row, :count], two[row, :count], **TOLERANCE)
        # A part of a wide step, from kept states or replayed records; no step leaves all of its rows.
        counts = [max(1, len(tokens) - row % 3) for row, tokens in enumerate(columns)]
        for runner in runners:
            runner.fold(lanes, counts)
        for name, value in slots(runners[1]).items():
            torch.testing.assert_close(slots(runners[0])[name], value, **TOLERANCE)
        starts = [start + count for start, count in zip(starts, counts, strict=True)]


def test_what_a_step_gives_is_its_own(
    runners: tuple[oracle.Runner, oracle.Runner], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Buffers are reused, and nothing that was handed out lies in them."""
    monkeypatch.setattr(target_module, "KEPT_BYTES", 0)
    kernel = runners[0]
    fill(runners, seed=1)
    output = kernel.verify([0, 1], [9, 4], [[1, 2], [3, 4]], ["block:0"])
    name = next(spec.name for spec in kernel.target.states() if spec.kind.value == "record")
    values = [output.hidden, output.features["block:0"], kernel.state.read_records(name, 2)]
    before = [value.clone() for value in values]
    logits = kernel.logits(output)
    again = logits.clone()
    kernel.logits(kernel.verify([2, 3], [5, 6], [[7], [8]]))
    other = oracle.Runner.of(kernel.target)
    other.verify([0, 1], [9, 4], [[5, 6], [7, 8]], ["block:0"])
    for value, expected in zip(values, before, strict=True):
        assert torch.equal(value, expected)
    assert torch.equal(logits, again)


def test_two_programs_do_not_share_what_a_fold_takes(directory: Path) -> None:
    target = oracle.load_target(directory)
    one, two, alone = (oracle.Runner.of(target) for _ in range(3))
    for runner in (one, two, alone):
        runner.prefill(0, list(range(1, 40)))
    one.verify([0], [39], [[3]])
    two.verify([0], [39], [[4]])
    one.fold([0], [1])
    alone.verify([0], [39], [[3]])
    alone.fold([0], [1])
    for name, value in slots(alone).items():
        assert torch.equal(slots(one)[name], value)


def test_gates_that_are_shut_do_not_warn(runners: tuple[oracle.Runner, oracle.Runner]) -> None:
    wide = np.array([[-200.0, -88.5, 0.0, 88.5, 200.0]], dtype=np.float32)
    out = np.empty_like(wide)
    with np.errstate(over="ignore"):
        host.divide_by_sigmoid(wide, out)
    np.testing.assert_allclose(wide / out, torch.nn.functional.silu(torch.from_numpy(wide)), 1e-6)
    fill(runners, seed=2)
    for spec in runners[0].target.states():
        if spec.kind.value == "slot":
            for runner in runners:
                runner.state._tensors[spec.name].mul_(300)
    with np.errstate(all="raise", under="ignore", over="raise"):
        left, right = (runner.verify([0, 1], [3, 4], [[1], [2]]) for runner in runners)
    torch.testing.assert_close(left.hidden, right.hidden, atol=2e-3, rtol=1e-3)


@pytest.mark.parametrize("rows", [1, 2, 7, 8, 40])
@pytest.mark.parametrize("shape", [(70, 33), (4100, 48), (130, 3000), (2500, 520), (64, 7000)])
@pytest.mark.parametrize("kind", ["panels", "blocks", "torch"])
def test_products(rows: int, shape: tuple[int, int], kind: str) -> None:
    generator = torch.Generator().manual_seed(rows)
    panels, blas = kind == "panels", kind != "torch"
    matrix = torch.randn(shape[1], shape[0], generator=generator).t()
    x = products.Rows(rows, shape[1], panels=panels)
    np.copyto(x.flat, torch.randn(rows, shape[1], generator=generator).numpy())
    out = products.Rows(rows, shape[0], panels=panels)
    products.Product.of(matrix, blas=blas, panels=panels).into(x, out)
    expected = torch.from_numpy(x.flat).double() @ matrix.t().double()
    np.testing.assert_allclose(out.flat, expected.float(), rtol=1e-4, atol=5e-4)


def test_large_models_are_not_laid_out_twice(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "numpy_kernels", lambda: "SkylakeX")
    monkeypatch.setattr(products, "PANEL_BYTES", 1000)
    target = oracle.load_target(directory)
    assert target._host is not None
    assert not target._host.panels


@pytest.mark.parametrize(
    "place", [{"dtype": torch.bfloat16}, {"dtype": torch.float64}, {"device": "meta"}]
)
def test_other_devices_and_types_are_left_to_torch(directory: Path, place: Any) -> None:
    from attrs import evolve

    target = oracle.load_target(directory)
    weights = evolve(target.weights, embedding=target.weights.embedding.to(**place))
    assert host.HostStep.of(target.config, weights) is None
