"""Copies under every constraint kind: the text is that of ordinary decoding, token for token, and copies are accepted.

The toy's answers are random, so what repeats is what a constraint forces; the prompt holds it too. A model that
says the same record again and again shows copies without a constraint.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.scripted_model import saying
from infernix_core.testing.toy import ToyModel
from infernix_ngram.backend import NgramBackend
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.kinds import KINDS, Kind, assert_conforms
from tests.end_to_end.test_speculation_kinds import CLOSE, WORDS

#: Texts with much that is forced and comes again.
RECORD = '{"file":"Parser.java","line":88,"severity":"high"}'
REPEATING = (
    Kind("choice again", Choice(["abcabcabcabcabcabcabcabc"]), bool, bool, True),
    Kind("regex again", Regex("(key: [ab]; ){4}"), bool, bool, True),
    Kind(
        "grammar again",
        Grammar('root ::= ("edit src/main.java;" [0-3] "\\n"){3}'),
        bool,
        bool,
        True,
    ),
)
ALL = (*KINDS, *REPEATING)
PROMPT = f"{RECORD} edit some/file.java line 12\n key: a; key: b; edit src/main.java;0 {RECORD}"


def model() -> ToyModel:
    bias = {ord('"'): 2.0, ord("}"): 2.0, ord("]"): 2.0, ord(")"): 2.0, CLOSE: 5.0}
    return ToyModel.make(WORDS, bias=bias)


def requests() -> list[tuple[Kind, bool, int]]:
    return [
        (kind, thinking, seed)
        for seed, (kind, thinking) in enumerate((k, t) for k in ALL for t in (False, True))
    ]


def run(make: Any, *, greedy: bool = False, **options: Any) -> list[GenerationResult]:
    engine = make(model(), **options)
    handles = [
        engine.submit(
            engine.prepare(
                PromptInput(
                    messages=[{"role": "user", "content": f"{seed} {PROMPT}"}],
                    enable_thinking=thinking,
                )
            ),
            RequestOptions(
                constraint=kind.constraint,
                max_tokens=70,
                sampling=SamplingOptions(greedy=True)
                if greedy
                else SamplingOptions(seed=seed, top_k=seed % 3 * 20),
            ),
        )
        for kind, thinking, seed in requests()
    ]
    return [handle.wait(WAIT) for handle in handles]


_ORDINARY: dict[bool, list[GenerationResult]] = {}


@pytest.fixture
def ordinary(toy_engine: Any) -> Callable[[bool], list[GenerationResult]]:
    """What ordinary decoding says, one request at a time; computed once."""

    def results(greedy: bool) -> list[GenerationResult]:
        if greedy not in _ORDINARY:
            _ORDINARY[greedy] = run(toy_engine, greedy=greedy, lanes=1)
        return _ORDINARY[greedy]

    return results


def assert_equal(results: Sequence[GenerationResult], expected: Sequence[GenerationResult]) -> None:
    for (kind, thinking, _), result, plain in zip(requests(), results, expected, strict=True):
        where = f"{kind.name}, thinking {thinking}"
        assert result.error is None, where
        assert result.token_ids == plain.token_ids, where
        assert (result.text, result.reasoning) == (plain.text, plain.reasoning), where
        assert result.finish_reason is plain.finish_reason, where
        assert result.constraint is not None
        assert plain.constraint is not None
        assert result.constraint.complete == plain.constraint.complete, where
        assert result.constraint.branch == plain.constraint.branch, where
        if kind in KINDS:
            assert_conforms(kind, result, model().vocabulary, thinking=thinking)


def accepted(results: Sequence[GenerationResult], kinds: Sequence[Kind]) -> list[int]:
    return [
        result.usage.accepted_tokens
        for (kind, _, _), result in zip(requests(), results, strict=True)
        if kind in kinds
    ]


@pytest.mark.parametrize(("lanes", "drafts"), [(8, 1), (5, 4), (1, 15)])
@pytest.mark.parametrize("greedy", [False, True])
def test_copies_alone(
    toy_engine: Any, ordinary: Any, lanes: int, drafts: int, greedy: bool
) -> None:
    results = run(
        toy_engine,
        greedy=greedy,
        backend=NgramBackend(),
        lanes=lanes,
        draft_tokens=drafts,
        ngram_min_match=4,
    )
    assert_equal(results, ordinary(greedy))
    # Each text that repeats itself was copied in part; those of the other kinds now and then.
    assert min(accepted(results, REPEATING)) > 0
    assert sum(accepted(results, KINDS)) > 0


def copied_drafts(row: DraftRow) -> list[int]:
    """Some of the prompt."""
    return list(row.history[len(row.history) % row.prompt_length :][: len(row.history) % 4])


@pytest.mark.parametrize(("lanes", "drafts"), [(5, 2), (1, 6)])
def test_copies_in_front_of_a_drafter(
    toy_engine: Any, ordinary: Any, lanes: int, drafts: int
) -> None:
    """It checks that every committed column reaches it, those of copies too."""
    backend = ScriptedBackend(copied_drafts)
    options = {"backend": backend, "lanes": lanes, "draft_tokens": drafts}
    alone = run(toy_engine, **options)
    results = run(
        toy_engine, copier=NgramBackend(), ngram_draft_tokens=9, ngram_min_match=4, **options
    )
    assert_equal(results, ordinary(False))
    assert sum(accepted(results, ALL)) > sum(accepted(alone, ALL)) + 20


def test_copies_in_front_of_sampled_drafts(toy_engine: Any, ordinary: Any) -> None:
    """Greedy texts are the same ones; drawn ones keep their constraint, as their law does elsewhere."""

    def law(row: DraftRow, before: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
        return [97, 34, row.history[0]], [0.5, 0.3, 0.2]

    for greedy in (True, False):
        results = run(
            toy_engine,
            greedy=greedy,
            backend=SampledBackend(law, lambda row, position, weights: position % 3),
            copier=NgramBackend(),
            lanes=5,
            draft_tokens=2,
            ngram_draft_tokens=9,
            ngram_min_match=4,
        )
        if greedy:
            assert_equal(results, ordinary(True))
        assert sum(accepted(results, REPEATING)) > 20
        for (kind, thinking, _), result in zip(requests(), results, strict=True):
            if kind in KINDS:
                assert_conforms(kind, result, model().vocabulary, thinking=thinking)


#: Ten records, each with its number.
LIST = "[" + ",".join(f'{{"name":"an item of the list","n":{n}}}' for n in range(10)) + "]"
ITEM = r'\{"name":"[a-z ]+","n":[0-9]\}'
LISTS: dict[str, OutputConstraint | None] = {
    "free": None,
    "json": JsonSchema.of({}),
    "schema": JsonSchema.of(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["name", "n"],
                "additionalProperties": False,
            },
        }
    ),
    "regex": Regex(rf"\[{ITEM}(,{ITEM})*\]"),
    "choice": Choice([LIST, LIST.replace("9", "8")]),
    "grammar": Grammar('root ::= "[" item ("," item)* "]"\nitem ::= "{" [^{}]+ "}"'),
}


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("name", LISTS)
def test_a_text_that_comes_again_takes_few_rounds(
    toy_engine: Any, name: str, thinking: bool
) -> None:
    told = saying(LIST, reasoning="so be it" if thinking else None)
    prompt = PromptInput(messages=[{"role": "user", "content": "?"}], enable_thinking=thinking)
    request = RequestOptions(constraint=LISTS[name])
    results = []
    for options in ({}, {"backend": NgramBackend(), "draft_tokens": 15}):
        engine = toy_engine(told, lanes=2, max_context=len(LIST) + 100, **options)
        handles = [engine.submit(engine.prepare(prompt), request) for _ in range(3)]
        results.append([handle.wait(WAIT) for handle in handles])
    for plain, copied in zip(*results, strict=True):
        assert copied.token_ids == plain.token_ids
        assert copied.text == LIST
        assert copied.usage.rounds < plain.usage.rounds / 2
        # Not copied are the first record, the numbers and, each time, twelve tokens to know it again by.
        assert copied.usage.accepted_tokens > len(LIST) / 2


def test_a_context_filled_to_its_last_position(toy_engine: Any) -> None:
    """Copies end where the room does."""
    told = saying("ab" * 100)
    for context in range(40, 60):
        results = []
        for options in ({}, {"backend": NgramBackend(), "ngram_min_match": 4}):
            engine = toy_engine(told, max_context=context, **options)
            handle = engine.submit(engine.prepare(PromptInput(text="?")), RequestOptions())
            results.append(handle.wait(WAIT).raise_for_error())
        assert results[0].token_ids == results[1].token_ids
        assert results[1].usage.accepted_tokens > 10
