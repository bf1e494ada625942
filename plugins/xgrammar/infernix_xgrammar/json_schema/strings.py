"""Strings: any, counted, and names other than given ones.

Every string has one spelling (see ``infernix_constraints.json_schema.escape``), so that lengths count decoded
characters and an excluded name cannot come back under an alias. The closing quote is part of the rules:
a library then sees where a token may leave the string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from infernix_constraints.grammar import (
    CharacterClass,
    Expression,
    Reference,
    Repetition,
    Text,
)
from infernix_constraints.json_schema import escape
from infernix_constraints.json_text import PLAIN_CHARACTER
from infernix_xgrammar.json_schema.expressions import concat, either

#: Characters that are written as they are.
RAW: Final = PLAIN_CHARACTER
#: All spellings of one character that are longer.
ESCAPES: Final = tuple(escape(chr(code)) for code in (*range(0x20), 0x22, 0x5C))

#: Greatest length for which runs of raw characters are counted by the grammar library instead of by rules.
#: Every possible place of the first escape is one alternative then, about two microseconds per mask each.
MAX_RUN: Final = 128

_QUOTE: Final = Text('"')

#: Defines a rule unless it is defined and returns a reference to it.
Define = Callable[[str, Callable[[], Expression]], Reference]


def _escapes(spellings: Iterable[str]) -> list[tuple[Expression, ...]]:
    """Alternatives for these spellings, grouped by all but their last character."""
    by_stem: dict[str, list[tuple[int, int]]] = {}
    for spelling in spellings:
        by_stem.setdefault(spelling[:-1], []).append((ord(spelling[-1]), ord(spelling[-1])))
    return [
        (*((Text(stem),) if stem else ()), CharacterClass.of(lasts))
        for stem, lasts in by_stem.items()
    ]


#: One character in every spelling.
_UNIT: Final[tuple[tuple[Expression, ...], ...]] = ((RAW,), *_escapes(ESCAPES))


_BACKSLASH: Final = Text("\\")
#: The escapes once their backslash is written.
_UNIT_WITHOUT_BACKSLASH: Final = _escapes(spelling[1:] for spelling in ESCAPES)


def _unit_then(rest: Expression) -> list[Expression]:
    """One character and what follows it."""
    return [concat(*unit, rest) for unit in _UNIT]


def any_string(define: Define) -> Reference:
    """A string of any length."""
    return define("string", lambda: concat(_QUOTE, _tail(define)))


def _tail(define: Define) -> Reference:
    """The rest of a string of any length, with its closing quote."""
    name = "string_rest"
    return define(name, lambda: either((_QUOTE, *_unit_then(Reference(name)))))


def counted_string(define: Define, minimum: int, maximum: int | None) -> Reference:
    """A string of ``minimum`` to ``maximum`` characters.

    A state is named by how many more characters must and may follow, so strings of different lengths share
    states, within a grammar and by their equal bodies between grammars.
    """
    if minimum == 0 and maximum is None:
        return any_string(define)
    # The last state first, so that no state is defined before the one it refers to.
    for used in reversed(range(max(minimum, maximum or 0) + 1)):
        rest = _counted(define, max(minimum - used, 0), None if maximum is None else maximum - used)
    if maximum is not None and maximum <= MAX_RUN:
        rest = _raw_run(define, minimum, maximum)
    return define(f"string_{_count_name(minimum, maximum)}", lambda: concat(_QUOTE, rest))


def _raw_run(define: Define, minimum: int, maximum: int) -> Reference:
    """The rest of a string, up to its first escape as a counted run, from there on state by state.

    The masks of a chain's states are computed one by one when they are first reached, each as slow as all
    of this. The alternative of one character before the escape is a rule of its own because a plain class
    beside the counted ones makes a library leave its fast path.
    """
    options: list[Expression] = [concat(Repetition(RAW, minimum, maximum), _QUOTE)]
    for used in range(maximum):
        name = _count_name(max(minimum - used - 1, 0), maximum - used - 1)
        rest = Reference(f"string_rest_{name}")
        escapes = [concat(*unit, rest) for unit in _UNIT_WITHOUT_BACKSLASH]
        escaped = define(f"string_escape_{name}", lambda escapes=escapes: either(escapes))  # type: ignore[misc]
        if used == 0:
            options.append(concat(_BACKSLASH, escaped))
        elif used == 1:
            single = [concat(RAW, *unit, rest) for unit in _UNIT[1:]]
            options.append(define(f"string_single_{name}", lambda single=single: either(single)))  # type: ignore[misc]
        else:
            options.append(concat(Repetition(RAW, used, used), _BACKSLASH, escaped))
    return define(f"string_run_{_count_name(minimum, maximum)}", lambda: either(options))


def _count_name(minimum: int, maximum: int | None) -> str:
    return f"{minimum}_{'more' if maximum is None else maximum}"


def _counted(define: Define, minimum: int, maximum: int | None) -> Reference:
    """The rest of a string in which so many more characters must and may follow."""
    if minimum == 0 and maximum is None:
        return _tail(define)
    options: list[Expression] = [] if minimum else [_QUOTE]
    if maximum != 0:
        after = max(minimum - 1, 0), None if maximum is None else maximum - 1
        rest = "string_rest" if after == (0, None) else f"string_rest_{_count_name(*after)}"
        options += _unit_then(Reference(rest))
    return define(f"string_rest_{_count_name(minimum, maximum)}", lambda: either(options))


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
    names = {prefix: Reference(f"{label}_{at}") for at, prefix in enumerate(sorted(prefixes))}
    for prefix, units in children.items():
        options: list[Expression] = [] if prefix in finished else [_QUOTE]
        options += _leaving(define, units)
        options += [concat(Text(unit), names[(*prefix, unit)]) for unit in units]
        body = either(options)
        define(names[prefix].name, lambda body=body: body)  # type: ignore[misc]
    return names[()]


def _leaving(define: Define, units: list[str]) -> list[Expression]:
    """Alternatives for every character but the given ones, and any rest of a string after it."""
    rest = _tail(define)
    kept = [(ord(unit), ord(unit)) for unit in units if len(unit) == 1]
    raw = CharacterClass.of([*kept, (0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)], negated=True)
    leaving = concat(raw, rest)
    if len(kept) == len(units):
        escaped = (concat(*spelling, rest) for spelling in _UNIT[1:])
        return [leaving, define("string_escaped", lambda: either(escaped))]
    others = _escapes(each for each in ESCAPES if each not in units)
    return [leaving, *(concat(*spelling, rest) for spelling in others)]
