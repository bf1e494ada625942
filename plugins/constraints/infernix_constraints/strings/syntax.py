r"""ECMAScript patterns as JSON Schema's ``pattern`` reads them: what searching adds to the regex constraint.

Anchors, word boundaries and lookaround anywhere, named groups, ``\u{…}``, surrogate pairs and Unicode
property classes. Braces and brackets that can only be literal are.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from attrs import frozen

from infernix_constraints.grammar import CharacterClass, Expression, Text
from infernix_constraints.regex import check_length
from infernix_constraints.regex_parser import Group, PatternParser
from infernix_constraints.strings.characters import property_ranges

AssertionKind = Literal["start", "end", "word", "not word"]

_LOOKS: Final = ("(?=", "(?!", "(?<=", "(?<!")
_NAME: Final = re.compile(r"\(\?<([A-Za-z_$][A-Za-z0-9_$]*)>")
_PROPERTY: Final = re.compile(r"\{([A-Za-z_]+(?:=[A-Za-z_0-9]+)?)\}")
_CODE_POINT: Final = re.compile(r"\{([0-9A-Fa-f]+)\}")
_PAIR: Final = re.compile(r"([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})")
#: What begins like bounds, in some engine at least; any other brace can only be literal.
_LIKE_BOUNDS: Final = re.compile(r"\{[0-9, ]")


@frozen
class Assertion(Expression):
    """The empty text at the start or end of the string, or where a word does or does not begin or end."""

    kind: AssertionKind


@frozen
class Look(Expression):
    """The empty text where what follows begins, or what precedes ends, with the body, or does not.

    Attributes:
        behind: It looks at what precedes.
        offset: Where the source has it.
    """

    body: Expression
    behind: bool
    negated: bool
    offset: int


def parse_search(source: str) -> Expression:
    """Reads a pattern; its anchors and lookaround are :class:`Assertion` and :class:`Look`.

    Raises:
        InvalidRegex: It is not well formed or not admitted; the location is a character offset.
    """
    check_length(source)
    return SearchParser(source).pattern().whole()


class SearchParser(PatternParser):
    """The parser of expressions, with what only searching admits."""

    def __init__(self, source: str) -> None:
        super().__init__(source)
        self.names: set[str] = set()
        #: A class so far is empty or has an unescaped [, as where POSIX classes or ] as a first member were meant.
        self.odd_class = False

    def item(self) -> None:
        """Reads what can only be a literal brace or bracket, and all else as ever."""
        start, character = self.at, self.source[self.at]
        literal = character == "}" or (character == "]" and not self.odd_class)
        if character == "{":
            literal = _LIKE_BOUNDS.match(self.source, start) is None
        if literal:
            self.at += 1
            self.add(Text(character))
        else:
            super().item()

    def anchor(self, character: str, start: int) -> None:
        """Reads ``^`` or ``$``, anywhere."""
        self.groups[-1].parts.append(Assertion("start" if character == "^" else "end"))

    def backslash(self, start: int) -> None:
        """Reads word boundaries, and all else as ever."""
        character = self.source[self.at : self.at + 1]
        if character and character in "bB":
            self.at += 1
            self.groups[-1].parts.append(Assertion("word" if character == "b" else "not word"))
        else:
            super().backslash(start)

    def open_group(self, start: int) -> None:
        """Opens lookaround and named groups, and all else as ever."""
        for opening in _LOOKS:
            if self.source.startswith(opening, start):
                self.open_group_at(start, opening)
                return
        name = _NAME.match(self.source, start)
        if name is None:
            super().open_group(start)
            return
        if name.group(1) in self.names:
            self.fail(f"two groups are named {name.group(1)!r}", start)
        self.names.add(name.group(1))
        self.open_group_at(start, name.group())

    def close_group(self, group: Group) -> None:
        """Adds lookaround as an assertion."""
        if group.opening not in _LOOKS:
            super().close_group(group)
            return
        behind, negated = "<" in group.opening, "!" in group.opening
        self.groups[-1].parts.append(Look(group.close(), behind, negated, group.start))

    def character_class(self, start: int) -> CharacterClass:
        """Reads a class and remembers whether it looks as if something else was meant."""
        first = self.source[self.at + self.source.startswith("^", self.at) :][:1]
        result = super().character_class(start)
        inside = re.sub(r"\\.", "", self.source[start + 1 : self.at], flags=re.DOTALL)
        self.odd_class |= first == "]" or "[" in inside
        return result

    def property_class(self, character: str, start: int) -> tuple[tuple[int, int], ...] | None:
        """Reads the name of a property."""
        name = _PROPERTY.match(self.source, self.at)
        if name is None:
            self.fail(f"\\{character} takes a property in braces", start, "such as \\p{L}")
        ranges = property_ranges(name.group(1))
        if ranges is None:
            self.fail(
                f"the Unicode property {name.group(1)!r} is not supported",
                start,
                "general categories such as L, Lu, Letter, N, P, S, Z",
            )
        self.at = name.end()
        return CharacterClass.of(ranges, negated=character == "P").ranges

    def hexadecimal(self, start: int, kind: str) -> int:
        r"""Reads ``\u{…}`` and pairs of surrogates too."""
        if kind == "u":
            braces = _CODE_POINT.match(self.source, self.at)
            if braces is not None:
                value = int(braces.group(1), 16)
                if value > 0x10FFFF:
                    self.fail("there is no such code point", start, "at most \\u{10FFFF}")
                self.at = braces.end()
                self.check_scalar(value, start)
                return value
            pair = _PAIR.match(self.source, self.at)
            if pair is not None:
                self.at = pair.end()
                high, low = int(pair.group(1), 16), int(pair.group(2), 16)
                return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00)
        return super().hexadecimal(start, kind)
