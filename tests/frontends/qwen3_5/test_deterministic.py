"""Deterministic mode: a row's numbers are the same bits whatever else runs, and however it is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.frontends.qwen3_5 import oracle


@pytest.fixture(
    scope="module",
    params=["grouped", "demo", "mixture", "grouped torch", "mixture torch"],
)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp(request.param)
    shape, _, kernel = request.param.partition(" ")
    model = oracle.saved_model(shape, directory)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(0, model.config.vocab_size, (8, 250), generator=generator).tolist()
    target = oracle.load_target(directory, deterministic=True, reference=kernel == "torch")
    return target, ids


def slots(runner: oracle.Runner, lane: int) -> dict[str, torch.Tensor]:
    names = [spec.name for spec in runner.target.states() if spec.kind.value == "slot"]
    return {name: runner.state.read_slot(name, [lane]) for name in names}


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> None:
    for name, value in left.items():
        assert torch.equal(value, right[name]), name


@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_prompts_are_the_same_however_they_are_chunked(case: Any, threads: int) -> None:
    target, ids = case
    torch.set_num_threads(threads)
    try:
        runner = oracle.Runner.of(target)
        whole = runner.prompt_logits(0, ids[0])
        for lane, chunk in enumerate((64, 128, 192), start=1):
            assert torch.equal(runner.prompt_logits(lane, ids[0], chunk), whole)
            same(slots(runner, 0), slots(runner, lane))
    finally:
        torch.set_num_threads(1)


def test_decoding_alone_and_in_a_batch(case: Any) -> None:
    target, ids = case
    lengths = [70, 3, 64, 128, 99, 17, 65, 200]
    together, alone = oracle.Runner.of(target), oracle.Runner.of(target)
    for row, length in enumerate(lengths):
        together.prefill(row, ids[row][:length])
    alone.prefill(5, ids[0][:70])
    for step in range(6):
        starts = [length + step for length in lengths]
        columns = [[ids[row][start]] for row, start in enumerate(starts)]
        batch = together.logits(together.verify(list(range(8)), starts, columns))
        single = alone.logits(alone.verify([5], [70 + step], [[ids[0][70 + step]]]))
        assert torch.equal(batch[0], single[0])
        together.fold(list(range(8)), [1] * 8)
        alone.fold([5], [1])
    same(slots(together, 0), slots(alone, 5))


def test_narrow_and_wide(case: Any) -> None:
    target, ids = case
    narrow, wide = oracle.Runner.of(target), oracle.Runner.of(target)
    narrow.prefill(0, ids[0][:67])
    for lane in (0, 3):
        wide.prefill(lane, ids[lane][:67])
    output = wide.verify([3, 0], [67, 67], [ids[3][67:70], ids[0][67:72]], ["block:0"])
    logits = wide.logits(output)
    for column in range(5):
        single = narrow.verify([0], [67 + column], [[ids[0][67 + column]]], ["block:0"])
        assert torch.equal(narrow.logits(single)[0, 0], logits[1, column])
        assert torch.equal(single.features["block:0"][0, 0], output.features["block:0"][1, column])
        narrow.fold([0], [1])
    wide.fold([3, 0], [1, 5])
    same(slots(narrow, 0), slots(wide, 0))


def test_it_agrees_with_the_ordinary_mode(case: Any) -> None:
    target, ids = case
    ordinary = type(target)(target.config, target.weights)
    exact, fast = oracle.Runner.of(target), oracle.Runner.of(ordinary)
    torch.testing.assert_close(
        exact.prompt_logits(0, ids[0]), fast.prompt_logits(0, ids[0]), atol=5e-4, rtol=0
    )
