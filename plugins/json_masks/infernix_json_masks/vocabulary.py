"""A vocabulary as the masks need it: its words in order, and rows of token bits that many masks share."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from infernix_core.interfaces.mask_provider import MaskRow
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_json_masks.automata import TextAutomaton
from infernix_json_masks.contents import StringContents
from infernix_json_masks.tokens import Indices, Words

if TYPE_CHECKING:
    from infernix_json_masks.machine import Frame
    from infernix_json_masks.summaries import Summary

#: Lists of what is left of words that are kept.
MAX_LISTS = 1 << 14

#: Bytes of rows of automaton states that are kept.
_ROWS_KEPT = 32 << 20


@define(eq=False, slots=False)
class TokenIndex:
    """A vocabulary's text tokens, and what is known about them for all schemas.

    Attributes:
        summary_bytes: Approximate size of ``summaries``.
        summaries: What frames that belong to no single schema make of lists of words.
    """

    vocabulary: Vocabulary
    _rows: dict[int, list[MaskRow]] = field(init=False, factory=dict)
    _inside: dict[int, MaskRow] = field(init=False, factory=dict)
    _matched: OrderedDict[tuple[int, int, int, bool], tuple[TextAutomaton, MaskRow]] = field(
        init=False, factory=OrderedDict
    )
    _any: dict[frozenset[int], MaskRow] = field(init=False, factory=dict)
    _lists: dict[tuple[bytes, ...], Words] = field(init=False, factory=dict)
    summaries: dict[tuple[Frame, int], tuple[Summary, Words]] = field(init=False, factory=dict)
    summary_bytes: int = field(init=False, default=0)

    @cached_property
    def words(self) -> Words:
        """The spellings of the TEXT tokens."""
        ids = self.vocabulary.ids(TokenClass.TEXT)
        return Words.of([self.vocabulary.token_bytes[token] for token in ids], ids)

    def words_of(self, spellings: tuple[bytes, ...]) -> Words:
        """A list of different words in order; equal lists are one."""
        found = self._lists.get(spellings)
        if found is None:
            if len(self._lists) > MAX_LISTS:
                self._lists = {}
            words = Words.of(spellings, range(len(spellings)))
            found = self._lists.setdefault(spellings, words)
        return found

    @cached_property
    def end_ids(self) -> list[int]:
        """The tokens that end an output."""
        return sorted(self.vocabulary.end_ids)

    def row_of(self, ids: Indices) -> MaskRow:
        """Token ids as a row of bits."""
        bits = np.zeros(self.vocabulary.words * 32, dtype=bool)
        bits[ids] = True
        row: MaskRow = np.packbits(bits, bitorder="little").view("<i4").astype(np.int32, copy=False)
        row.setflags(write=False)
        return row

    def inner_row(self, contents: StringContents, most: int | None) -> MaskRow:
        """The inner words of all tokens' contents, of at most so many characters."""
        rows = self._length_rows(contents)
        return rows[-1 if most is None else min(most, len(rows) - 1)]

    def inside_row(self, contents: StringContents) -> MaskRow:
        """The inner and the open words of all tokens' contents."""
        found = self._inside.get(id(contents))
        if found is None:
            found = self.inner_row(contents, None) | self.row_of(
                self.words.numbers_of(contents.open)
            )
            found.setflags(write=False)
            found = self._inside.setdefault(id(contents), found)
        return found

    def _length_rows(self, contents: StringContents) -> list[MaskRow]:
        """Per greatest number of characters, the inner words of at most so many."""
        found = self._rows.get(id(contents))
        if found is None:
            found = []
            row = np.zeros(self.vocabulary.words, dtype=np.int32)
            for length in range(contents.longest + 1):
                places, _, _ = contents.inner_between(length, length)
                row = row | self.row_of(self.words.numbers_of(places))
                row.setflags(write=False)
                found.append(row)
            found = self._rows.setdefault(id(contents), found)
        return found

    def matched_row(
        self,
        contents: StringContents,
        automaton: TextAutomaton,
        state: int,
        words: Callable[[], Indices],
        *,
        whole: bool,
    ) -> MaskRow:
        """The words behind which an automaton is alive, as a row of bits.

        Args:
            contents: Of all tokens.
            automaton: What they are read by.
            state: Where it starts.
            words: Gives them, the first time.
            whole: Open words are among them.
        """
        key = id(contents), id(automaton), state, whole
        found = self._matched.get(key)
        if found is not None:
            return found[1]
        row = self.row_of(self.words.numbers_of(words()))
        self._matched[key] = automaton, row
        while len(self._matched) > 1 and len(self._matched) * row.nbytes > _ROWS_KEPT:
            try:
                self._matched.popitem(last=False)
            except KeyError:
                break
        return row

    @cached_property
    def _any_tokens(self) -> NDArray[np.bool_]:
        """Per token, whether it is of class TEXT or FRAMING."""
        classes = np.asarray(self.vocabulary.classes)
        return np.isin(classes, (TokenClass.TEXT, TokenClass.FRAMING))

    def any_row(self, excluded: frozenset[int]) -> MaskRow:
        """All TEXT and FRAMING tokens but these."""
        found = self._any.get(excluded)
        if found is None:
            chosen = self._any_tokens.copy()
            chosen[list(excluded)] = False
            found = self._any[excluded] = self.row_of(np.flatnonzero(chosen))
        return found

    @property
    def memory_size(self) -> int:
        """Approximate bytes of what is shared by all grammars."""
        rows = sum(map(len, self._rows.values())) + len(self._inside)
        rows += len(self._matched) + len(self._any)
        lists = sum(words.memory_size for words in list(self._lists.values()))
        own = self.words.memory_size + lists + self.summary_bytes
        return own + rows * 4 * self.vocabulary.words
