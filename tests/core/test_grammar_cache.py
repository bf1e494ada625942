"""The grammar cache: one build per language, two cold builds at once, a byte budget, nothing parsed on a hit."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from attrs import define, field

from infernix_core.engine.grammar_cache import GrammarCache, key_size
from infernix_core.errors import InvalidGrammar
from infernix_core.interfaces.constraints import Choice, Grammar, JsonSchema, Regex
from infernix_core.interfaces.language import Content, Label, Language, Token, sequence
from infernix_core.interfaces.mask_provider import GrammarMatcher

WAIT = 10


@define(eq=False)
class Compiled:
    memory_size: int

    def start(self, prefix: Sequence[bytes | int] = ()) -> GrammarMatcher:
        raise NotImplementedError


@define(eq=False)
class Provider:
    """Counts builds; a build waits for ``gate`` when one is set."""

    size: int = 100
    gate: threading.Event | None = None
    built: list[Language] = field(factory=list)
    running: int = 0
    most_running: int = 0
    entered: threading.Semaphore = field(factory=lambda: threading.Semaphore(0))
    lock: threading.Lock = field(factory=threading.Lock)

    def compile(self, language: Language) -> Compiled:
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
        return Compiled(self.size)


def in_threads(count: int, work: object) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def test_one_build_serves_concurrent_requests_and_later_ones_hit() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20)
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
    cache = GrammarCache(lambda: provider, 1 << 20)
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
    cache = GrammarCache(lambda: provider, 3 * each)
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
    cache = GrammarCache(lambda: provider, 10_000)
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
    cache = GrammarCache(lambda: Provider(size=10), 100_000)
    for index in range(20):
        cache.get(Content(JsonSchema(f"{index}" + "x" * 30_000)))
    assert len(cache) <= 3
    assert cache.memory_size <= 100_000


def test_a_failed_build_reaches_every_waiter_and_is_not_kept() -> None:
    provider = Provider(gate=threading.Event())
    cache = GrammarCache(lambda: provider, 1 << 20)
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
    cache = GrammarCache(lambda: provider, 1 << 20)

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

    cache = GrammarCache(bind, 1 << 20)
    assert not cache.bound
    assert not bound
    threads = in_threads(4, lambda i: cache.get(Content(Regex(str(i)))))
    for thread in threads:
        thread.join(WAIT)
    assert len(bound) == 1
