"""Drafts and hiddens against the plain equations: whatever way a sequence came about, its drafts are those of a
computation from scratch.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from attrs import define, field
from torch import Tensor

from infernix_core.interfaces.frontend import LoadedModel, LoadOptions
from infernix_core.interfaces.model import ForwardBatch, StepKind
from infernix_core.interfaces.speculative import DraftRow, DraftSetup
from infernix_core.testing.conformance.target import Runner
from infernix_mtp.backend import HIDDEN, MtpBackend
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from infernix_qwen3_5.target import Qwen3_5Target
from tests.backends.mtp.checkpoints import FORMS, made
from tests.backends.mtp.plain import Plain

LANES, CAPACITY = 4, 256
TOLERANCE = {"atol": 1e-4, "rtol": 1e-4}


@pytest.fixture(scope="module", params=FORMS)
def directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp(request.param.replace(" ", "-")) / "x", request.param)


@pytest.fixture(scope="module")
def plain(directory: Path) -> Plain:
    return Plain(directory)


@pytest.fixture(params=["numpy", "torch"])
def model(request: pytest.FixtureRequest, directory: Path) -> Any:
    return loaded(directory, reference=request.param == "torch")


def loaded(directory: Path, reference: bool = False) -> Any:
    model = Qwen3_5Frontend().load(directory, LoadOptions())
    if reference:
        old = model.target
        target = Qwen3_5Target(old.config, old.weights, reference=True, mtp=old._mtp)
        object.__setattr__(model, "target", target)
    return model


@define(eq=False)
class Rig:
    """A bound drafter beside its target, with histories that a test moves on in every way."""

    model: LoadedModel
    width: int = 5
    copies: int = 0
    bound: Any = field(init=False)
    runner: Runner = field(init=False)
    histories: dict[int, list[int]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        setup = DraftSetup(lanes=LANES, drafts=self.width, capacity=CAPACITY, copies=self.copies)
        self.bound = MtpBackend().bind(self.model.target, self.model.vocabulary, setup)
        width = 1 + max(self.width, self.copies)
        extra = tuple(self.bound.states())
        self.runner = Runner(self.model.target, LANES, CAPACITY, width, extra)

    def tell(self, lane: int, ids: Sequence[int], start: int, output: Any) -> None:
        features = {HIDDEN: output.features[HIDDEN][0]}
        self.bound.prefilled(lane, ids, start, features, self.runner.state)

    def start(self, lane: int, history: Sequence[int], chunk: int) -> None:
        """A prompt in chunks, and the token after it."""
        self.bound.release(lane)
        prompt = list(history[:-1])
        for start, output in self.runner.prefill(lane, prompt, chunk, (HIDDEN,)):
            self.tell(lane, prompt[start : start + chunk], start, output)
        self.histories[lane] = list(history)

    def rebuild(self, lane: int) -> None:
        """From the history alone, as after a pause."""
        history = self.histories[lane]
        ((_, output),) = self.runner.prefill(lane, history[:-1], None, (HIDDEN,))
        features = {HIDDEN: output.features[HIDDEN][0]}
        self.bound.rebuild(lane, history, features, self.runner.state)

    def append(self, lane: int, tokens: Sequence[int], most: int) -> None:
        """Tokens that nobody drew."""
        history = self.histories[lane]
        executed, start = [history[-1], *tokens[:-1]], len(history) - 1
        for at in range(0, len(executed), most):
            part = executed[at : at + most]
            output = self.runner.verify([lane], [start + at], [part], (HIDDEN,))
            self.runner.fold([lane], [len(part)])
            self.tell(lane, part, start + at, output)
        history += tokens

    def propose(self, lanes: Sequence[int], limits: Sequence[int]) -> list[list[int]]:
        """Drafts per row; the round stays open."""
        rows = [
            DraftRow(lane, tuple(self.histories[lane]), 1, limit, 1.0, 0)
            for lane, limit in zip(lanes, limits, strict=True)
        ]
        proposal = self.bound.propose(rows, self.runner.state)
        assert proposal.extents == tuple(min(limit, self.width) for limit in limits)
        assert proposal.distribution is None
        return [proposal.ids[n, :e].tolist() for n, e in enumerate(proposal.extents)]

    def settle(
        self,
        lanes: Sequence[int],
        columns: Sequence[Sequence[int]],
        counts: Sequence[int],
        after: int,
    ) -> None:
        """Verifies these columns behind each anchor, and commits so many, the anchor's included."""
        starts = [len(self.histories[lane]) - 1 for lane in lanes]
        whole = [[self.histories[lane][-1], *c] for lane, c in zip(lanes, columns, strict=True)]
        output = self.runner.verify(lanes, starts, whole, (HIDDEN,))
        for value in output.features.values():
            for row, count in enumerate(counts):
                value[row, count:] = torch.nan
        self.bound.prepare_commit(counts, output.features, self.runner.state)
        self.runner.fold(lanes, counts)
        self.bound.commit()
        for lane, row, count in zip(lanes, whole, counts, strict=True):
            if count:
                self.histories[lane] += [*row[1:count], after]

    def hidden(self, history: Sequence[int]) -> Tensor:
        """The target's hiddens of a history but for its last token, from scratch."""
        runner = Runner(self.model.target, 1, CAPACITY, 1)
        ((_, output),) = runner.prefill(0, history[:-1], None, (HIDDEN,))
        return output.features[HIDDEN][0]


def agree(rig: Rig, plain: Plain, lane: int, drafts: Sequence[int]) -> None:
    """The drafts are the plain ones, up to the first whose choice is close."""
    history, allowed = rig.histories[lane], range(rig.model.vocabulary.size)
    expected, gaps = plain.drafts(history, rig.hidden(history), len(drafts), allowed)
    for draft, right, gap in zip(drafts, expected, gaps, strict=True):
        if gap < 1e-3:
            return
        assert draft == right, (list(drafts), expected, gaps)


def random_tokens(model: LoadedModel, count: int, seed: int) -> list[int]:
    return random.Random(seed).choices(range(model.vocabulary.size), k=count)


def test_outputs_of_all_cells_and_of_a_recursion(model: LoadedModel, plain: Plain) -> None:
    """The layer itself: as one batch of rows with different widths, then five steps of one column."""
    head = model.target.draft_head("mtp")
    assert not isinstance(head, str)
    runner = Runner(model.target, 3, 64, 1, tuple(head.states()))
    lengths, lanes = (21, 1, 9), (2, 0, 1)
    tokens = [random_tokens(model, length + 1, length) for length in lengths]
    given, expected = [], []
    for row, length in zip(tokens, lengths, strict=True):
        ((_, output),) = runner.prefill(0, row[:-1], None, (HIDDEN,))
        given.append(output.features[HIDDEN][0].double())
        expected.append(plain.outputs(row[1:], given[-1]))
        assert len(expected[-1]) == length
    last = torch.zeros(3, model.target.features[HIDDEN])
    # The first cells in ones and twos, rows that are through left out; then all that remain.
    done = [0, 0, 0]
    for most in (1, 2, 1, 1, 21):
        live = [row for row in range(3) if done[row] < lengths[row]]
        widths = [min(most, lengths[row] - done[row]) for row in live]
        ids = torch.zeros((len(live), max(widths)), dtype=torch.int64)
        hidden = torch.full((*ids.shape, last.shape[1]), torch.nan)
        for place, (row, width) in enumerate(zip(live, widths, strict=True)):
            part = slice(done[row], done[row] + width)
            ids[place, :width] = torch.tensor(tokens[row][1:][part])
            hidden[place, :width] = given[row][part]
        starts, where = (tuple(of[row] for row in live) for of in (done, lanes))
        batch = ForwardBatch(StepKind.VERIFY, ids, starts, tuple(widths), where)
        output = head.forward(batch, hidden, runner.state)
        for place, (row, width) in enumerate(zip(live, widths, strict=True)):
            done[row] += width
            last[row] = output[place]
            torch.testing.assert_close(
                last[row].double(), expected[row][done[row] - 1], **TOLERANCE
            )
    assert tuple(done) == lengths
    for step in range(5):
        logits = model.target.lm_head(last)
        drafts = logits[:, : model.vocabulary.size].argmax(-1)
        for row in range(3):
            given[row] = torch.cat((given[row], last[row, None].double()))
            tokens[row].append(int(drafts[row]))
            one = plain.logits(plain.outputs(tokens[row][1:-1], given[row][:-1])[-1])
            torch.testing.assert_close(logits[row].double(), one, **TOLERANCE)
        starts = tuple(length + step for length in lengths)
        batch = ForwardBatch(StepKind.VERIFY, drafts[:, None], starts, (1, 1, 1), lanes)
        last = head.forward(batch, last[:, None], runner.state)
        for row in range(3):
            right = plain.outputs(tokens[row][1:], given[row])[-1]
            torch.testing.assert_close(last[row].double(), right, **TOLERANCE)


def test_stored_cells_are_as_good_as_run_ones(model: LoadedModel) -> None:
    """In rows of different widths, and in any order."""
    head = model.target.draft_head("mtp")
    assert not isinstance(head, str)
    (spec,) = head.states()
    runner = Runner(model.target, 3, 64, 1, (spec,))
    hidden = torch.randn(2, 8, model.target.features[HIDDEN], generator=torch.manual_seed(1))
    ids = torch.tensor([random_tokens(model, 8, seed) for seed in range(2)])
    head.forward(ForwardBatch(StepKind.VERIFY, ids, (0, 3), (8, 5), (0, 2)), hidden, runner.state)
    expected = [runner.state.read_pages(spec.name, lane, 8).clone() for lane in (0, 2)]
    runner.state._tensors[spec.name].zero_()
    for start, width in ((4, 4), (0, 4)):
        part = slice(start, start + width)
        batch = ForwardBatch(StepKind.PREFILL, ids[:1, part], (start,), (width,), (0,))
        head.store(batch, hidden[:1, part], runner.state)
    batch = ForwardBatch(StepKind.VERIFY, ids, (8, 3), (8, 5), (1, 2))
    head.store(batch, hidden, runner.state)
    for lane, value in zip((0, 2), expected, strict=True):
        actual = runner.state.read_pages(spec.name, lane, 8)
        torch.testing.assert_close(actual, value, **TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
def test_random_rounds_end_where_a_computation_from_scratch_begins(
    model: LoadedModel, plain: Plain, seed: int
) -> None:
    """Rounds with other rows, limits and extents each time; rejections, drops, appended texts, new and rebuilt lanes."""
    rng = random.Random(seed)
    rig = Rig(model, width=(5, 3, 1)[seed], copies=(0, 9, 0)[seed])

    def tokens(low: int, high: int) -> list[int]:
        return rng.choices(range(model.vocabulary.size), k=rng.randint(low, high))

    for lane in range(LANES):
        rig.start(lane, tokens(2, 90), 64)
    for step in range(14):
        lanes = rng.sample(range(LANES), rng.randint(1, LANES))
        limits = [rng.randint(0, rig.width + 1) for _ in lanes]
        drafts = rig.propose(lanes, limits)
        for lane, row in zip(lanes, drafts, strict=True):
            agree(rig, plain, lane, row)
        if rng.random() < 0.2:
            rig.bound.abort()
            again = rig.propose(lanes, limits)
            assert again == drafts
        # A longer copy may stand in place of no drafts.
        columns = [
            tokens(rig.copies, rig.copies) if rig.copies and not row and rng.random() < 0.5 else row
            for row in drafts
        ]
        counts = [rng.randint(0, len(row) + 1) for row in columns]
        rig.settle(lanes, columns, counts, tokens(1, 1)[0])
        lane = rng.randrange(LANES)
        match step % 5:
            case 1 | 3:
                rig.append(lane, tokens(1, 2 * rig.width + 3), rng.randint(1, rig.width + 1))
            case 2:
                rig.start(lane, tokens(2, 70), 64)
            case 4:
                rig.rebuild(lane)
    for lane in range(LANES):
        agree(rig, plain, lane, rig.propose([lane], [rig.width])[0])
        rig.bound.abort()


def test_a_prepared_commit_that_is_dropped(model: LoadedModel, plain: Plain) -> None:
    """As when another part of the commit fails."""
    rig = Rig(model)
    rig.start(0, random_tokens(model, 30, 1), 64)
    rig.settle([0], rig.propose([0], [5]), [3], 7)
    drafts = rig.propose([0], [5])
    output = rig.runner.verify([0], [len(rig.histories[0]) - 1], [[7, *drafts[0]]], (HIDDEN,))
    rig.bound.prepare_commit([4], output.features, rig.runner.state)
    rig.bound.abort()
    assert rig.propose([0], [5]) == drafts
    agree(rig, plain, 0, drafts[0])
    rig.settle([0], drafts, [5], 11)
    agree(rig, plain, 0, rig.propose([0], [5])[0])


def test_an_appended_text_right_behind_a_whole_round(model: LoadedModel, plain: Plain) -> None:
    """The drafts that were accepted are stored when they are known to be history, behind the text's own cells."""
    rig = Rig(model)
    for lane in range(2):
        rig.start(lane, random_tokens(model, 20 + lane, lane), 64)
    for appended in (1, 4, 13):
        lanes = [0, 1]
        drafts = rig.propose(lanes, [5, 5])
        rig.settle(lanes, drafts, [6, 3], 7)
        rig.append(0, random_tokens(model, appended, appended), 4)
        rig.append(0, [5, 6], 4)
        limits = [5, 5] if appended == 4 else [0, 5]
        for lane, row in zip(lanes, rig.propose(lanes, limits), strict=True):
            agree(rig, plain, lane, row)
        rig.settle(lanes, [[], []], [1, 1], 9)
    for lane, row in enumerate(rig.propose([0, 1], [5, 5])):
        agree(rig, plain, lane, row)


def test_only_tokens_that_can_be_generated(model: LoadedModel) -> None:
    """Neither padding nor forbidden tokens, however likely."""
    size = model.vocabulary.size
    rig = Rig(model)
    rig.start(0, random_tokens(model, 12, 3), 64)
    best = rig.propose([0], [5])[0][0]
    rig.bound.abort()
    rig.bound.bans[best] = -torch.inf
    assert best not in rig.propose([0], [5])[0]
    rig.bound.abort()
    original = rig.model.target.lm_head

    def padded(hidden: Tensor) -> Tensor:
        logits = original(hidden)
        logits[:, size:] = 1e9
        return logits

    rig.bound.bans[best] = 0
    rig.model.target.lm_head = padded  # type: ignore[method-assign]
    try:
        assert rig.propose([0], [5])[0][0] == best
    finally:
        rig.model.target.lm_head = original  # type: ignore[method-assign]
