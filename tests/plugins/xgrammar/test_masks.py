"""Masks against brute force: every token of small vocabularies, byte by byte, by an independent matcher."""

import random

import pytest
import random_grammars
from reference_matcher import Reference

from infernix_constraints.printing import grammar_text
from infernix_core.interfaces.constraints import Choice, Grammar, Regex
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_xgrammar import lowering
from infernix_xgrammar.provider import XGrammarMaskProvider

#: A grammar of JSON objects as people write it.
JSON_OBJECT = r"""
root ::= ws object ws
object ::= "{" ws (member ws ("," ws member ws)*)? "}"
member ::= string ws ":" ws value
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
value ::= object | array | string | number | "true" | "false" | "null"
string ::= "\"" ([^"\\\x00-\x1f] | "\\" (["\\bfnrt] | "u00" [01] [0-9a-f]))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [+-]? [0-9]+)?
ws ::= [ \t\n\r]{0,32}
"""


def walk(chance, matcher, reference, legal, steps):
    """Compares masks and single accepts along one random legal walk."""
    words = reference.vocabulary
    for _ in range(steps):
        expected = reference.mask()
        assert legal(matcher) == expected
        assert matcher.may_end == reference.may_end
        for token in chance.sample(range(words.size), 6):
            mark = matcher.mark()
            assert matcher.accept(token) == (token in expected)
            matcher.rollback(mark)
        onward = [token for token in expected if words.classes[token] is not TokenClass.END]
        if not onward:
            return
        token = chance.choice(onward)
        reference.accept(token)
        assert matcher.accept(token)


@pytest.mark.parametrize("budget", [lowering.CHAIN_BUDGET, 0])
@pytest.mark.parametrize("block", range(10))
def test_random_grammars(block, budget, legal, monkeypatch):
    """With the chains of the ordinary lowering, and with xgrammar's own counting instead of them."""
    monkeypatch.setattr(lowering, "CHAIN_BUDGET", budget)
    for seed in range(block * 30, block * 30 + 30):
        chance = random.Random(seed)
        words = random_grammars.vocabulary(chance)
        grammar = random_grammars.grammar(chance, words)
        matcher = (
            XGrammarMaskProvider()
            .bind(words)
            .compile(Content(Grammar(grammar_text(grammar))))
            .start()
        )
        walk(chance, matcher, Reference(words, grammar=grammar), legal, 8)


CONTENTS = [
    *(
        Regex("[ab]{1,3}"),
        Regex("(a|é)*b?"),
        Regex(".{0,20}"),
        Regex("[^]{2,}"),
        Regex("(ab){0,5}\\n"),
    ),
    *(Choice(["a", "ab", "", "é"]), Grammar('root ::= "a" root "b" | ""'), Grammar("root ::= []")),
]


@pytest.mark.parametrize("block", range(10))
def test_random_languages(block, legal):
    for seed in range(block * 30, block * 30 + 30):
        chance = random.Random(seed)
        words = random_grammars.vocabulary(chance)
        language = random_grammars.language(chance, words, CONTENTS)
        matcher = XGrammarMaskProvider().bind(words).compile(language).start()
        walk(chance, matcher, Reference(words, language=language), legal, 8)


@pytest.mark.parametrize(
    ("constraint", "starts"),
    [
        (Regex(".{1,2000}"), ["", "The quick ", "日本語"]),
        (Regex(".{1,30}"), ["a" * 20, "a" * 28]),
        (Regex("[^]{0,40}"), ["", "a\nb", "x" * 38]),
        (
            Regex(r'"([^"\\]|\\.){0,16}"'),
            ["", '"', '"ab\\', '"0123456789abcd', '"0123456789abcdef'],
        ),
        (Regex("[a-z]{1,8}(/[a-z]{1,8}){0,2}\\.java"), ["", "src/main/fo", "abcdefgh", "a/b/c.j"]),
        (Regex(".{1,200}foo"), ["", "some text fo"]),
        (Regex("[\\s\\S]*[éß€]{3,9}"), ["", "a€"]),
        (
            Grammar(JSON_OBJECT),
            ["", '{"a', '{"a":', '{"a": [1', '{"k": "v\\', '{"k": {} ', "  ", '{"a": 1}'],
        ),
        (Grammar("root ::= ExcludeToken(5)+ Token(17) [a-z]{0,40}"), ["", "ab"]),
    ],
    ids=lambda value: str(value)[:40] if not isinstance(value, list) else "",
)
def test_sampled_tokens_of_a_real_vocabulary(constraint, starts, qwen, qwen_bound, encode, legal):
    """A seeded sample of the 248,077 tokens, legal, long and odd ones among them, at several prefixes."""
    compiled = qwen_bound.compile(Content(constraint))
    chance = random.Random(str(constraint))
    longest = sorted(range(qwen.size), key=lambda token: -len(qwen.token_bytes[token]))[:2000]
    controls = range(248_044, qwen.size)
    for start in starts:
        matcher, reference = compiled.start(), Reference(qwen, language=Content(constraint))
        for token in encode(start):
            assert matcher.accept(token)
            reference.accept(token)
        mask = legal(matcher)
        sample = {*chance.sample(range(qwen.size), 150), *chance.sample(longest, 10), *controls}
        sample |= {*chance.sample(range(400), 50), *chance.sample(sorted(mask), min(len(mask), 50))}
        wrong = {token for token in sample if (token in mask) != reference.legal(token)}
        assert wrong == set(), [(token, qwen.token_bytes[token]) for token in sorted(wrong)[:5]]
