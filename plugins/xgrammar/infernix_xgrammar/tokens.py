"""A vocabulary as xgrammar and the masks need it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import xgrammar
from attrs import define, field
from numpy.typing import NDArray

from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.lowered import END_BYTES


@define(eq=False, slots=False)
class TokenIndex:
    """Token spellings for xgrammar, and the bits that it does not know about.

    xgrammar has one idea of a special token: empty bytes, which nothing matches. So END and FORBIDDEN tokens are
    empty, framing tokens begin with a byte that no text contains and are reached by their id alone, and the end of the
    language is no token at all but the bytes :data:`~infernix_xgrammar.lowered.END_BYTES`.
    """

    vocabulary: Vocabulary
    _containing: dict[bytes, NDArray[np.int32]] = field(init=False, factory=dict)

    @property
    def size(self) -> int:
        """V."""
        return self.vocabulary.size

    @cached_property
    def classes(self) -> bytes:
        """The class of each id."""
        return bytes(self.vocabulary.classes)

    @cached_property
    def last_word(self) -> np.int32:
        """The bits of the last word that belong to tokens; xgrammar sets the others."""
        used = self.size % 32
        return np.uint32((1 << used) - 1 if used else 0xFFFFFFFF).astype(np.int32)

    @cached_property
    def end_words(self) -> NDArray[np.intp]:
        """Words that hold end tokens, each once."""
        return np.array(sorted({token >> 5 for token in self.vocabulary.end_ids}), dtype=np.intp)

    @cached_property
    def end_bits(self) -> NDArray[np.int32]:
        """The end tokens' bits in :attr:`end_words`."""
        row = _bits(sorted(self.vocabulary.end_ids), self.vocabulary.words)
        return row[self.end_words]

    @cached_property
    def never(self) -> frozenset[int]:
        """Ids that no token terminal matches."""
        return frozenset(self.vocabulary.ids(TokenClass.END, TokenClass.FORBIDDEN))

    @cached_property
    def info(self) -> xgrammar.TokenizerInfo:
        """Xgrammar's index."""
        spellings = []
        pairs = zip(self.vocabulary.token_bytes, self.classes, strict=True)
        for token, (raw, kind) in enumerate(pairs):
            if kind == TokenClass.TEXT:
                # A text that holds the end marker's first byte is not UTF-8 either way; only its id matters.
                spellings.append(raw.replace(END_BYTES[:1], b"\xfe"))
            elif kind == TokenClass.FRAMING:
                spellings.append(b"\xff" + str(token).encode())
            else:
                spellings.append(b"")
        return xgrammar.TokenizerInfo(
            spellings, xgrammar.VocabType.RAW, vocab_size=self.size, stop_token_ids=[]
        )

    def containing(self, part: bytes) -> NDArray[np.int32]:
        """A mask of the TEXT tokens that contain these bytes: int32 [words]."""
        if part not in self._containing:
            pairs = zip(self.vocabulary.token_bytes, self.classes, strict=True)
            ids = [
                token
                for token, (raw, kind) in enumerate(pairs)
                if kind == TokenClass.TEXT and part in raw
            ]
            self._containing[part] = _bits(ids, self.vocabulary.words)
        return self._containing[part]


def _bits(ids: list[int], words: int) -> NDArray[np.int32]:
    row = np.zeros(words, dtype=np.uint32)
    for token in ids:
        row[token >> 5] |= np.uint32(1 << (token & 31))
    return row.view(np.int32)
