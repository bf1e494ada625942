"""Deterministic mode: state, hiddens and laws are the same bits whatever else runs, and however history came about."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.frontend import LoadOptions, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.testing.plain_provider import PlainProvider
from infernix_dflash.backend import DFlashBackend
from infernix_dflash.testing import random_drafter as random_dflash
from infernix_dflash2.backend import DFlash2Backend
from infernix_dflash2.testing import random_drafter
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from infernix_qwen3_5.testing import random_checkpoint
from infernix_sampling.hooks import infernix_samplers
from tests.backends.dflash.rounds import MatrixTarget, Rounds, vocabulary

SIZES: dict[str, Any] = {
    "hidden_size": 192,
    "vocab_size": 300,
    "target_layers": 4,
    "feature_layers": [0, 1, 2, 3],
    "intermediate_size": 384,
    "head_dim": 128,
    "windows": [11, None],
    "block_size": 8,
}


@pytest.fixture(scope="module", params=["dflash", "dflash2", "dflash torch", "dflash2 torch"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = tmp_path_factory.mktemp(request.param)
    kind, _, kernel = request.param.partition(" ")
    if kind == "dflash":
        return DFlashBackend(reference=bool(kernel)), random_dflash(directory, **SIZES)
    return DFlash2Backend(reference=bool(kernel)), random_drafter(
        directory, group=16, rank=64, **SIZES
    )


def rounds_of(case: Any) -> Rounds:
    backend, directory = case
    target = MatrixTarget(300, 192, 4)
    return Rounds(
        backend, target, vocabulary(290), directory, lanes=4, deterministic=True, temperature=0.8
    )


def outcome(rounds: Rounds, lane: int) -> list[torch.Tensor]:
    """Hiddens, state, drafts and law of one lane's sequence, alone."""
    proposal = rounds.look([lane])
    length = len(rounds.histories[lane]) - 1
    values = [rounds.target.hiddens[-1], proposal.ids]
    values += [rounds.state.read_pages(s.name, lane, length).clone() for s in rounds.bound.states()]
    if proposal.distribution is not None:
        values += [proposal.distribution.ids, proposal.distribution.probabilities]
    return values


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> None:
    for mine, other in zip(left, right, strict=True):
        assert torch.equal(mine, other)


def test_a_sequence_is_the_same_however_it_came_about(case: Any) -> None:
    """Its prompt in pieces or whole, its output in rounds with others, alone, appended or rebuilt."""
    rng = random.Random(4)
    history = rng.choices(range(290), k=40)
    alone = rounds_of(case)
    alone.start(1, history)
    expected = outcome(alone, 1)

    pieces = rounds_of(case)
    pieces.start(1, history, (1, 3, 16, 33))
    same(outcome(pieces, 1), expected)

    company = rounds_of(case)
    for lane in (0, 2, 3):
        company.start(lane, rng.choices(range(290), k=5 + lane))
    company.start(1, history[:21], (10,))
    steps = [1, 4, 0, 8, 2, 4]
    for step, count in enumerate(steps):
        lanes = [[1], [0, 1, 2], [3, 1]][step % 3]
        company.propose(lanes, [7] * len(lanes))
        counts = [count if lane == 1 else rng.randint(0, 3) for lane in lanes]
        company.settle(lanes, counts, rng)
        at = len(company.histories[1])
        company.histories[1] = history[:at]
    assert company.histories[1] == history
    same(outcome(company, 1), expected)

    company.propose([3, 1, 0], [7, 7, 7])
    together = company.target.hiddens[-2]
    company.bound.abort()
    assert torch.equal(together, expected[0])

    moved = rounds_of(case)
    moved.start(1, history[:30])
    moved.append(1, history[30:])
    same(outcome(moved, 1), expected)
    moved.rebuild(1, 3)
    same(outcome(moved, 3), expected)


def test_it_agrees_with_the_ordinary_mode(case: Any) -> None:
    exact = rounds_of(case)
    backend, directory = case
    fast = Rounds(backend, exact.target, exact.vocabulary, directory, lanes=4)
    for lane, length in enumerate((1, 9, 30)):
        for each in (exact, fast):
            each.start(lane, range(length))
    del exact.target.hiddens[:]
    exact.look([0, 1, 2])
    fast.look([0, 1, 2])
    *rows, batch = exact.target.hiddens
    torch.testing.assert_close(torch.cat(rows), batch, atol=2e-5, rtol=0)


def test_texts_do_not_depend_on_company(tmp_path: Path) -> None:
    """Drawn drafts influence the text, so it is compared in a whole engine, at a temperature."""
    random_checkpoint(tmp_path)
    sizes = {"hidden_size": 64, "vocab_size": 512, "target_layers": 4}
    random_drafter(tmp_path / "dflash2", **sizes)
    model = Qwen3_5Frontend().load(tmp_path, LoadOptions(deterministic=True))
    texts = []
    for lanes, chunk in ((1, 512), (4, 64)):
        engine = Engine(
            model,
            mask_provider=PlainProvider,
            sampler=next(iter(infernix_samplers())).create(),
            backend=DFlash2Backend(),
            checkpoint=tmp_path,
            options=EngineOptions(
                lanes=lanes,
                prefill_chunk=chunk,
                draft_tokens=5,
                deterministic=True,
                max_context=256,
            ),
        )
        with engine:
            handles = []
            for seed, words in enumerate((3, 70, 20, 1, 40)):
                prompt = engine.prepare(PromptInput(text="the answer " * words))
                law = SamplingOptions(seed=seed, temperature=1.0)
                options = RequestOptions(sampling=law, max_tokens=12)
                handles.append(engine.submit(prompt, options))
            texts.append([handle.wait(60).raise_for_error().token_ids for handle in handles])
    assert texts[0] == texts[1]
