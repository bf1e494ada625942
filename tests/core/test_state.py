"""The state of all lanes: views, copies, and buffers that change hands."""

from __future__ import annotations

import pytest
import torch

from infernix_core.engine.state import LaneState
from infernix_core.interfaces.model import StateKind, StateSpec

LANES = 4


@pytest.fixture
def state() -> LaneState:
    specs = (StateSpec("s", StateKind.SLOT, (3,), torch.float32),)
    made = LaneState(specs, LANES, 8, 1, torch.device("cpu"))
    made.write_slot("s", range(LANES), torch.arange(12.0).view(LANES, 3))
    return made


ORDERS = [[0], [3], [1, 2], [0, 1, 2, 3], [3, 1], [2, 0, 3, 1]]


@pytest.mark.parametrize("lanes", ORDERS, ids=str)
def test_reading_is_a_copy_and_peeking_the_same_numbers(state: LaneState, lanes: list[int]) -> None:
    expected = torch.arange(12.0).view(LANES, 3)[lanes]
    assert torch.equal(state.peek_slot("s", lanes), expected)
    copy = state.read_slot("s", lanes)
    assert torch.equal(copy, expected)
    copy.zero_()
    assert torch.equal(state.read_slot("s", lanes), expected)


@pytest.mark.parametrize("lanes", ORDERS, ids=str)
@pytest.mark.parametrize("inference", [False, True])
def test_a_spare_becomes_the_state(state: LaneState, lanes: list[int], inference: bool) -> None:
    expected = state.read_slot("s", range(LANES))
    for turn in range(3):
        with torch.inference_mode(inference):
            spare = state.spare_slot("s", len(lanes))
            assert spare.shape == (len(lanes), 3)
            spare.copy_(state.peek_slot("s", lanes) + turn + 1)
            state.write_slot("s", lanes, spare)
        expected[lanes] += turn + 1
        assert torch.equal(state.read_slot("s", range(LANES)), expected)
    # Outside of inference mode too, whichever buffer it is now.
    state.clear(lanes[0])
    expected[lanes[0]] = 0
    assert torch.equal(state.read_slot("s", range(LANES)), expected)
    state.write_slot("s", [1], torch.ones(1, 3))
    assert state.read_slot("s", [1]).tolist() == [[1, 1, 1]]


def test_a_part_of_a_spare_is_copied(state: LaneState) -> None:
    spare = state.spare_slot("s", LANES)
    spare.fill_(7)
    state.write_slot("s", [1, 2], spare[1:3])
    assert state.read_slot("s", range(LANES))[:, 0].tolist() == [0, 7, 7, 9]
    spare.fill_(5)
    assert state.read_slot("s", range(LANES))[:, 0].tolist() == [0, 7, 7, 9]
