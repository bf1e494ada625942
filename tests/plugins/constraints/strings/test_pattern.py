import itertools
import json
import random
import shutil
import subprocess

import pytest
import regex

from infernix_constraints.strings.algebra import (
    complement,
    difference,
    everything,
    intersection,
    union,
)
from infernix_constraints.strings.limits import TooManyStates
from infernix_constraints.strings.pattern import from_pattern
from infernix_constraints.strings.texts import of_texts
from tests.plugins.constraints.refused_expressions import REFUSED_BY_BOTH, check_refusal


def every(alphabet, longest):
    return [
        "".join(text)
        for length in range(longest + 1)
        for text in itertools.product(alphabet, repeat=length)
    ]


def differences(pattern, texts):
    """The texts on which the automaton and the regex package disagree."""
    other = regex.compile(pattern.replace("$", r"\Z"), regex.ASCII | regex.VERSION0)
    automaton = from_pattern(pattern)
    return [
        text
        for text in texts
        # For the package, as for re before 3.14, nothing is a boundary of the empty text and nothing else either.
        if not (text == "" and "\\B" in pattern)
        and (text in automaton) != (other.search(text) is not None)
    ]


TEXTS = every("ab-", 6)

PATTERNS = [
    "", "a", "ab|ba", "^a", "a$", "^a$", "^", "$", "^$", "^a|b$", "^(a|b$)", "(^a|b)", "(^|a)b", "a(b|$)", "(a$|b)-",
    "a^", "$a", "(?:^)a", "a{2}", "a{2,}b", "a{0,3}$", "^a{1,2}b{0,2}$", "(ab){2,3}", "(a|ab)(-|b-)$",
    "^(a?){3}$", "^(a*)*$", "^(a{0,2}b){0,2}$", "^((a|b){1,2}-){1,2}$", "^(a{1,2}){2}$", "^(a{0,2}b?){2,3}$",
    r"\ba", r"a\b", r"\bab\b", r"\Ba", r"a\B-?", r"^\b", r"\b$", r"(\ba|b\b)-", r"\B", r"^\B", r"(a\b|-)+$",
    "^(?!ab)", "^(?!ab).*$", "^(?=.*b)(?=.*-).{3,}$", "(?=ab)a", "a(?!b)", "a(?!.*b)", "a(?=b|$)", "^((?!ab).)*$",
    "^(?!.*(aa|bb))", "^(a(?!a)|b(?!b)|-)*$", "^(?=a|b)(?!.*--)[ab-]{2,4}(?<!-)$", "(?=a(?!b))", "(?!a(?=b))a",
    "(?=a$)", r"(?=\ba)", r"-(?=\b)", r"a(?!\b)", "(?!^)a", "(?=^a)", "(?!$)", "((?=a)|b)-?$",
    "(?<=a)b", "(?<!a)b", "(?<=a|--)b", "(?<=^a)b", "(?<!^)a$", "(?<=a.*)b", r"(?<=\b)a", r"(?<=a\b)-", "(?<!(ab)+)-$",
    "(?<=a)(?=b)", "a(?<!ba)-", "^(?<x>a)(?:b)$", "[^a]b", "[^]", "[]|a", "^[^a-b]+$", "a??b", "a+?$",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_short_texts_as_the_regex_package_searches_them(pattern):
    source = {"[^]": None, "[]|a": None}.get(pattern, pattern)
    if source is None:
        automaton = from_pattern(pattern)
        for text in TEXTS:
            assert (text in automaton) == (text != "" if pattern == "[^]" else "a" in text)
    else:
        assert differences(pattern, TEXTS) == []


def random_pattern(chance, depth=3, look=True):
    kind = chance.choice("lllcgggasq" + "wt!=" * look + "^$" * (depth > 0))
    if depth == 0 and kind in "gasq!=":
        kind = "l"
    inside = lambda look=look: random_pattern(chance, depth - 1, look)  # noqa: E731
    if kind == "l":
        return chance.choice(["a", "b", "-", "ab"])
    if kind == "c":
        return chance.choice(["[ab]", "[^a]", ".", r"\w", r"\W", "[-b]"])
    if kind == "g":
        return inside() + inside()
    if kind == "a":
        return f"(?:{inside()}|{inside()})"
    if kind == "s":
        return f"({inside()})" + chance.choice(
            ["*", "+", "?", "*?", "{2}", "{1,2}", "{0,3}", "{2,}"]
        )
    if kind == "q":
        return f"(?:{inside()}{inside()})" + chance.choice(["*", "{0,2}", "{1,3}"])
    if kind == "w":
        return chance.choice([r"\b", r"\B"])
    if kind == "t":
        return f"(?<{chance.choice('=!')}{random_pattern(chance, 1, look=False)})"
    if kind in "!=":
        pattern = inside()
        return f"(?{kind}{pattern})" if "(?<" not in pattern else pattern
    return kind


@pytest.mark.parametrize("seed", range(40))
def test_random_patterns(seed):
    chance = random.Random(seed)
    texts = every("ab-", 4) + ["".join(chance.choices("ab-", k=7)) for _ in range(60)]
    for _ in range(15):
        pattern = random_pattern(chance)
        assert differences(pattern, texts) == [], pattern


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a|b", "[ab]"),
        ("", "(a|)"),
        ("^(a|b)*$", "^(a*b*)*$"),
        ("a", "^[^]*a[^]*$"),
        ("^a{2,4}$", "^(aa|aaa|aaaa)$"),
        (r"\d", "[0-9]"),
        (r"\w+", r"[A-Za-z0-9_]"),
        (r"^\S*$", r"^[^\s]*$"),
        ("^(?!a)", "^([^a]|$)"),
        ("^(?=.*a)(?=.*b)", "^(.*a.*b|.*b.*a)"),
        (r"\u{1F600}", "😀"),
        (r"\ud83d\ude00", "😀"),
        (r"\cJ", r"\n"),
        (r"^\/\-\.$", "^[/][-][.]$"),
        ("^{a}$", r"^\{a\}$"),
        ("^{{[^}]+}}$", r"^\{\{[^}]+\}\}$"),
        (r"^\[a]$", r"^\[a\]$"),
        (r"\p{L}", r"\p{Letter}"),
        (r"\p{L}", r"\p{gc=L}"),
        (r"\P{L}", r"[^\p{L}]"),
        (r"[\p{Lu}\p{Ll}\p{Lt}]", r"\p{LC}"),
        (r"\p{Any}", "[^]"),
        ("^.{1,500}$", "^(?!$).{0,500}$"),
    ],
)
def test_equal_languages_are_equal_automata(one, other):
    assert from_pattern(one) == from_pattern(other)
    assert hash(from_pattern(one)) == hash(from_pattern(other))


def test_agrees_with_finite_sets_and_set_operations():
    assert from_pattern("^(a|bc|d?)$") == of_texts(["a", "bc", "", "d"])
    assert from_pattern("") == everything()
    assert from_pattern("a|b") == union(from_pattern("a"), from_pattern("b"))
    assert from_pattern("^(?=.*a)(?!b)[^]*$") == difference(
        from_pattern("^.*a"), from_pattern("^b")
    )
    assert complement(from_pattern("a")) == from_pattern("^[^a]*$")
    both = intersection(from_pattern("^[a-c]+$"), from_pattern("^[b-d]+$"))
    assert both == from_pattern("^[bc]+$")


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (".", "aé😀\0\t", "\n\r\u2028\u2029"),
        (r"\d", "09", "٣५߀"),
        (r"\w", "azAZ09_", "éß-"),
        (r"\s", " \t\n\v\f\r\xa0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff", "a\u200b\x1c\x85"),
        (r"\p{digit}", "0٣५߀", "aⅧ"),
        (r"\p{Lu}", "AÉΩ", "aé1"),
        (r"\p{P}", "!-_«", "a$+"),
        (r"\p{S}", "$+€", "a!"),
        (r"\p{N}", "1Ⅷ²", "a"),
        (r"\p{Zs}", " \u3000", "\na"),
        (r"[^\p{L}\d]", "-_ ", "aé5"),
        (r"\p{ASCII}", "a\x7f", "é"),
        (r"[\b]", "\b", "b"),
        ("[[a]", "[a", "b]"),
    ],
)  # fmt: skip
def test_ecmascript_characters(pattern, yes, no):
    automaton = from_pattern(pattern)
    assert [character for character in yes if character not in automaton] == []
    assert [character for character in no if character in automaton] == []


def test_surrogates_are_in_no_language():
    for pattern in ("", "[^]", "^[^a]*$", "^(?!a)", r"\P{L}", r"\W", r"\p{C}"):
        assert "\ud800" not in from_pattern(pattern)
        assert "\udfff" not in from_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "states"),
    [
        ("^[a-z]{0,200}$", 202),
        ("[a-z]{3,200}", 5),
        ("^.{1,8192}$", 8194),
        ("a.{0,100}b", 104),
        ("^([a-z0-9-]{1,63}[.]){1,8}[a-z]{2,63}$", 1018),
        ("(a?){0,5000}", 2),
    ],
)
def test_counted_repetitions_are_cheap(pattern, states):
    assert from_pattern(pattern).states == states


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|b)*a(a|b){20}",
        "^(a|b)*a(a|b){20}$",
        "^(.{1,500}){500}$",
        "a{1000000}",
        "(((.{1,30}){1,30}){1,30}){1,30}",
        "".join(f"(?=.*{letter})" for letter in "abcdefghijklmnopqrs"),
        "(?<=a.{18})(?<=b.{17})c|" * 3 + "x",
        r"^(\p{L}{1,100}\P{L}{1,100}){1,200}$",
        "|".join(chr(0x4E00 + 2 * i) + str(i) for i in range(8000)),
    ],
)
def test_hostile_patterns_are_refused(pattern):
    # Most of them would never end if they were built in full.
    with pytest.raises(TooManyStates):
        from_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "offset", "message"),
    [
        *REFUSED_BY_BOTH,
        ("(?=a)*", 5, "nothing to repeat"),
        (r"\b+", 2, "nothing to repeat"),
        ("(?=a", 0, "not closed"),
        ("(?<1>a)", 0, "named group"),
        ("(?<n>a)(?<n>b)", 7, "two groups"),
        (r"(?<n>a)\k<n>", 7, "back-reference"),
        (r"\p{Script=Greek}", 0, "Script=Greek"),
        (r"\p{Alphabetic}", 0, "Alphabetic"),
        (r"a\pL", 1, "braces"),
        (r"\A", 0, "unknown escape"),
        (r"\Z", 0, "unknown escape"),
        (r"\u{D800}", 0, "surrogate"),
        (r"\u{110000}", 0, "no such code point"),
        ("a{ 2}", 1, "malformed"),
        ("a{1st}", 1, "malformed"),
        ("{2}", 0, "nothing to repeat"),
        ("[[:alpha:]]", 10, "unexpected"),
        ("^[^]]+$", 4, "unexpected"),
        ("a(?=b(?<=c))", 5, "lookbehind inside"),
        ("(?<=a(?=b))", 5, "inside a lookbehind"),
        ("(?<=(?<!a)b)", 4, "lookbehind inside"),
    ],
)
def test_errors_say_where(pattern, offset, message):
    check_refusal(from_pattern, pattern, offset, message)


V8 = """
const {patterns, texts} = JSON.parse(require("fs").readFileSync(0, "utf8"))
const row = pattern => texts.map(text => new RegExp(pattern, "u").test(text))
process.stdout.write(JSON.stringify(patterns.map(row)))
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
def test_as_v8_searches_with_the_flag_u():
    chance = random.Random(8)
    # No characters above U+FFFF: V8 also looks between their two code units, which the standard does not.
    texts = every("ab-", 4) + [
        "".join(chance.choices("ab-\n\r\u2028é_0\ufeff ", k=chance.randint(1, 6)))
        for _ in range(100)
    ]
    patterns = [
        *PATTERNS,
        r"\p{L}",
        r"[\p{P}\s]$",
        r"\u{61}\x62",
        r"^\P{Lu}+$",
        r"(?<n>é)\b",
        r"^[^\W_]$",
    ]
    patterns += [random_pattern(chance) for _ in range(300)]
    work = json.dumps({"patterns": patterns, "texts": texts})
    done = subprocess.run(
        ["node", "-e", V8], input=work, capture_output=True, text=True, check=True, timeout=60
    )
    for pattern, found in zip(patterns, json.loads(done.stdout), strict=True):
        automaton = from_pattern(pattern)
        assert [text in automaton for text in texts] == found, pattern
