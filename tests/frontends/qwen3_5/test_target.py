"""The mathematics against transformers, in every way the program can run it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_core.errors import IntegrityError
from infernix_qwen3_5 import target as target_module
from tests.frontends.qwen3_5 import oracle
from tests.frontends.qwen3_5.oracle import close


@pytest.fixture(scope="module", params=sorted(oracle.SHAPES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp(request.param)
    model = oracle.saved_model(request.param, directory)
    generator = torch.Generator().manual_seed(7)
    ids = torch.randint(0, model.config.vocab_size, (8, 230), generator=generator)
    return directory, model, ids.tolist(), oracle.Expected.of(model, ids)


@pytest.fixture(params=["numpy", "torch"])
def runner(case: Any, request: pytest.FixtureRequest) -> oracle.Runner:
    return oracle.Runner.of(oracle.load_target(case[0], reference=request.param == "torch"))


@pytest.mark.parametrize("length", [1, 3, 63, 64, 65, 230])
def test_a_prompt_in_one_pass(case: Any, runner: oracle.Runner, length: int) -> None:
    _, _, ids, logits = case
    close(runner.prompt_logits(0, ids[0][:length]), logits[0, :length])


@pytest.mark.parametrize("chunk", [64, 128, 192])
def test_a_prompt_in_chunks(case: Any, runner: oracle.Runner, chunk: int) -> None:
    _, _, ids, logits = case
    close(runner.prompt_logits(3, ids[1], chunk), logits[1])


def test_token_by_token(case: Any, runner: oracle.Runner) -> None:
    _, _, ids, logits = case
    runner.state.clear(0)
    for position in range(40):
        output = runner.verify([0], [position], [[ids[0][position]]])
        close(runner.logits(output)[0, 0], logits[0, position])
        runner.fold([0], [1])


def test_decoding_after_a_prompt_in_a_batch_of_different_lengths(
    case: Any, runner: oracle.Runner
) -> None:
    _, _, ids, logits = case
    lengths = [64, 1, 100, 37, 129, 5, 70, 200]
    lanes = [5, 0, 3, 7, 1, 2, 6, 4]
    for row, (lane, length) in enumerate(zip(lanes, lengths, strict=True)):
        runner.prefill(lane, ids[row][:length], 64)
    for step in range(12):
        starts = [length + step for length in lengths]
        columns = [[ids[row][start]] for row, start in enumerate(starts)]
        actual = runner.logits(runner.verify(lanes, starts, columns))
        for row, start in enumerate(starts):
            close(actual[row, 0], logits[row, start])
        runner.fold(lanes, [1] * 8)


def test_verify_then_fold_a_part_then_go_on(case: Any, runner: oracle.Runner) -> None:
    """Rejected columns leave no trace; rows of a batch accept different counts, also none."""
    _, model, ids, logits = case
    lengths = [64, 50, 3]
    lanes = [1, 4, 2]
    accepted = [[3, 1, 0], [0, 4, 2], [5, 2, 1], [1, 1, 5]]
    wrong = [(token + 1) % model.config.vocab_size for token in range(model.config.vocab_size)]
    for row, lane in enumerate(lanes):
        runner.prefill(lane, ids[row][: lengths[row]])
    frontier = list(lengths)
    for counts in accepted:
        columns = []
        for row, count in enumerate(counts):
            right = ids[row][frontier[row] : frontier[row] + count]
            columns.append((right + [wrong[ids[row][0]]] * 5)[: 5 if row else 6])
        actual = runner.logits(runner.verify(lanes, frontier, columns))
        for row, count in enumerate(counts):
            close(actual[row, :count], logits[row, frontier[row] : frontier[row] + count])
        runner.fold(lanes, counts)
        frontier = [start + count for start, count in zip(frontier, counts, strict=True)]
    final = runner.verify(lanes, frontier, [[ids[row][frontier[row]]] for row in range(3)])
    for row in range(3):
        close(runner.logits(final)[row, 0], logits[row, frontier[row]])


@pytest.mark.parametrize("replayed", [False, True])
def test_fold_equals_the_verified_trajectory_bit_for_bit(
    case: Any, runner: oracle.Runner, replayed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole fold takes the state that the verify left; replaying its records gives the same bits."""
    from infernix_qwen3_5.mixers import VerifyMixer
    from infernix_qwen3_5.target import Ahead

    if replayed:
        monkeypatch.setattr(target_module, "KEPT_BYTES", 0)
        monkeypatch.setattr(Ahead, "holds", lambda *_: False)
    _, _, ids, _ = case
    lanes, starts = [2, 0, 5], [64, 10, 33]
    for row, lane in enumerate(lanes):
        runner.prefill(lane, ids[row][: starts[row]])
    seen: list[VerifyMixer] = []
    original = runner.target._run

    def spy(batch: Any, mixer: VerifyMixer, features: Any) -> Any:
        seen.append(mixer)
        return original(batch, mixer, features)

    runner.target._run = spy  # type: ignore[method-assign]
    columns = [ids[row][start : start + 6] for row, start in enumerate(starts)]
    runner.verify(lanes, starts, columns)
    runner.fold(lanes, [6, 6, 6])
    assert seen[0].slots
    for name, value in seen[0].slots.items():
        assert torch.equal(runner.state.read_slot(name, lanes), value), name


@pytest.mark.parametrize("counts", [[1, 6, 3], [5, 0, 2], [4, 4, 4], [6, 1, 6]])
def test_states_kept_after_each_column_are_those_of_a_replay_bit_for_bit(
    case: Any, runner: oracle.Runner, counts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, ids, _ = case
    lanes, starts = [2, 0, 5], [64, 10, 33]
    names = [spec.name for spec in runner.target.states() if spec.kind.value == "slot"]
    folded = []
    for most in (target_module.KEPT_BYTES, 0):
        monkeypatch.setattr(target_module, "KEPT_BYTES", most)
        for row, lane in enumerate(lanes):
            runner.prefill(lane, ids[row][: starts[row]])
        columns = [ids[row][start : start + 6] for row, start in enumerate(starts)]
        # Wider rows before it: their buffers hold other states.
        runner.verify(lanes, starts, [[3, 1, 4, 1, 5, 9, 2, 6]] * 3)
        runner.verify(lanes, starts, columns)
        runner.fold(lanes, counts)
        folded.append([runner.state.read_slot(name, lanes) for name in names])
    for name, kept, replayed in zip(names, *folded, strict=True):
        assert torch.equal(kept, replayed), name


def test_a_fold_of_zero_leaves_the_row_untouched(case: Any, runner: oracle.Runner) -> None:
    _, _, ids, _ = case
    for lane in (0, 1):
        runner.prefill(lane, ids[lane][:70])
    slots = [spec.name for spec in runner.target.states() if spec.kind.value == "slot"]
    before = {name: runner.state.read_slot(name, [0]) for name in slots}
    runner.verify([0, 1], [70, 70], [ids[0][70:73], ids[1][70:73]])
    for name in slots:
        assert torch.equal(runner.state.read_slot(name, [0]), before[name])
    runner.fold([0, 1], [0, 3])
    for name in slots:
        assert torch.equal(runner.state.read_slot(name, [0]), before[name])


def test_a_fold_needs_the_verify_of_its_lanes(case: Any, runner: oracle.Runner) -> None:
    _, _, ids, _ = case
    for lane in (0, 1):
        runner.prefill(lane, ids[lane][:70])
    with pytest.raises(IntegrityError, match="follows the verify"):
        runner.fold([0], [1])
    runner.verify([0, 1], [70, 70], [[ids[0][70]], [ids[1][70]]])
    with pytest.raises(IntegrityError, match="follows the verify"):
        runner.fold([0], [1])


def test_a_full_batch_whose_rows_stop_one_after_the_other(case: Any, runner: oracle.Runner) -> None:
    """State that changes hands with a whole batch, and is copied with a part of it, stays each lane's own."""
    _, _, ids, logits = case
    frontier = [33] * 8
    for lane in range(8):
        runner.prefill(lane, ids[lane][:33])
    for step in range(8):
        lanes = list(range(8 - step // 2))
        counts = [int(lane != step) for lane in lanes]
        columns = [[ids[lane][frontier[lane]]] for lane in lanes]
        output = runner.verify(lanes, [frontier[lane] for lane in lanes], columns)
        for lane, actual in zip(lanes, runner.logits(output), strict=True):
            close(actual[0], logits[lane, frontier[lane]])
        runner.fold(lanes, counts)
        for lane, count in zip(lanes, counts, strict=True):
            frontier[lane] += count


def test_features(case: Any, runner: oracle.Runner) -> None:
    _, model, ids, _ = case
    wanted = ("block:0", "final")
    with torch.no_grad():
        out = model.model(torch.tensor([ids[0][:20]]), output_hidden_states=True)
    (output,) = runner.prefill(0, ids[0][:20], features=wanted)
    torch.testing.assert_close(
        output.features["block:0"], out.hidden_states[1], atol=1e-4, rtol=1e-4
    )
    torch.testing.assert_close(
        output.features["final"], out.last_hidden_state, atol=1e-4, rtol=1e-4
    )
    assert torch.equal(output.features["final"], output.hidden)
    with pytest.raises(ValueError, match="block:99"):
        runner.prefill(0, ids[0][:20], features=("block:99",))


def test_a_chunk_off_the_grid_is_refused(case: Any, runner: oracle.Runner) -> None:
    from infernix_core.interfaces.model import ForwardBatch, StepKind

    batch = ForwardBatch(StepKind.PREFILL, torch.tensor([[1]]), (63,), (1,), (0,))
    with pytest.raises(ValueError, match="63"):
        runner.target.forward(batch, runner.state)
