"""The engine's masks behind the interface of a mask benchmark: ``tests.bench.maskbench_adapter:make``."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np

from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider


class Masks:
    """One vocabulary; one grammar state at a time."""

    def __init__(self, spellings: list[bytes], special: set[int], end: list[int]) -> None:
        self.eos = list(end)
        classes, texts = [], []
        for token, spelling in enumerate(spellings):
            ends = token in self.eos
            text = not ends and token not in special and bool(spelling)
            kind = TokenClass.END if ends else TokenClass.TEXT if text else TokenClass.FORBIDDEN
            classes.append(kind)
            texts.append(bytes(spelling) if text else b"")
        vocabulary = Vocabulary(tuple(texts), tuple(classes))
        self._provider = XGrammarMaskProvider().bind(vocabulary)
        self._row = np.zeros(vocabulary.words, dtype=np.int32)
        self._provider.warm_up()

    def compile(self, schema: Any) -> Any:
        return self._provider.compile(Content(JsonSchema.of(schema)))

    def start(self, grammar: Any) -> None:
        self._matcher = grammar.start()

    def fill(self) -> None:
        self._matcher.fill(self._row)

    def allowed(self, token: int) -> bool:
        return bool(int(self._row[token >> 5]) >> (token & 31) & 1)

    def accept(self, token: int) -> bool:
        return self._matcher.accept(token)


def make(spellings: list[bytes], special: set[int], end: list[int]) -> Masks:
    """What the benchmark calls; the vocabulary's words are read before it returns."""
    masks = Masks(spellings, special, end)
    # As a server does at its start: what is there to stay is not looked through at every collection.
    gc.collect()
    gc.freeze()
    return masks
