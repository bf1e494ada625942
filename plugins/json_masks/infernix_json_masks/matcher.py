"""One compiled language, and the grammar state of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, field

from infernix_core.errors import ConstraintDeadEnd
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, MaskRow, RawMembers
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_json_masks.framing import AnyToken, End, OneToken, Point, at, labels_of, token_points
from infernix_json_masks.machine import Configuration, Machine, State
from infernix_json_masks.masks import Mask, MaskMaker
from infernix_json_masks.vocabulary import TokenIndex

#: What one grammar keeps at most of what it found out.
MAX_GRAMMAR_BYTES = 96 << 20

#: Approximate bytes of one interned configuration with its threads and frames.
_CONFIGURATION_BYTES = 900
_MATCHER_BYTES = 200

#: Characters of a given beginning that an error shows.
_SHOWN = 40


@define(eq=False)
class JsonGrammar:
    """A compiled language. Immutable for its users; configurations and masks are added as they are visited."""

    index: TokenIndex
    start_point: Point
    source_size: int
    notes: tuple[str, ...] = ()
    raw_members: RawMembers = NO_RAW_MEMBERS
    machine: Machine = field(init=False, factory=Machine)
    _maker: MaskMaker = field(init=False)
    _mask_bytes: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self._maker = MaskMaker(self.machine, self.index)

    @property
    def memory_size(self) -> int:
        """Approximate bytes held; grows while it is used."""
        states = self.machine.size * _CONFIGURATION_BYTES + self._maker.memory_size
        return self.source_size + states + self._mask_bytes

    def forget(self) -> None:
        """Drops what can be found out again. Requests go on from the configurations that they hold."""
        self.machine.forget()
        self._maker.forget()
        self._mask_bytes = 0

    def start(self, prefix: Sequence[bytes | int] = ()) -> JsonMatcher:
        """A matcher that has accepted ``prefix``: bytes as text, ints as token ids.

        Raises:
            ConstraintDeadEnd: The prefix does not belong to the language.
        """
        configuration = self.machine.configuration([(at(self.start_point, ()), ())])
        assert configuration is not None
        matcher, read = JsonMatcher(self, configuration), b""
        for part in prefix:
            if isinstance(part, int):
                if not matcher.accept(part):
                    raise _leaves(read)
                read += self.index.vocabulary.token_bytes[part]
                continue
            for size in range(len(part)):
                if not matcher.accept_text(part[size : size + 1]):
                    raise _leaves(read + part[:size])
            read += part
        return matcher

    def mask(self, configuration: Configuration) -> Mask:
        """The legal tokens of a configuration; made once."""
        found = configuration.mask
        if found is None:
            tokens: list[int] = []
            bases: list[MaskRow] = []
            for point, _ in token_points(configuration.threads):
                if isinstance(point, OneToken):
                    tokens.append(point.id)
                elif isinstance(point, AnyToken):
                    bases.append(self.index.any_row(point.excluded))
                elif isinstance(point, End):
                    tokens += self.index.end_ids
            if self.memory_size > MAX_GRAMMAR_BYTES:
                self.forget()
            found = configuration.mask = self._maker.mask(configuration, tokens, bases)
            self._mask_bytes += found.memory_size
        return found


def _leaves(read: bytes) -> ConstraintDeadEnd:
    text = read.decode("utf-8", "replace")
    shown = text if len(text) <= _SHOWN else f"...{text[-_SHOWN:]}"
    return ConstraintDeadEnd(
        f"the given beginning leaves the language behind {shown!r}"
        if text
        else "the given beginning leaves the language at once",
        hint="start from a beginning that the constraint allows",
    )


@define(eq=False)
class JsonMatcher:
    """See :class:`infernix_core.interfaces.mask_provider.GrammarMatcher`."""

    grammar: JsonGrammar
    _configuration: Configuration
    _ended: bool = field(init=False, default=False)

    @property
    def may_end(self) -> bool:
        """The language may end here."""
        if self._ended:
            return True
        points = token_points(self._configuration.threads)
        return any(isinstance(point, End) for point, _ in points)

    @property
    def ready(self) -> bool:
        """The next mask is known."""
        return self._configuration.mask is not None

    @property
    def terminated(self) -> bool:
        """An end token was accepted."""
        return self._ended

    @property
    def memory_size(self) -> int:
        """Approximate bytes held for this request alone."""
        return _MATCHER_BYTES

    def fill(self, row: MaskRow) -> bool:
        """Writes the legal next tokens; whether there is one."""
        if self._ended:
            row.fill(0)
            return False
        return self.grammar.mask(self._configuration).write(row)

    def accept(self, token: int) -> bool:
        """Advances by one token; returns False and changes nothing when it is not legal."""
        vocabulary = self.grammar.index.vocabulary
        if self._ended or not 0 <= token < vocabulary.size:
            return False
        kind = vocabulary.classes[token]
        if kind is TokenClass.END:
            if not self.may_end:
                return False
            self._ended = True
            return True
        if kind is TokenClass.FORBIDDEN:
            return False
        machine = self.grammar.machine
        configuration: Configuration | None = None
        if kind is TokenClass.TEXT:
            configuration = machine.run(self._configuration, vocabulary.token_bytes[token])
        states: list[State] = []
        for point, labels in token_points(self._configuration.threads):
            if (isinstance(point, OneToken) and point.id == token) or (
                isinstance(point, AnyToken) and token not in point.excluded
            ):
                states.append((at(point.then, labels), ()))
        if states:
            if configuration is not None:
                states += [(thread.frame, thread.below) for thread in configuration.threads]
            configuration = machine.configuration(states)
        if configuration is None:
            return False
        self._configuration = configuration
        return True

    def accept_text(self, text: bytes) -> bool:
        """Advances by bytes of text; returns False and changes nothing when they are not legal."""
        if self._ended:
            return not text
        configuration = self.grammar.machine.run(self._configuration, text)
        if configuration is None:
            return False
        self._configuration = configuration
        return True

    def mark(self) -> tuple[Configuration, bool]:
        """The whole state; it is immutable."""
        return self._configuration, self._ended

    def rollback(self, mark: Any) -> None:
        """Returns to a mark exactly."""
        self._configuration, self._ended = mark

    def labels(self) -> tuple[str, ...]:
        """Names of the labels that were reached, in order."""
        return labels_of(self._configuration.threads)
