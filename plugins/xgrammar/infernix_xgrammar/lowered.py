"""What a grammar is lowered to: right-linear rules, ready to be printed for xgrammar."""

from __future__ import annotations

from attrs import define, field, frozen

from infernix_xgrammar.flat import Characters, OneOf, TokenOf, TokenOutside

#: What ends the whole language by default: U+140000 as xgrammar writes it, bytes that no UTF-8 text contains.
END_BYTES = b"\xf5\x80\x80\x80"


@frozen
class End:
    """The end of the whole language."""


@frozen
class Go:
    """Another lowered rule, by its number."""

    rule: int


@frozen
class Loop:
    """One class any number of times."""

    unit: OneOf


@frozen
class Counted:
    """A class from ``minimum`` to ``maximum`` times, counted by xgrammar itself."""

    unit: OneOf
    minimum: int
    maximum: int | None


@frozen
class Mark:
    """Reports a label as soon as it is reached."""

    label: int


@frozen
class Enter:
    """Reports a label with the first byte or token that the rest of the option takes."""

    label: int


Atom = Characters | OneOf | TokenOf | TokenOutside | End | Go | Loop | Counted | Mark | Enter
Option = tuple[Atom, ...]


@define
class Lowered:
    """Lowered rules by number; rule 0 is the entry.

    Attributes:
        rules: The options of each rule; none match nothing.
        end: The bytes that end the language. Either :data:`END_BYTES`, or one ASCII character that no text of the
            language contains; in that case every token with this character is illegal.
    """

    rules: list[list[Option]] = field(factory=list)
    end: bytes = END_BYTES
