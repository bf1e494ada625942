"""Compiled grammars, shared by requests: one build per language, two cold builds at once, bounded memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from attrs import define, field

from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import BoundMaskProvider, CompiledGrammar

COLD_BUILDS = 2


@define(eq=False)
class GrammarCache:
    """A cache keyed by the output language itself: constraint kind, source text and framing.

    A choice's source is its literal set; a continuation's prefix is no part of a language. A hit hashes and
    compares the key, and parses nothing. Thread-safe; no lock is held while a grammar is built.

    Args:
        bind: Binds the mask provider; called once, on the first constrained request.
        capacity: Bytes of compiled grammars to keep. Grammars grow while they are used, so sizes are read
            again whenever something is added and at :meth:`trim`.
    """

    _bind: Callable[[], BoundMaskProvider]
    capacity: int
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _bind_lock: threading.Lock = field(factory=threading.Lock, init=False)
    _provider: BoundMaskProvider | None = field(default=None, init=False)
    _kept: OrderedDict[Language, CompiledGrammar] = field(factory=OrderedDict, init=False)
    _building: dict[Language, Future[CompiledGrammar]] = field(factory=dict, init=False)
    _cold: threading.Semaphore = field(
        factory=lambda: threading.Semaphore(COLD_BUILDS), init=False
    )

    @property
    def bound(self) -> bool:
        """Whether the vocabulary was indexed."""
        return self._provider is not None

    @property
    def memory_size(self) -> int:
        """Bytes of the grammars kept now."""
        with self._lock:
            kept = list(self._kept.values())
        return sum(grammar.memory_size for grammar in kept)

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, language: Language) -> tuple[CompiledGrammar, str]:
        """The compiled language, and how it was had: ``hit``, ``built`` or ``waited``.

        Raises:
            ConstraintError: The language cannot be compiled. Failures are not kept.
        """
        with self._lock:
            kept = self._kept.get(language)
            if kept is not None:
                self._kept.move_to_end(language)
                return kept, "hit"
            future = self._building.get(language)
            mine = future is None
            if future is None:
                future = self._building[language] = Future()
        if not mine:
            return future.result(), "waited"
        try:
            with self._cold:
                compiled = self._bound().compile(language)
        except BaseException as error:
            with self._lock:
                del self._building[language]
            future.set_exception(error)
            raise
        with self._lock:
            self._kept[language] = compiled
            del self._building[language]
        future.set_result(compiled)
        self.trim()
        return compiled, "built"

    def trim(self) -> None:
        """Drops the least recently used grammars until the rest fits. Requests keep what they hold."""
        with self._lock:
            sizes = {language: grammar.memory_size for language, grammar in self._kept.items()}
            total = sum(sizes.values())
            for language, size in sizes.items():
                if total <= self.capacity:
                    break
                del self._kept[language]
                total -= size

    def _bound(self) -> BoundMaskProvider:
        with self._bind_lock:
            if self._provider is None:
                self._provider = self._bind()
            return self._provider
