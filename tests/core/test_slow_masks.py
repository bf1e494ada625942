"""Masks that take long: their request waits, nobody else does."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from infernix_core.engine import mask_jobs
from infernix_core.engine.request import FinishReason
from infernix_core.engine.resident import PreparedMasks
from infernix_core.errors import ConstraintTooSlow
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.sampling import MaskState
from infernix_core.random import Purpose, uniform
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.plain_provider import PlainMatcher, PlainProvider
from tests.core.conftest import WAIT, answer, ask

SLOW = Choice(["slow text", "slow type"])
TEXTS = {"slow text", "slow type"}


class SlowProvider:
    """The mask behind ``text`` waits until it may be made, and then so many seconds more."""

    def __init__(
        self, *, broken: bool = False, text: bytes = b"slow", seconds: float = 0.0
    ) -> None:
        self.at_work, self.go = threading.Event(), threading.Event()
        self.broken, self.text, self.seconds = broken, text, seconds
        self.threads: set[str] = set()

    def bind(self, vocabulary: Any) -> Any:
        provider = self
        bound = PlainProvider().bind(vocabulary)

        class Matcher(PlainMatcher):
            accepted: tuple[int, ...] = ()

            @property
            def ready(self) -> bool:
                return False

            def accept(self, token: int) -> bool:
                accepted = super().accept(token)
                if accepted:
                    self.accepted = (*self.accepted, token)
                return accepted

            def mark(self) -> Any:
                return super().mark(), self.accepted

            def rollback(self, mark: Any) -> None:
                inner, self.accepted = mark
                super().rollback(inner)

            def fill(self, row: Any) -> bool:
                if bytes(token for token in self.accepted if token < 256) == provider.text:
                    provider.threads.add(threading.current_thread().name)
                    provider.at_work.set()
                    assert provider.go.wait(WAIT)
                    time.sleep(provider.seconds)
                    if provider.broken:
                        raise RuntimeError("late")
                return super().fill(row)

        class Bound:
            def compile(self, language: Any, check: Any = None) -> Any:
                compiled = bound.compile(language)

                class Compiled:
                    memory_size = 0
                    notes = ()

                    def start(self, prefix: Any = ()) -> Any:
                        inner = compiled.start(prefix)
                        return Matcher(inner.vocabulary, inner.items, inner.masks)

                return Compiled()

        return Bound()


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask_jobs, "PATIENCE", 0.02)


def test_others_go_on_and_the_text_is_the_same(make_engine) -> None:
    provider = SlowProvider()
    provider.go.set()
    alone = answer(make_engine(provider=lambda: provider), "x", constraint=SLOW, seed=1)
    assert alone.text in TEXTS
    provider.go.clear()
    provider.at_work.clear()
    engine = make_engine(provider=lambda: provider)
    slow = ask(engine, "x", constraint=SLOW, seed=1)
    assert provider.at_work.wait(WAIT)
    for seed in range(5):
        assert answer(engine, "y", seed=seed, max_tokens=40).finish_reason is not None
        assert answer(engine, "y", constraint=Choice(["abc"]), seed=seed).text == "abc"
    assert not slow.done
    provider.go.set()
    result = slow.wait(WAIT)
    assert result.token_ids == alone.token_ids
    assert result.constraint.complete
    assert result.constraint.positions == alone.constraint.positions
    assert provider.threads == {"infernix-masks"}


def test_a_request_with_drafts(make_engine) -> None:
    provider = SlowProvider()
    provider.go.set()
    plain = answer(make_engine(provider=lambda: provider), "x", constraint=SLOW, seed=1)
    provider.go.clear()
    backend = ScriptedBackend(lambda row: [*plain.token_ids][len(row.history) - 1 :])
    engine = make_engine(provider=lambda: provider, backend=backend, draft_tokens=3)
    slow = ask(engine, "x", constraint=SLOW, seed=1)
    assert provider.at_work.wait(WAIT)
    assert answer(engine, "y", constraint=Choice(["abc"])).text == "abc"
    provider.go.set()
    assert slow.wait(WAIT).token_ids == plain.token_ids


X, Y = ord("x"), ord("y")
FORK = Choice(["axkk", "aykk"])


def drawn(row: Any, position: int, weights: Any) -> int:
    return int(uniform(row.seed, len(row.history) + position, Purpose.DRAFT) >= weights[0])


def forks(engine: Any, seeds: range) -> list[tuple[int, ...]]:
    handles = [ask(engine, "p", constraint=FORK, seed=seed, temperature=1e6) for seed in seeds]
    return [handle.wait(WAIT).raise_for_error().token_ids for handle in handles]


def test_drawn_drafts_are_not_dropped_for_what_their_masks_cost(make_engine) -> None:
    """A round that is dropped for a slow mask runs again with the same drafts, so texts do not depend on times.

    Going on without them would keep "x", whose mask is the slow one, from being drafted: its share would fall.
    """
    backend = SampledBackend(lambda row, before: ((X, Y), (0.8, 0.2)), drawn)
    texts = []
    for seconds in (0.0, 0.03):
        provider = SlowProvider(text=b"ax", seconds=seconds)
        provider.go.set()
        engine = make_engine(provider=lambda p=provider: p, backend=backend, draft_tokens=2)
        texts.append(forks(engine, range(60)))
        assert provider.at_work.is_set()
    assert texts[0] == texts[1]
    assert 15 < sum(tokens[1] == X for tokens in texts[0]) < 45


def test_a_mask_that_takes_too_long_behind_a_draft_matters_only_if_the_output_gets_there(
    make_engine,
) -> None:
    plain = forks(make_engine(), range(12))
    provider = SlowProvider(text=b"ax")
    backend = ScriptedBackend(lambda row: [X, ord("k")] if row.history[-1] == ord("a") else [])
    engine = make_engine(
        provider=lambda: provider, backend=backend, draft_tokens=2, mask_timeout=0.1
    )
    handles = [ask(engine, "p", constraint=FORK, seed=n, temperature=1e6) for n in range(12)]
    ends = set()
    for handle, expected in zip(handles, plain, strict=True):
        result = handle.wait(WAIT)
        reached = expected[1] == X
        ends.add(reached)
        if reached:
            assert result.error.kind == "ConstraintTooSlow"
            assert result.text == "ax"
        else:
            assert result.token_ids == expected
            assert result.constraint.terminated
    assert ends == {False, True}
    provider.go.set()


def test_the_timeout_is_that_of_one_mask(make_engine) -> None:
    """Many drafts have many masks, each of which may take as long."""
    provider = SlowProvider(text=b"axk", seconds=0.15)
    provider.go.set()

    def both(row: Any) -> list[int]:
        return [*b"xkk"] if row.history[-1] == ord("a") else []

    engine = make_engine(
        provider=lambda: provider, backend=ScriptedBackend(both), draft_tokens=3, mask_timeout=0.25
    )
    slow = Choice(["axkk"])
    assert answer(engine, "p", constraint=slow).text == "axkk"

    def fill(filled: Any) -> tuple[MaskState, ...]:
        filled(MaskState.READY)
        return ()

    job = mask_jobs.MaskJob(fill, 0.2)
    before = job.deadline
    time.sleep(0.01)
    job.run()
    assert job.deadline > before
    assert job.filled == [MaskState.READY]


def test_masks_made_outside_hold_as_far_as_the_drafts_are_the_same() -> None:
    rows = np.arange(4, dtype=np.int32)[:, None]
    states = (MaskState.READY,) * 3 + (MaskState.DEAD_END,)
    prepared = PreparedMasks(7, (1, 2, 3), rows, states)
    gone = MaskState.UNREACHABLE
    for drafts, expected in (
        ((), states[:1]),
        ((1, 2, 3), states),
        ((1, 2), states[:3]),
        ((1, 2, 9), (*states[:3], gone)),
        ((9, 2, 3), (states[0], gone, gone, gone)),
        ((1, 2, 3, 4), (*states, gone)),
    ):
        columns = np.full((len(drafts) + 1, 1), -1, dtype=np.int32)
        assert prepared.fill(drafts, columns) == expected
        for index, state in enumerate(expected):
            assert columns[index, 0] == (-1 if state is gone else index)


def test_a_slow_request_can_be_cancelled(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider, lanes=1)
    slow = ask(engine, "x", constraint=SLOW)
    assert provider.at_work.wait(WAIT)
    time.sleep(0.1)
    slow.cancel()
    result = slow.wait(WAIT)
    assert (result.finish_reason, result.text) == (FinishReason.CANCELLED, "slow")
    assert result.constraint is None
    # Its lane is free, though its mask is still being made.
    assert answer(engine, "y", constraint=Choice(["abc"])).text == "abc"
    assert engine.outstanding == 0
    provider.go.set()


def test_a_mask_that_takes_too_long_ends_its_request(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider, lanes=1, mask_timeout=0.2)
    slow = ask(engine, "x", constraint=SLOW)
    waiting = ask(engine, "y", constraint=Choice(["abc"]))
    result = slow.wait(WAIT)
    assert result.finish_reason is FinishReason.ERROR
    with pytest.raises(ConstraintTooSlow, match=r"more than 0\.2 s"):
        result.raise_for_error()
    assert waiting.wait(WAIT).text == "abc"
    provider.go.set()


@pytest.mark.parametrize("timeout", [60.0, None])
def test_a_job_is_overdue_by_its_deadline_alone(timeout: float | None) -> None:
    """Whether it has ended is another question: the worker asks one after the other."""
    threads = mask_jobs.MaskThreads(lambda: None, timeout)
    job = threads.run(lambda filled: ())
    threads.close()
    assert job.done
    assert not job.overdue(time.monotonic())
    assert job.overdue(time.monotonic() + 60) == (timeout is not None)


def test_who_waits_for_a_lane_meanwhile_has_a_deadline(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider, lanes=1, mask_timeout=None)
    slow = ask(engine, "x", constraint=SLOW)
    assert provider.at_work.wait(WAIT)
    late = ask(engine, "y", pending_timeout=0.1).wait(WAIT)
    assert late.error.kind == "DeadlineExceeded"
    provider.go.set()
    assert slow.wait(WAIT).text in TEXTS


def test_a_mask_that_fails_late_ends_its_request_alone(make_engine) -> None:
    provider = SlowProvider(broken=True)
    engine = make_engine(provider=lambda: provider)
    slow = ask(engine, "x", constraint=SLOW)
    assert provider.at_work.wait(WAIT)
    time.sleep(0.1)
    provider.go.set()
    result = slow.wait(WAIT)
    assert (result.finish_reason, result.text) == (FinishReason.ERROR, "slow")
    assert "late" in result.error.message
    assert answer(engine, "y", constraint=Choice(["abc"])).text == "abc"


def test_closing_does_not_wait_for_a_mask(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider)
    slow = ask(engine, "x", constraint=SLOW)
    assert provider.at_work.wait(WAIT)
    time.sleep(0.1)
    engine.close()
    assert slow.wait(WAIT).finish_reason is FinishReason.CANCELLED
    provider.go.set()
