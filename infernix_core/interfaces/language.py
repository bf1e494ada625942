"""The output language: a small algebra over tokens, bytes, constraints and arguments.

A frontend says with it what one request may generate, from the first token to the end; a mask provider lowers
the whole tree into one grammar. An end token is legal exactly where the whole language may end and is never
part of the tree. Nodes are values; equal trees share one compiled grammar.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import field, frozen

from infernix_core.interfaces.constraints import JsonSchema, OutputConstraint


class Language:
    """Base of the nodes."""

    __slots__ = ()


def _nodes(nodes: Iterable[Language]) -> tuple[Language, ...]:
    return tuple(nodes)


def _ids(ids: Iterable[int]) -> frozenset[int]:
    return frozenset(ids)


@frozen
class Token(Language):
    """Exactly one token, matched by its id. It is of class TEXT or FRAMING."""

    id: int


@frozen
class TextExcept(Language):
    """One token of class TEXT or FRAMING whose id is not in ``ids``; its bytes need not be UTF-8."""

    ids: frozenset[int] = field(converter=_ids)


@frozen
class Literal(Language):
    """These bytes, however TEXT tokens spell them. They are complete UTF-8."""

    bytes: bytes


@frozen
class Content(Language):
    """A text of the constraint's language, spelled by TEXT tokens."""

    constraint: OutputConstraint


@frozen
class Sequence(Language):
    """One part after the other. A token may span several parts at byte level."""

    parts: tuple[Language, ...] = field(converter=_nodes)


@frozen
class Union(Language):
    """Any one of the alternatives."""

    alternatives: tuple[Language, ...] = field(converter=_nodes)


@frozen
class Repeat(Language):
    """``part`` from ``minimum`` to ``maximum`` times; ``None`` is unbounded."""

    part: Language
    minimum: int = 0
    maximum: int | None = None


@frozen
class Separated(Language):
    """``part`` once or more, with ``separator`` in between."""

    part: Language
    separator: Language


@frozen
class MemberFraming:
    """How members of an object are written one after the other, instead of between JSON's braces.

    A member is ``opening``, its name, ``naming``, its value, ``end``, ``closing``. A name is not empty and has
    no line break. A raw value is any text that does not hold ``end``.

    Attributes:
        naming: Its last byte is a line break, its only one.
        end: Its first byte does not occur in it again, so that it is found by looking at each byte once.
    """

    opening: bytes
    naming: bytes
    end: bytes
    closing: bytes

    def __attrs_post_init__(self) -> None:
        if self.naming.find(b"\n") != len(self.naming) - 1:
            raise ValueError("what follows a name ends in its only line break")
        if not self.opening or not self.end or self.end[:1] in self.end[1:]:
            raise ValueError("a value's end begins with a byte that does not occur in it again")


@frozen
class Members(Language):
    """The members of one object, none of them twice, in a framing of their own.

    A member of a schema whose values are strings alone is raw text. One whose values are no strings is JSON text,
    with ``", "`` and ``": "`` as its only blanks. One that may be either cannot be enforced.

    Attributes:
        framing: What stands around names and values.
        schema: Reduces to one closed object: its members come in declared order, required ones surely. ``None``
            is any names in any order, and raw values.
        owner: Whose they are: a tool's name. A language has one schema of an owner.
    """

    framing: MemberFraming
    schema: JsonSchema | None = None
    owner: str | None = None


@frozen
class Label(Language):
    """``part``, whose beginning the matcher reports as ``name`` (see ``GrammarMatcher.labels``)."""

    name: str
    part: Language


def sequence(*parts: Language) -> Language:
    """A sequence without needless nesting."""
    flat: list[Language] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, Sequence) else (part,))
    return flat[0] if len(flat) == 1 else Sequence(flat)


def free_until(token: int, then: Language) -> Language:
    """Text that may end, or that reaches ``token``, after which only ``then`` may follow."""
    ways = (Sequence(()), sequence(Token(token), then))
    return sequence(Repeat(TextExcept({token})), Union(ways))


def walk(language: Language) -> Iterable[Language]:
    """Every node of the tree, parents first."""
    yield language
    if isinstance(language, Sequence):
        children: tuple[Language, ...] = language.parts
    elif isinstance(language, Union):
        children = language.alternatives
    elif isinstance(language, Repeat | Label):
        children = (language.part,)
    elif isinstance(language, Separated):
        children = (language.part, language.separator)
    else:
        children = ()
    for child in children:
        yield from walk(child)
