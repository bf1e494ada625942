"""Thinking budgets on the exact toy: what is drawn is what would be drawn anyway, and between it stands the fixed text.

The truth is taken from runs without a budget: draws depend on the seed and the position alone, so behind the closing
text an output goes on as a raw prompt does that holds everything up to there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from infernix_core.engine import mask_jobs
from infernix_core.engine.engine import Engine
from infernix_core.engine.request import FinishReason, GenerationResult, TextDelta
from infernix_core.errors import IntegrityError, InvalidOption
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import Channel, PromptInput
from infernix_core.interfaces.model import StepKind
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.scripted_model import saying
from infernix_core.testing.toy import ToyModel, ToyTarget
from tests.core.conftest import WAIT, answer, ask, chat
from tests.core.test_faults import Backend
from tests.core.test_slow_masks import SlowProvider

Make = Callable[..., Engine]
VOCABULARY = ToyModel.make().vocabulary
CLOSE = VOCABULARY.framing["</think>"]
ENDS = dict.fromkeys(VOCABULARY.end_ids, -50.0)
NEVER = {CLOSE: -50.0, **ENDS}
SOMETIMES = {CLOSE: 4.0, **ENDS}
CONTROL = ToyModel.make().early_close(ToyModel.make().prepare(chat("?", thinking=True)))
COLOURS = Choice(["red", "green", "grey", "blue", "", "€uro"])
LIMIT = 60


def think(text: str = "why?") -> PromptInput:
    return chat(text, thinking=True)


def reasoning_tokens(result: GenerationResult) -> int:
    """How many tokens of an output are reasoning, by the ids alone."""
    tokens = list(result.token_ids)
    end = next((at for at, token in enumerate(tokens) if token in VOCABULARY.end_ids), len(tokens))
    return tokens.index(CLOSE) if CLOSE in tokens else end


def expected(
    engine: Engine, text: str, budget: int, *, seed: int, max_tokens: int = LIMIT, **options: Any
) -> tuple[int, ...]:
    """The output under a budget, from runs that know of none."""
    free = answer(engine, think(text), seed=seed, max_tokens=max_tokens, **options)
    reasoned = reasoning_tokens(free)
    if reasoned < budget:
        return free.token_ids
    head = (*free.token_ids[:budget], *CONTROL)
    rest = answer(
        engine,
        PromptInput(token_ids=[*text.encode(), *head]),
        seed=seed,
        max_tokens=max_tokens - len(head),
        **options,
    )
    return (*head, *rest.token_ids)


@pytest.mark.parametrize("options", [{}, {"constraint": COLOURS}, {"top_k": 5, "top_p": 0.9}])
@pytest.mark.parametrize("bias", [NEVER, SOMETIMES], ids=["never closes", "sometimes closes"])
def test_what_is_drawn_is_what_would_be_drawn_anyway(
    make_engine: Make, bias: dict[int, float], options: dict[str, Any]
) -> None:
    model = ToyModel.make(bias=bias)
    plain, engine = make_engine(model, lanes=1), make_engine(model, lanes=4)
    cases = [(f"q{seed}", budget, seed) for seed in range(4) for budget in (0, 1, 2, 7, 20)]
    handles = [
        ask(engine, think(text), seed=seed, thinking_budget=budget, max_tokens=LIMIT, **options)
        for text, budget, seed in cases
    ]
    forced = 0
    for handle, (text, budget, seed) in zip(handles, cases, strict=True):
        result = handle.wait(WAIT)
        assert result.error is None
        assert result.token_ids == expected(plain, text, budget, seed=seed, **options)
        assert reasoning_tokens(result) <= budget + CONTROL.index(CLOSE)
        drawn = len(result.token_ids)
        if result.token_ids[budget : budget + len(CONTROL)] == CONTROL:
            forced += 1
            drawn -= len(CONTROL)
            assert result.reasoning.endswith("\nEnough.\n")
        assert result.usage.completion_tokens == len(result.token_ids)
        assert result.usage.rounds == drawn
        if "constraint" in options:
            assert result.text in COLOURS.literals
            assert result.constraint.terminated
            # No mask is made for what is not drawn, but the one that preparation checks.
            assert result.constraint.positions == drawn + (budget == 0)
    assert forced == len(cases) if bias is NEVER else 0 < forced < len(cases)


def test_a_close_inside_the_budget_leaves_the_output_as_it_is(make_engine: Make) -> None:
    engine = make_engine(ToyModel.make(bias={CLOSE: 5.0, **ENDS}))
    for seed in range(10):
        free = answer(engine, think(), seed=seed, max_tokens=LIMIT)
        reasoned = reasoning_tokens(free)
        if CLOSE not in free.token_ids or reasoned + 1 + len(CONTROL) >= LIMIT:
            continue
        within = answer(engine, think(), seed=seed, max_tokens=LIMIT, thinking_budget=reasoned + 1)
        assert (within.token_ids, within.text) == (free.token_ids, free.text)
        used_up = answer(engine, think(), seed=seed, max_tokens=LIMIT, thinking_budget=reasoned)
        assert used_up.token_ids[reasoned : reasoned + len(CONTROL)] == CONTROL


def test_the_closing_text_is_published_as_reasoning_and_in_order(make_engine: Make) -> None:
    handle = ask(make_engine(ToyModel.make(bias=NEVER)), think(), thinking_budget=3, max_tokens=40)
    events = [event for event in handle if isinstance(event, TextDelta)]
    result = handle.wait(WAIT)
    channels = [event.channel for event in events]
    assert channels == sorted(channels, key=[Channel.REASONING, Channel.CONTENT].index)
    assert "".join(e.text for e in events if e.channel is Channel.REASONING) == result.reasoning
    assert "".join(e.text for e in events if e.channel is Channel.CONTENT) == result.text
    (closing,) = [event for event in events if event.text.endswith("\nEnough.\n")]
    assert closing.tokens == 3 + len(CONTROL)


@pytest.mark.parametrize(("lanes", "drafts"), [(1, 1), (3, 4), (8, 9)])
@pytest.mark.parametrize("name", ["right", "random", "closes", "nothing"])
def test_drafts_change_nothing(make_engine: Make, name: str, lanes: int, drafts: int) -> None:
    """The drafter checks that every token reached it once: drawn ones by rounds, the others by being told."""
    model = ToyModel.make(bias=SOMETIMES)
    plain = make_engine(model, lanes=1)
    cases = [(f"q{seed}", budget, seed) for seed in range(3) for budget in (0, 1, 5, 12)]
    options = [{"constraint": COLOURS} if budget % 2 else {} for _, budget, _ in cases]
    outputs = [
        answer(plain, think(text), seed=seed, thinking_budget=budget, max_tokens=LIMIT, **more)
        for (text, budget, seed), more in zip(cases, options, strict=True)
    ]
    known: dict[tuple[bytes, int], list[Sequence[int]]] = {}
    for (text, _, seed), output in zip(cases, outputs, strict=True):
        known.setdefault((text.encode(), seed), []).append(output.token_ids)

    def coming(row: DraftRow) -> list[int]:
        said = tuple(row.history[row.prompt_length :])
        prompt = bytes(row.history[: row.prompt_length])
        for tokens in known.get((prompt, row.seed), ()):
            if tuple(tokens[: len(said)]) == said:
                return list(tokens[len(said) :])
        return []

    scripts: dict[str, Callable[[DraftRow], list[int]]] = {
        "right": coming,
        "random": lambda row: [*coming(row)[:1], *[(7 * len(row.history)) % 250] * 3],
        "closes": lambda row: [*coming(row)[:2], *[CLOSE] * 3],
        "nothing": lambda row: [],
    }
    engine = make_engine(
        model, lanes=lanes, backend=ScriptedBackend(scripts[name]), draft_tokens=drafts
    )
    handles = [
        ask(engine, think(text), seed=seed, thinking_budget=budget, max_tokens=LIMIT, **more)
        for (text, budget, seed), more in zip(cases, options, strict=True)
    ]
    for handle, output in zip(handles, outputs, strict=True):
        result = handle.wait(WAIT)
        assert result.error is None
        assert result.token_ids == output.token_ids
        assert (result.text, result.reasoning) == (output.text, output.reasoning)
    if name == "right":
        assert sum(h.wait(WAIT).usage.accepted_tokens for h in handles)


def test_a_round_never_draws_past_the_budget(make_engine: Make) -> None:
    seen: list[tuple[int, int]] = []

    def script(row: DraftRow) -> list[int]:
        seen.append((len(row.history) - row.prompt_length, row.limit))
        return [ord("x")] * row.limit

    engine = make_engine(
        ToyModel.make(bias={ord("x"): 50.0, **NEVER}),
        backend=ScriptedBackend(script),
        draft_tokens=7,
    )
    result = answer(engine, think(), greedy=True, thinking_budget=11, max_tokens=60)
    assert result.token_ids[:11] == (ord("x"),) * 11
    assert result.token_ids[11 : 11 + len(CONTROL)] == CONTROL
    inside = [(done, limit) for done, limit in seen if done < 11]
    assert inside == [(1, 7), (9, 1)]
    assert all(done >= 11 + len(CONTROL) for done, _ in seen[len(inside) :])


def test_neighbours_are_as_they_are_alone(make_engine: Make) -> None:
    model = ToyModel.make(bias=NEVER)
    alone = make_engine(model, lanes=1)
    plain = [answer(alone, f"n{seed}", seed=seed, max_tokens=30).token_ids for seed in range(6)]
    engine = make_engine(model, lanes=4)
    handles = []
    for seed in range(6):
        handles.append(ask(engine, f"n{seed}", seed=seed, max_tokens=30))
        ask(engine, think(), seed=seed, thinking_budget=seed, max_tokens=40)
    assert [handle.wait(WAIT).token_ids for handle in handles] == plain


def test_penalties_count_the_closing_text(make_engine: Make) -> None:
    """Greedy under a penalty, by its definition over the whole output."""
    model = ToyModel.make(bias=NEVER)
    budget, limit, penalty = 3, 40, 3.0
    output: list[int] = []
    while len(output) < limit:
        if len(output) == budget:
            output += CONTROL
        logits = model.target.logits_after([*b"why?", *output])[: VOCABULARY.size].clone()
        logits[-1] = -torch.inf
        for token in output:
            logits[token] -= penalty
        output.append(int(logits.argmax()))
    result = answer(
        make_engine(model),
        think(),
        greedy=True,
        frequency_penalty=penalty,
        thinking_budget=budget,
        max_tokens=limit,
    )
    assert list(result.token_ids) == output


@pytest.mark.parametrize("budget", [0, 500])
def test_without_thinking_a_budget_does_nothing(make_engine: Make, budget: int) -> None:
    engine = make_engine()
    free = answer(engine, chat("hi"), max_tokens=12)
    assert (
        answer(engine, chat("hi"), max_tokens=12, thinking_budget=budget).token_ids
        == free.token_ids
    )


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        (think(), {"thinking_budget": -1}, "-1"),
        (think(), {"thinking_budget": 1.5}, "1.5"),
        (think(), {"thinking_budget": True}, "True"),
        ("raw", {"thinking_budget": 5}, "raw prompt"),
        (think(), {"thinking_budget": 5, "raw_output": True}, "raw output"),
        (
            think(),
            {"thinking_budget": 10, "max_tokens": 10 + len(CONTROL)},
            f"10 tokens of reasoning and the {len(CONTROL)} that close it leave none of "
            f"{10 + len(CONTROL)} output tokens",
        ),
        (think(), {"thinking_budget": 0, "max_tokens": 0}, "of 0 output tokens"),
        (think(), {"thinking_budget": 4096}, "output tokens"),
    ],
    ids=str,
)
def test_impossible_budgets_are_refused_before_the_queue(
    make_engine: Make, prompt: PromptInput | str, options: dict[str, Any], message: str
) -> None:
    engine = make_engine()
    with pytest.raises(InvalidOption, match=message) as caught:
        ask(engine, prompt, **options)
    assert caught.value.location.field == "thinking_budget"
    assert caught.value.hint
    assert engine.outstanding == 0


def test_the_largest_budget_leaves_one_token(make_engine: Make) -> None:
    engine = make_engine(ToyModel.make(bias=NEVER))
    result = answer(engine, think(), thinking_budget=10, max_tokens=11 + len(CONTROL))
    assert result.token_ids[10:-1] == CONTROL
    assert result.finish_reason is FinishReason.LENGTH


def test_a_stop_token_id_ends_the_output_in_the_closing_text_too(make_engine: Make) -> None:
    engine = make_engine(ToyModel.make(bias=NEVER))
    result = answer(engine, think(), thinking_budget=2, max_tokens=60, stop_token_ids=[CLOSE])
    assert (result.finish_reason, result.stop) == (FinishReason.STOP, CLOSE)
    assert result.token_ids[2:] == CONTROL[: CONTROL.index(CLOSE) + 1]


class Refusing(ToyModel):
    """Its closing text is not what its own language asks for."""

    def early_close(self, prompt: Any) -> tuple[int, ...]:
        return (CLOSE, *b"x")


class Open(ToyModel):
    """Its closing text closes nothing."""

    def early_close(self, prompt: Any) -> tuple[int, ...]:
        return tuple(b"hm")


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [(Refusing, {"constraint": COLOURS}, "refuses token 120"), (Open, {}, "leaves it open")],
)
@pytest.mark.parametrize("budget", [0, 4])
def test_a_text_that_does_not_close_ends_its_request_alone(
    make_engine: Make, model: type[ToyModel], options: Any, message: str, budget: int
) -> None:
    target = ToyTarget(VOCABULARY, bias=NEVER)
    alone = answer(make_engine(ToyModel(target)), "n", max_tokens=20).token_ids
    engine = make_engine(model(target))
    neighbour = ask(engine, "n", max_tokens=20)
    result = answer(engine, think(), thinking_budget=budget, max_tokens=LIMIT, **options)
    assert isinstance(result.error.error, IntegrityError)
    assert message in result.error.message
    # What was drawn before stays, and nothing of the closing text is told.
    assert len(result.token_ids) == budget
    if "constraint" in options:
        assert result.constraint.branch == "undecided"
    assert neighbour.wait(WAIT).token_ids == alone
    assert engine.outstanding == 0


class Verifies(ToyTarget):
    """Cannot verify what holds the closing token."""

    def forward(self, batch: Any, views: Any, features: Any = ()) -> Any:
        if batch.kind is StepKind.VERIFY and CLOSE in batch.ids.tolist()[0]:
            raise RuntimeError("the device is gone")
        return super().forward(batch, views, features)


@pytest.mark.parametrize("budget", [0, 4])
@pytest.mark.parametrize("drafts", [0, 3])
def test_an_append_that_fails_ends_its_request_alone(
    make_engine: Make, budget: int, drafts: int
) -> None:
    options = {"backend": ScriptedBackend(lambda row: []), "draft_tokens": drafts} if drafts else {}
    target = ToyTarget(VOCABULARY, bias=NEVER)
    alone = answer(make_engine(ToyModel(target)), "n", max_tokens=30).token_ids
    engine = make_engine(ToyModel(Verifies(VOCABULARY, bias=NEVER)), lanes=2, **options)
    neighbour = ask(engine, "n", max_tokens=30)
    result = answer(engine, think(), thinking_budget=budget, max_tokens=LIMIT, constraint=COLOURS)
    assert "the device is gone" in result.error.message
    assert len(result.token_ids) == budget
    assert (result.text, "Enough" in result.reasoning) == ("", False)
    assert not result.constraint.complete
    assert neighbour.wait(WAIT).token_ids == alone
    assert engine.outstanding == 0
    # Its lane serves others.
    again = [ask(engine, "n", max_tokens=30) for _ in range(2)]
    assert [handle.wait(WAIT).token_ids for handle in again] == [alone, alone]


def test_a_drafter_that_cannot_be_told_ends_its_request_alone(make_engine: Make) -> None:
    model = ToyModel.make(bias=NEVER)
    engine = make_engine(model, backend=Backend(lambda row: []), draft_tokens=2)
    told = Backend.drafter.prefilled

    def prefilled(lane: int, ids: Sequence[int], *rest: Any) -> None:
        if CLOSE in ids:
            raise RuntimeError("the drafter broke")
        told(lane, ids, *rest)

    Backend.drafter.prefilled = prefilled
    neighbour = ask(engine, "n", max_tokens=20)
    result = answer(engine, think(), thinking_budget=4, max_tokens=LIMIT)
    assert "the drafter broke" in result.error.message
    assert neighbour.wait(WAIT).error is None
    assert answer(engine, "n", max_tokens=20).token_ids == neighbour.wait(WAIT).token_ids


class Waiting(ToyTarget):
    """Waits in a forward for ``go``, once it holds ``at``."""

    at: int | None = None
    kind = StepKind.VERIFY
    here: threading.Event
    go: threading.Event

    def forward(self, batch: Any, views: Any, features: Any = ()) -> Any:
        if batch.kind is self.kind and self.at in batch.ids.tolist()[0]:
            self.here.set()
            assert self.go.wait(WAIT)
        return super().forward(batch, views, features)


@pytest.mark.parametrize("constraint", [None, COLOURS])
@pytest.mark.parametrize(
    ("kind", "at", "budget", "reasoned"),
    [
        (StepKind.PREFILL, ord("?"), 0, 0),
        (StepKind.VERIFY, ord("E"), 0, 0),
        (StepKind.VERIFY, ord("E"), 2, 2),
        (StepKind.VERIFY, CLOSE, 5, 5),
    ],
    ids=["in the prompt", "in the close, before any token", "in the close", "at its end"],
)
def test_a_cancelled_close_is_not_told(
    make_engine: Make, kind: StepKind, at: int, budget: int, reasoned: int, constraint: Any
) -> None:
    """Also when it is almost done: its session returns to what was committed."""
    target = Waiting(VOCABULARY, bias={**NEVER, ord("E"): -50.0})
    target.kind, target.at = kind, at
    target.here, target.go = threading.Event(), threading.Event()
    engine = make_engine(ToyModel(target), lanes=1)
    handle = ask(engine, think(), thinking_budget=budget, max_tokens=LIMIT, constraint=constraint)
    waiting = ask(engine, chat("next"), constraint=COLOURS)
    assert target.here.wait(WAIT)
    handle.cancel()
    target.at = None
    target.go.set()
    result = handle.wait(WAIT)
    assert result.finish_reason is FinishReason.CANCELLED
    assert len(result.token_ids) == reasoned
    assert "Enough" not in result.reasoning
    assert result.text == ""
    if constraint is not None:
        assert (result.constraint.branch, result.constraint.complete) == ("undecided", False)
    assert waiting.wait(WAIT).text in COLOURS.literals
    assert engine.outstanding == 0


def test_closing_the_engine_ends_a_close_half_way(make_engine: Make) -> None:
    target = Waiting(VOCABULARY, bias={**NEVER, ord("E"): -50.0})
    target.at, target.here, target.go = ord("E"), threading.Event(), threading.Event()
    engine = make_engine(ToyModel(target))
    handle = ask(engine, think(), thinking_budget=3, max_tokens=LIMIT, constraint=COLOURS)
    assert target.here.wait(WAIT)
    engine.close(timeout=0)
    target.go.set()
    result = handle.wait(WAIT)
    assert result.finish_reason is FinishReason.CANCELLED
    assert len(result.token_ids) == 3
    assert result.constraint.branch == "undecided"


@pytest.mark.parametrize("budget", [4, 5, 9])
def test_slow_masks_before_a_close_change_nothing(
    make_engine: Make, monkeypatch: pytest.MonkeyPatch, budget: int
) -> None:
    """The mask behind "slow" takes long. It is waited for where a token is drawn there, and not asked for where the
    closing text comes instead.
    """
    monkeypatch.setattr(mask_jobs, "PATIENCE", 0.02)
    model = saying("type", reasoning="slow thoughts")
    options = {"thinking_budget": budget, "constraint": COLOURS, "max_tokens": LIMIT, "seed": 3}
    plain = answer(make_engine(model), think(), **options)
    assert plain.token_ids[:budget] == tuple(b"slow thoughts"[:budget])
    assert plain.token_ids[budget : budget + len(CONTROL)] == CONTROL
    provider = SlowProvider()
    engine = make_engine(model, provider=lambda: provider)
    handle = ask(engine, think(), **options)
    if budget > len("slow"):
        assert provider.at_work.wait(WAIT)
        assert answer(engine, chat("x"), constraint=Choice(["abc"])).text == "abc"
        assert not handle.done
        provider.go.set()
    result = handle.wait(WAIT)
    assert result.token_ids == plain.token_ids
    assert result.constraint.positions == plain.constraint.positions
    assert provider.at_work.is_set() == (budget > len("slow"))
