"""Compiled grammars, shared by requests: one build per language, two cold builds at once, bounded memory."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future

from attrs import define, field

from infernix_core.interfaces.language import Content, Language, walk
from infernix_core.interfaces.mask_provider import BoundMaskProvider, CompiledGrammar

COLD_BUILDS = 2


@define
class _Kept:
    grammar: CompiledGrammar
    key_size: int
    size: int


@define(eq=False)
class GrammarCache:
    """A cache keyed by the output language itself: constraint kind, source text and framing.

    A choice's source is its literal set; a continuation's prefix is no part of a language. A hit hashes and
    compares the key, and parses nothing. Thread-safe; no lock is held while a grammar is built.

    Args:
        bind: Binds the mask provider; called once.
        capacity: Bytes to keep: compiled grammars and the source texts that are their keys. Grammars grow
            while they are used; :meth:`refresh` reads a size again. A grammar that is larger than the
            capacity is never kept.
    """

    _bind: Callable[[], BoundMaskProvider]
    capacity: int
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _bind_lock: threading.Lock = field(factory=threading.Lock, init=False)
    _provider: BoundMaskProvider | None = field(default=None, init=False)
    _kept: OrderedDict[Language, _Kept] = field(factory=OrderedDict, init=False)
    _total: int = field(default=0, init=False)
    _building: dict[Language, Future[CompiledGrammar]] = field(factory=dict, init=False)
    _cold: threading.Semaphore = field(factory=lambda: threading.Semaphore(COLD_BUILDS), init=False)

    @property
    def bound(self) -> bool:
        """Whether the vocabulary was indexed."""
        return self._provider is not None

    @property
    def memory_size(self) -> int:
        """Bytes kept, as last read."""
        return self._total

    def __len__(self) -> int:
        return len(self._kept)

    def bind(self) -> BoundMaskProvider:
        """The mask provider over the vocabulary; made once, by whoever needs it first."""
        with self._bind_lock:
            if self._provider is None:
                self._provider = self._bind()
            return self._provider

    def get(self, language: Language) -> tuple[CompiledGrammar, str]:
        """The compiled language, and how it was had: ``hit``, ``built`` or ``waited``.

        Raises:
            ConstraintError: The language cannot be compiled. Failures are not kept.
        """
        with self._lock:
            kept = self._kept.get(language)
            if kept is not None:
                self._kept.move_to_end(language)
                return kept.grammar, "hit"
            future = self._building.get(language)
            mine = future is None
            if future is None:
                future = self._building[language] = Future()
        if not mine:
            return future.result(), "waited"
        try:
            with self._cold:
                compiled = self.bind().compile(language)
            entry = _Kept(compiled, key_size(language), compiled.memory_size)
        except BaseException as error:
            with self._lock:
                del self._building[language]
            future.set_exception(error)
            raise
        with self._lock:
            self._kept[language] = entry
            self._total += entry.key_size + entry.size
            del self._building[language]
            self._trim(language)
        future.set_result(compiled)
        return compiled, "built"

    def refresh(self, language: Language) -> None:
        """Reads the size of one grammar again, after it was used, and keeps to the capacity."""
        with self._lock:
            entry = self._kept.get(language)
            if entry is None:
                return
            size = entry.grammar.memory_size
            self._total += size - entry.size
            entry.size = size
            self._trim(language)

    def _trim(self, newest: Language) -> None:
        """Drops what is too large by itself, then the least recently used. Requests keep what they hold."""
        entry = self._kept[newest]
        if entry.key_size + entry.size > self.capacity:
            self._drop(newest)
        while self._total > self.capacity:
            self._drop(next(iter(self._kept)))

    def _drop(self, language: Language) -> None:
        entry = self._kept.pop(language)
        self._total -= entry.key_size + entry.size


#: A language's own objects, and the cache's for it.
_KEY_BYTES = 1024


def key_size(language: Language) -> int:
    """Approximate bytes of a language as a key: its source texts, and a flat sum for the rest."""
    size = _KEY_BYTES
    for node in walk(language):
        if isinstance(node, Content):
            size += sum(map(sys.getsizeof, node.constraint.sources))
    return size
