"""One pass over a regular expression in ECMAScript's syntax."""

from __future__ import annotations

import re
from typing import NoReturn

from attrs import define, field, frozen

from infernix_constraints.grammar import (
    SURROGATES,
    Alternatives,
    CharacterClass,
    Expression,
    Repetition,
    Sequence,
    Text,
)
from infernix_core.errors import InvalidRegex, Location

#: Deepest nesting of groups, and the largest bound of a counted repetition.
MAX_NESTING = 256
MAX_REPETITION = 1_000_000

_DIGIT = ((0x30, 0x39),)
WORD = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
#: ECMAScript WhiteSpace and LineTerminator: TAB LF VT FF CR, U+FEFF and Unicode's space separators.
_SPACE = (
    *((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)
_LINE_TERMINATORS = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_SETS = {"d": _DIGIT, "w": WORD, "s": _SPACE}
_CONTROLS = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D}
_PUNCTUATION = frozenset("^$\\.*+?()[]{}|/-_ !\"#%&',:;<=>@`~")
_BOUNDS = re.compile(r"\{([0-9]+)(,?)([0-9]*)\}")
_REFUSED_GROUPS = (
    ("(?=", "lookahead"),
    ("(?!", "lookahead"),
    ("(?<=", "lookbehind"),
    ("(?<!", "lookbehind"),
    ("(?<", "a named group"),
    ("(?P", "a named group"),
    ("(?", "a group flag"),
)


@frozen
class Branch:
    """A top-level alternative.

    Attributes:
        body: What it matches, without its anchors.
        starts: It began with ``^``.
        ends: It ended with ``$``.
    """

    body: Expression
    starts: bool
    ends: bool


@frozen
class Pattern:
    """A parsed expression. Whole-match and search semantics differ only in what surrounds its branches."""

    branches: tuple[Branch, ...]

    def whole(self) -> Expression:
        """The texts that the expression matches from end to end; there the anchors say nothing."""
        bodies = [branch.body for branch in self.branches]
        return bodies[0] if len(bodies) == 1 else Alternatives(bodies)


@define
class Group:
    """An open group, or the whole expression: its finished options and the one being read.

    Attributes:
        opening: What it began with, such as ``(?:``.
    """

    start: int
    opening: str = ""
    options: list[Branch] = field(factory=list)
    parts: list[Expression] = field(factory=list)
    starts: bool = False
    ends: bool = False

    def next_option(self) -> None:
        """Ends the option being read."""
        parts: list[Expression] = []
        for part in self.parts:
            last = parts[-1] if parts else None
            if isinstance(part, Text) and isinstance(last, Text):
                parts[-1] = Text(last.text + part.text)
            else:
                parts.append(part)
        body = parts[0] if len(parts) == 1 else Sequence(parts)
        self.options.append(Branch(body, self.starts, self.ends))
        self.parts, self.starts, self.ends = [], False, False

    def close(self) -> Expression:
        """What the whole group matches."""
        self.next_option()
        return Pattern(tuple(self.options)).whole()


class PatternParser:
    """One pass over the source; groups live on an explicit stack.

    :class:`infernix_constraints.strings.syntax.SearchParser` reads more than grammars can say.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0
        self.groups = [Group(0)]
        self.repeatable = False

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        """Refuses the expression."""
        raise InvalidRegex(message, location=Location(offset=at), hint=hint)

    def pattern(self) -> Pattern:
        """Reads the whole expression."""
        while self.at < len(self.source):
            self.item()
        if len(self.groups) > 1:
            self.fail("this group is not closed", self.groups[-1].start, "add )")
        self.groups[0].next_option()
        return Pattern(tuple(self.groups[0].options))

    def item(self) -> None:
        """Reads one character, escape, class, quantifier or parenthesis."""
        group, start, character = self.groups[-1], self.at, self.source[self.at]
        if character in "*+?{":
            self.quantifier()
            return
        if group.ends and character != "|":
            self.fail(
                "'$' stands only at the end of the expression or of an alternative", start - 1
            )
        self.repeatable = False
        self.at += 1
        if character == "|":
            group.next_option()
        elif character == "(":
            self.open_group(start)
        elif character == ")":
            if len(self.groups) == 1:
                self.fail("unexpected ')'", start, "write \\) for the character")
            self.groups.pop()
            self.close_group(group)
        elif character in "^$":
            self.anchor(character, start)
        elif character == "[":
            self.add(self.character_class(start))
        elif character in "]}":
            self.fail(f"unexpected '{character}'", start, f"write \\{character} for the character")
        elif character == ".":
            self.add(CharacterClass.of(_LINE_TERMINATORS, negated=True))
        elif character == "\\":
            self.backslash(start)
        else:
            self.check_scalar(ord(character), start)
            self.add(Text(character))

    def add(self, part: Expression) -> None:
        """Adds something that may be repeated."""
        self.groups[-1].parts.append(part)
        self.repeatable = True

    def close_group(self, group: Group) -> None:
        """Adds a group that was just closed."""
        self.add(group.close())

    def backslash(self, start: int) -> None:
        """Reads the escape at ``start``, whose backslash was read."""
        ranges = self.escape(start, in_class=False)
        self.add(CharacterClass.of(ranges) if _is_set(ranges) else Text(chr(ranges[0][0])))

    def anchor(self, character: str, start: int) -> None:
        """Reads ``^`` or ``$``."""
        group = self.groups[-1]
        if len(self.groups) > 1:
            self.fail(
                f"'{character}' inside a group is not supported",
                start,
                "it stands only at the ends of the expression or of its top-level alternatives",
            )
        if character == "^":
            if group.parts or group.starts:
                self.fail(
                    "'^' stands only at the start of the expression or of an alternative",
                    start,
                    "write \\^ for the character",
                )
            group.starts = True
        else:
            group.ends = True

    def open_group(self, start: int) -> None:
        """Reads the opening of a group."""
        if self.source.startswith("(?:", start):
            self.open_group_at(start, "(?:")
            return
        if len(self.groups) <= MAX_NESTING:
            for opening, what in _REFUSED_GROUPS:
                if self.source.startswith(opening, start):
                    self.fail(f"{what} is not supported", start, "groups are ( ) or (?: )")
        self.open_group_at(start, "(")

    def open_group_at(self, start: int, opening: str) -> None:
        """Begins a group that was opened so."""
        if len(self.groups) > MAX_NESTING:
            self.fail(f"groups are nested more than {MAX_NESTING} deep", start)
        self.at = start + len(opening)
        self.groups.append(Group(start, opening))

    def quantifier(self) -> None:
        """Reads a quantifier and repeats what stands before it."""
        start, character = self.at, self.source[self.at]
        if not self.repeatable:
            self.fail(f"nothing to repeat before '{character}'", start, f"or write \\{character}")
        if character == "{":
            minimum, maximum = self.bounds(start)
        else:
            self.at += 1
            minimum, maximum = {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        if self.source.startswith("?", self.at):
            self.at += 1  # lazy: the same language
        parts = self.groups[-1].parts
        parts[-1] = Repetition(parts[-1], minimum, maximum)
        self.repeatable = False

    def bounds(self, start: int) -> tuple[int, int | None]:
        """Reads bounds in braces."""
        match = _BOUNDS.match(self.source, start)
        if match is None or (match.group(3) and not match.group(2)):
            self.fail(
                "malformed bounds", start, "write {m}, {m,} or {m,n}, or \\{ for the character"
            )
        low, comma, high = match.groups()
        for digits in (low, high):
            if len(digits) > 9 or int(digits or 0) > MAX_REPETITION:
                self.fail(f"a repetition bound is above {MAX_REPETITION}", start, "use * or +")
        self.at = match.end()
        minimum = int(low)
        if not comma:
            return minimum, minimum
        if not high:
            return minimum, None
        if int(high) < minimum:
            self.fail(f"repetition bounds {minimum} > {int(high)}", start, "the first is the lower")
        return minimum, int(high)

    def character_class(self, start: int) -> CharacterClass:
        """Reads a class, whose bracket was read."""
        negated = self.source.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while True:
            if self.at >= len(self.source):
                self.fail(
                    "this class is not closed", start, "add ], or write \\[ for the character"
                )
            if self.source[self.at] == "]":
                self.at += 1
                return CharacterClass.of(ranges, negated=negated)
            low_at = self.at
            low = self.class_atom()
            dash, following = (
                self.source[self.at : self.at + 1],
                self.source[self.at + 1 : self.at + 2],
            )
            if dash != "-" or following in ("]", ""):
                ranges.extend(low)
                continue
            self.at += 1
            high = self.class_atom()
            if _is_set(low) or _is_set(high):
                # As ECMAScript without the u flag: a dash beside a set is a dash.
                ranges.extend((*low, (0x2D, 0x2D), *high))
            elif high[0][0] < low[0][0]:
                self.fail("the range's ends are in the wrong order", low_at)
            else:
                ranges.append((low[0][0], high[0][0]))

    def class_atom(self) -> tuple[tuple[int, int], ...]:
        """Reads a character or an escape in a class."""
        start, character = self.at, self.source[self.at]
        self.at += 1
        if character == "\\":
            return self.escape(start, in_class=True)
        self.check_scalar(ord(character), start)
        return ((ord(character), ord(character)),)

    def escape(self, start: int, *, in_class: bool) -> tuple[tuple[int, int], ...]:
        """The characters of the escape at ``start``, whose backslash was read."""
        if self.at >= len(self.source):
            self.fail("a backslash at the end", start, "write \\\\ for the character")
        character = self.source[self.at]
        self.at += 1
        if character.lower() in _SETS and character.isascii():
            ranges = _SETS[character.lower()]
            if character.isupper():
                return CharacterClass.of(ranges, negated=True).ranges
            return ranges
        if character in "xu":
            value = self.hexadecimal(start, character)
        elif character in _CONTROLS:
            value = _CONTROLS[character]
        elif character == "0":
            if self.source[self.at : self.at + 1].isdigit():
                self.fail("octal escapes are not supported", start, "write \\xNN")
            value = 0
        elif character == "c":
            letter = self.source[self.at : self.at + 1]
            if not (letter.isascii() and letter.isalpha()):
                self.fail("\\c takes a letter", start)
            self.at += 1
            value = ord(letter) % 32
        elif character == "b" and in_class:
            value = 0x08
        elif character in _PUNCTUATION:
            value = ord(character)
        elif character in "pP" and (found := self.property_class(character, start)) is not None:
            return found
        else:
            self.fail(
                _refused_escape(character), start, "escapes: \\d \\w \\s \\xNN \\uNNNN and signs"
            )
        return ((value, value),)

    def property_class(self, character: str, start: int) -> tuple[tuple[int, int], ...] | None:
        """The characters of the property whose name follows; None where properties are refused."""
        return None

    def hexadecimal(self, start: int, kind: str) -> int:
        """Reads the digits of an escape."""
        count = {"x": 2, "u": 4}[kind]
        digits = self.source[self.at : self.at + count]
        if re.fullmatch(f"[0-9A-Fa-f]{{{count}}}", digits) is None:
            hint = "write characters above U+FFFF directly" if kind == "u" else None
            self.fail(f"\\{kind} takes {count} hexadecimal digits", start, hint)
        self.at += count
        self.check_scalar(int(digits, 16), start)
        return int(digits, 16)

    def check_scalar(self, value: int, at: int) -> None:
        """Refuses surrogates."""
        if SURROGATES[0] <= value <= SURROGATES[1]:
            self.fail("a surrogate is not a character", at, "write the character directly")


def _is_set(ranges: tuple[tuple[int, int], ...]) -> bool:
    return len(ranges) != 1 or ranges[0][0] != ranges[0][1]


def _refused_escape(character: str) -> str:
    if character.isdigit():
        return "back-references are not supported"
    if character == "k":
        return "named back-references are not supported"
    if character in "bB":
        return "word boundaries are not supported"
    if character in "pP":
        return "Unicode property classes are not supported"
    return f"unknown escape '\\{character}'" if character.isprintable() else "unknown escape"
