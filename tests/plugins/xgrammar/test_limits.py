"""Large and nested sources: what is lowered stays small, masks stay right at every prefix, the rest is refused.

Sizes are asserted, not times: a source that blows up is found by what it becomes.
"""

from __future__ import annotations

import bisect

import numpy as np
import pytest

from infernix_core.engine.masks import is_legal
from infernix_core.errors import InvalidChoice, InvalidGrammar, InvalidRegex, InvalidSchema
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_xgrammar.matcher import XGrammarCompiledGrammar
from infernix_xgrammar.provider import XGrammarMaskProvider

BYTES = Vocabulary.of_bytes()
END = 256


def compiled(constraint: OutputConstraint) -> XGrammarCompiledGrammar:
    return XGrammarMaskProvider().bind(BYTES).compile(Content(constraint))


def masks(grammar: XGrammarCompiledGrammar, text: bytes) -> list[set[int]]:
    """Legal bytes (and END) before each byte of ``text`` and after it."""
    matcher = grammar.start()
    found = []
    for value in [*text, None]:
        row = np.zeros(BYTES.words, dtype=np.int32)
        matcher.fill(row)
        found.append({token for token in range(BYTES.size) if is_legal(row, token)})
        assert value is None or matcher.accept(value)
    return found


def of_texts(texts: list[bytes], prefix: bytes) -> set[int]:
    """The same by searching the sorted texts."""
    legal = set()
    for text in texts[bisect.bisect_left(texts, prefix) :]:
        if not text.startswith(prefix):
            break
        legal.add(END if text == prefix else text[len(prefix)])
    return legal


CHOICES = {
    "alike": [f"choice {index * 7919}" for index in range(10_000)],
    "nested": ["x" * index for index in range(400)],
    "apart": [f"{chr(0x4E00 + index)} is {index}" for index in range(3_000)],
    "empty too": ["", *(f"a{index}" for index in range(200))],
}


@pytest.mark.parametrize("name", CHOICES)
def test_many_choices_at_every_prefix(name: str) -> None:
    choices = CHOICES[name]
    grammar = compiled(Choice(choices))
    texts = sorted(choice.encode() for choice in choices)
    for text in (texts[0], texts[len(texts) // 3], texts[-1]):
        expected = [of_texts(texts, text[:size]) for size in range(len(text) + 1)]
        assert masks(grammar, text) == expected


@pytest.mark.parametrize(
    ("pattern", "text", "limit"),
    [
        ("(" * 200 + "a" + "+)" * 200, "aaa", 1_000),
        ("(" * 60 + "a" + "+b?)" * 60, "aaabb", 20_000),
        ("((a+b)+c)+", "aabcabc", 2_000),
        ("(" * 20 + "a" + "{0,9})" * 20, "aaa", 20_000),
        ("a?" * 4_000, "aaa", 500_000),
        (".{0,50}.{0,50}", "xy", 20_000),
        ("[a-z]{2}[a-z]?[a-z]+", "abc", 2_000),
    ],
)
def test_nested_and_neighbouring_repetitions_stay_small(
    pattern: str, text: str, limit: int
) -> None:
    grammar = compiled(Regex(pattern))
    assert len(grammar.text) < limit
    assert END in masks(grammar, text.encode())[-1]


def test_a_unit_that_may_be_empty_repeats_without_end_all_the_same() -> None:
    for pattern in ("(a?)+", "(a*b?)+", "(a?){3,}", "((a?)+b?)+"):
        found = masks(compiled(Regex(pattern)), b"aaaa")
        assert all({ord("a"), END} <= legal for legal in found)


def test_neighbouring_repetitions_keep_their_counts() -> None:
    found = masks(compiled(Regex("a{2,3}a?a{1,2}")), b"aaaaaa")
    assert [END in legal for legal in found] == [False] * 3 + [True] * 4
    assert [ord("a") in legal for legal in found] == [True] * 6 + [False]


@pytest.mark.parametrize(
    ("constraint", "error", "message"),
    [
        (Regex("a" * 70_000), InvalidRegex, "offset 65536.*70000 characters.*at most"),
        (Grammar('root ::= "' + "a" * 1_100_000 + '"'), InvalidGrammar, "characters.*at most"),
        (Choice(["a" * 2_200_000]), InvalidChoice, "characters in all.*at most"),
        (
            Grammar(f"root ::= Token({','.join(map(str, range(1100)))})"),
            InvalidGrammar,
            "line 1.*at most 1024 ids",
        ),
        (Grammar('root ::= Token\nToken ::= "a"'), InvalidGrammar, "line 2.*no name for a rule"),
        (
            JsonSchema("{" + ",".join(f'"k{i}":1' for i in range(60_000)) + ',"k59999":2}'),
            InvalidSchema,
            "'k59999' is written twice",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, OutputConstraint) else None,
)
def test_what_is_too_large_is_refused_where_it_is(
    constraint: OutputConstraint, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        compiled(constraint)


def test_many_token_terminals_are_located_in_linear_time() -> None:
    grammar = compiled(Grammar("root ::= " + "\n Token(97)" * 5_000))
    assert masks(grammar, b"aa") == [{97}] * 3
