"""The grammar state of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xgrammar
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_core.errors import ConstraintDeadEnd, IntegrityError
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, MaskRow, RawMembers
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_xgrammar.lowered import END_BYTES
from infernix_xgrammar.tokens import TokenIndex

#: What one matcher holds before any token, and per accepted token: upper ends of what was measured.
_BASE_BYTES = 4_096
_STEP_BYTES = 320


@frozen(eq=False)
class XGrammarCompiledGrammar:
    """A compiled language. Immutable for its users; xgrammar adds masks to it as states are first visited.

    Attributes:
        compiled: xgrammar's grammar, or None when the language is empty.
        index: The vocabulary.
        end: The bytes that end the language (see ``Lowered.end``).
        labels: Label names by capture number.
        initial_labels: Labels that hold from the beginning.
        contested: Tokens that xgrammar's masks may leave out wrongly (see ``ebnf.contested_tokens``).
        text: The text that xgrammar compiled.
    """

    compiled: xgrammar.CompiledGrammar | None = field(repr=False)
    index: TokenIndex = field(repr=False)
    end: bytes
    labels: tuple[str, ...]
    initial_labels: tuple[str, ...]
    contested: tuple[int, ...]
    text: str = field(repr=False)

    @property
    def memory_size(self) -> int:
        """Approximate bytes held; grows while states are visited for the first time."""
        size = 0 if self.compiled is None else int(self.compiled.memory_size_bytes)
        return size + len(self.text)

    @property
    def raw_members(self) -> RawMembers:
        """See ``CompiledGrammar``: there are no members here."""
        return NO_RAW_MEMBERS

    @property
    def notes(self) -> tuple[str, ...]:
        """Grammars, expressions and choices say nothing that they do not assert."""
        return ()

    def start(self, prefix: Sequence[bytes | int] = ()) -> XGrammarMatcher:
        """A matcher that has accepted ``prefix``: bytes as text, ints as token ids.

        Raises:
            ConstraintDeadEnd: The prefix does not belong to the language.
        """
        matcher = XGrammarMatcher(self)
        for position, part in enumerate(prefix):
            accepted = matcher.accept(part) if isinstance(part, int) else matcher.accept_text(part)
            if not accepted:
                raise ConstraintDeadEnd(
                    f"the given beginning leaves the language in its part {position}",
                    hint="start from a beginning that the constraint allows",
                )
        return matcher


@define(eq=False)
class XGrammarMatcher:
    """See :class:`infernix_core.interfaces.mask_provider.GrammarMatcher`."""

    grammar: XGrammarCompiledGrammar
    _inner: xgrammar.GrammarMatcher | None = field(init=False)
    _steps: int = field(init=False, default=0)
    _ended_at: int | None = field(init=False, default=None)
    _may_end: bool | None = field(init=False, default=None)
    _forbidden: NDArray[np.int32] | None = field(init=False)
    _labels: tuple[str, ...] = field(init=False)
    _labels_at: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        grammar = self.grammar
        self._inner = (
            None if grammar.compiled is None else xgrammar.GrammarMatcher(grammar.compiled)
        )
        self._forbidden = (
            None if grammar.end == END_BYTES else ~grammar.index.containing(grammar.end)
        )
        self._labels = grammar.initial_labels

    @property
    def ready(self) -> bool:
        """The library does not tell which of its masks it has."""
        return False

    @property
    def may_end(self) -> bool:
        """The language may end here."""
        if self._may_end is None:
            self._may_end = False
            if self._inner is not None and self._ended_at is None:
                self._may_end = self._inner.accept_string(self.grammar.end)
                if self._may_end:
                    self._inner.rollback(1)
        return self._may_end

    @property
    def terminated(self) -> bool:
        """An end token was accepted."""
        return self._ended_at is not None

    @property
    def memory_size(self) -> int:
        """Approximate bytes held for this request alone."""
        return _BASE_BYTES + _STEP_BYTES * self._steps

    def fill(self, row: MaskRow) -> bool:
        """Writes the legal next tokens into ``row`` and returns whether there are any."""
        if self._inner is None or self._ended_at is not None:
            row.fill(0)
            return False
        # False means that everything is legal; the row is written all the same.
        self._inner.fill_next_token_bitmask(row)
        index = self.grammar.index
        if self._forbidden is not None:
            np.bitwise_and(row, self._forbidden, out=row)
        row[-1] &= index.last_word
        for token in self.grammar.contested:
            if not row[token >> 5] >> (token & 31) & 1 and self._inner.accept_token(token):
                self._inner.rollback(1)
                row[token >> 5] |= np.uint32(1 << (token & 31)).astype(np.int32)
        if self.may_end:
            row[index.end_words] |= index.end_bits
        return bool(row.any())

    def accept(self, token: int) -> bool:
        """Advances by one token; returns False and changes nothing when it is not legal."""
        index = self.grammar.index
        # xgrammar writes a line to standard error for ids that it does not know, so they never reach it.
        if self._inner is None or self._ended_at is not None or not 0 <= token < index.size:
            return False
        kind = index.classes[token]
        if kind == TokenClass.END:
            if not self.may_end:
                return False
            accepted = self._inner.accept_string(self.grammar.end)
        elif kind == TokenClass.FORBIDDEN or (
            self._forbidden is not None and not self._forbidden[token >> 5] >> (token & 31) & 1
        ):
            return False
        else:
            accepted = self._inner.accept_token(token)
        if accepted:
            self._steps += 1
            self._may_end = None
            if kind == TokenClass.END:
                self._ended_at = self._steps
        return accepted

    def accept_text(self, text: bytes) -> bool:
        """Advances by bytes of text, as one step; returns False and changes nothing when they are not legal."""
        if not text:
            return True
        # The marker that ends the language is no text.
        if self._inner is None or self._ended_at is not None or self.grammar.end[:1] in text:
            return False
        accepted = self._inner.accept_string(text)
        if accepted:
            self._steps += 1
            self._may_end = None
        return accepted

    def mark(self) -> int:
        """The number of accepted steps."""
        return self._steps

    def rollback(self, mark: Any) -> None:
        """Returns to a mark exactly."""
        back = self._steps - mark
        if back < 0:
            raise IntegrityError("a rolled-back mark was used again")
        if back == 0 or self._inner is None:
            return
        self._inner.rollback(back)
        self._steps = mark
        self._may_end = None
        if self._ended_at is not None and self._ended_at > mark:
            self._ended_at = None
        if self._labels_at > mark:
            self._labels, self._labels_at = self.grammar.initial_labels, 0

    def labels(self) -> tuple[str, ...]:
        """Names of the labels that were reached, in order, without repeats."""
        known = len(self.grammar.initial_labels) + len(set(self.grammar.labels))
        if self._inner is None or self._labels_at == self._steps or len(self._labels) == known:
            return self._labels
        names = dict.fromkeys(self.grammar.initial_labels)
        for capture, _ in self._inner.get_captures():
            names.setdefault(self.grammar.labels[int(capture)])
        self._labels, self._labels_at = tuple(names), self._steps
        return self._labels
