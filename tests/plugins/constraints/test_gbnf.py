import pytest

from infernix_constraints.gbnf import MAX_NESTING, MAX_REPETITION, parse_gbnf
from infernix_constraints.grammar import (
    MAX_SCALAR,
    Alternatives,
    CharacterClass,
    Reference,
    Repetition,
    Sequence,
    Text,
    TokenIn,
    TokenNotIn,
)
from infernix_constraints.printing import grammar_text
from infernix_core.errors import InvalidGrammar


def root(source):
    return parse_gbnf(source).rules["root"]


def test_every_form():
    grammar = parse_gbnf(
        """# a comment
root ::= "a" [b-d] sub | ("e" "f")?   # another
  | sub{2} sub{2,} sub{,3} sub{1,4} sub* sub+
sub ::= . [^\\n\\-x]  Token(3, 4) ExcludeToken( 5 )
"""
    )
    first, second, third = grammar.rules["root"].options
    assert first == Sequence([Text("a"), CharacterClass(((0x62, 0x64),)), Reference("sub")])
    assert second == Repetition(Sequence([Text("e"), Text("f")]), 0, 1)
    bounds = [(part.minimum, part.maximum) for part in third.parts]
    assert bounds == [(2, 2), (2, None), (0, 3), (1, 4), (0, None), (1, None)]
    dot, negated, token, other = grammar.rules["sub"].parts
    assert dot == CharacterClass.of([(0, MAX_SCALAR)])
    assert negated == CharacterClass.of([(10, 10), (45, 45), (120, 120)], negated=True)
    assert token == TokenIn({3, 4})
    assert other == TokenNotIn({5})
    assert (token.location.line, token.location.column) == (4, 21)


@pytest.mark.parametrize(
    ("spelling", "text"),
    [
        (r'"\n\r\t\\\"\'\?"', "\n\r\t\\\"'?"),
        (r'"\x41b\u00e9\U0001f600"', "Abé😀"),
        (r'"\a\b\f\v\e\0/"', "\a\b\f\v\x1b\0/"),
        ('"é 日本"', "é 日本"),
        ('""', ""),
    ],
)
def test_literals(spelling, text):
    assert root(f"root ::= {spelling}") == Text(text)


@pytest.mark.parametrize(
    ("spelling", "ranges"),
    [
        ("[a-z]", ((97, 122),)),
        ("[a-]", ((45, 45), (97, 97))),
        ("[-a]", ((45, 45), (97, 97))),
        (r"[\]\[\^\-\\]", ((45, 45), (91, 94))),
        (r"[\x41-\u0043d]", ((65, 67), (100, 100))),
        ("[]", ()),
        ("[^]", ((0, 0xD7FF), (0xE000, MAX_SCALAR))),
        ("[aa-cb]", ((97, 99),)),
    ],
)
def test_classes(spelling, ranges):
    assert root(f"root ::= {spelling}") == CharacterClass(ranges)


def test_negated_classes_never_hold_surrogates():
    ranges = root("root ::= [^a]").ranges
    assert all(high < 0xD800 or low > 0xDFFF for low, high in ranges)


def test_rule_order_recursion_dashes_and_newlines():
    grammar = parse_gbnf('b-1 ::= "x"\nroot ::=\n  b-1 |\n  "(" root ")"\n')
    assert list(grammar.rules) == ["b-1", "root"]


def test_empty_alternatives_are_the_empty_string():
    assert root('root ::= | "a"') == Alternatives([Text(""), Text("a")])


def test_lookahead_annotation_is_checked_and_dropped():
    assert root('root ::= "a" (= "b" | sub)\nsub ::= "c"') == Text("a")
    with pytest.raises(InvalidGrammar, match="rule 'nowhere' is not defined"):
        parse_gbnf('root ::= "a" (= nowhere)')


@pytest.mark.parametrize(
    ("source", "line", "column", "message"),
    [
        ("", 1, 1, "no rule 'root'"),
        ('start ::= "a"', 1, 1, "no rule 'root'"),
        ("root ::=", 1, 9, "no body"),
        ("root ::= # nothing\n", 1, 9, "no body"),
        ('root ::= "a', 1, 10, "literal is not closed"),
        ('root ::= "a\nb"', 1, 10, "literal is not closed"),
        ("root ::= [a", 1, 10, "class is not closed"),
        ("root ::= [z-a]", 1, 11, "wrong order"),
        ("root ::= x", 1, 10, "rule 'x' is not defined"),
        ('root ::= "a"\n  root ::= "b"', 2, 3, "defined twice"),
        ('root ::= "a" )', 1, 14, "unexpected '\\)'"),
        ('root ::=\n\n ("a"', 3, 2, "group is not closed"),
        ('root ::= TagDispatch(("a", b))', 1, 10, "TagDispatch is not supported"),
        ("root ::= TokenTagDispatch((1, b))", 1, 10, "TokenTagDispatch is not supported"),
        ('root ::= Regex("a")', 1, 10, "Regex is not supported"),
        ('root ::= Substring("a")', 1, 10, "Substring is not supported"),
        ('root[temperature=1] ::= "a"', 1, 5, "rule options"),
        ('root ::= "a"\nx[lazy] ::= "b"', 2, 2, "rule options"),
        ('root ::= "a"{3,2}', 1, 13, "3 > 2"),
        ('root ::= "a"{99999999999}', 1, 13, str(MAX_REPETITION)),
        ('root ::= "a"{4294967297}', 1, 13, str(MAX_REPETITION)),
        ('root ::= "a"{}', 1, 13, "malformed"),
        ('root ::= "a"{,}', 1, 13, "malformed"),
        ('root ::= "a"{2', 1, 13, "malformed"),
        ('root ::= "a"**', 1, 14, "directly after a repetition"),
        ("root ::= *", 1, 10, "nothing to repeat"),
        ("root ::= (+)", 1, 11, "nothing to repeat"),
        (r'root ::= "\ud800"', 1, 11, "surrogate"),
        ('root ::= "\udc00"', 1, 11, "surrogate"),
        (r'root ::= "\U00110000"', 1, 11, "U\\+10FFFF"),
        (r'root ::= "\q"', 1, 11, "unknown escape"),
        (r'root ::= "\x4"', 1, 11, "2 hexadecimal"),
        (r"root ::= [\d]", 1, 11, "unknown escape"),
        ("root ::= é", 1, 10, "U\\+00E9"),
        ("root ::= \0", 1, 10, "U\\+0000"),
        ('root ::= "a\0b"', 1, 12, "NUL"),
        ("root ::= 'x'", 1, 10, "double quotes"),
        ('root ::= "a" (= "b") "c"', 1, 14, "must end its rule"),
        ('root ::= ("a" (= "b"))', 1, 15, "not into a group"),
        ("root ::= Token(a)", 1, 16, "token ids"),
        ("root ::= Token()", 1, 16, "token ids"),
        ("root ::= Token(1 2)", 1, 18, "expected"),
        ("root ::= ExcludeToken(12345678901)", 1, 23, "out of range"),
        ("::= x", 1, 1, "unexpected"),
        ('root = "a"', 1, 5, "expected '::='"),
        ('root ::= "a" ::= b', 1, 14, "without a rule name"),
        ('root ::= "a"\n\n   $', 3, 4, "unexpected"),
    ],
)
def test_errors_say_where(source, line, column, message):
    with pytest.raises(InvalidGrammar, match=message) as caught:
        parse_gbnf(source)
    assert (caught.value.location.line, caught.value.location.column) == (line, column)
    assert "\n" not in str(caught.value)


def test_nesting_is_bounded():
    deepest = "(" * MAX_NESTING + '"a"' + ")" * MAX_NESTING
    assert parse_gbnf(f"root ::= {deepest}")
    for depth in (MAX_NESTING + 1, 60_000):
        with pytest.raises(InvalidGrammar, match="nested") as caught:
            parse_gbnf("root ::= " + "(" * depth + '"a"' + ")" * depth)
        assert caught.value.location.column == 10 + MAX_NESTING


def test_many_rules_and_long_literals():
    chain = "\n".join(f'n{i} ::= "x" n{i + 1}' for i in range(10_000))
    grammar = parse_gbnf(f'root ::= n0 "{"y" * 100_000}"\n{chain}\nn10000 ::= ""')
    assert len(grammar.rules) == 10_002


@pytest.mark.parametrize(
    "source",
    [
        'root ::= ("a" | "b" "c")* ("d"?)+ [^\\n"] | ""',
        'root ::= "\\x00\\x7f\\u2028" [\\-\\]\\^] . Token(1, 2) ExcludeToken(3){2,5}',
        'root ::= (x{3}){2} x{3,}\nx ::= ((("a")))',
    ],
)
def test_printing_reads_back(source):
    text = grammar_text(parse_gbnf(source))
    assert grammar_text(parse_gbnf(text)) == text
