"""The engine over the exact toy model: texts, reports, lifecycle, and failures of single requests."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import evolve

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import (
    FinishReason,
    GenerationEnd,
    GenerationStart,
    RequestOptions,
    TextDelta,
)
from infernix_core.errors import (
    ConstraintDeadEnd,
    ContextOverflow,
    DeadlineExceeded,
    EngineUnavailable,
    InvalidOption,
    InvalidPrompt,
    NonFiniteLogits,
    QueueFull,
    RequestCancelled,
)
from infernix_core.interfaces.constraints import Choice, Regex
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.plain_provider import PlainGrammar, PlainMatcher, PlainProvider
from infernix_core.testing.toy import ToyModel, ToyTarget
from tests.core.conftest import WAIT, answer, ask, chat

Make = Callable[..., Engine]
COLOURS = Choice(["red", "green", "grey", "blue"])


def greedy_by_definition(model: ToyModel, prompt: str, count: int) -> list[int]:
    """Argmax over generable tokens of the logits by their definition, smaller id first."""
    history = list(prompt.encode())
    output: list[int] = []
    forbidden = model.vocabulary.ids(TokenClass.FORBIDDEN)
    while len(output) < count:
        logits = model.target.logits_after(history + output)[: model.vocabulary.size].clone()
        logits[list(forbidden)] = -torch.inf
        output.append(int((logits == logits.max()).nonzero()[0]))
        if output[-1] in model.vocabulary.end_ids:
            break
    return output


@pytest.mark.parametrize("prompt", ["a", "hello", "a prompt of more than one chunk, for certain"])
def test_greedy_decoding_is_the_models_argmax(make_engine: Make, prompt: str) -> None:
    model = ToyModel.make()
    result = answer(make_engine(model), prompt, greedy=True, max_tokens=12)
    assert list(result.token_ids) == greedy_by_definition(model, prompt, 12)


@pytest.mark.parametrize(
    "options",
    [
        {"lanes": 1},
        {"lanes": 2, "prefill_chunk": 4},
        {"lanes": 8, "prefill_chunk": 64},
        {"lanes": 3, "deterministic": True},
    ],
)
def test_texts_do_not_depend_on_lanes_chunks_or_company(
    make_engine: Make, options: dict[str, Any]
) -> None:
    prompts = [f"prompt {'long ' * (index % 4)}{index}" for index in range(9)]
    alone = make_engine(lanes=1, prefill_chunk=4)
    expected = [
        answer(alone, prompt, seed=index, max_tokens=10).token_ids
        for index, prompt in enumerate(prompts)
    ]
    together = make_engine(**options)
    handles = [
        ask(together, prompt, seed=index, max_tokens=10) for index, prompt in enumerate(prompts)
    ]
    assert [handle.wait(WAIT).token_ids for handle in handles] == expected


def test_padding_and_forbidden_tokens_are_never_chosen(make_engine: Make) -> None:
    """The toy's padding columns have the largest logits of all, and its FORBIDDEN token a large one."""
    model = ToyModel.make()
    forbidden = model.vocabulary.ids(TokenClass.FORBIDDEN)
    model = ToyModel.make(bias=dict.fromkeys(forbidden, 50.0))
    engine = make_engine(model)
    for seed in range(10):
        for options in ({}, {"greedy": True}, {"top_k": 3}, {"top_p": 0.5}):
            tokens = answer(engine, "x", seed=seed, max_tokens=5, **options).token_ids
            assert not set(tokens) & set(forbidden)
            assert max(tokens) < model.vocabulary.size


def test_events_come_in_order_and_concatenate(make_engine: Make) -> None:
    handle = ask(make_engine(), chat("hi", thinking=True), max_tokens=30, seed=4)
    events = list(handle)
    assert isinstance(events[0], GenerationStart)
    assert isinstance(events[-1], GenerationEnd)
    assert all(isinstance(event, TextDelta) for event in events[1:-1])
    result = events[-1].result
    texts = {"content": "", "reasoning": ""}
    for event in events[1:-1]:
        texts[event.channel.value] += event.text
    assert (texts["content"], texts["reasoning"]) == (result.text, result.reasoning)
    assert list(handle) == []
    assert result.usage.prompt_tokens == 2
    assert result.usage.completion_tokens == len(result.token_ids)
    assert 0 <= result.timings.first_token <= result.timings.total


def test_a_choice_is_answered_and_reported(make_engine: Make) -> None:
    engine = make_engine()
    for seed in range(20):
        result = answer(engine, chat("colour?"), seed=seed, constraint=COLOURS)
        assert result.text in COLOURS.literals
        assert result.finish_reason is FinishReason.STOP
        report = result.constraint
        assert report is not None
        assert (report.kind, report.branch) == ("choice", "content")
        assert (report.complete, report.terminated) == (True, True)
        assert report.cache == ("built" if seed == 0 else "hit")
        assert report.positions == len(result.token_ids)
        assert report.mask_bytes == len(result.token_ids) * engine.model.vocabulary.words * 4
        assert report.kept_mass is None
    assert not make_engine().grammars.bound


def test_kept_mass_is_the_models_probability_of_the_legal_tokens(make_engine: Make) -> None:
    model = ToyModel.make()
    options = {"constraint": Choice(["x"]), "temperature": 0.5, "top_k": 1}
    engine = make_engine(model)
    report = answer(engine, "q", constraint_stats=True, **options).constraint
    masses = []
    for legal, history in ((b"x"[0], b"q"), (None, b"qx")):
        logits = model.target.logits_after(list(history))[: model.vocabulary.size].double()
        logits[list(model.vocabulary.ids(TokenClass.FORBIDDEN))] = -torch.inf
        ids = [legal] if legal is not None else sorted(model.vocabulary.end_ids)
        masses.append(float(torch.softmax(logits, 0)[ids].sum()))
    assert report.kept_mass == pytest.approx(sum(masses) / 2, rel=1e-5)
    assert report.kept_mass_minimum == pytest.approx(min(masses), rel=1e-5)
    assert report.kept_mass_below_tenth == sum(mass < 0.1 for mass in masses)
    for silent in (
        answer(engine, "q", **options),
        answer(engine, "q", constraint_stats=True, max_tokens=0, **options),
    ):
        report = silent.constraint
        assert (report.kept_mass, report.kept_mass_minimum, report.kept_mass_below_tenth) == (
            None,
            None,
            None,
        )


def test_steps_at_which_a_constraint_leaves_less_than_a_tenth_are_counted(
    make_engine: Make,
) -> None:
    """The model wants to end at once: every step but the last goes against it."""
    model = ToyModel.make(bias=dict.fromkeys(ToyModel.make().vocabulary.end_ids, 60.0))
    report = answer(
        make_engine(model), "q", constraint=Choice(["ab", "aab"]), constraint_stats=True
    ).constraint
    assert report.terminated
    assert report.kept_mass_below_tenth == report.positions - 1
    assert report.kept_mass_minimum < 1e-9
    assert report.kept_mass == pytest.approx(1 / report.positions, rel=1e-6)


def test_asking_for_statistics_changes_no_token(make_engine: Make) -> None:
    """Also for neighbours that do not ask, which are decided in the same rounds."""
    engine = make_engine(lanes=4)
    prompts = [chat(f"colour {index}?", thinking=index % 2 == 0) for index in range(8)]
    expected = [
        answer(engine, prompt, seed=seed, constraint=COLOURS, max_tokens=40).token_ids
        for seed, prompt in enumerate(prompts)
    ]
    handles = [
        ask(
            engine,
            prompt,
            seed=seed,
            constraint=COLOURS,
            max_tokens=40,
            constraint_stats=seed % 3 > 0,
        )
        for seed, prompt in enumerate(prompts)
    ]
    results = [handle.wait(WAIT) for handle in handles]
    assert [result.token_ids for result in results] == expected
    for seed, result in enumerate(results):
        assert (result.constraint.kept_mass is None) == (seed % 3 == 0)


def test_statistics_of_no_constraint_are_refused(make_engine: Make) -> None:
    engine = make_engine()
    with pytest.raises(InvalidOption, match="constraint_stats") as caught:
        ask(engine, "q", constraint_stats=True)
    assert caught.value.location.field == "constraint_stats"
    assert engine.outstanding == 0


def test_thinking_then_a_choice(make_engine: Make) -> None:
    close = ToyModel.make().vocabulary.framing["</think>"]
    engine = make_engine(ToyModel.make(bias={close: 4.0}))
    seen = set()
    for seed in range(30):
        result = answer(engine, chat("?", thinking=True), seed=seed, constraint=COLOURS)
        assert result.text in COLOURS.literals
        assert result.token_ids.count(close) == 1
        assert not set(result.token_ids[:-1]) & engine.model.vocabulary.end_ids
        seen.add(len(result.reasoning))
    assert len(seen) > 3


def test_an_undecided_branch_when_the_limit_falls_into_the_reasoning(make_engine: Make) -> None:
    close = ToyModel.make().vocabulary.framing["</think>"]
    engine = make_engine(ToyModel.make(bias={close: -50.0}))
    result = answer(engine, chat("?", thinking=True), constraint=COLOURS, max_tokens=5)
    report = result.constraint
    assert result.finish_reason is FinishReason.LENGTH
    assert (report.branch, report.complete, report.terminated) == ("undecided", False, False)


def test_complete_at_exactly_the_limit_stays_a_length(make_engine: Make) -> None:
    result = answer(make_engine(), "?", constraint=Choice(["ab"]), max_tokens=2)
    assert (result.text, result.finish_reason) == ("ab", FinishReason.LENGTH)
    assert (result.constraint.complete, result.constraint.terminated) == (True, False)
    cut = answer(make_engine(), "?", constraint=Choice(["ab"]), max_tokens=1)
    assert (cut.text, cut.constraint.complete) == ("a", False)
    whole = answer(make_engine(), "?", constraint=Choice(["ab"]), max_tokens=3)
    assert (whole.finish_reason, whole.constraint.terminated) == (FinishReason.STOP, True)


def test_a_cut_inside_a_character_is_shown_as_such(make_engine: Make) -> None:
    result = answer(make_engine(), "?", constraint=Choice(["€"]), max_tokens=2)
    assert (result.text, result.finish_reason) == ("\ufffd", FinishReason.LENGTH)
    assert not result.constraint.complete


@pytest.mark.parametrize("constraint", [None, Choice(["a"]), Choice([""])])
def test_a_zero_budget_generates_nothing_and_is_never_complete(
    make_engine: Make, constraint: Choice | None
) -> None:
    engine = make_engine()
    result = answer(engine, "?", constraint=constraint, max_tokens=0)
    assert (result.text, result.token_ids) == ("", ())
    assert result.finish_reason is FinishReason.LENGTH
    if constraint is not None:
        assert (result.constraint.complete, result.constraint.terminated) == (False, False)
    assert engine.outstanding == 0


def test_the_empty_text_is_an_end_token_alone(make_engine: Make) -> None:
    result = answer(make_engine(), "?", constraint=Choice([""]))
    assert (result.text, len(result.token_ids)) == ("", 1)
    assert result.finish_reason is FinishReason.STOP
    assert (result.constraint.complete, result.constraint.terminated) == (True, True)


SPARSE = Vocabulary(
    (b"a", b"b", b"x", b"", b""), (*(TokenClass.TEXT,) * 3, TokenClass.END, TokenClass.FRAMING)
)


def test_no_legal_first_token_is_a_request_error_and_frees_the_slot(make_engine: Make) -> None:
    engine = make_engine(ToyModel(ToyTarget(SPARSE)))
    with pytest.raises(ConstraintDeadEnd, match="no legal first token"):
        ask(engine, PromptInput(token_ids=[0]), constraint=Choice(["c", "d"]))
    assert engine.outstanding == 0
    assert answer(engine, PromptInput(token_ids=[0]), constraint=Choice(["ab"])).text == "ab"


def test_a_dead_end_that_is_reached_fails_its_request_alone(make_engine: Make) -> None:
    engine = make_engine(ToyModel(ToyTarget(SPARSE)))
    prompt = PromptInput(token_ids=[0, 1, 2])
    handles = [
        ask(engine, prompt, seed=seed, constraint=Choice(texts))
        for seed, texts in enumerate([["abc"], ["abxabxab"], ["bac"], ["xxxxxxxx"]] * 2)
    ]
    results = [handle.wait(WAIT) for handle in handles]
    for index in (0, 2, 4, 6):
        assert results[index].finish_reason is FinishReason.ERROR
        assert isinstance(results[index].error.error, ConstraintDeadEnd)
        assert results[index].text == ("ab" if index in (0, 4) else "ba")
        with pytest.raises(ConstraintDeadEnd):
            results[index].raise_for_error()
    assert [results[index].text for index in (1, 3, 5, 7)] == ["abxabxab", "xxxxxxxx"] * 2
    assert engine.outstanding == 0


def test_non_finite_logits_fail_their_row_alone(make_engine: Make) -> None:
    clean = make_engine(ToyModel.make())
    plain = [answer(clean, f"p{i}", seed=i, max_tokens=12) for i in range(8)]
    poisoned_model = ToyModel.make()
    history = [*b"p3", *plain[3].token_ids[:4]]
    table = poisoned_model.target.table
    index = next(
        i
        for i in range(len(table))
        if torch.equal(table[i], poisoned_model.target.logits_after(history))
    )
    engine = make_engine(ToyModel.make(poison=index))
    handles = [ask(engine, f"p{i}", seed=i, max_tokens=12) for i in range(8)]
    results = [handle.wait(WAIT) for handle in handles]
    assert isinstance(results[3].error.error, NonFiniteLogits)
    assert results[3].token_ids == plain[3].token_ids[:4]
    others = [i for i in range(8) if results[i].error is None]
    assert len(others) >= 5
    for i in others:
        assert results[i].token_ids == plain[i].token_ids


def test_a_preset_penalty_is_dropped_under_a_constraint(make_engine: Make) -> None:
    card = SamplingOptions(temperature=0.0, frequency_penalty=9.0)
    target = ToyTarget(SPARSE, bias={3: -99.0, 4: -99.0})
    plain = make_engine(ToyModel(target))
    preset = make_engine(ToyModel(target, defaults=card))
    prompt = PromptInput(token_ids=[0])
    options = {"constraint": Choice(["aaaa", "abab", "bbbb", "xxxx", "axax"])}
    assert (
        answer(preset, prompt, **options).token_ids
        == answer(plain, prompt, greedy=True, **options).token_ids
    )
    free = answer(preset, prompt, max_tokens=8).token_ids
    assert free != answer(plain, prompt, greedy=True, max_tokens=8).token_ids


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"stop": ["x"]}, "stop"),
        ({"stop_token_ids": [3]}, "stop_token_ids"),
        ({"raw_output": True}, "raw_output"),
    ],
)
def test_stop_rules_cannot_be_combined_with_a_constraint(
    make_engine: Make, options: dict[str, Any], name: str
) -> None:
    engine = make_engine()
    with pytest.raises(InvalidOption, match=name):
        ask(engine, chat("?"), constraint=COLOURS, **options)
    assert engine.outstanding == 0
    assert answer(engine, chat("?"), max_tokens=3, **options).error is None


@pytest.mark.parametrize(
    "options",
    [
        {"max_tokens": -1},
        {"max_tokens": 2.5},
        {"max_tokens": "5"},
        {"max_tokens": float("nan")},
        {"max_tokens": True},
        {"draft_limit": -1},
        {"draft_limit": 1.5},
        {"draft_limit": "x"},
        {"pending_timeout": 0},
        {"pending_timeout": float("nan")},
        {"pending_timeout": "1"},
        {"stop_token_ids": [10**6]},
        {"stop_token_ids": [-1]},
        {"stop_token_ids": [1.5]},
        {"stop_token_ids": ["a"]},
        {"stop_token_ids": None},
        {"stop": [""]},
        {"stop": "END"},
        {"stop": None},
        {"stop": [3]},
        {"stop": ["x"] * 65},
        {"stop": ["x" * 1025]},
        {"raw_output": "yes"},
        {"constraint_stats": 1, "constraint": COLOURS},
        {"constraint": "a+"},
        {"temperature": -1.0},
        {"temperature": 10**400},
        {"presence_penalty": 1e308},
        {"frequency_penalty": 1e39},
    ],
    ids=str,
)
def test_impossible_options_are_refused_before_the_queue(
    make_engine: Make, options: dict[str, Any]
) -> None:
    engine = make_engine()
    with pytest.raises(InvalidOption):
        ask(engine, "?", **options)
    assert engine.outstanding == 0
    assert answer(engine, "?", max_tokens=1).error is None


def test_a_prompt_of_another_engine_is_checked_again(make_engine: Make) -> None:
    wide, narrow = make_engine(max_context=64), make_engine(max_context=16)
    prompt = wide.prepare(PromptInput(text="x" * 40))
    with pytest.raises(ContextOverflow, match="40 tokens, the context 16"):
        narrow.submit(prompt)
    for ids in ((), (-1,), (10**6,)):
        with pytest.raises(InvalidPrompt, match="token ids below"):
            narrow.submit(evolve(prompt, token_ids=ids))
    assert narrow.outstanding == 0
    assert answer(narrow, "?", max_tokens=1).error is None


def test_a_raw_prompts_branch_is_content(make_engine: Make) -> None:
    report = answer(make_engine(), "raw", constraint=COLOURS).constraint
    assert (report.branch, report.terminated) == ("content", True)


def test_the_matcher_is_released_at_the_end(make_engine: Make) -> None:
    matchers: list[weakref.ref[PlainMatcher]] = []

    class Grammar(PlainGrammar):
        def start(self, prefix: Any = ()) -> PlainMatcher:
            matcher = super().start(prefix)
            matchers.append(weakref.ref(matcher))
            return matcher

    class Provider(PlainProvider):
        def bind(self, vocabulary: Vocabulary) -> Any:
            return Provider(vocabulary)

        def compile(self, language: Any, check: Any = None) -> Any:
            return Grammar(self.vocabulary, language)

    engine = make_engine(provider=Provider)
    handle = ask(engine, "?", constraint=COLOURS)
    assert handle.wait(WAIT).error is None
    answer(engine, "another", max_tokens=1)
    gc.collect()
    assert matchers
    assert {matcher() for matcher in matchers} == {None}
    assert handle.wait().text in COLOURS.literals


def test_two_readers_of_one_handle_share_its_events(make_engine: Make) -> None:
    handle = ask(make_engine(), "?", max_tokens=30)
    seen: list[list[Any]] = [[], []]
    threads = [threading.Thread(target=lambda i=i: seen[i].extend(handle)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT)
        assert not thread.is_alive()
    events = seen[0] + seen[1]
    assert sum(isinstance(event, GenerationEnd) for event in events) == 1
    text = sum(len(event.text) for event in events if isinstance(event, TextDelta))
    assert text == len(handle.wait().text)


def test_cancelling_publishes_what_was_held_for_a_stop_string(make_engine: Make) -> None:
    model = slow_model()
    plain = answer(make_engine(model), "held", seed=3, max_tokens=40)
    stop = plain.text + "never reached"
    handle = ask(make_engine(model), "held", seed=3, max_tokens=2000, stop=[stop])
    time.sleep(0.1)
    handle.cancel()
    result = handle.wait(WAIT)
    assert result.finish_reason is FinishReason.CANCELLED
    assert result.text
    assert plain.text.startswith(result.text[: len(plain.text)].rstrip("\ufffd"))


def test_prompt_and_output_share_the_context(make_engine: Make) -> None:
    engine = make_engine(max_context=16)
    with pytest.raises(ContextOverflow, match="16 tokens, the context 16"):
        engine.prepare(PromptInput(text="x" * 16))
    vocabulary = engine.model.vocabulary
    engine = make_engine(
        ToyModel.make(bias=dict.fromkeys(vocabulary.end_ids, -99.0)), max_context=16
    )
    result = answer(engine, "x" * 10, max_tokens=100)
    assert (len(result.token_ids), result.finish_reason) == (6, FinishReason.LENGTH)
    with pytest.raises(InvalidOption, match="4096 positions"):
        make_engine(max_context=5000)


def test_stop_strings_and_stop_ids(make_engine: Make) -> None:
    engine = make_engine()
    plain = answer(engine, "go", seed=2, max_tokens=20)
    text = plain.text
    assert len(text) > 6
    stopped = answer(engine, "go", seed=2, max_tokens=20, stop=[text[3:5]])
    assert stopped.text == text[: text.index(text[3:5])]
    assert (stopped.finish_reason, stopped.stop) == (FinishReason.STOP, text[3:5])
    by_id = answer(engine, "go", seed=2, max_tokens=20, stop_token_ids=[plain.token_ids[4]])
    first = plain.token_ids.index(plain.token_ids[4])
    assert by_id.token_ids == plain.token_ids[: first + 1]
    assert by_id.stop == plain.token_ids[4]


class Gated:
    """Compilation waits for a gate."""

    def __init__(self, gate: threading.Event, entered: threading.Event) -> None:
        self.gate, self.entered = gate, entered

    def bind(self, vocabulary: Vocabulary) -> Any:
        plain = PlainProvider().bind(vocabulary)
        gate, entered = self.gate, self.entered

        class Bound:
            def compile(self, language: Any, check: Any = None) -> Any:
                entered.set()
                assert gate.wait(WAIT)
                return plain.compile(language)

        return Bound()


def test_compilation_holds_a_slot_and_no_lock(make_engine: Make) -> None:
    gate, entered = threading.Event(), threading.Event()
    engine = make_engine(provider=lambda: Gated(gate, entered), lanes=1, queue_limit=1)
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(answer(engine, "?", constraint=COLOURS))
    )
    thread.start()
    assert entered.wait(WAIT)
    assert engine.outstanding == 1
    assert answer(engine, "other", max_tokens=3).error is None
    gate.set()
    thread.join(WAIT)
    assert results[0].text in COLOURS.literals
    assert engine.outstanding == 0


def test_the_deadline_is_checked_again_after_compilation(make_engine: Make) -> None:
    gate, entered = threading.Event(), threading.Event()
    engine = make_engine(provider=lambda: Gated(gate, entered))
    threading.Timer(0.3, gate.set).start()
    with pytest.raises(DeadlineExceeded):
        ask(engine, "?", constraint=COLOURS, pending_timeout=0.1)
    assert engine.outstanding == 0


def test_a_request_that_nobody_wants_takes_no_place_while_it_is_compiled(
    make_engine: Make,
) -> None:
    gate, entered, cancelled = threading.Event(), threading.Event(), threading.Event()
    engine = make_engine(provider=lambda: Gated(gate, entered), lanes=1, queue_limit=0)
    prompt = engine.prepare(PromptInput(text="?"))
    errors: list[Exception] = []

    def submit() -> None:
        try:
            engine.submit(prompt, RequestOptions(constraint=COLOURS), cancelled=cancelled.is_set)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    assert entered.wait(WAIT)
    with pytest.raises(QueueFull):
        ask(engine, "other", max_tokens=3)
    cancelled.set()
    assert answer(engine, "other", max_tokens=3).error is None
    gate.set()
    thread.join(WAIT)
    assert [type(error) for error in errors] == [RequestCancelled]
    assert engine.outstanding == 0


def test_the_deadline_holds_while_others_are_compiled(make_engine: Make) -> None:
    gate, entered = threading.Event(), threading.Event()
    engine = make_engine(provider=lambda: Gated(gate, entered))
    prompt = engine.prepare(PromptInput(text="?"))
    threads = [
        threading.Thread(
            target=engine.submit, args=(prompt, RequestOptions(constraint=Choice([text])))
        )
        for text in ("a", "b")
    ]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    while engine.grammars._cold._free:
        assert time.monotonic() < started + WAIT
        time.sleep(0.001)
    started = time.monotonic()
    for constraint in (COLOURS, Choice(["a"])):  # for a turn, and for another's build
        with pytest.raises(DeadlineExceeded):
            ask(engine, "?", constraint=constraint, pending_timeout=0.2)
    assert time.monotonic() - started < 5
    gate.set()
    for thread in threads:
        thread.join(WAIT)


class Slow(ToyTarget):
    """A toy whose every forward waits a moment, so that requests can be caught in the act."""

    def forward(self, *arguments: Any) -> Any:
        time.sleep(0.005)
        return super().forward(*arguments)


def slow_model() -> ToyModel:
    vocabulary = ToyModel.make().vocabulary
    return ToyModel(Slow(vocabulary, bias=dict.fromkeys(vocabulary.end_ids, -99.0)))


def test_cancelling_keeps_what_was_published(make_engine: Make) -> None:
    engine = make_engine(slow_model(), lanes=1)
    running = ask(engine, "?", max_tokens=2000)
    waiting = ask(engine, "?", max_tokens=2000)
    for event in running:
        if isinstance(event, TextDelta):
            break
    waiting.cancel()
    assert waiting.wait(WAIT).finish_reason is FinishReason.CANCELLED
    assert waiting.wait(WAIT).token_ids == ()
    running.cancel()
    running.cancel()
    result = running.wait(WAIT)
    assert result.finish_reason is FinishReason.CANCELLED
    assert result.text
    assert len(result.token_ids) < 2000
    assert answer(engine, "fresh", max_tokens=3).finish_reason is FinishReason.LENGTH
    assert engine.outstanding == 0


def test_a_cancelled_row_leaves_the_others_as_they_were(make_engine: Make) -> None:
    alone = [answer(make_engine(), f"r{i}", seed=i, max_tokens=40).token_ids for i in range(4)]
    engine = make_engine()
    handles = [ask(engine, f"r{i}", seed=i, max_tokens=40) for i in range(4)]
    handles[1].cancel()
    results = [handle.wait(WAIT).token_ids for handle in handles]
    assert [results[i] for i in (0, 2, 3)] == [alone[i] for i in (0, 2, 3)]
    assert results[1] == alone[1][: len(results[1])]


def test_a_full_queue_and_a_pending_timeout(make_engine: Make) -> None:
    engine = make_engine(slow_model(), lanes=1, queue_limit=1)
    running = ask(engine, "?", max_tokens=2000)
    waiting = ask(engine, "?", max_tokens=5, pending_timeout=0.1)
    with pytest.raises(QueueFull, match="2 requests are outstanding"):
        ask(engine, "?")
    result = waiting.wait(WAIT)
    assert result.finish_reason is FinishReason.ERROR
    assert isinstance(result.error.error, DeadlineExceeded)
    running.cancel()
    running.wait(WAIT)
    assert answer(engine, "?", max_tokens=1).error is None


def test_closing_ends_everything(make_engine: Make) -> None:
    engine = make_engine(slow_model(), lanes=1)
    handles = [ask(engine, "?", max_tokens=2000) for _ in range(3)]
    engine.close()
    engine.close()
    assert {handle.wait(WAIT).finish_reason for handle in handles} == {FinishReason.CANCELLED}
    with pytest.raises(EngineUnavailable, match="closed"):
        ask(engine, "?")


def test_a_timeout_of_wait_leaves_the_request_running(make_engine: Make) -> None:
    handle = ask(make_engine(slow_model()), "?", max_tokens=50)
    with pytest.raises(TimeoutError):
        handle.wait(0.01)
    assert handle.wait(WAIT).finish_reason is FinishReason.LENGTH


def test_drafts_need_a_backend(make_engine: Make) -> None:
    with pytest.raises(InvalidOption, match="draft_tokens"):
        make_engine(draft_tokens=2)


def test_a_constraint_that_does_not_compile_frees_the_slot(make_engine: Make) -> None:
    engine = make_engine()
    with pytest.raises(InvalidOption):
        ask(engine, "?", constraint=Regex("a"))
    assert engine.outstanding == 0
