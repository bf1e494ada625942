"""The law of every token is that of ordinary decoding, whatever drafts: chi-square against an oracle in FP64."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from attrs import field, frozen

from infernix_core.descriptors import SpeculativeBackendPlugin
from infernix_core.engine.copy_first import CopyFirst
from infernix_core.interfaces.sampling import SamplingConfig
from infernix_core.interfaces.speculative import DraftRow, DraftSetup, SpeculativeBackend
from infernix_core.random import Purpose, uniform
from infernix_core.testing.drafters import SampledBackend
from tests.backends.drafters import tiny_drafter
from tests.backends.law import VOCABULARY, Judge, Walk, load_target, make_checkpoint, make_program
from tests.backends.settings import REGISTRY, pairwise

#: Chance that a sound suite fails at its fixed seeds at all; each p-value gets its share.
FAMILY = 1e-3
LANES, TOKENS = 64, 100

#: Most tokens of a copy in front of another backend's drafts: longer than any of them.
COPIED = 15


@frozen
class Way:
    """A backend, and its numbers of drafts from the least to the most; perhaps with copies in front of them."""

    name: str
    counts: tuple[int, int, int]
    copies: bool = False


WAYS = (
    Way("ngram", (1, 4, 15)),
    Way("mtp", (1, 3, 5)),
    Way("dflash", (1, 7, 15)),
    Way("dflash2", (1, 7, 15)),
    Way("dflash2", (1, 3, 14), copies=True),
)
LAWS = {
    "greedy": SamplingConfig(temperature=0.0),
    "sampled": SamplingConfig(temperature=1.0),
    "cool and cut": SamplingConfig(temperature=0.8, top_k=5, min_p=0.02, top_p=0.95),
    "hot and penalised": SamplingConfig(
        temperature=1.3, presence_penalty=0.4, frequency_penalty=0.02
    ),
}
SIZES = ("least", "between", "most")
#: What rounds ask for: as many drafts as there can be, or any number.
LIMITS = ("full", "ragged")
CELLS = pairwise(WAYS, SIZES, list(LAWS), (False, True), LIMITS)


@frozen
class Model:
    directory: Path
    exact: Any = field(eq=False)
    target: Any = field(eq=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    directory = tmp_path_factory.mktemp("tiny")
    exact = make_checkpoint(directory)
    for name in ("dflash", "dflash2"):
        tiny_drafter(name, directory / name)
    return Model(directory, exact, load_target(directory))


def judged(
    model: Model,
    backend: SpeculativeBackend,
    drafts: int,
    config: SamplingConfig,
    *,
    masked: bool,
    ragged: bool = False,
    walks: int = 1,
    copies: bool = False,
) -> Judge:
    rng = random.Random(5)
    most = COPIED if copies else drafts
    limit: Callable[[int], int] = (lambda _: rng.randint(0, most)) if ragged else lambda _: most
    judge = Judge()

    def wrap(bound: Any) -> Any:
        if not copies:
            return bound
        setup = DraftSetup(lanes=LANES, drafts=COPIED, capacity=256, min_match=4)
        copier = REGISTRY.create(SpeculativeBackendPlugin, "ngram")
        return CopyFirst(copier.bind(model.target, VOCABULARY, setup), bound)

    program = make_program(
        model.target,
        backend,
        drafts,
        LANES,
        wrap=wrap,
        checkpoint=model.directory,
        min_match=4,
        copies=COPIED if copies else 0,
    )
    # Greedy outputs are all alike, and masked ones end early: more of them give as many tokens.
    lanes = LANES if config.temperature else 4
    for number in range(walks * (2 if masked and config.temperature else 1)):
        walk = Walk(program, config, masked)
        walk.run(lanes, TOKENS, 1000 + 100 * number, limit)
        judge.look(walk, model.exact)
    return judge


def assert_sound(judge: Judge, cells: int) -> None:
    """Greedy tokens leave nothing to chance: the judge has compared every one of them."""
    for what, p in (found := judge.p_values()).items():
        assert p * len(found) * cells > FAMILY, (what, p)


def check(model: Model, cell: tuple[Any, ...], cells: int, walks: int = 1) -> None:
    way, size, law, masked, limits = cell
    drafts = way.counts[SIZES.index(size)]
    judge = judged(
        model,
        REGISTRY.create(SpeculativeBackendPlugin, way.name),
        drafts,
        LAWS[law],
        masked=masked,
        ragged=limits == "ragged",
        walks=walks,
        copies=way.copies,
    )
    assert_sound(judge, cells)
    assert judge.p_values() or law == "greedy"
    reached = sum(judge.accepted[column] + judge.rejected[column] > 0 for column in range(drafts))
    if (
        law != "greedy"
        and limits == "full"
        and not masked
        and way.name != "ngram"
        and not way.copies
    ):
        # Every place of the drafts was reached, and has seen both. (Copies come when they come.)
        assert reached == drafts
        for column in range(min(drafts, 8)):
            assert judge.accepted[column]
            assert judge.rejected[column]
    assert reached


def named(cell: tuple[Any, ...]) -> str:
    way, size, law, masked, limits = cell
    count = way.counts[SIZES.index(size)]
    parts = ["ngram before"] * way.copies + [way.name, str(count), law, limits]
    return " ".join(parts + ["masked"] * masked)


@pytest.mark.parametrize("cell", CELLS, ids=named)
def test_every_token_has_its_law(model: Model, cell: tuple[Any, ...]) -> None:
    check(model, cell, len(CELLS))


ALL = [
    (way, size, law, masked, limits)
    for way in WAYS
    for size in SIZES
    for law in LAWS
    for masked in (False, True)
    for limits in LIMITS
]


@pytest.mark.heavy
@pytest.mark.parametrize("cell", ALL, ids=named)
def test_every_token_has_its_law_in_all_cells(model: Model, cell: tuple[Any, ...]) -> None:
    check(model, cell, len(ALL), walks=5)


def candidates(row: DraftRow, before: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
    return (0, 1, 4), (0.6, 0.3, 0.1)


def drawn(purpose: Purpose, sharpened: bool) -> Callable[[DraftRow, int, Sequence[float]], int]:
    def draw(row: DraftRow, position: int, weights: Sequence[float]) -> int:
        u = uniform(row.seed, len(row.history) + position, purpose)
        if sharpened:
            weights = [weight**2 for weight in weights]
        total = sum(weights)
        for index, weight in enumerate(weights):
            u -= weight / total
            if u < 0:
                return index
        return len(weights) - 1

    return draw


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("purpose", "sharpened", "sound"),
    [(Purpose.DRAFT, False, True), (Purpose.RESAMPLE, False, False), (Purpose.DRAFT, True, False)],
    ids=["as recorded", "with the noise of the residual", "from another q than the recorded"],
)
def test_the_oracle_tells_a_wrong_draw(
    model: Model, purpose: Purpose, sharpened: bool, sound: bool, masked: bool
) -> None:
    """Drafts that share noise with what replaces them, or that q does not describe, bend the law visibly."""
    backend = SampledBackend(candidates, drawn(purpose, sharpened))
    judge = judged(model, backend, 3, LAWS["sampled"], masked=masked)
    if sound:
        assert_sound(judge, 1)
    else:
        assert min(judge.p_values().values()) < 1e-9
