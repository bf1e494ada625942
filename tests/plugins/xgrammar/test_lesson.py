"""The lesson's worked examples that concern grammars and masks, with their numbers."""

import json
import random
import re

import numpy as np
import pytest

from infernix_core.interfaces.constraints import Choice, Grammar, JsonObject, JsonSchema, Regex
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider


def vocabulary(*texts):
    """These text tokens and one end token behind them."""
    raw = tuple(text.encode() for text in texts)
    return Vocabulary((*raw, b""), (*[TokenClass.TEXT] * len(raw), TokenClass.END))


def start(constraint, words):
    return XGrammarMaskProvider().bind(words).compile(Content(constraint)).start()


def sample(matcher, words, legal, chance, budget):
    """Uniform constrained sampling; returns the text and why it stopped."""
    text = b""
    for _ in range(budget):
        allowed = sorted(legal(matcher))
        if not allowed:
            return text.decode(), "dead end"
        token = chance.choice(allowed)
        assert matcher.accept(token)
        if words.classes[token] is TokenClass.END:
            return text.decode(), "stop"
        text += words.token_bytes[token]
    return text.decode(), "length"


def test_3_choice_is_an_automaton_over_characters(legal):
    words = vocabulary(
        *("r", "re", "red", "g", "gr", "green", "b", "bl", "e", "ee", "ey", "d"),
        *("n", "y", "u", "l", "ue", " ", "x"),
    )
    assert words.size == 20
    names = {text.decode(): token for token, text in enumerate(words.token_bytes)}
    end = 19
    matcher = start(Choice(["red", "green", "grey", "blue"]), words)

    def allowed():
        return {words.token_bytes[token].decode() or "END" for token in legal(matcher)}

    assert allowed() == {"r", "re", "red", "g", "gr", "green", "b", "bl"}
    mark = matcher.mark()
    assert matcher.accept(names["re"])
    assert allowed() == {"d"}
    assert not matcher.accept(end)
    assert matcher.accept(names["d"])
    assert allowed() == {"END"}
    matcher.rollback(mark)
    assert matcher.accept(names["gr"])
    assert allowed() == {"e", "ee", "ey"}
    matcher.rollback(mark)
    # One word, several spellings.
    for spelling in (["g", "r", "e", "e", "n"], ["gr", "ee", "n"], ["green"]):
        assert all(matcher.accept(names[piece]) for piece in spelling)
        assert allowed() == {"END"}
        matcher.rollback(mark)


def test_3_a_vocabulary_without_single_letters_can_dead_end(legal):
    words = vocabulary("gr", "green", "bl")
    matcher = start(Choice(["green", "blue"]), words)
    assert legal(matcher) == {0, 1, 2}
    assert matcher.accept(2)
    assert legal(matcher) == set()
    assert not matcher.may_end


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"a": [1, 2], "b": "x"}', "complete"),
        ('{"a": [1, 2', "prefix"),
        ("[tru", "prefix"),
        ("[true]", "complete"),
        ('"unterminated', "prefix"),
        ('{"a" 1}', "refused at 5"),
        ('{"a": 1,}', "refused at 8"),
        ('{"a": -}', "refused at 7"),
        ("{} extra", "refused at 3"),
        ("[[[[[[1]]]]]]", "complete"),
    ],
)
def test_4_json_needs_a_stack(text, verdict, byte_bound):
    """Under the empty schema, which is any JSON value."""
    matcher = byte_bound.compile(Content(JsonSchema("{}"))).start()
    for index, byte in enumerate(text.encode()):
        if not matcher.accept(byte):
            assert verdict == f"refused at {index}"
            return
    assert verdict == ("complete" if matcher.may_end else "prefix")


def test_4_json_object_takes_objects_only(byte_bound):
    compiled = byte_bound.compile(Content(JsonObject()))
    assert compiled.start([b'{"a": [1, 2], "b": "x"}']).may_end
    for first in b'["1tfn-':
        assert not compiled.start().accept(first)


def test_5_a_token_may_span_symbols(legal):
    pieces = ["y", '"', '"]', '"]}', '", "', '"],', "\\n", '"]}\n', '"]},', '"}', "\n"]
    words = vocabulary(*pieces, *'{}[]:, "name"Adtgsx'.replace(" ", ""), " ")
    matcher = start(JsonObject(), words)
    single = {text: token for token, text in enumerate(words.token_bytes)}
    for character in '{"name": "Ada", "tags": ["x':
        assert matcher.accept(single[character.encode()])
    allowed = legal(matcher)
    assert {pieces[token] for token in allowed if token < len(pieces)} == set(pieces[:8])
    for refused in ('"]},', '"}', "\n"):
        assert not matcher.accept(single[refused.encode()])
    mark = matcher.mark()
    for last in ('"]}', '"]}\n'):
        assert matcher.accept(single[last.encode()])
        assert matcher.may_end
        matcher.rollback(mark)


def test_6_mask_sizes():
    assert Vocabulary((b"a",) * 151_936, (TokenClass.TEXT,) * 151_936).words == 4_748
    assert 4_748 * 4 == 18_992
    assert pytest.approx(18.55, abs=0.005) == 256 * 4 * 4_748 * 4 / 2**20


EDIT = r"""
root ::= "edit " path " line " num "\n"
path ::= [a-z]{1,8} ("/" [a-z]{1,8}){0,2} ".java"
num ::= [1-9] [0-9]{0,3}
"""


@pytest.mark.parametrize("seed", range(20))
def test_7_any_weights_give_a_matching_text_that_stops(seed, legal):
    words = vocabulary(
        *"abcdefghijklmnopqrstuvwxyz0123456789/. \n", "edit ", " line ", ".java", "ab/c", "e 1"
    )
    matcher = start(Grammar(EDIT), words)
    text, reason = sample(matcher, words, legal, random.Random(seed), 200)
    assert reason == "stop"
    assert re.fullmatch(
        r"edit [a-z]{1,8}(/[a-z]{1,8}){0,2}\.java line [1-9][0-9]{0,3}\n", text, re.ASCII
    )


RECORD = r'\{"name": "[A-Z][a-z]{1,8}", "age": [1-9][0-9]?\}'


@pytest.mark.parametrize("seed", range(20))
def test_14_a_constrained_sampler_says_why_it_stopped(seed, legal):
    words = vocabulary(
        *('{"name": "', '", "age": ', '{"', '": ', "name", "age", "{", "}", '"', ":", ",", " "),
        *("A", "B", "C", "Ada", "Bob", "Cy", "a", "b", "d", "e", "g", "m", "n"),
        *("1", "2", "42", "7", "0", "9"),
    )
    assert words.size == 32
    chance = random.Random(seed)
    text, reason = sample(start(Regex(RECORD), words), words, legal, chance, 60)
    assert reason == "stop"
    record = json.loads(text)
    assert list(record) == ["name", "age"]
    assert 1 <= record["age"] <= 99
    matcher = start(Regex(RECORD), words)
    text, reason = sample(matcher, words, legal, random.Random(seed), 3)
    assert reason == "length"
    assert not matcher.may_end


def test_2_the_ratio_between_survivors_does_not_move():
    """Masking is renormalising: the kept mass and the survivors of the lesson's step."""
    logits = dict(
        zip(
            ["Sure", "{", " {", '"', "Here", "[", "```", "\n"],
            [3.0, 1.5, 0.5, -1.0, 2.5, 0.0, 2.0, 1.0],
            strict=True,
        )
    )
    words = vocabulary(*logits)
    row = np.zeros(words.words, dtype=np.int32)
    assert start(JsonObject(), words).fill(row)
    kept = [text for token, text in enumerate(logits) if row[0] >> token & 1]
    # Blanks may stand before the object, so a newline survives too; the lesson's grammar has none.
    assert kept == ["{", " {", "\n"]
    weights = {text: float(np.exp(value)) for text, value in logits.items()}
    total = weights["{"] + weights[" {"]
    assert total / sum(weights.values()) == pytest.approx(0.1229, abs=5e-5)
    assert weights["{"] / total == pytest.approx(0.7311, abs=5e-5)
