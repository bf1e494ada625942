"""Compiled grammars and their first masks, shared by requests: made once, two at a time, in bounded memory."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
from attrs import define, field

from infernix_core.engine.cold_work import Gate, Patience, wait_for
from infernix_core.errors import DeadlineExceeded, RequestCancelled
from infernix_core.interfaces.language import Content, Language, Members, walk
from infernix_core.interfaces.mask_provider import BoundMaskProvider, CompiledGrammar, MaskRow

COLD_BUILDS = 2


class Found(NamedTuple):
    """A compiled language.

    Attributes:
        grammar: Ready to start matchers.
        cache: How it was had: ``hit``, ``built`` or ``waited`` (for another's build).
        first: The mask of its first position, not to be written to; ``None`` when no token is legal there.
    """

    grammar: CompiledGrammar
    cache: str
    first: MaskRow | None


@define
class _Kept:
    grammar: CompiledGrammar
    first: MaskRow | None
    key_size: int
    size: int


@define(eq=False)
class _Build:
    """One language in the making. Whoever waits for it keeps it going when its own request is cancelled."""

    patience: Patience
    waiting: int = 0
    done: threading.Event = field(factory=threading.Event)
    made: _Kept | None = None
    error: BaseException | None = None

    def check(self) -> None:
        if not self.waiting:
            self.patience.check()


@define(eq=False)
class GrammarCache:
    """A cache keyed by the output language itself: constraint kind, source text and framing.

    A choice's source is its literal set; a continuation's prefix is no part of a language. A hit hashes and
    compares the key; it parses nothing and computes no mask. Compilation and the first mask, which may take as
    long, are cold work: two at once, the others in their order. Thread-safe; no lock is held while a grammar is
    built.

    Args:
        bind: Binds the mask provider; called once.
        capacity: Bytes to keep: compiled grammars, first masks, and the source texts that are their keys.
            Grammars grow while they are used; :meth:`refresh` reads a size again. A grammar that is larger than
            the capacity is never kept.
        words: Of a mask.
    """

    _bind: Callable[[], BoundMaskProvider]
    capacity: int
    _words: int
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _bind_lock: threading.Lock = field(factory=threading.Lock, init=False)
    _provider: BoundMaskProvider | None = field(default=None, init=False)
    _kept: OrderedDict[Language, _Kept] = field(factory=OrderedDict, init=False)
    _total: int = field(default=0, init=False)
    _building: dict[Language, _Build] = field(factory=dict, init=False)
    _cold: Gate = field(factory=lambda: Gate(COLD_BUILDS), init=False)

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

    def get(self, language: Language, patience: Patience | None = None) -> Found:
        """The compiled language.

        Args:
            language: What is to be compiled.
            patience: Asked while it waits, for its turn or for another's build of the same language, and between
                compilation and mask. A build that somebody else waits for goes on without it.

        Raises:
            ConstraintError: The language cannot be compiled. Failures are not kept.
            RequestCancelled: See :meth:`Patience.check`.
            DeadlineExceeded: See there.
        """
        patience = patience if patience is not None else Patience()
        while True:
            with self._lock:
                kept = self._kept.get(language)
                if kept is not None:
                    self._kept.move_to_end(language)
                    return Found(kept.grammar, "hit", kept.first)
                build = self._building.get(language)
                if build is None:
                    build = self._building[language] = _Build(patience)
                    break
                build.waiting += 1
            try:
                wait_for(build.done, patience.check)
            finally:
                with self._lock:
                    build.waiting -= 1
            if build.made is not None:
                return Found(build.made.grammar, "waited", build.made.first)
            assert build.error is not None
            if not isinstance(build.error, RequestCancelled | DeadlineExceeded):
                raise build.error
            # That was the other's patience. Its build is begun again, by whoever comes first.
            patience.check()
        made = self._build(language, build)
        return Found(made.grammar, "built", made.first)

    def _build(self, language: Language, build: _Build) -> _Kept:
        """Makes a language for everybody who waits for it, and keeps it."""
        try:
            made = self._make(language, build)
        except BaseException as error:
            with self._lock:
                del self._building[language]
            build.error = error
            build.done.set()
            raise
        with self._lock:
            self._kept[language] = made
            self._total += made.key_size + made.size
            del self._building[language]
            self._trim(language)
        build.made = made
        build.done.set()
        return made

    def _make(self, language: Language, build: _Build) -> _Kept:
        with self._cold.passed(build.check):
            grammar = self.bind().compile(language, build.check)
            build.check()
            row: MaskRow = np.zeros(self._words, dtype=np.int32)
            first = row if grammar.start().fill(row) else None
        row.flags.writeable = False
        return _Kept(grammar, first, key_size(language) + row.nbytes, grammar.memory_size)

    def turn(self, patience: Patience) -> AbstractContextManager[None]:
        """One of the two places for cold work, for what a request has to do beside a build.

        Raises:
            RequestCancelled: See :meth:`Patience.check`.
            DeadlineExceeded: See there.
        """
        return self._cold.passed(patience.check)

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
#: Those of one tool.
_MEMBERS_BYTES = 512


def key_size(language: Language) -> int:
    """Approximate bytes of a language as a key: its source texts, and a flat sum for the rest."""
    size = _KEY_BYTES
    for node in walk(language):
        if isinstance(node, Content):
            size += sum(map(sys.getsizeof, node.constraint.sources))
        elif isinstance(node, Members):
            size += _MEMBERS_BYTES
            if node.schema is not None:
                size += sum(map(sys.getsizeof, node.schema.sources))
    return size
