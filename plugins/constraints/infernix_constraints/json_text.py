"""JSON as it is written in responses: the parts that every JSON grammar shares, and ``json_object``.

Blanks stand between tokens and around the root in runs of at most 32 characters. Strings use canonical escapes:
a character is written directly unless JSON forbids it, and then in one way only, so that equal keys are equal bytes.
"""

from __future__ import annotations

from infernix_constraints.grammar import (
    Alternatives,
    CharacterClass,
    Expression,
    Grammar,
    Reference,
    Repetition,
    Sequence,
    Text,
)

#: The longest run of blanks between two JSON tokens.
MAX_BLANKS = 32

BLANK = CharacterClass.of([(0x09, 0x0A), (0x0D, 0x0D), (0x20, 0x20)])
BLANKS = Repetition(BLANK, 0, MAX_BLANKS)

DIGIT = CharacterClass.of([(0x30, 0x39)])
DIGITS = Repetition(DIGIT, 1, None)

#: The characters of a string that are written as they are.
PLAIN_CHARACTER = CharacterClass.of([(0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)], negated=True)


def _canonical_escape() -> Expression:
    short = CharacterClass.of([(ord(sign), ord(sign)) for sign in '"\\bfnrt'])
    # Of U+0000 to U+001F, those without a short form: all but 08, 09, 0a, 0c and 0d.
    low = CharacterClass.of([(0x30, 0x37), (0x62, 0x62), (0x65, 0x66)])
    high = CharacterClass.of([(0x30, 0x39), (0x61, 0x66)])
    control = Alternatives([Sequence([Text("0"), low]), Sequence([Text("1"), high])])
    return Sequence([Text("\\"), Alternatives([short, Sequence([Text("u00"), control])])])


ESCAPE = _canonical_escape()
CHARACTER = Alternatives([PLAIN_CHARACTER, ESCAPE])
STRING = Sequence([Text('"'), Repetition(CHARACTER, 0, None), Text('"')])


def _number() -> Expression:
    whole = Alternatives(
        [Text("0"), Sequence([CharacterClass.of([(0x31, 0x39)]), Repetition(DIGIT, 0, None)])]
    )
    fraction = Repetition(Sequence([Text("."), DIGITS]), 0, 1)
    sign = Repetition(CharacterClass.of([(0x2B, 0x2B), (0x2D, 0x2D)]), 0, 1)
    exponent = Repetition(
        Sequence([CharacterClass.of([(0x45, 0x45), (0x65, 0x65)]), sign, DIGITS]), 0, 1
    )
    return Sequence([Repetition(Text("-"), 0, 1), whole, fraction, exponent])


NUMBER = _number()


def _list(opening: str, item: str, closing: str) -> Expression:
    """Items between brackets, separated by commas, blanks wherever JSON has them."""
    more = Repetition(Sequence([Text(","), BLANKS, Reference(item), BLANKS]), 0, None)
    items = Sequence([Reference(item), BLANKS, more])
    return Sequence([Text(opening), BLANKS, Repetition(items, 0, 1), Text(closing)])


def value_rules() -> dict[str, Expression]:
    """Rules ``value``, ``object``, ``member``, ``array``, ``string`` and ``number`` of any JSON value."""
    return {
        "value": Alternatives(
            [
                *(Reference(name) for name in ("object", "array", "string", "number")),
                *(Text(name) for name in ("true", "false", "null")),
            ]
        ),
        "object": _list("{", "member", "}"),
        "member": Sequence([Reference("string"), BLANKS, Text(":"), BLANKS, Reference("value")]),
        "array": _list("[", "value", "]"),
        "string": STRING,
        "number": NUMBER,
    }


def json_object_grammar() -> Grammar:
    """Any JSON object, blanks around it included."""
    return Grammar(
        rules={"root": Sequence([BLANKS, Reference("object"), BLANKS]), **value_rules()},
        root="root",
    )
