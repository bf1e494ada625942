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


@frozen
class NullShape:
    """``null``."""


@frozen
class BooleanShape:
    """``true`` and ``false``."""


@frozen
class IntegerShape:
    """The integers from ``minimum`` to ``maximum``, within the signed 64-bit range."""

    minimum: int
    maximum: int


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
    """Numbers; without a range, every number that is finite in binary64."""

    range: NumberRange | None


@frozen
class StringShape:
    """Strings by their length in decoded Unicode characters; ``maximum`` None is unbounded."""

    minimum: int = 0
    maximum: int | None = None


@frozen
class ArrayShape:
    """Arrays.

    Attributes:
        prefix: Nodes of the first positions, which need not all occur.
        items: Node of every later position; None when there is none.
        minimum: Least number of items.
        maximum: Greatest number of items, or None.
    """

    prefix: tuple[int, ...]
    items: int | None
    minimum: int
    maximum: int | None


@frozen
class Member:
    """A declared member of an object."""

    name: str
    node: int
    required: bool


@frozen
class ObjectShape:
    """Objects.

    Attributes:
        members: Declared members that can occur, in the order in which they are generated.
        reserved: Every declared name, also of members that can never occur; no other name than these is
            free for ``additional``.
        additional: Node of the members with other names; None when there are none.
    """

    members: tuple[Member, ...]
    reserved: frozenset[str]
    additional: int | None


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
class ReducedSchema:
    """A satisfiable schema.

    Attributes:
        nodes: Each node's alternatives; at least one, all different.
        root: Index of the root's node.
    """

    nodes: tuple[tuple[Shape, ...], ...]
    root: int = 0
