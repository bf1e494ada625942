"""The reduced schema: a graph of types, finite values and references, free of JSON Schema's keywords.

A node is a union of shapes. Every node generates at least one value and every shape of it does too, so
a reader needs no reachability analysis of its own. Nodes refer to one another by index, which is how
recursion stays finite.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TypeAlias

from attrs import field, frozen

from infernix_constraints.json_schema.values import Value, identity
from infernix_constraints.strings.automaton import StringAutomaton


@frozen
class NullShape:
    """``null``."""


@frozen
class BooleanShape:
    """``true`` and ``false``."""


@frozen
class IntegerShape:
    """The integers from ``minimum`` to ``maximum``, within the signed 64-bit range.

    Attributes:
        multiple: They are multiples of it; it is positive and may have a fraction.
        excluded: They are no multiples of it; it is positive and may have a fraction.
    """

    minimum: int
    maximum: int
    multiple: Decimal | None = None
    excluded: Decimal | None = None


@frozen
class NumberRange:
    """Number texts whose value lies in a range, as exact decimal and as binary64 alike.

    Attributes:
        minimum: Least value of a text with at most 17 significant digits, inclusive.
        maximum: Greatest such value, inclusive. Both are None when no such text exists.
        integers: Range of the plain integers, which may have up to 19 digits, or None.
    """

    minimum: Decimal | None
    maximum: Decimal | None
    integers: IntegerShape | None


@frozen
class NumberShape:
    """Numbers; without a range, every number that is finite in binary64.

    Attributes:
        multiple: They are multiples of it, as exact decimals; positive.
        fractional: They are no integers.
    """

    range: NumberRange | None
    multiple: Decimal | None = None
    fractional: bool = False


@frozen
class StringShape:
    """Strings of ``minimum`` to ``maximum`` decoded characters that the automaton accepts.

    At least one string satisfies all three, which is not to say that every text that satisfies two does.

    Attributes:
        maximum: None is unbounded.
        automaton: None accepts every string.
    """

    minimum: int = 0
    maximum: int | None = None
    automaton: StringAutomaton | None = None


@frozen
class Contains:
    """How many items of an array are of one kind. Every item is of exactly one of two kinds.

    Attributes:
        matching: Node of the items that count.
        other: Node of the items that do not; None when every item counts.
        minimum: Least number of items that count.
        maximum: Greatest such number, or None.
    """

    matching: int
    other: int | None
    minimum: int
    maximum: int | None


@frozen
class ArrayShape:
    """Arrays.

    Attributes:
        prefix: Nodes of the first positions, which need not all occur.
        items: Node of every later position; None when there is none.
        minimum: Least number of items.
        maximum: Greatest number of items, or None.
        contains: Takes the place of ``items`` (then None) where items are counted by kind; the prefix is
            then empty.
        unique: Takes the place of ``items`` (then None) where every item is one of these values, each at
            most once; the prefix is then empty.
    """

    prefix: tuple[int, ...]
    items: int | None
    minimum: int
    maximum: int | None
    contains: Contains | None = None
    unique: tuple[Value, ...] | None = field(
        default=None,
        eq=lambda values: None if values is None else tuple(map(identity, values)),
    )


@frozen
class Member:
    """A declared member of an object."""

    name: str
    node: int
    required: bool


@frozen
class OtherMembers:
    """Members that are not declared.

    Attributes:
        names: Their names, of which the reserved ones are none; None is every name.
        node: Node of their values.
    """

    names: StringAutomaton | None
    node: int


@frozen
class ObjectShape:
    """Objects.

    Attributes:
        members: Declared members that can occur, in the order in which they are generated.
        reserved: Every declared name, also of members that can never occur; an undeclared member has none
            of these.
        others: Undeclared members, which come after the declared ones; their names are disjoint.
        minimum: Least number of members, all different.
        maximum: Greatest number of members, or None.
    """

    members: tuple[Member, ...]
    reserved: frozenset[str]
    others: tuple[OtherMembers, ...]
    minimum: int = 0
    maximum: int | None = None


@frozen
class FiniteShape:
    """One of these values, different from one another under JSON Schema equality."""

    values: tuple[Value, ...] = field(
        eq=lambda values: tuple(map(identity, values)),  # for Python, True equals 1
    )


Shape: TypeAlias = (
    NullShape
    | BooleanShape
    | IntegerShape
    | NumberShape
    | StringShape
    | ArrayShape
    | ObjectShape
    | FiniteShape
)


@frozen
class Note:
    """Something in the document that its author may not think of.

    It asserts nothing, or it leaves no object where other types remain and no ``type`` asks for objects.

    Attributes:
        pointer: The schema's position.
        keyword: The keyword.
        text: What becomes of it, in a few words.
    """

    pointer: str
    keyword: str
    text: str


@frozen
class ReducedSchema:
    """A satisfiable schema.

    Attributes:
        nodes: Each node's alternatives; at least one, all different.
        root: Index of the root's node.
        notes: What was read and asserts nothing, in document order, but no titles and descriptions; then where
            no object fits.
    """

    nodes: tuple[tuple[Shape, ...], ...]
    root: int = 0
    notes: tuple[Note, ...] = ()
