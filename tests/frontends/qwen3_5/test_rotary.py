"""Rotary tables that two threads share, and the buffers of batches."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from infernix_qwen3_5 import rotary as rotary_module
from infernix_qwen3_5.buffers import KEPT_SHAPES, Buffers
from infernix_qwen3_5.config import LINEAR
from infernix_qwen3_5.rotary import STEP, Rotary
from tests.frontends.qwen3_5 import oracle

WAIT = 30


def made() -> Rotary:
    return Rotary(8, 10000.0, torch.device("cpu"), torch.float32)


def test_a_late_smaller_growth_does_not_shrink_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller one is held up while its tables are made; the larger one is asked for meanwhile."""
    whole = rotary_module.rotary_tables
    begun, go_on = threading.Event(), threading.Event()

    def held_up(positions: torch.Tensor, frequencies: torch.Tensor) -> tuple[torch.Tensor, ...]:
        if len(positions) == STEP:
            begun.set()
            assert go_on.wait(WAIT)
        return whole(positions, frequencies)

    monkeypatch.setattr(rotary_module, "rotary_tables", held_up)
    shared, alone = made(), made()
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def ask(start: int) -> None:
        found[start] = shared.tables([start], 4)

    small = threading.Thread(target=ask, args=(10,))
    small.start()
    assert begun.wait(WAIT)
    large = threading.Thread(target=ask, args=(3 * STEP,))
    large.start()
    # Where nothing keeps it back, the larger one is done now.
    large.join(0.2)
    go_on.set()
    for thread in (small, large):
        thread.join(WAIT)
    assert shared._every.end >= 3 * STEP + 4
    for start in (3 * STEP, 10):
        assert all(map(torch.equal, found[start], alone.tables([start], 4)))


def test_both_kinds_of_tables_appear_at_once() -> None:
    """Readers in other threads always see as many positions as they ask for."""
    shared, expected = made(), made()
    expected.tables([0], 20 * STEP)
    faults: list[BaseException] = []

    def read(step: int) -> None:
        cos = np.empty((1, 2, 1, 1, 4), np.float32)
        sin, right_cos, right_sin = (
            np.empty((1, 2, 1, 2, 4), np.float32),
            np.empty_like(cos),
            np.empty((1, 2, 1, 2, 4), np.float32),
        )
        try:
            for start in range(step, 20 * STEP - 2, STEP // 3):
                shared.load([start], cos, sin)
                expected.load([start], right_cos, right_sin)
                np.testing.assert_array_equal(cos, right_cos)
                np.testing.assert_array_equal(sin, right_sin)
                assert all(map(torch.equal, shared.tables([start], 2), expected.tables([start], 2)))
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=read, args=(step,)) for step in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
    assert not faults


@pytest.fixture(scope="module")
def buffers(tmp_path_factory: pytest.TempPathFactory) -> Buffers:
    path: Path = tmp_path_factory.mktemp("model")
    name = min(oracle.SHAPES)
    oracle.saved_model(name, path)
    return Buffers(oracle.load_target(path).config, panels=False)


def test_only_the_oldest_buffers_go(buffers: Buffers) -> None:
    shapes = [buffers.shape(1, width) for width in range(1, KEPT_SHAPES + 1)]
    pairs = [buffers.pairs(count) for count in range(1, KEPT_SHAPES + 1)]
    buffers.shape(2, 1)
    buffers.pairs(KEPT_SHAPES + 1)
    assert (len(buffers.shapes), len(buffers.joints)) == (KEPT_SHAPES, KEPT_SHAPES)
    assert all(buffers.shape(1, width) is shapes[width - 1] for width in range(2, KEPT_SHAPES + 1))
    assert all(buffers.pairs(count) is pairs[count - 1] for count in range(2, KEPT_SHAPES + 1))
    assert buffers.shape(1, 1) is not shapes[0]
    assert (1, 2) not in buffers.shapes


def test_windows_are_those_of_recurrent_layers(buffers: Buffers) -> None:
    types = buffers.config.layer_types
    found = buffers.shape(2, 3).windows
    assert sorted(found) == [index for index, kind in enumerate(types) if kind == LINEAR]
    assert len(found) < len(types)
