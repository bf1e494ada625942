"""Faults of plugins: each ends the requests at whose door it lies, loses no handle and no slot, and no other text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.request import FinishReason
from infernix_core.errors import EngineUnavailable, IntegrityError, InvalidOption
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.drafters import ScriptedBackend, ScriptedDrafter
from infernix_core.testing.plain_provider import PlainMatcher, PlainProvider
from infernix_core.testing.toy import ToyDecoder, ToyModel, ToyTarget
from tests.core.conftest import WAIT, answer, ask, chat

Make = Callable[..., Engine]


class BrokenProvider:
    """Matchers of the class given, over the plain provider's languages."""

    def __init__(self, matcher: type[PlainMatcher]) -> None:
        self.matcher = matcher

    def bind(self, vocabulary: Vocabulary) -> Any:
        plain, kind = PlainProvider().bind(vocabulary), self.matcher

        class Grammar:
            memory_size = 1
            notes = ()

            def __init__(self, language: Any) -> None:
                self.language = language

            def start(self, prefix: Any = ()) -> Any:
                return kind(vocabulary, plain.compile(self.language).start().items)

        class Bound:
            def compile(self, language: Any, check: Any = None) -> Any:
                return Grammar(language)

        return Bound()


class RefusesG(PlainMatcher):
    """Refuses "g" after having allowed it."""

    def accept(self, token: int) -> bool:
        return token != ord("g") and super().accept(token)


class FillsNoMore(PlainMatcher):
    """Raises at the third mask."""

    fills = 0

    def fill(self, row: Any) -> bool:
        self.fills += 1
        if self.fills >= 3:
            raise MemoryError("no more")
        return super().fill(row)


class RaisesAtG(PlainMatcher):
    def accept(self, token: int) -> bool:
        if token == ord("g"):
            raise ValueError("not g")
        return super().accept(token)


class NoLabels(PlainMatcher):
    def labels(self) -> tuple[str, ...]:
        raise RuntimeError("no labels")


def neighbours(make_engine: Make) -> list[Sequence[int]]:
    return [answer(make_engine(), f"r{i}", seed=i, max_tokens=20).token_ids for i in range(3)]


@pytest.mark.parametrize("drafts", [0, 3])
@pytest.mark.parametrize("matcher", [RefusesG, FillsNoMore, RaisesAtG])
def test_a_broken_matcher_ends_its_request_and_no_other(
    make_engine: Make, matcher: type[PlainMatcher], drafts: int
) -> None:
    """In masks, in lookahead along drafts, and in preview alike."""
    alone = neighbours(make_engine)
    script = list(b"aag")
    backend = ScriptedBackend(lambda row: script[len(row.history) - row.prompt_length :])
    options = {"backend": backend, "draft_tokens": drafts} if drafts else {}
    engine = make_engine(provider=lambda: BrokenProvider(matcher), **options)
    free = [ask(engine, f"r{i}", seed=i, max_tokens=20) for i in range(3)]
    broken = ask(engine, "?", constraint=Choice(["aag"]))
    assert [handle.wait(WAIT).token_ids for handle in free] == alone
    result = broken.wait(WAIT)
    assert isinstance(result.error.error, IntegrityError)
    assert "aag".startswith(result.text)
    assert engine.outstanding == 0
    assert answer(engine, "r0", seed=0, max_tokens=20).token_ids == alone[0]


def test_a_report_that_cannot_be_made_is_an_error_of_its_request(make_engine: Make) -> None:
    engine = make_engine(provider=lambda: BrokenProvider(NoLabels))
    result = answer(engine, chat("?"), constraint=Choice(["ab"]))
    assert result.text == "ab"
    assert isinstance(result.error.error, IntegrityError)
    assert result.constraint is None
    assert engine.outstanding == 0
    assert answer(engine, "x", max_tokens=2).error is None


class Decoder(ToyDecoder):
    """Breaks where ``Broken.where`` says."""

    where = ""

    def step(self, state: Any, token: int) -> Any:
        if self.where == "step":
            raise InvalidOption("a decoder's own error")
        return super().step(state, token)

    def finish(self, state: Any) -> Any:
        if self.where == "finish":
            raise ValueError("cannot finish")
        return super().finish(state)


class Broken(ToyModel):
    """A toy whose decoder breaks on prompts that name a method of it."""

    def decoder(self, prompt: Any, request: Any, raw_members: Any = None) -> Any:
        decoder = Decoder(self.vocabulary, False)
        object.__setattr__(decoder, "where", bytes(prompt.token_ids).decode())
        return decoder


@pytest.mark.parametrize("where", ["step", "finish"])
def test_a_broken_decoder_ends_its_request_and_no_other(make_engine: Make, where: str) -> None:
    alone = neighbours(make_engine)
    engine = make_engine(Broken(ToyModel.make().target))
    broken = ask(engine, where, max_tokens=3)
    free = [ask(engine, f"r{i}", seed=i, max_tokens=20) for i in range(3)]
    result = broken.wait(WAIT)
    # Never dressed up as an error of the user's.
    assert result.error.kind == "IntegrityError"
    assert [handle.wait(WAIT).token_ids for handle in free] == alone
    assert engine.outstanding == 0


class Prompt13(ToyTarget):
    """Cannot execute prompts that hold token 13."""

    def forward(self, batch: Any, views: Any, features: Any = ()) -> Any:
        if 13 in batch.ids.tolist()[0]:
            raise RuntimeError("13")
        return super().forward(batch, views, features)


def test_a_prompt_that_cannot_be_executed_ends_alone(make_engine: Make) -> None:
    engine = make_engine(ToyModel(Prompt13(ToyModel.make().vocabulary, bias={13: -99.0})))
    free = [ask(engine, f"r{i}", seed=i, max_tokens=20) for i in range(3)]
    result = answer(engine, "a\r\n", max_tokens=5)
    assert isinstance(result.error.error, IntegrityError)
    expected = [
        answer(make_engine(ToyModel.make(bias={13: -99.0})), f"r{i}", seed=i, max_tokens=20)
        for i in range(3)
    ]
    assert [h.wait(WAIT).token_ids for h in free] == [e.token_ids for e in expected]


class Faulty(ScriptedDrafter):
    """Fails where ``fails`` says; its aborts are counted by the class it derives from."""

    fails: str = ""

    def propose(self, rows: Any, views: Any) -> Any:
        if self.fails == "propose":
            raise RuntimeError("the drafter broke")
        return super().propose(rows, views)

    def prepare_commit(self, counts: Any, features: Any, views: Any) -> None:
        if self.fails == "prepare_commit":
            raise RuntimeError("the drafter broke")
        super().prepare_commit(counts, features, views)

    def release(self, lane: int) -> None:
        self.released = [*getattr(self, "released", ()), lane]
        if self.fails == "release":
            raise RuntimeError("the drafter broke")


class Backend(ScriptedBackend):
    drafter: Any = None

    def bind(self, target: Any, vocabulary: Any, setup: Any) -> Any:
        type(self).drafter = Faulty(self.script, setup.drafts)
        return self.drafter


@pytest.mark.parametrize("fails", ["propose", "prepare_commit"])
def test_a_drafter_that_fails_ends_its_round_and_the_engine_goes_on(
    make_engine: Make, fails: str
) -> None:
    engine = make_engine(backend=Backend(lambda row: [1] * row.limit), draft_tokens=2)
    Backend.drafter.fails = fails
    handles = [ask(engine, f"r{i}", max_tokens=20) for i in range(3)]
    for handle in handles:
        result = handle.wait(WAIT)
        assert isinstance(result.error.error, IntegrityError)
        assert "the drafter broke" in result.error.message
        assert len(result.token_ids) == 1
    assert Backend.drafter.aborted
    assert engine.outstanding == 0
    Backend.drafter.fails = ""
    plain = answer(make_engine(), "r0", max_tokens=20)
    assert answer(engine, "r0", max_tokens=20).token_ids == plain.token_ids
    assert len(Backend.drafter.released) == 4


@pytest.mark.parametrize("token", [-1, 10**6, 2**40])
def test_a_draft_that_is_no_token_ends_its_round_and_the_engine_goes_on(
    make_engine: Make, token: int
) -> None:
    """It would index the model's embedding, and is the drafter's fault."""
    wrong = [True]
    script = ScriptedBackend(lambda row: [1, token] if wrong[0] else [1])
    engine = make_engine(backend=script, draft_tokens=2)
    result = ask(engine, "r0", max_tokens=20).wait(WAIT)
    assert f"token {token} of a vocabulary" in result.error.message
    wrong[0] = False
    plain = answer(make_engine(), "r0", max_tokens=20)
    assert answer(engine, "r0", max_tokens=20).token_ids == plain.token_ids


def test_a_drafter_that_cannot_release_stops_the_engine_and_every_handle_ends(
    make_engine: Make,
) -> None:
    engine = make_engine(backend=Backend(lambda row: []), draft_tokens=2, lanes=2)
    Backend.drafter.fails = "release"
    handles = [ask(engine, f"r{i}", seed=i, max_tokens=3 + 40 * (i > 0)) for i in range(4)]
    results = [handle.wait(WAIT) for handle in handles]
    assert results[0].finish_reason in (FinishReason.LENGTH, FinishReason.STOP)
    assert any(isinstance(r.error.error, EngineUnavailable) for r in results if r.error)
    with pytest.raises(EngineUnavailable, match="has stopped") as caught:
        ask(engine, "?")
    assert isinstance(caught.value.__cause__, IntegrityError)
    assert "the drafter broke" in str(caught.value.__cause__)
    assert engine.outstanding == 0


class Late(ToyTarget):
    """Breaks in the third decode round."""

    rounds = 0

    def fold(self, *arguments: Any) -> None:
        self.rounds += 1
        if self.rounds == 3:
            raise RuntimeError("the device is gone")
        super().fold(*arguments)


def test_a_failing_commit_stops_the_engine_and_publishes_nothing_of_the_round(
    make_engine: Make,
) -> None:
    plain = [answer(make_engine(), f"r{i}", seed=i, max_tokens=20) for i in range(2)]
    engine = make_engine(ToyModel(Late(ToyModel.make().vocabulary)), lanes=2)
    handles = [ask(engine, f"r{i}", seed=i, max_tokens=20) for i in range(2)]
    for handle, expected in zip(handles, plain, strict=True):
        result = handle.wait(WAIT)
        assert isinstance(result.error.error, EngineUnavailable)
        # What the caller may show to others tells the fault; what chains to it tells which.
        assert "the device is gone" not in result.error.message
        assert "the device is gone" in str(result.error.error.__cause__)
        assert result.token_ids == expected.token_ids[: len(result.token_ids)]
        assert expected.text.startswith(result.text.rstrip("\ufffd"))
    with pytest.raises(EngineUnavailable, match="has stopped") as caught:
        ask(engine, "?")
    assert "the device is gone" in str(caught.value.__cause__)


def test_a_policy_cannot_draft_past_a_rows_budget(make_engine: Make) -> None:
    class Wide:
        def plan(self, limits: Sequence[int], statistics: Any) -> tuple[int, ...]:
            return tuple((99, -1)[i % 2] for i in range(len(limits)))

    def script(row: DraftRow) -> list[int]:
        assert row.limit <= 3
        return [1] * row.limit

    engine = make_engine(
        backend=ScriptedBackend(script), policy=Wide(), draft_tokens=3, max_context=8
    )
    for prompt in ("abcdef", "ab"):
        plain = answer(make_engine(max_context=8), prompt, seed=1)
        assert answer(engine, prompt, seed=1).token_ids == plain.token_ids


def test_mask_bytes_count_the_masks_that_sampling_read(make_engine: Make) -> None:
    """Of drafts a, wrong, wrong only two columns are ready in the first round of four."""
    backend = ScriptedBackend(lambda row: [ord("a"), 0, 0])
    engine = make_engine(backend=backend, draft_tokens=3)
    report = answer(engine, "?", constraint=Choice(["ba"])).constraint
    row = engine.model.vocabulary.words * 4
    # "b" alone; then a | refused | and the end: two ready columns; then the end token alone.
    assert report.mask_bytes == report.positions * row
    assert report.mask_bytes < 9 * row


def test_features_of_rejected_columns_are_not_handed_on(make_engine: Make) -> None:
    seen: list[tuple[Sequence[int], Any]] = []

    class Watching(ScriptedDrafter):
        def prepare_commit(self, counts: Any, features: Any, views: Any) -> None:
            seen.append((list(counts), features["final"].clone()))
            super().prepare_commit(counts, features, views)

    class WatchingBackend(ScriptedBackend):
        def bind(self, target: Any, vocabulary: Any, setup: Any) -> Any:
            return Watching(self.script, setup.drafts)

    engine = make_engine(backend=WatchingBackend(lambda row: [1] * row.limit), draft_tokens=3)
    answer(engine, "?", max_tokens=12)
    assert seen
    for counts, features in seen:
        for row, count in enumerate(counts):
            assert not features[row, count:].any()
            assert features[row, :count].any()
