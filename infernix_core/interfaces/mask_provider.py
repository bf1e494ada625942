"""Mask providers: output languages in, the legal next tokens out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from infernix_core.interfaces.language import Language
from infernix_core.interfaces.vocabulary import Vocabulary

#: One token mask: int32 [ceil(V / 32)], bit ``t % 32`` of word ``t // 32`` set when token t is legal.
MaskRow = NDArray[np.int32]


#: Per owner of members, the names of those that are written as raw text.
RawMembers = Mapping[str, frozenset[str]]
NO_RAW_MEMBERS: RawMembers = MappingProxyType({})


def never() -> None:
    """Ends no compilation."""


class GrammarMatcher(Protocol):
    """The grammar state of one request. Used by one thread at a time.

    Everything but ``accept`` leaves the state unchanged. Marks nest: rolling back to an older mark drops the
    newer ones. A matcher never raises for a token that the language refuses.
    """

    @property
    def may_end(self) -> bool:
        """The language may end here."""

    @property
    def ready(self) -> bool:
        """The next :meth:`fill` is a look-up. Others are made on a thread of their own, so that one that
        takes long holds nobody else up.
        """

    @property
    def terminated(self) -> bool:
        """An end token was accepted. No further fill or accept is allowed."""

    @property
    def memory_size(self) -> int:
        """Approximate bytes held for this request alone."""

    def fill(self, row: MaskRow) -> bool:
        """Writes the legal next tokens into ``row``, every word of it, bits at or beyond V zero.

        End tokens are legal exactly when :attr:`may_end`; FORBIDDEN ones never.

        Returns:
            Whether any token is legal.
        """

    def accept(self, token: int) -> bool:
        """Advances by one token; returns False and changes nothing when it is not legal."""

    def mark(self) -> Any:
        """An opaque position to roll back to."""

    def rollback(self, mark: Any) -> None:
        """Returns to a mark exactly, termination and labels included."""

    def labels(self) -> tuple[str, ...]:
        """Names of the :class:`~infernix_core.interfaces.language.Label` nodes whose beginning the accepted tokens reached, in order, without repeats."""


class CompiledGrammar(Protocol):
    """An immutable compiled language, shared by requests and threads."""

    @property
    def memory_size(self) -> int:
        """Approximate bytes held; may grow while it is used."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What its sources say that asserts nothing, though their author may think it does; one line each."""

    @property
    def raw_members(self) -> RawMembers:
        """By owner of :class:`~infernix_core.interfaces.language.Members` with a schema, the names of the members
        that are written as raw text. Whoever reads the output needs them.
        """

    def start(self, prefix: Sequence[bytes | int] = ()) -> GrammarMatcher:
        """A matcher that has accepted ``prefix``: bytes as text of literals and contents, ints as token ids.

        Raises:
            ConstraintDeadEnd: The prefix does not belong to the language.
        """


class BoundMaskProvider(Protocol):
    """A provider bound to one vocabulary. Thread-safe."""

    def warm_up(self) -> None:
        """Does what first grammars would wait for, where there is anything; a server calls it at its start."""

    def compile(self, language: Language, check: Callable[[], None] = never) -> CompiledGrammar:
        """Validates, converts and compiles a language. May take long; releases the GIL where it can.

        Args:
            language: The whole output.
            check: Asked between parts that may take long; whatever it raises ends the compilation.

        Raises:
            ConstraintError: A constraint in it is not valid or not supported; the location says where.
        """


class MaskProvider(Protocol):
    """The provider family's root object."""

    def bind(self, vocabulary: Vocabulary) -> BoundMaskProvider:
        """Indexes a vocabulary. Called once per model, before its first constrained request."""

    def explain(self, language: Language) -> str:
        """The language's reduced form as text, for people. Compiles nothing against a vocabulary.

        Raises:
            ConstraintError: As :meth:`BoundMaskProvider.compile`.
        """
