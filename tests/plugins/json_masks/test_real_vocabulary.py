"""The masks over the 248,077 tokens of Qwen3.5, bit by bit."""

from __future__ import annotations

import random

import pytest

from infernix_json_masks.provider import JsonMaskProvider
from tests.plugins.json_masks.schemas import GRAPHS, SCHEMAS
from tests.plugins.json_masks.stepping import check_mask, grammar_of, legal, random_text
from tests.plugins.qwen_vocabulary import IM_END, qwen_vocabulary

ALL = {**SCHEMAS, **GRAPHS}


@pytest.fixture(scope="module")
def qwen_masks():
    return JsonMaskProvider().bind(qwen_vocabulary())


def prefixes(compiled_by_bytes, rng, count):
    """Beginnings of texts of the language, cut anywhere."""
    found = [b""]
    while len(found) < count:
        text = random_text(compiled_by_bytes, rng, 300)
        if text is not None:
            found.append(text[: rng.randint(1, len(text))])
    return found


@pytest.mark.parametrize(
    "name",
    [
        "anything",
        "3 to 40 characters",
        "pattern and both lengths",
        "open with odd names",
        "others by pattern",
        "counted both",
        "records",
        "composite values",
        "ambiguous objects",
        "date-time",
    ],
)
def test_a_sample(qwen_masks, byte_masks, name):
    """Legal tokens, long ones, and others by chance."""
    rng = random.Random(name)
    words = qwen_masks.vocabulary.token_bytes
    longest = sorted(range(len(words)), key=lambda token: -len(words[token]))[:5000]
    compiled = grammar_of(qwen_masks, ALL[name])
    for before in prefixes(grammar_of(byte_masks, ALL[name]), rng, 8):
        matcher = compiled.start([before])
        mask = sorted(legal(matcher))
        sample = {*rng.sample(range(len(words)), 1500), *rng.sample(longest, 200)}
        sample |= {*rng.sample(mask, min(len(mask), 500)), *rng.sample(range(1000), 300), IM_END}
        check_mask(matcher, before, sorted(sample))


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_every_bit(qwen_masks, byte_masks, name):
    rng = random.Random(name)
    compiled = grammar_of(qwen_masks, ALL[name])
    for before in prefixes(grammar_of(byte_masks, ALL[name]), rng, 10):
        check_mask(compiled.start([before]), before)


def test_special_tokens_match_no_text(qwen_masks):
    """mlc-ai/xgrammar#737: a special token is never accepted byte by byte."""
    compiled = grammar_of(
        qwen_masks, {"type": "object", "properties": {"queries": {"type": "array"}}}
    )
    vocabulary = qwen_masks.vocabulary
    special = set(range(248_044, vocabulary.size))
    for before in (b"", b'{"queries":["hello', b'{"queries":["hello","', b'{"queries":[]} '):
        matcher = compiled.start([before])
        assert legal(matcher) & special == (vocabulary.end_ids if matcher.may_end else set())
        assert not any(matcher.accept(token) for token in special - vocabulary.end_ids)
