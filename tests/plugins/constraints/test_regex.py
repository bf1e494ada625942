import random
import re

import pytest

from infernix_constraints import grammar as ir
from infernix_constraints.regex import parse_pattern, regex_grammar
from infernix_constraints.regex_parser import MAX_NESTING, MAX_REPETITION
from infernix_core.errors import InvalidRegex
from tests.plugins.constraints.refused_expressions import REFUSED_BY_BOTH, check_refusal


def ends(node, text, starts):
    """The positions where a match of the IR that began at one of ``starts`` may end. Slow and plain."""
    if isinstance(node, ir.Text):
        return {start + len(node.text) for start in starts if text.startswith(node.text, start)}
    if isinstance(node, ir.CharacterClass):
        return {
            start + 1
            for start in starts
            if start < len(text) and any(a <= ord(text[start]) <= b for a, b in node.ranges)
        }
    if isinstance(node, ir.Sequence):
        for part in node.parts:
            starts = ends(part, text, starts)
        return starts
    if isinstance(node, ir.Alternatives):
        return set().union(*(ends(option, text, starts) for option in node.options))
    reached = set(starts) if node.minimum == 0 else set()
    current, times = set(starts), 0
    seen = set()
    while current and (node.maximum is None or times < node.maximum):
        current = ends(node.part, text, current)
        times += 1
        if times >= node.minimum:
            reached |= current
        if node.maximum is None and times > node.minimum:
            if current <= seen:
                break
            seen |= current
    return reached


def matches(pattern, text):
    return len(text) in ends(regex_grammar(pattern).rules["root"], text, {0})


PATTERNS = [
    "", "a", "abc", "a|b", "a||b", "(a|b)c", "(?:a|b)+?c*", "a{2}", "a{2,}", "a{1,3}?", "(ab){0,2}a?",
    "[abc]+", "[^abc]+", "[a-c]?[0-9]", r"\d+", r"\D", r"\w+", r"\W", r"\s", r"\S+", r"[\d_]+",
    r"[^\w]", ".", ".*b", "a.c", r"\.", r"\x61\u0062", r"a\/b", r"[\]\\]", "[-a]", "[a-]", r"[a\-c]",
    "^a$", "^a|b$", "^", "$", r"\t|\n|\r|\f|\v", r"(a*)*b", "((a|b)(c|d)){1,2}", r"\^\$\(\)\{\}\[\]\|\*\+\?",
    r"[a-c\d]{2,3}", "(a|ab)(c|bcd)(d*)",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_agrees_with_python_on_ascii(pattern):
    chance = random.Random(pattern)
    python = re.compile(pattern, re.ASCII)
    texts = [
        "",
        *"abc019_ .\n\t/\\]-^${}",
        "ab",
        "abc",
        "aab",
        "abcd",
        "a/b",
        "a1",
        "b_",
        "()",
        "^$(){}[]|*+?",
    ]
    alphabet = "abcd019_ .\n-]\\"
    texts += ["".join(chance.choices(alphabet, k=chance.randint(1, 6))) for _ in range(300)]
    for text in texts:
        # Without re.MULTILINE, Python's $ also stands before a last newline; the anchors stand at the ends here.
        if "$" in pattern and text.endswith("\n"):
            continue
        if "." in pattern and "\r" in text:
            continue
        assert matches(pattern, text) == bool(python.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (".", "aé😀\0\t", "\n\r\u2028\u2029"),
        (r"\d", "09", "٣५"),
        (r"\w", "azAZ09_", "éß-"),
        (r"\s", " \t\n\v\f\r\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff", "a\u200b\x1c\x85"),
        (r"\S", "a\x85\u200b", " \ufeff"),
        ("[^]", "a\n\u2028", ""),
        ("[]", "", "a]"),
        (r"[\b]", "\b", "b"),
        (r"\cA", "\x01", "A"),
        (r"\0", "\0", "0"),
        (r"[\w-.]", "a-._", "/"),
        ("é|😀", "é😀", "e"),
    ],
)  # fmt: skip
def test_ecmascript_characters(pattern, yes, no):
    assert [character for character in yes if not matches(pattern, character)] == []
    assert [character for character in no if matches(pattern, character)] == []


def test_anchors_are_kept_for_searching():
    first, second, third = parse_pattern("^a|b$|c").branches
    assert (first.starts, first.ends) == (True, False)
    assert (second.starts, second.ends) == (False, True)
    assert (third.starts, third.ends) == (False, False)
    assert matches("^a|b$|c", "a")
    assert not matches("^a|b$|c", "ab")


def test_lazy_is_greedy():
    assert regex_grammar("a*?b+?c??d{1,2}?") == regex_grammar("a*b+c?d{1,2}")


@pytest.mark.parametrize(
    ("pattern", "offset", "message"),
    [
        *REFUSED_BY_BOTH,
        ("a++", 2, "nothing to repeat"),
        ("a{1}{2}", 4, "nothing to repeat"),
        ("a|*", 2, "nothing to repeat"),
        ("(?)", 0, "flag"),
        ("(+a)", 1, "nothing to repeat"),
        ("[a", 0, "not closed"),
        ("a^b", 1, "'^'"),
        ("a$b", 1, "'$'"),
        ("$a", 0, "'$'"),
        ("^^a", 1, "'^'"),
        ("(^a)", 1, "inside a group"),
        ("(a$)", 2, "inside a group"),
        ("^(.*$)", 4, "inside a group"),
        ("(?=a)", 0, "lookahead"),
        ("(?!a)", 0, "lookahead"),
        ("(?<=a)", 0, "lookbehind"),
        ("(?<!a)", 0, "lookbehind"),
        ("(?<n>a)", 0, "named group"),
        (r"a\b", 1, "word boundaries"),
        (r"\B", 0, "word boundaries"),
        (r"\k<n>", 0, "back-reference"),
        (r"\p{L}", 0, "property"),
        (r"\ud83d\ude00", 0, "surrogate"),
        ("a\ud800", 1, "surrogate"),
        (r"\u{1F600}", 0, "4 hexadecimal"),
        (r"\x4", 0, "2 hexadecimal"),
        ("a\\", 1, "backslash"),
        ("a{x}", 1, "malformed"),
        ("{", 0, "nothing to repeat"),
        ("}", 0, "unexpected"),
        ("]", 0, "unexpected"),
        ("a{99999999999}", 1, str(MAX_REPETITION)),
        ("(" * 60_000, MAX_NESTING, "nested"),
    ],
)
def test_errors_say_where(pattern, offset, message):
    check_refusal(parse_pattern, pattern, offset, message)


def test_a_bad_expression_after_a_good_one():
    assert matches("^(.*)$", "ab")
    assert matches("^(|.*)$", "ab")
    with pytest.raises(InvalidRegex):
        parse_pattern("(foo**)")
    assert matches("^(.*)$", "ab")


def test_the_nesting_limit_is_allowed():
    assert matches("(" * MAX_NESTING + "a" + ")" * MAX_NESTING, "a")
