"""The grammar that every front door produces: rules over Unicode scalar values and token terminals.

It is exact and small. Mask providers print it for their library; nothing in it belongs to one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from attrs import field, frozen

from infernix_core.errors import Location

SURROGATES = (0xD800, 0xDFFF)
MAX_SCALAR = 0x10FFFF


class Expression:
    """Base of the right-hand sides."""

    __slots__ = ()


def _expressions(values: Iterable[Expression]) -> tuple[Expression, ...]:
    return tuple(values)


def _ids(values: Iterable[int]) -> frozenset[int]:
    return frozenset(values)


@frozen
class Text(Expression):
    """These characters, all Unicode scalar values. The empty text matches the empty string."""

    text: str


@frozen
class CharacterClass(Expression):
    """One Unicode scalar value out of sorted, disjoint, non-adjacent inclusive ranges.

    Surrogates are never part of a class; an empty class matches nothing.
    """

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, ranges: Iterable[tuple[int, int]], *, negated: bool = False) -> CharacterClass:
        """Normalises ranges, cuts the surrogates out, and complements when ``negated``."""
        merged: list[tuple[int, int]] = []
        for low, high in sorted((low, high) for low, high in ranges if low <= high):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], high))
            else:
                merged.append((low, high))
        if negated:
            gaps, start = [], 0
            for low, high in merged:
                if start < low:
                    gaps.append((start, low - 1))
                start = high + 1
            if start <= MAX_SCALAR:
                gaps.append((start, MAX_SCALAR))
            merged = gaps
        scalars: list[tuple[int, int]] = []
        for low, high in merged:
            if high < SURROGATES[0] or low > SURROGATES[1]:
                scalars.append((low, high))
                continue
            if low < SURROGATES[0]:
                scalars.append((low, SURROGATES[0] - 1))
            if high > SURROGATES[1]:
                scalars.append((SURROGATES[1] + 1, high))
        return cls(tuple(scalars))


@frozen
class Reference(Expression):
    """Another rule."""

    name: str


@frozen
class Sequence(Expression):
    """One part after the other; no parts match the empty string."""

    parts: tuple[Expression, ...] = field(converter=_expressions)


@frozen
class Alternatives(Expression):
    """Any one of the options; no options match nothing at all."""

    options: tuple[Expression, ...] = field(converter=_expressions)


@frozen
class Repetition(Expression):
    """``part`` from ``minimum`` to ``maximum`` times; ``None`` is unbounded."""

    part: Expression
    minimum: int
    maximum: int | None


@frozen
class TokenIn(Expression):
    """One TEXT token out of these ids, matched by id.

    Attributes:
        location: Where the source names them; a provider that knows the vocabulary checks their class.
    """

    ids: frozenset[int] = field(converter=_ids)
    location: Location | None = field(default=None, eq=False, repr=False)


@frozen
class TokenNotIn(Expression):
    """One TEXT token whose id is not among these, whatever its bytes.

    Attributes:
        location: As for :class:`TokenIn`.
    """

    ids: frozenset[int] = field(converter=_ids)
    location: Location | None = field(default=None, eq=False, repr=False)


@frozen
class Grammar:
    """Named rules and the one to start from. Every reference is defined.

    Attributes:
        rules: Rule bodies by name, in the order of the source.
        root: The entry rule's name.
    """

    rules: Mapping[str, Expression]
    root: str
