"""Rounds wider than one: speculative text equals ordinary text token for token, whatever is drafted.

The toy model is exact, and its drafters check the engine's side of the transaction (see ScriptedDrafter), so any
state of a rejected column that survives either changes a text or stops the engine.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import FinishReason
from infernix_core.errors import ConstraintDeadEnd
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.random import Purpose, uniform
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.toy import ToyModel, ToyTarget
from tests.core.conftest import WAIT, answer, ask, chat

Make = Callable[..., Engine]
CLOSE = ToyModel.make().vocabulary.framing["</think>"]
CHOICES = Choice(["red", "green", "grey", "blue", "a much longer colour", "€uro", ""])


def model() -> ToyModel:
    return ToyModel.make(
        [b"re", b"gr", b"ed", b"ey", b"much", b"\n\n", b"\n\nbl"], bias={CLOSE: 3.0}
    )


#: Prompt and options of each request; one of every kind that the plain provider knows, and free ones.
REQUESTS: list[tuple[PromptInput | str, dict[str, Any]]] = [
    ("free", {"max_tokens": 24}),
    ("penalised", {"max_tokens": 24, "frequency_penalty": 0.7, "presence_penalty": 0.5}),
    ("truncated", {"max_tokens": 24, "top_k": 4, "top_p": 0.9, "temperature": 0.7}),
    ("greedy", {"max_tokens": 24, "greedy": True}),
    (chat("choice"), {"constraint": CHOICES}),
    (chat("cut"), {"constraint": CHOICES, "max_tokens": 2}),
    (chat("thinking", thinking=True), {"constraint": CHOICES, "max_tokens": 60}),
    (chat("stops", thinking=True), {"stop": ["e", "\ufffd"], "max_tokens": 40}),
    (chat("greedy choice"), {"constraint": CHOICES, "greedy": True}),
    (chat("penalised choice"), {"constraint": CHOICES, "frequency_penalty": 1.5}),
]


_ORDINARY: list[Any] = []


def ordinary(make_engine: Make) -> list[Any]:
    """What ordinary decoding says to each request, one at a time; computed once."""
    if not _ORDINARY:
        engine = make_engine(model(), lanes=1)
        _ORDINARY.extend(
            answer(engine, prompt, seed=index, **options)
            for index, (prompt, options) in enumerate(REQUESTS)
        )
    return _ORDINARY


def scripts(expected: Sequence[Any]) -> dict[str, Callable[[DraftRow], list[int]]]:
    """Drafters that know what ordinary decoding said, by prompt."""
    vocabulary = model().vocabulary
    known = {
        tuple(model().prepare(PromptInput(text=p) if isinstance(p, str) else p).token_ids): result
        for (p, _), result in zip(REQUESTS, expected, strict=True)
    }

    def coming(row: DraftRow) -> list[int]:
        output = known[tuple(row.history[: row.prompt_length])].token_ids
        return list(output[len(row.history) - row.prompt_length :])

    def wrong(row: DraftRow) -> list[int]:
        right = coming(row)
        right += [0] * (row.limit - len(right))
        return [(token + 1) % vocabulary.size for token in right]

    def mixed(row: DraftRow) -> list[int]:
        rng = random.Random(len(row.history))
        right = coming(row)
        cut = rng.randint(0, max(len(right), 1))
        return right[:cut] + rng.choices(range(vocabulary.size), k=row.limit)

    def anything(row: DraftRow) -> list[int]:
        return random.Random(len(row.history)).choices(range(vocabulary.size), k=row.limit)

    return {
        "always right": coming,
        "right, then anything": lambda row: coming(row) + anything(row),
        "always wrong": wrong,
        "random": anything,
        "mixed": mixed,
        "nothing": lambda row: [],
        "end tokens": lambda row: coming(row)[:1] + [min(vocabulary.end_ids)] * 4,
        "closes": lambda row: coming(row)[:2] + [CLOSE] * 4,
    }


NAMES = list(scripts([type("R", (), {"token_ids": ()})] * len(REQUESTS)))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("lanes", "drafts"), [(1, 1), (8, 3), (3, 7)])
def test_speculative_text_equals_ordinary_text(
    make_engine: Make, name: str, lanes: int, drafts: int
) -> None:
    expected = ordinary(make_engine)
    engine = make_engine(
        model(), lanes=lanes, backend=ScriptedBackend(scripts(expected)[name]), draft_tokens=drafts
    )
    handles = [
        ask(engine, prompt, seed=index, **options)
        for index, (prompt, options) in enumerate(REQUESTS)
    ]
    for handle, plain, (_, options) in zip(handles, expected, REQUESTS, strict=True):
        result = handle.wait(WAIT)
        assert result.error is None
        assert result.token_ids == plain.token_ids
        assert (result.text, result.reasoning) == (plain.text, plain.reasoning)
        assert (result.finish_reason, result.stop) == (plain.finish_reason, plain.stop)
        if "constraint" in options:
            for field in ("branch", "complete", "terminated"):
                assert getattr(result.constraint, field) == getattr(plain.constraint, field)
        if name == "always right":
            assert result.usage.accepted_tokens == result.usage.drafted_tokens
            if lanes > 1 and len(plain.token_ids) > 8:
                assert result.usage.rounds < len(plain.token_ids)
        if name in ("always wrong", "nothing"):
            assert result.usage.accepted_tokens == 0
            assert result.usage.rounds == len(plain.token_ids)


def test_a_requests_own_draft_limit(make_engine: Make) -> None:
    expected = ordinary(make_engine)
    backend = ScriptedBackend(scripts(expected)["always right"])
    engine = make_engine(model(), backend=backend, draft_tokens=5)
    for limit in (0, 2):
        result = answer(engine, REQUESTS[0][0], seed=0, max_tokens=24, draft_limit=limit)
        assert result.token_ids == expected[0].token_ids
        assert result.usage.drafted_tokens <= limit * result.usage.rounds


TOKENS = (b"a", b"b", b"x", b"y", b"")
A, B, X, Y, END = range(5)
SPARSE = Vocabulary(TOKENS, (*(TokenClass.TEXT,) * 4, TokenClass.END))


def sparse(bias: dict[int, float]) -> ToyModel:
    return ToyModel(ToyTarget(SPARSE, bias=bias))


def scripted(*tokens: int) -> ScriptedBackend:
    """Drafts these output tokens, whatever has been said so far."""
    return ScriptedBackend(lambda row: list(tokens[len(row.history) - row.prompt_length :]))


def test_a_dead_end_behind_a_rejected_draft_harms_nothing(make_engine: Make) -> None:
    """ "ab?" cannot be spelled to its end; the drafts lead there, the target goes another way."""
    engine = make_engine(sparse({X: 30.0}), backend=scripted(A, B, B, B), draft_tokens=4)
    prompt = PromptInput(token_ids=[A])
    result = answer(engine, prompt, constraint=Choice(["ab?", "axxx"]))
    assert (result.text, result.finish_reason) == ("axxx", FinishReason.STOP)


def test_a_dead_end_that_verification_reaches_fails_the_row(make_engine: Make) -> None:
    engine = make_engine(sparse({B: 30.0}), backend=scripted(A, B, B, B), draft_tokens=4)
    prompt = PromptInput(token_ids=[A])
    doomed = ask(engine, prompt, constraint=Choice(["ab?", "axxx"]))
    fine = ask(engine, prompt, constraint=Choice(["abxyab"]))
    result = doomed.wait(WAIT)
    assert isinstance(result.error.error, ConstraintDeadEnd)
    # The failed round commits nothing, not even the drafts it had verified.
    assert result.text == "a"
    assert fine.wait(WAIT).text == "abxyab"


def test_an_illegal_draft_is_silently_refused_and_progress_goes_on(make_engine: Make) -> None:
    backend = ScriptedBackend(lambda row: [Y] * row.limit)
    engine = make_engine(sparse({Y: 30.0}), backend=backend, draft_tokens=3)
    result = answer(engine, PromptInput(token_ids=[A]), constraint=Choice(["abab", "baba"]))
    assert result.text in ("abab", "baba")
    assert result.usage.rounds == 5


@pytest.mark.parametrize("length", range(1, 7))
def test_end_of_the_language_at_every_offset_of_a_block(make_engine: Make, length: int) -> None:
    text = "abxyab"[:length]
    tokens = [TOKENS.index(letter.encode()) for letter in text]
    engine = make_engine(sparse({}), backend=scripted(*tokens, END, A, A, A, A), draft_tokens=5)
    result = answer(engine, PromptInput(token_ids=[A]), constraint=Choice([text]))
    assert (result.text, result.finish_reason) == (text, FinishReason.STOP)
    assert result.constraint.terminated
    for limit in range(1, length + 1):
        cut = answer(
            engine, PromptInput(token_ids=[A]), constraint=Choice([text]), max_tokens=limit
        )
        assert (cut.text, cut.finish_reason) == (text[:limit], FinishReason.LENGTH)
        assert cut.constraint.complete == (limit == length)


@pytest.mark.parametrize("offset", range(6))
def test_the_close_of_the_reasoning_at_every_offset_of_a_block(
    make_engine: Make, offset: int
) -> None:
    """Tokens after ``</think>`` in one block are checked: a second brace or a missing separator is refused."""
    toy = ToyModel.make(bias={97: 14.0, CLOSE: 14.0})
    right = [97] * offset + [CLOSE, 10, 10, *b"{x}"]
    for tokens in (
        right,
        [97] * offset + [CLOSE, *b"{{x}"],
        [97] * offset + [CLOSE, 10, 10, *b"{{"],
    ):
        engine = make_engine(toy, backend=scripted(*tokens), draft_tokens=8)
        plain = answer(make_engine(toy), chat("?", thinking=True), constraint=Choice(["{x}"]))
        result = answer(engine, chat("?", thinking=True), constraint=Choice(["{x}"]))
        assert result.token_ids == plain.token_ids
        assert result.text == "{x}"


def draw(row: DraftRow, position: int, weights: Sequence[float]) -> int:
    """A drafter's own draw from q, by inverse CDF."""
    u = uniform(row.seed, len(row.history) + position, Purpose.DRAFT)
    for index, weight in enumerate(weights):
        u -= weight
        if u < 0:
            return index
    return len(weights) - 1


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_sampled_drafts_keep_the_constrained_law(make_engine: Make, depth: int) -> None:
    """The legal tokens' law is p renormalised, whatever q is; q here loves an illegal token."""
    toy = sparse({})
    texts = ["aa", "ab", "ba", "bb"]
    law = [([A, B, X], [0.2, 0.2, 0.6]), ([B, Y, A], [0.1, 0.3, 0.6]), ([X], [1.0])]
    backend = SampledBackend(lambda row, drafts: law[len(drafts) % 3], draw)
    engine = make_engine(toy, backend=backend, draft_tokens=depth, queue_limit=1000)
    prompt = PromptInput(token_ids=[X, Y])
    handles = [ask(engine, prompt, seed=s, constraint=Choice(texts)) for s in range(600)]
    counts = Counter(handle.wait(WAIT).text for handle in handles)

    def legal(history: list[int]) -> torch.Tensor:
        return torch.softmax(toy.target.logits_after(history)[[A, B]].double(), 0)

    first = legal([X, Y])
    expected = [
        float(first[i] * legal([X, Y, (A, B)[i]])[j]) * 600 for i in range(2) for j in range(2)
    ]
    statistic = sum((counts[t] - e) ** 2 / e for t, e in zip(texts, expected, strict=True))
    # The 0.999 quantile of chi-square with three degrees of freedom.
    assert statistic < 16.27
