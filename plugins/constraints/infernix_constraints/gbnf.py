"""GBNF: the EBNF text of llama.cpp and xgrammar, read into the grammar IR.

The lexer and parser are Infernix's own: every error carries its line and column, nesting is bounded before it can
cost a stack, and only what defines a language is admitted. Newlines are blanks; a rule ends where the next
``name ::=`` begins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NoReturn

from attrs import define, field

from infernix_constraints.grammar import (
    MAX_SCALAR,
    SURROGATES,
    Alternatives,
    CharacterClass,
    Expression,
    Grammar,
    Reference,
    Repetition,
    Sequence,
    Text,
    TokenIn,
    TokenNotIn,
)
from infernix_core.errors import InvalidGrammar, Location

#: Deepest nesting of groups, and the largest bound of a counted repetition.
MAX_NESTING = 256
MAX_REPETITION = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_HEAD = re.compile(r"[ \t\r\n]*::=")
_OPTIONS_HEAD = re.compile(r"\[[^\]\n]*\][ \t\r\n]*::=")
_BOUNDS = re.compile(r"\{[ \t]*([0-9]*)[ \t]*(,?)[ \t]*([0-9]*)[ \t]*\}")
_DIGITS = re.compile(r"[0-9]+")
_HEX = {"x": 2, "u": 4, "U": 8}
_ESCAPES = {
    **{"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "b": "\b", "a": "\a"},
    **{"e": "\x1b", "0": "\0", "\\": "\\", '"': '"', "'": "'", "?": "?", "/": "/"},
}
_CLASS_ESCAPES = {**_ESCAPES, "-": "-", "]": "]", "[": "[", "^": "^"}
_TERMINALS = ("Token", "ExcludeToken")
_REFUSED = ("TagDispatch", "TokenTagDispatch", "Regex", "Substring")
_ACCEPTED = "rules 'name ::= body' of literals, classes, groups, rule names, | ? * + {m,n}"


@define
class _Group:
    """An open group: its finished options, the option being read, and where it began."""

    start: int
    lookahead: bool = False
    options: list[Expression] = field(factory=list)
    parts: list[Expression] = field(factory=list)

    def close(self) -> Expression:
        self.next_option()
        return self.options[0] if len(self.options) == 1 else Alternatives(self.options)

    def next_option(self) -> None:
        if not self.parts:
            self.options.append(Text(""))
        else:
            self.options.append(self.parts[0] if len(self.parts) == 1 else Sequence(self.parts))
        self.parts = []


#: Characters of a grammar: parsing and lowering take about ten seconds per million.
MAX_SOURCE = 1 << 20
#: Ids of one token terminal: where terminals compete, each id is asked for in every mask.
MAX_TOKEN_IDS = 1024


def parse_gbnf(source: str) -> Grammar:
    """Reads a GBNF text whose entry rule is ``root``.

    ``Token(id, …)`` and ``ExcludeToken(id, …)`` become :class:`TokenIn` and :class:`TokenNotIn`; their ids are
    checked by whoever knows the vocabulary. A ``(= …)`` annotation is checked and dropped: it is a hint for
    compilers and never narrows the language.

    Raises:
        InvalidGrammar: The text is not a grammar; the location is a line and a column.
    """
    return _Parser(source).grammar()


class _Parser:
    """One pass over the source; groups live on an explicit stack."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.lines = [0, *(line.end() for line in re.finditer("\n", source))]
        self.at = 0
        self.rules: dict[str, Expression] = {}
        self.used: dict[str, int] = {}
        self.name = ""
        self.groups: list[_Group] = []
        self.ended_at: int | None = None
        self.repeated = False

    def fail(self, message: str, at: int, hint: str | None = None) -> NoReturn:
        raise InvalidGrammar(message, location=self.location(at), hint=hint)

    def location(self, at: int) -> Location:
        line = bisect_right(self.lines, at)
        return Location(line=line, column=at - self.lines[line - 1] + 1)

    def grammar(self) -> Grammar:
        if len(self.source) > MAX_SOURCE:
            self.fail(f"the grammar has {len(self.source)} characters", 0, f"at most {MAX_SOURCE}")
        while True:
            self.skip_blanks()
            if self.at >= len(self.source):
                break
            self.item()
        self.end_rule()
        if "root" not in self.rules:
            self.fail("there is no rule 'root'", 0, "the entry rule is named root")
        for name, at in self.used.items():
            if name not in self.rules:
                self.fail(f"rule '{name}' is not defined", at, f"add '{name} ::= …'")
        return Grammar(rules=self.rules, root="root")

    def skip_blanks(self) -> None:
        source, at = self.source, self.at
        while at < len(source):
            if source[at] in " \t\r\n":
                at += 1
            elif source[at] == "#":
                end = source.find("\n", at)
                at = len(source) if end < 0 else end
            else:
                break
        self.at = at

    def item(self) -> None:
        """Reads one rule head, element, quantifier or punctuation mark."""
        start, character = self.at, self.source[self.at]
        if self.groups and self.ended_at is None and character in "*+?{":
            self.quantifier()
            return
        self.repeated = False
        name = _NAME.match(self.source, start)
        if name is not None:
            self.word(name.group(), start)
            return
        if not self.groups:
            self.fail(f"unexpected {_shown(character)}", start, _ACCEPTED)
        if self.ended_at is not None:
            self.fail("a (= …) annotation must end its rule", self.ended_at)
        if character == '"':
            self.groups[-1].parts.append(self.literal())
        elif character == "[":
            self.groups[-1].parts.append(self.character_class())
        elif character == ".":
            self.at += 1
            self.groups[-1].parts.append(CharacterClass.of([(0, MAX_SCALAR)]))
        elif character == "(":
            self.open_group()
        elif character == ")":
            self.close_group()
        elif character == "|":
            self.at += 1
            self.groups[-1].next_option()
        elif character == "'":
            self.fail("a literal takes double quotes", start, 'write "…"')
        elif self.source.startswith("::=", start):
            self.fail("'::=' without a rule name", start, _ACCEPTED)
        else:
            self.fail(f"unexpected {_shown(character)}", start, _ACCEPTED)

    def word(self, name: str, start: int) -> None:
        self.at = start + len(name)
        head = _HEAD.match(self.source, self.at)
        if head is not None:
            self.end_rule()
            if name in (*_TERMINALS, *_REFUSED):
                self.fail(
                    f"'{name}' is no name for a rule", start, "it names a terminal; rename the rule"
                )
            if name in self.rules:
                self.fail(f"rule '{name}' is defined twice", start, "join the bodies with |")
            self.name, self.at = name, head.end()
            self.groups = [_Group(self.at)]
            return
        if _OPTIONS_HEAD.match(self.source, self.at):
            self.fail(
                f"rule options after '{name}' are not supported",
                self.at,
                "write 'name ::= …'; sampling and budgets are request options",
            )
        if not self.groups:
            self.fail(f"expected '::=' after '{name}'", self.at, _ACCEPTED)
        if self.ended_at is not None:
            self.fail("a (= …) annotation must end its rule", self.ended_at)
        self.skip_blanks()
        if self.source.startswith("(", self.at) and name in (*_TERMINALS, *_REFUSED):
            if name in _REFUSED:
                self.fail(f"{name} is not supported", start, "write the rule out in GBNF")
            ids = self.token_ids(name)
            kind = TokenIn if name == "Token" else TokenNotIn
            self.groups[-1].parts.append(kind(ids, self.location(start)))
            return
        self.at = start + len(name)
        self.used.setdefault(name, start)
        self.groups[-1].parts.append(Reference(name))

    def token_ids(self, name: str) -> frozenset[int]:
        self.at += 1
        ids: set[int] = set()
        while True:
            self.skip_blanks()
            digits = _DIGITS.match(self.source, self.at)
            if digits is None:
                self.fail(f"{name} takes token ids", self.at, f"write {name}(1, 2)")
            if len(digits.group()) > 9:
                self.fail(f"token id {digits.group()[:12]}… is out of range", self.at)
            ids.add(int(digits.group()))
            if len(ids) > MAX_TOKEN_IDS:
                self.fail(f"{name} takes at most {MAX_TOKEN_IDS} ids", self.at)
            self.at = digits.end()
            self.skip_blanks()
            closing = self.source[self.at : self.at + 1]
            if closing not in (",", ")"):
                self.fail(f"expected ',' or ')' in {name}", self.at)
            self.at += 1
            if closing == ")":
                return frozenset(ids)

    def end_rule(self) -> None:
        if not self.groups:
            return
        if len(self.groups) > 1:
            self.fail("this group is not closed", self.groups[-1].start, "add ')'")
        body = self.groups[0]
        if not body.options and not body.parts:
            self.fail(
                f"rule '{self.name}' has no body", body.start, 'write "" for the empty string'
            )
        self.rules[self.name] = body.close()
        self.groups, self.ended_at = [], None

    def open_group(self) -> None:
        if len(self.groups) > MAX_NESTING:
            self.fail(f"groups are nested more than {MAX_NESTING} deep", self.at, "use rules")
        lookahead = self.source.startswith("(=", self.at)
        if lookahead and len(self.groups) > 1:
            self.fail("a (= …) annotation belongs to a rule's end, not into a group", self.at)
        self.groups.append(_Group(self.at, lookahead))
        self.at += 2 if lookahead else 1

    def close_group(self) -> None:
        if len(self.groups) == 1:
            self.fail("unexpected ')'", self.at)
        group = self.groups.pop()
        if group.lookahead:
            self.ended_at = group.start
        else:
            self.groups[-1].parts.append(group.close())
        self.at += 1

    def quantifier(self) -> None:
        start, parts = self.at, self.groups[-1].parts
        character = self.source[start]
        if not parts:
            self.fail(f"nothing to repeat before '{character}'", start)
        if self.repeated:
            self.fail("a repetition directly after a repetition", start, "put the first into ( )")
        minimum, maximum = self.bounds()
        parts[-1] = Repetition(parts[-1], minimum, maximum)
        self.repeated = True

    def bounds(self) -> tuple[int, int | None]:
        start, character = self.at, self.source[self.at]
        if character != "{":
            self.at += 1
            return {"*": (0, None), "+": (1, None), "?": (0, 1)}[character]
        match = _BOUNDS.match(self.source, start)
        if match is None or not (match.group(1) or match.group(3)):
            self.fail("malformed repetition bounds", start, "write {m}, {m,}, {,n} or {m,n}")
        low, comma, high = match.groups()
        if high and not comma:
            self.fail("malformed repetition bounds", start, "write {m}, {m,}, {,n} or {m,n}")
        for digits in (low, high):
            if len(digits) > 9 or int(digits or 0) > MAX_REPETITION:
                self.fail(f"a repetition bound is above {MAX_REPETITION}", start, "use * or +")
        self.at = match.end()
        minimum = int(low or 0)
        if not comma:
            return minimum, minimum
        if not high:
            return minimum, None
        if int(high) < minimum:
            self.fail(f"repetition bounds {minimum} > {int(high)}", start, "the first is the lower")
        return minimum, int(high)

    def literal(self) -> Text:
        start = self.at
        self.at += 1
        characters: list[str] = []
        while True:
            character = self.source[self.at : self.at + 1]
            if character == "" or character == "\n":
                self.fail("this literal is not closed", start, 'add ", or write \\n for a newline')
            if character == '"':
                self.at += 1
                return Text("".join(characters))
            characters.append(chr(self.scalar(_ESCAPES)))

    def character_class(self) -> CharacterClass:
        start = self.at
        self.at += 1
        negated = self.source.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        while True:
            character = self.source[self.at : self.at + 1]
            if character == "" or character == "\n":
                self.fail("this class is not closed", start, "add ], or write \\n for a newline")
            if character == "]":
                self.at += 1
                return CharacterClass.of(ranges, negated=negated)
            low_at = self.at
            low = high = self.scalar(_CLASS_ESCAPES)
            following = self.source[self.at + 1 : self.at + 2]
            if self.source.startswith("-", self.at) and following not in ("]", "", "\n"):
                self.at += 1
                high = self.scalar(_CLASS_ESCAPES)
                if high < low:
                    self.fail("the range's ends are in the wrong order", low_at)
            ranges.append((low, high))

    def scalar(self, escapes: dict[str, str]) -> int:
        """One character of a literal or class, escaped or not."""
        start, character = self.at, self.source[self.at]
        if character != "\\":
            self.at += 1
            value = ord(character)
            if value == 0:
                self.fail("a raw NUL character", start, "write \\x00")
        else:
            escape = self.source[start + 1 : start + 2]
            if escape in _HEX:
                digits = self.source[start + 2 : start + 2 + _HEX[escape]]
                if re.fullmatch(f"[0-9A-Fa-f]{{{_HEX[escape]}}}", digits) is None:
                    self.fail(f"\\{escape} takes {_HEX[escape]} hexadecimal digits", start)
                value = int(digits, 16)
                self.at += 2 + _HEX[escape]
            elif escape in escapes:
                value = ord(escapes[escape])
                self.at += 2
            else:
                self.fail(
                    f"unknown escape '\\{escape}'" if escape.isprintable() else "unknown escape",
                    start,
                    'known are \\n \\r \\t \\\\ \\" \\xNN \\uNNNN \\UNNNNNNNN, and \\- \\] \\^ in classes',
                )
        if SURROGATES[0] <= value <= SURROGATES[1]:
            self.fail("a surrogate is not a character", start, "write the character itself")
        if value > MAX_SCALAR:
            self.fail("above the last Unicode character U+10FFFF", start)
        return value


def _shown(character: str) -> str:
    return repr(character) if " " < character < "\x7f" else f"character U+{ord(character):04X}"
