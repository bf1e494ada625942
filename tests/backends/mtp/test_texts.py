"""In a whole engine: with drafts a text is the ordinary one, token for token, and good drafts spare rounds."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.constraints import Choice, Grammar, JsonSchema, Regex
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from tests.backends.mtp.checkpoints import foresighted, made

WAIT = 120

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"enum": [1, True, "x"]}, "b": {"type": "boolean"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
)

#: Options of each request; thinking or not.
REQUESTS: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"constraint": Choice(("the answer", "null, the user", "user"))}, False),
    ({"constraint": Regex(r"[a-f]{3}-\d{2,4}(x|yz)*!")}, False),
    ({"constraint": JsonSchema(SCHEMA)}, False),
    ({"constraint": Grammar('root ::= "(" root ")" | [a-z] [a-z]')}, False),
    ({"constraint": Choice(("true", "false")), "thinking_budget": 9, "max_tokens": 100}, True),
    ({"constraint": JsonSchema(SCHEMA), "thinking_budget": 20, "max_tokens": 130}, True),
]

#: The laws that requests are drawn by in turn.
LAWS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.5},
    {"greedy": True},
    {"temperature": 0.7, "top_k": 20, "presence_penalty": 1.2},
)


def texts(directory: Path, **options: Any) -> tuple[list[Any], list[Any]]:
    results = []
    with Engine.load(
        directory, options=EngineOptions(max_context=512, deterministic=True, **options)
    ) as engine:
        handles = []
        for seed, (request, thinking) in enumerate(REQUESTS * len(LAWS)):
            law = SamplingOptions(seed=seed, **LAWS[seed % len(LAWS)])
            prompt = engine.prepare(
                PromptInput(
                    messages=[{"role": "user", "content": f"Say {'this ' * seed}now."}],
                    enable_thinking=thinking,
                )
            )
            handles.append(
                engine.submit(
                    prompt, RequestOptions(**{"max_tokens": 40, **request, "sampling": law})
                )
            )
        results = [handle.wait(WAIT).raise_for_error() for handle in handles]
    return [(r.token_ids, r.text, r.reasoning, r.finish_reason) for r in results], results


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model's directory and its ordinary texts, made once."""

    @cache
    def of(name: str) -> tuple[Path, list[Any]]:
        directory = tmp_path_factory.mktemp("models") / name
        if name == "foresighted":
            foresighted(directory)
        else:
            made(directory, name)
        return directory, texts(directory, lanes=4)[0]

    return of


@pytest.mark.parametrize(
    ("name", "drafts", "lanes"),
    [
        ("foresighted", 3, 4),
        ("foresighted", 5, 1),
        ("foresighted", 1, 3),
        ("foresighted", None, 8),
        ("tied", 2, 5),
        ("mixture", 4, 2),
    ],
)
def test_texts_are_the_ordinary_ones(case: Any, name: str, drafts: int | None, lanes: int) -> None:
    directory, ordinary = case(name)
    speculative, results = texts(directory, lanes=lanes, spec="mtp", draft_tokens=drafts)
    assert speculative == ordinary
    drafted, accepted = (
        sum(getattr(result.usage, what) for result in results)
        for what in ("drafted_tokens", "accepted_tokens")
    )
    assert drafted > 100
    if name == "foresighted":
        assert accepted > 30


def test_longer_copies_in_front(case: Any) -> None:
    """A round then commits more columns than this backend ever drafts, of tokens that it never saw.

    What follows a token is always the same here, so greedy texts run in circles.
    """
    directory, _ = case("foresighted")
    found = []
    for spec in (None, "mtp"):
        copies: dict[str, Any] = {"draft_tokens": 1, "ngram_draft_tokens": 9, "ngram_min_match": 4}
        options = EngineOptions(
            max_context=512, deterministic=True, spec=spec, **(copies if spec else {})
        )
        with Engine.load(directory, options=options) as engine:
            handles = [
                engine.submit(
                    engine.prepare(PromptInput(text=text)),
                    RequestOptions(max_tokens=150, sampling=SamplingOptions(greedy=True)),
                )
                for text in ("the answer", "null", "user: the", '{"', "abc")
            ]
            found.append([handle.wait(WAIT).raise_for_error() for handle in handles])
    ordinary, copied = found
    assert [r.token_ids for r in copied] == [r.token_ids for r in ordinary]
    # A ninth draft, which only a copy has, became output.
    assert any(
        len(r.usage.drafts_by_position) == 9 and r.usage.drafts_by_position[8][1] for r in copied
    )


def test_drafts_that_are_right_spare_rounds(tmp_path: Path) -> None:
    """Greedy and free: all of them are accepted."""
    directory = foresighted(tmp_path / "x")
    with Engine.load(directory, options=EngineOptions(max_context=256, spec="mtp")) as engine:
        prompt = engine.prepare(PromptInput(text="the answer"))
        options = RequestOptions(max_tokens=41, sampling=SamplingOptions(greedy=True))
        usage = engine.submit(prompt, options).wait(WAIT).raise_for_error().usage
    assert usage.accepted_tokens == usage.drafted_tokens
    # The first token comes from the prompt; then four a round.
    assert usage.rounds <= 12
