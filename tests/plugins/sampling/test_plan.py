"""The plan's state, its door, and how the pieces present themselves."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.model import StateKind
from infernix_sampling import hooks


class Slots:
    """One SLOT state of some lanes."""

    def __init__(self, lanes, shape, dtype):
        self.value = torch.zeros((lanes, *shape), dtype=dtype)

    def read_slot(self, name, lanes):
        return self.value[list(lanes)].clone()

    def write_slot(self, name, lanes, value):
        self.value[list(lanes)] = value


def test_committed_tokens_are_counted(box):
    plan = box.plan(6)
    (spec,) = plan.states()
    assert (spec.kind, spec.shape, spec.dtype) == (StateKind.SLOT, (6,), torch.int32)
    slots = Slots(4, spec.shape, spec.dtype)
    plan.commit([2, 0], [[1, 1, 5], []], slots)
    plan.commit([0, 2], [[0], [1]], slots)
    plan.commit([1], [[]], slots)
    plan.commit([], [], slots)
    counts = plan.counts([0, 1, 2], slots)
    assert counts.dtype == torch.int32
    assert counts.tolist() == [[1, 0, 0, 0, 0, 0], [0] * 6, [0, 3, 0, 0, 0, 1]]


def test_penalised_rows_need_counts(box):
    round = box.round(torch.zeros(1, 1, 4), [box.config(presence_penalty=1.0)])
    with pytest.raises(IntegrityError, match="no counts"):
        box.plan(4).run(round)


def test_a_vocabulary_without_generable_tokens_is_refused(box):
    with pytest.raises(IntegrityError, match="generable"):
        box.plan(4, generable=[False] * 4)


def test_the_hook_gives_the_sampler(box):
    (plugin,) = hooks.infernix_samplers()
    assert plugin.name == "sampling"
    assert type(plugin.create()).__name__ == "TorchSampler"


def test_the_hook_is_import_light():
    code = (
        "import sys, infernix_sampling.hooks; assert 'torch' not in sys.modules, 'torch is loaded'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_buffers_are_planned_once(box):
    plan = box.plan(100, rows=3, width=2)
    before = plan._workspace.scores.data_ptr(), plan._workspace.weights.data_ptr()
    for _ in range(3):
        plan.run(box.round(torch.randn(3, 2, 100), [box.config()] * 3, drafts=[[1]] * 3))
    assert before == (plan._workspace.scores.data_ptr(), plan._workspace.weights.data_ptr())
