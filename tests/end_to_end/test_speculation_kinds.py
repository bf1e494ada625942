"""Every constraint kind under every toy drafter: speculative text equals ordinary text token for token."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.toy import ToyModel
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.kinds import KINDS, Kind, assert_conforms

WORDS = [
    b'{"',
    b'":',
    b'", "',
    b"},",
    b"ru",
    b"true",
    b"\xe2\x82",
    b"\xac",
    b"\n\n",
    b"\n\n{",
    b'"}',
    b"88",
]
CLOSE = ToyModel.make(WORDS).vocabulary.framing["</think>"]


def model() -> ToyModel:
    bias = {ord('"'): 2.0, ord("}"): 2.0, ord("]"): 2.0, ord(")"): 2.0, CLOSE: 5.0}
    return ToyModel.make(WORDS, bias=bias)


def requests() -> list[tuple[Kind, bool, int]]:
    return [
        (kind, thinking, seed)
        for seed, (kind, thinking) in enumerate((k, t) for k in KINDS for t in (False, True))
    ]


def run(make: Any, backend: Any = None, **options: Any) -> list[Any]:
    toy = model()
    engine = make(toy, backend=backend, **options)
    handles = [
        engine.submit(
            engine.prepare(prompt_of(seed, thinking)),
            RequestOptions(
                constraint=kind.constraint,
                max_tokens=40,
                sampling=SamplingOptions(seed=seed, top_k=seed % 3 * 20),
            ),
        )
        for kind, thinking, seed in requests()
    ]
    return [handle.wait(WAIT) for handle in handles]


def prompt_of(seed: int, thinking: bool) -> PromptInput:
    return PromptInput(
        messages=[{"role": "user", "content": f"prompt {seed}"}], enable_thinking=thinking
    )


@pytest.fixture(scope="module")
def plain() -> list[Any]:
    return []


@pytest.fixture
def ordinary(plain: list[Any], toy_engine: Any) -> list[Any]:
    if not plain:
        plain.extend(run(toy_engine, lanes=1))
    return plain


def drafters(results: Sequence[Any]) -> dict[str, Callable[[DraftRow], list[int]]]:
    toy = model()
    known = {
        toy.prepare(prompt_of(seed, thinking)).token_ids: result.token_ids
        for (_, thinking, seed), result in zip(requests(), results, strict=True)
    }

    def right(row: DraftRow) -> list[int]:
        output = known[tuple(row.history[: row.prompt_length])]
        return list(output[len(row.history) - row.prompt_length :])

    def rng(row: DraftRow) -> random.Random:
        return random.Random(len(row.history) * 1000 + row.seed)

    def noise(row: DraftRow) -> list[int]:
        return rng(row).choices(range(toy.vocabulary.size), k=row.limit)

    def wrong(row: DraftRow) -> list[int]:
        tokens = right(row) + [0] * row.limit
        return [(token + 1) % toy.vocabulary.size for token in tokens]

    def partly(row: DraftRow) -> list[int]:
        return right(row)[: rng(row).randint(0, row.limit)] + noise(row)

    return {"right": right, "wrong": wrong, "random": noise, "partly": partly}


def test_ordinary_outputs_conform(ordinary: list[Any]) -> None:
    vocabulary = model().vocabulary
    for (kind, thinking, _), result in zip(requests(), ordinary, strict=True):
        assert_conforms(kind, result, vocabulary, thinking=thinking)


@pytest.mark.parametrize(("lanes", "drafts"), [(8, 1), (5, 4), (1, 15)])
@pytest.mark.parametrize("name", ["right", "wrong", "random", "partly"])
def test_speculative_text_equals_ordinary_text(
    toy_engine: Any, ordinary: list[Any], name: str, lanes: int, drafts: int
) -> None:
    backend = ScriptedBackend(drafters(ordinary)[name])
    results = run(toy_engine, backend, lanes=lanes, draft_tokens=drafts)
    for (kind, thinking, _), result, expected in zip(requests(), results, ordinary, strict=True):
        where = f"{kind.name}, thinking {thinking}"
        assert result.token_ids == expected.token_ids, where
        assert (result.text, result.reasoning) == (expected.text, expected.reasoning), where
        assert result.finish_reason is expected.finish_reason, where
        assert result.constraint.complete == expected.constraint.complete, where
        assert result.constraint.branch == expected.constraint.branch, where
