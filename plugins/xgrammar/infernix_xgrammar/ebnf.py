"""Lowered rules as text for xgrammar's EBNF parser. Nothing from a request reaches it unescaped."""

from __future__ import annotations

from collections.abc import Iterable

from infernix_constraints.grammar import SURROGATES, CharacterClass
from infernix_core.errors import IntegrityError
from infernix_xgrammar.flat import Characters, OneOf, TokenOf, TokenOutside
from infernix_xgrammar.lowered import (
    END_BYTES,
    Atom,
    Counted,
    End,
    Enter,
    Go,
    Loop,
    Lowered,
    Mark,
)

_PLAIN = frozenset(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _.,:;/=<>{}()@#%&"
)
#: U+140000, which xgrammar encodes as :data:`~infernix_xgrammar.lowered.END_BYTES`.
_END_TEXT = '"\\U00140000"'


def ebnf_text(lowered: Lowered, never: Iterable[int]) -> str:
    """The rules as EBNF with entry ``root``; labels become captures named by their number.

    Args:
        lowered: The rules, without :class:`Enter` atoms.
        never: Ids that no token terminal may match.
    """
    printer = _Printer(lowered, frozenset(never))
    lines = [
        f"{_name(number)} ::= {printer.options(options)}"
        for number, options in enumerate(lowered.rules)
    ]
    lines += [f'm{label}[capture="{label}"] ::= ""' for label in sorted(printer.marks)]
    return "\n".join(lines)


def contested_tokens(lowered: Lowered) -> frozenset[int]:
    """Ids that one :class:`TokenOutside` refuses and another takes.

    Where both stand at one position, xgrammar's masks (not its accepts) leave out what either of them refuses.
    """
    refused = {
        atom.ids
        for options in lowered.rules
        for option in options
        for atom in option
        if isinstance(atom, TokenOutside)
    }
    if len(refused) < 2:
        return frozenset()
    return frozenset.union(*refused) - frozenset.intersection(*refused)


def _name(number: int) -> str:
    return f"r{number}" if number else "root"


class _Printer:
    def __init__(self, lowered: Lowered, never: frozenset[int]) -> None:
        self.never = never
        self.end = _END_TEXT if lowered.end == END_BYTES else _literal(lowered.end.decode())
        self.marks: set[int] = set()
        self.outside: dict[frozenset[int], str] = {}

    def options(self, options: Iterable[tuple[Atom, ...]]) -> str:
        return " | ".join(" ".join(map(self.atom, option)) or '""' for option in options) or "[]"

    def atom(self, atom: Atom) -> str:
        match atom:
            case Characters(text=text):
                return _literal(text)
            case OneOf(ranges=ranges):
                return _class(ranges)
            case Loop(unit=unit):
                return _class(unit.ranges) + "*"
            case Go(rule=number):
                return _name(number)
            case End():
                return self.end
            case Counted(unit=unit, minimum=minimum, maximum=maximum):
                # xgrammar's fast counting is for negated classes only; there the fault below does not show.
                bounds = f"{{{minimum},{'' if maximum is None else maximum}}}"
                return _negated(unit.ranges) + bounds
            case Mark(label=label):
                self.marks.add(label)
                return f"m{label}"
            case TokenOf(ids=ids):
                return f"Token({', '.join(map(str, sorted(ids)))})"
            case TokenOutside(ids=ids):
                if ids not in self.outside:
                    excluded = ", ".join(map(str, sorted(ids | self.never)))
                    self.outside[ids] = f"ExcludeToken({excluded})"
                return self.outside[ids]
            case Enter():
                raise IntegrityError("a label was not resolved before printing")
        raise IntegrityError(f"unknown atom {type(atom).__name__}")


def _literal(text: str) -> str:
    return '"' + "".join(sign if sign in _PLAIN else _escaped(ord(sign)) for sign in text) + '"'


def _class(ranges: tuple[tuple[int, int], ...]) -> str:
    # Never negated: where a called rule is followed by a negated class that excludes the surrogates, as it has to,
    # xgrammar's masks leave out tokens that run from the rule into the class.
    return "[" + _ranges(ranges) + "]"


def _negated(ranges: tuple[tuple[int, int], ...]) -> str:
    # Without the surrogates xgrammar would let their three-byte forms pass.
    gaps = CharacterClass.of(ranges, negated=True).ranges
    return "[^" + _ranges((*gaps, SURROGATES)) + "]"


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return "".join(
        _escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}"
        for low, high in ranges
    )


def _escaped(value: int) -> str:
    # \x takes any number of digits in xgrammar, so it is not used.
    return f"\\u{value:04x}" if value < 0x10000 else f"\\U{value:08x}"
