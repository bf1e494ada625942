"""The grammar cache: one build per language, two cold builds at once, a byte budget, nothing parsed on a hit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from attrs import define, field
from numpy.typing import NDArray

from infernix_core.engine.cold_work import Patience
from infernix_core.engine.grammar_cache import GrammarCache, key_size
from infernix_core.errors import DeadlineExceeded, InvalidGrammar, RequestCancelled
from infernix_core.interfaces.constraints import Choice, Grammar, JsonSchema, Regex
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    MemberFraming,
    Members,
    Token,
    sequence,
)
from infernix_core.interfaces.mask_provider import GrammarMatcher

WAIT = 10


@define(eq=False)
class Matcher:
    before: Callable[[], None] | None

    def fill(self, row: NDArray[np.int32]) -> bool:
        if self.before is not None:
            self.before()
        row[:] = 5
        return True


@define(eq=False)
class Compiled:
    memory_size: int
    fill: Callable[[], None] | None = None
    notes: tuple[str, ...] = ()

    def start(self, prefix: Sequence[bytes | int] = ()) -> GrammarMatcher:
        return Matcher(self.fill)


@define(eq=False)
class Provider:
    """Counts builds; a build waits for ``gate`` when one is set."""

    size: int = 100
    gate: threading.Event | None = None
    fill: Callable[[], None] | None = None
    built: list[Language] = field(factory=list)
    running: int = 0
    most_running: int = 0
    entered: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))
    lock: threading.Lock = field(factory=threading.Lock)

    def compile(self, language: Language, check: Any = None) -> Compiled:
        with self.lock:
            self.built.append(language)
            self.running += 1
            self.most_running = max(self.most_running, self.running)
        self.entered.release()
        if self.gate is not None:
            assert self.gate.wait(WAIT)
        with self.lock:
            self.running -= 1
        if language == Content(Grammar("bad")):
            raise InvalidGrammar("bad")
        return Compiled(self.size, self.fill)


def in_threads(count: int, work: object) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_one_build_serves_concurrent_requests_and_later_ones_hit() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    outcomes: list[str] = []
    language = Content(Regex("a+"))
    threads = in_threads(5, lambda _: outcomes.append(cache.get(language)[1]))
    assert provider.entered.acquire(timeout=WAIT)
    provider.gate.set()
    for thread in threads:
        thread.join(WAIT)
    assert len(provider.built) == 1
    assert outcomes.count("built") == 1
    assert set(outcomes) <= {"built", "waited", "hit"}
    assert cache.get(Content(Regex("a+")))[1] == "hit"
    assert len(provider.built) == 1


def test_at_most_two_cold_builds_run_and_a_hit_needs_no_cold_slot() -> None:
    provider = Provider()
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    cache.get(Content(Regex("warm")))
    assert provider.entered.acquire(timeout=WAIT)
    provider.gate = threading.Event()
    provider.most_running = 0
    threads = in_threads(5, lambda i: cache.get(Content(Regex(f"cold{i}"))))
    for _ in range(2):
        assert provider.entered.acquire(timeout=WAIT)
    assert not provider.entered.acquire(timeout=0.1)
    assert cache.get(Content(Regex("warm")))[1] == "hit"
    provider.gate.set()
    for thread in threads:
        thread.join(WAIT)
    assert provider.most_running == 2
    assert len(provider.built) == 6


def test_the_budget_drops_the_least_recently_used_and_reads_sizes_again() -> None:
    provider = Provider(size=100)
    languages = [Content(Regex(str(i))) for i in range(4)]
    each = 100 + key_size(languages[0])
    cache = GrammarCache(lambda: provider, 3 * each, 0)
    kept = [cache.get(language)[0] for language in languages[:3]]
    assert cache.memory_size == 3 * each
    cache.get(languages[0])
    cache.get(languages[3])
    assert cache.get(languages[0])[1] == "hit"
    assert cache.get(languages[1])[1] == "built"
    assert cache.memory_size == 3 * each
    kept[0].memory_size = 150
    assert cache.memory_size == 3 * each
    cache.refresh(languages[0])
    assert len(cache) == 2
    assert cache.memory_size == 2 * each + 50
    cache.refresh(Content(Regex("never seen")))


def test_a_grammar_larger_than_the_budget_is_not_kept_and_drops_no_other() -> None:
    provider = Provider(size=100)
    cache = GrammarCache(lambda: provider, 10_000, 0)
    small = [Content(Regex(str(i))) for i in range(3)]
    for language in small:
        cache.get(language)
    provider.size = 10_000
    assert cache.get(Content(Regex("large")))[1] == "built"
    assert [cache.get(language)[1] for language in small] == ["hit"] * 3
    grown = cache.get(small[1])[0]
    grown.memory_size = 10_000
    cache.refresh(small[1])
    assert [cache.get(small[0])[1], cache.get(small[2])[1]] == ["hit", "hit"]
    assert len(cache) == 2


def test_the_budget_counts_the_source_texts() -> None:
    cache = GrammarCache(lambda: Provider(size=10), 100_000, 0)
    for index in range(20):
        cache.get(Content(JsonSchema(f"{index}" + "x" * 30_000)))
    assert len(cache) <= 3
    assert cache.memory_size <= 100_000


def test_the_budget_counts_the_schemas_of_tools() -> None:
    cache = GrammarCache(lambda: Provider(size=10), 100_000, 0)
    framing = MemberFraming(b"<", b">\n", b"\n<", b">")
    for index in range(20):
        cache.get(Members(framing, JsonSchema(f"{index}" + "x" * 30_000), "tool"))
    assert len(cache) <= 3
    assert cache.memory_size <= 100_000


def test_a_failed_build_reaches_every_waiter_and_is_not_kept() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    errors: list[BaseException] = []

    def ask(_: int) -> None:
        try:
            cache.get(Content(Grammar("bad")))
        except InvalidGrammar as error:
            errors.append(error)

    threads = in_threads(3, ask)
    assert provider.entered.acquire(timeout=WAIT)
    provider.gate.set()
    for thread in threads:
        thread.join(WAIT)
    assert len(errors) == 3
    with pytest.raises(InvalidGrammar):
        cache.get(Content(Grammar("bad")))
    assert cache.get(Content(Grammar("good")))[1] == "built"


def test_the_key_is_kind_source_and_framing() -> None:
    provider = Provider()
    cache = GrammarCache(lambda: provider, 1 << 20, 0)

    def outcome(language: Language) -> str:
        return cache.get(language)[1]

    assert outcome(Content(Choice(["b", "a", "a"]))) == "built"
    assert outcome(Content(Choice(["a", "b"]))) == "hit"
    assert outcome(Content(Grammar("x"))) == "built"
    assert outcome(Content(Regex("x"))) == "built"
    assert outcome(Content(JsonSchema("x"))) == "built"
    assert outcome(Content(JsonSchema('{"a":1,"b":2}'))) == "built"
    assert outcome(Content(JsonSchema('{"b":2,"a":1}'))) == "built"
    assert outcome(Label("content", Content(Regex("x")))) == "built"
    assert outcome(sequence(Token(7), Content(Regex("x")))) == "built"
    assert outcome(sequence(Token(7), Content(Regex("x")))) == "hit"


def test_nothing_is_bound_before_the_first_constrained_request() -> None:
    bound: list[Provider] = []

    def bind() -> Provider:
        bound.append(Provider())
        return bound[-1]

    cache = GrammarCache(bind, 1 << 20, 0)
    assert not cache.bound
    assert not bound
    threads = in_threads(4, lambda i: cache.get(Content(Regex(str(i)))))
    for thread in threads:
        thread.join(WAIT)
    assert len(bound) == 1


def test_first_masks_are_made_once_and_two_at_once() -> None:
    """A mask may take as long as a build: without the gate, as many threads would spin as there are requests."""
    go, lock = threading.Event(), threading.Lock()
    entered, filling, most = threading.Semaphore(0), 0, 0

    def fill() -> None:
        nonlocal filling, most
        with lock:
            filling += 1
            most = max(most, filling)
        entered.release()
        assert go.wait(WAIT)
        with lock:
            filling -= 1

    provider = Provider()
    cache = GrammarCache(lambda: provider, 1 << 20, 2)
    warm = Content(Regex("warm"))
    assert list(cache.get(warm).first) == [5, 5]
    provider.fill = fill
    threads = in_threads(6, lambda i: cache.get(Content(Regex(f"cold{i}"))))
    for _ in range(2):
        assert entered.acquire(timeout=WAIT)
    assert not entered.acquire(timeout=0.1)
    assert list(cache.get(warm).first) == [5, 5], "a hit waits for nobody"
    go.set()
    for thread in threads:
        thread.join(WAIT)
    assert most == 2
    assert cache.get(Content(Regex("cold0"))).cache == "hit"


class Asker:
    """One that asks for a language on a thread, and may be cancelled."""

    def __init__(self, cache: GrammarCache, language: Language, seconds: float | None = None):
        self.cancelled, self.outcome = threading.Event(), None
        deadline = None if seconds is None else time.monotonic() + seconds
        self.patience = Patience(self.cancelled.is_set, deadline)

        def ask() -> None:
            try:
                self.outcome = cache.get(language, self.patience).cache
            except Exception as error:
                self.outcome = type(error)

        self.thread = threading.Thread(target=ask)
        self.thread.start()

    def ended(self) -> object:
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        return self.outcome


def waited_for(cache: GrammarCache, language: Language, count: int) -> None:
    end = time.monotonic() + WAIT
    while language not in cache._building or cache._building[language].waiting < count:
        assert time.monotonic() < end
        time.sleep(0.001)


def test_who_is_cancelled_leaves_the_queue_of_the_gate_and_builds_nothing() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    busy = [Asker(cache, Content(Regex(f"busy{i}"))) for i in range(2)]
    for _ in busy:
        assert provider.entered.acquire(timeout=WAIT)
    gone = [Asker(cache, Content(Regex(f"gone{i}"))) for i in range(5)]
    late = Asker(cache, Content(Regex("late")), 0.05)
    last = Asker(cache, Content(Regex("last")))
    for one in gone:
        one.cancelled.set()
    assert {one.ended() for one in gone} == {RequestCancelled}
    assert late.ended() is DeadlineExceeded
    provider.gate.set()
    assert [one.ended() for one in (*busy, last)] == ["built"] * 3
    assert len(provider.built) == 3
    provider.gate = None
    assert cache.get(Content(Regex("gone0"))).cache == "built", "its place in the gate is free"


def test_who_is_cancelled_stops_within_the_build_unless_others_wait_for_it() -> None:
    """A language of many schemas is read one by one, and whoever reads asks in between."""

    class Reading(Provider):
        def compile(self, language: Language, check: Any = None) -> Compiled:
            super().compile(language)
            for _ in range(1000):
                check()
            return Compiled(1)

    provider = Reading(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    language = Content(Regex("a"))
    alone = Asker(cache, language)
    assert provider.entered.acquire(timeout=WAIT)
    alone.cancelled.set()
    provider.gate.set()
    assert alone.ended() is RequestCancelled
    provider.gate = threading.Event()
    first = Asker(cache, language)
    assert provider.entered.acquire(timeout=WAIT)
    second = Asker(cache, language)
    waited_for(cache, language, 1)
    first.cancelled.set()
    provider.gate.set()
    assert second.ended() == "waited"


def test_who_is_cancelled_stops_between_the_build_and_the_mask() -> None:
    def fill() -> None:
        raise AssertionError("nobody wants this mask")

    provider = Provider(gate=threading.Event(), fill=fill)
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    one = Asker(cache, Content(Regex("a")))
    assert provider.entered.acquire(timeout=WAIT)
    one.cancelled.set()
    provider.gate.set()
    assert one.ended() is RequestCancelled


def test_who_waits_for_anothers_build_may_leave_and_keeps_it_going() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    language = Content(Regex("a"))
    first = Asker(cache, language)
    assert provider.entered.acquire(timeout=WAIT)
    second, third = Asker(cache, language), Asker(cache, language)
    waited_for(cache, language, 2)
    third.cancelled.set()
    assert third.ended() is RequestCancelled
    first.cancelled.set()
    provider.gate.set()
    assert second.ended() == "waited"
    assert first.ended() == "built"
    assert len(provider.built) == 1


def test_anothers_patience_is_not_ones_own() -> None:
    """The builder gives up in the moment in which somebody comes to wait: the build is begun again."""
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20, 0)
    busy = [Asker(cache, Content(Regex(f"busy{i}"))) for i in range(2)]
    for _ in busy:
        assert provider.entered.acquire(timeout=WAIT)
    language = Content(Regex("a"))
    first = Asker(cache, language)
    waited_for(cache, language, 0)
    build = cache._building[language]
    second = Asker(cache, language)
    waited_for(cache, language, 1)
    build.waiting = 0  # as the builder saw it, just before
    first.cancelled.set()
    assert first.ended() is RequestCancelled
    provider.gate.set()
    assert second.ended() == "built"
    for one in busy:
        one.ended()
