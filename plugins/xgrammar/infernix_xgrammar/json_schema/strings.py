"""Strings: any, counted, and names other than given ones.

Every string has one spelling (see ``infernix_constraints.json_schema.escape``), so that lengths count decoded
characters and an excluded name cannot come back under an alias. The closing quote is part of the rules:
a library then sees where a token may leave the string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from infernix_constraints.grammar import (
    Alternatives,
    CharacterClass,
    Expression,
    Reference,
    Sequence,
    Text,
)
from infernix_constraints.json_schema import escape

#: Characters that are written as they are.
RAW: Final = CharacterClass.of([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)], negated=True)
#: All spellings of one character that are longer.
ESCAPES: Final = tuple(escape(chr(code)) for code in (*range(0x20), 0x22, 0x5C))

_QUOTE: Final = Text('"')

#: Defines a rule unless it is defined and returns a reference to it.
Define = Callable[[str, Callable[[], Expression]], Reference]


def _escapes(spellings: Iterable[str], rest: Expression) -> list[Expression]:
    """Alternatives for these spellings, grouped by their last character."""
    by_stem: dict[str, list[tuple[int, int]]] = {}
    for spelling in spellings:
        by_stem.setdefault(spelling[:-1], []).append((ord(spelling[-1]), ord(spelling[-1])))
    return [
        Sequence((Text(stem), CharacterClass.of(lasts), rest)) for stem, lasts in by_stem.items()
    ]


def _unit_then(rest: Expression) -> list[Expression]:
    """One character and what follows it."""
    return [Sequence((RAW, rest)), *_escapes(ESCAPES, rest)]


def any_string(define: Define) -> Reference:
    """A string of any length."""
    return define("string", lambda: Sequence((_QUOTE, _tail(define))))


def _tail(define: Define) -> Reference:
    """The rest of a string of any length, with its closing quote."""
    name = "string_rest"
    return define(name, lambda: Alternatives((_QUOTE, *_unit_then(Reference(name)))))


def counted_string(define: Define, minimum: int, maximum: int | None) -> Reference:
    """A string of ``minimum`` to ``maximum`` characters.

    A state is named by how many more characters must and may follow, so strings of different lengths share
    states, within a grammar and by their equal bodies between grammars.
    """
    if minimum == 0 and maximum is None:
        return any_string(define)
    bounds = f"{minimum}_{'any' if maximum is None else maximum}"
    return define(
        f"string_{bounds}", lambda: Sequence((_QUOTE, _counted(define, minimum, maximum)))
    )


def _counted(define: Define, minimum: int, maximum: int | None) -> Reference:
    first: Reference | None = None
    while True:
        if minimum == 0 and maximum is None:
            rest = _tail(define)
            return first or rest
        name = f"string_rest_{minimum}_{'any' if maximum is None else maximum}"
        after = max(minimum - 1, 0), None if maximum is None else maximum - 1
        more = maximum is None or maximum > 0
        known = True

        def body(
            minimum: int = minimum, more: bool = more, after: tuple[int, int | None] = after
        ) -> Expression:
            nonlocal known
            known = False
            options: list[Expression] = [] if minimum else [_QUOTE]
            if more:
                options += _unit_then(Reference(_counted_name(*after)))
            return Alternatives(tuple(options))

        reference = define(name, body)
        first = first or reference
        if known or not more:
            return first
        minimum, maximum = after


def _counted_name(minimum: int, maximum: int | None) -> str:
    if minimum == 0 and maximum is None:
        return "string_rest"
    return f"string_rest_{minimum}_{'any' if maximum is None else maximum}"


def other_name(define: Define, excluded: frozenset[str], label: str) -> Reference:
    """A string that is none of the excluded ones, after its opening quote.

    The rules are the trie of the excluded spellings; whoever leaves the trie is free.
    """
    if not excluded:
        return _tail(define)
    prefixes = {()} | {
        tuple(map(escape, name[:length])) for name in excluded for length in range(len(name) + 1)
    }
    finished = {tuple(map(escape, name)) for name in excluded}
    children: dict[tuple[str, ...], list[str]] = {prefix: [] for prefix in prefixes}
    for prefix in sorted(prefixes):
        if prefix:
            children[prefix[:-1]].append(prefix[-1])
    rest = _tail(define)
    names = {prefix: f"{label}_{place}" for place, prefix in enumerate(sorted(prefixes))}
    for prefix, units in children.items():
        define(
            names[prefix],
            lambda prefix=prefix, units=units: Alternatives(
                (
                    *(() if prefix in finished else (_QUOTE,)),
                    *_leaving(units, rest),
                    *(
                        Sequence((Text(unit), Reference(names[(*prefix, unit)])))
                        for unit in units
                    ),
                )
            ),
        )
    return Reference(names[()])


def _leaving(units: list[str], rest: Reference) -> list[Expression]:
    """Alternatives for every character but the given ones."""
    kept = [(ord(unit), ord(unit)) for unit in units if len(unit) == 1]
    raw = CharacterClass.of([*kept, (0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)], negated=True)
    return [Sequence((raw, rest)), *_escapes([each for each in ESCAPES if each not in units], rest)]
