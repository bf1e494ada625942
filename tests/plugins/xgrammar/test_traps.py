"""Sharp edges of the library, each closed by the lowering or by the matcher."""

import numpy as np
import pytest
from reference_matcher import Reference

from infernix_constraints.gbnf import parse_gbnf
from infernix_core.engine.masks import is_legal
from infernix_core.interfaces.constraints import Choice, Grammar, Regex
from infernix_core.interfaces.language import Content, TextExcept, Union
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider

TEXT, FRAMING, END, FORBIDDEN = TokenClass


def matches(bound, constraint, text):
    matcher = bound.compile(Content(constraint)).start()
    return all(map(matcher.accept, text)) and matcher.may_end


@pytest.mark.parametrize(
    "source", ["[^a]", "[\\u0061-\\U0010ffff]", ".", "[^]", "[^a]*", "[^\\n]{0,300}"]
)
def test_classes_hold_scalar_values_only(byte_bound, source):
    constraint = Grammar(f"root ::= {source}")
    for good in ("é", "\ud7ff", "\ue000", "😀", "\U0010ffff"):
        assert matches(byte_bound, constraint, good.encode()), good
    bad = [b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xc0\x80", b"\xe0\x80\x80", b"\xf4\x90\x80\x80"]
    for raw in (*bad, b"\xf5\x80\x80\x80", b"\xf5", b"\xff", b"\x80"):
        assert not matches(byte_bound, constraint, raw), raw


def test_bits_beyond_the_vocabulary_are_zero():
    for size in (31, 32, 33, 64, 70):
        words = Vocabulary((b"a",) * (size - 1) + (b"",), (TEXT,) * (size - 1) + (END,))
        matcher = XGrammarMaskProvider().bind(words).compile(Content(Regex("a+"))).start()
        for accepted in range(2):
            row = np.full(words.words, -1, dtype=np.int32)
            matcher.fill(row)
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")
            assert bits[: size - 1].all()
            assert bits[size - 1] == accepted
            assert not bits[size:].any()
            matcher.accept(0)


def test_a_mask_of_everything_is_written(legal):
    words = Vocabulary((b"a",) * 32, (TEXT,) * 32)
    matcher = XGrammarMaskProvider().bind(words).compile(Content(Regex("a*b"))).start()
    assert legal(matcher) == set(range(32))


def test_two_exclusions_at_one_place(legal):
    words = Vocabulary((b"a", b"b", b"c", b"<f>", b""), (TEXT, TEXT, TEXT, FRAMING, END))
    language = Union([TextExcept({0, 2}), TextExcept({1, 2, 3})])
    assert legal(XGrammarMaskProvider().bind(words).compile(language).start()) == {0, 1, 3}


@pytest.mark.parametrize(
    "text",
    [
        '"',
        "\\",
        "\n",
        "\t",
        "]",
        "[",
        "^",
        "-",
        "'",
        "\x00",
        "\x7f",
        "é",
        "\U0010ffff",
        "\\x41b",
        "{}|()*+?.",
        '" | "x',
    ],
)
def test_every_character_is_printed_exactly(byte_bound, text):
    assert matches(byte_bound, Choice([text]), text.encode())
    assert not matches(byte_bound, Choice([text + "!"]), text.encode())
    escaped = "".join(f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else sign for sign in text)
    one = Regex(f"[{escaped}]{{{len(text)}}}")
    assert matches(byte_bound, one, text.encode())


@pytest.mark.parametrize(
    "source",
    [
        "root{0,11}",
        "root{0,1000000}",
        "(root?){2,9}",
        "root*",
        "(root root)*",
        'root | root root | ""',
    ],
)
def test_rules_that_say_nothing_do_not_crash(byte_bound, source):
    matcher = byte_bound.compile(Content(Grammar(f"root ::= {source}"))).start()
    # Read as a least fixed point, every one of them is the empty text and nothing else.
    assert matcher.may_end
    row = np.zeros(byte_bound.index.vocabulary.words, dtype=np.int32)
    assert matcher.fill(row)
    legal = {token for token in range(byte_bound.index.vocabulary.size) if is_legal(row, token)}
    assert legal == set(byte_bound.index.vocabulary.end_ids)


def test_huge_counts(byte_bound):
    for pattern in (
        "(ab|c){0,1000000}",
        "(a(bc?)){999999}",
        ".{3,1000000}x",
        "((a{0,1000}b){0,1000}c){0,1000}",
    ):
        matcher = byte_bound.compile(Content(Regex(pattern))).start()
        assert matcher.fill(np.zeros(9, dtype=np.int32))
    exact = byte_bound.compile(Content(Regex("(a|bc){70000}"))).start()
    for _ in range(69_999):
        assert exact.accept(97)
    assert not exact.may_end
    assert exact.accept(97)
    assert exact.may_end
    assert not exact.accept(97)


def test_long_literals_many_rules_and_deep_nesting(byte_bound):
    long = "ab\\n" * 20_000
    assert matches(byte_bound, Choice([long]), long.encode())
    chain = "\n".join(f'n{i} ::= "x" n{i + 1}' for i in range(10_000)) + '\nn10000 ::= ""'
    assert matches(byte_bound, Grammar(f"root ::= n0\n{chain}"), b"x" * 10_000)
    alias = "\n".join(f"n{i} ::= n{i + 1}" for i in range(10_000)) + '\nn10000 ::= "x"'
    assert matches(byte_bound, Grammar(f"root ::= n0\n{alias}"), b"x")
    nested = "(" * 250 + "a" + ")?" * 250
    assert matches(byte_bound, Regex(nested), b"a")
    many = Choice([f"choice {number}" for number in range(10_000)])
    assert matches(byte_bound, many, b"choice 9999")
    deep = Grammar('root ::= "(" root ")" | "x"')
    assert matches(byte_bound, deep, b"(" * 3_000 + b"x" + b")" * 3_000)


@pytest.mark.parametrize(
    "following",
    [
        *("[^\\x00-\\x7f]", "[a-\\u0200]", "[\\x00-ac-\\U0010ffff]", "[^b]", "[a\\u0162]", "[^\\n]*"),
        *("[^\\nb]{0,20} \"\\n\"", "\"c\"? [^b]", "\"a\" [\\u0162-\\U0010ffff]", "[^\\nb]{2,9}", "word [^b]"),
    ],
)  # fmt: skip
def test_tokens_that_run_from_a_rule_into_a_class(following, legal):
    """The library compares such classes by the lowest eight bits of their ends, if it is let."""
    characters = ["a", "b", "c", "\n", "é", "ÿ", "Ā", "Ţ", "€", "日", "\ue000", "😀", "\U0010ffff"]
    texts = [
        *characters,
        *(f"b{c}" for c in characters),
        *(f"b)c{c}" for c in characters),
        "(",
        "ba",
    ]
    raw = (*(text.encode() for text in texts), b"b\xc3", b"b\xe2\x82", b"b\xed\xa0\x80", b"")
    words = Vocabulary(raw, (*[TEXT] * (len(raw) - 1), END))
    source = f'root ::= word {following} "q"\nword ::= "b" | "(" word'
    matcher = XGrammarMaskProvider().bind(words).compile(Content(Grammar(source))).start()
    reference = Reference(words, grammar=parse_gbnf(source))
    for token in (texts.index("("), texts.index("b"), None):
        assert legal(matcher) == reference.mask()
        if token is not None:
            assert matcher.accept(token)
            reference.accept(token)
