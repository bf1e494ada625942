"""The lowered grammars inside xgrammar, byte by byte: same verdicts, and walks along the masks are valid."""

import json
from random import Random

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from infernix_core.errors import RequestError
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider
from tests.plugins.xgrammar.json_schema import random_schemas
from tests.plugins.xgrammar.json_schema.cases import CASES, TEXTS, layouts

BYTES = Vocabulary.of_bytes()
END = 256


@pytest.fixture(scope="module")
def provider():
    return XGrammarMaskProvider().bind(BYTES)


@pytest.fixture
def compiled(provider):
    return lambda schema: provider.compile(Content(JsonSchema.of(schema)))


def accepts(grammar, text):
    matcher = grammar.start()
    return all(matcher.accept(byte) for byte in text.encode()) and matcher.may_end


def walk(grammar, random, limit=400):
    """A text along the masks; None when it does not end within the limit."""
    matcher, row, text = grammar.start(), np.zeros(BYTES.words, np.int32), bytearray()
    while len(text) < limit:
        assert matcher.fill(row), bytes(text)
        legal = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if END in legal and random.random() < 0.5:
            return text.decode()
        # Closing characters are likelier, so that walks end.
        closing = [each for each in legal if chr(each) in '"]},:'] if random.random() < 0.5 else []
        legal = closing or [each for each in legal if each != END]
        if not legal:
            return text.decode()
        byte = int(random.choice(legal))
        assert matcher.accept(byte)
        text.append(byte)
    return None


@pytest.mark.parametrize("name", CASES)
def test_documents(compiled, name):
    schema, valid, invalid = CASES[name]
    grammar = compiled(schema)
    for document in valid:
        for text in layouts(document):
            assert accepts(grammar, text), text
    for document in invalid:
        for text in layouts(document):
            assert not accepts(grammar, text), text


@pytest.mark.parametrize("name", TEXTS)
def test_texts(compiled, name):
    schema, valid, invalid = TEXTS[name]
    grammar = compiled(schema)
    for text in valid:
        assert accepts(grammar, text), text
    for text in invalid:
        assert not accepts(grammar, text), text


@pytest.mark.parametrize("name", CASES)
def test_walks_along_masks_are_valid(compiled, name):
    schema = CASES[name][0]
    grammar, validator, random = compiled(schema), Draft202012Validator(schema), Random(name)
    finished = 0
    for _ in range(12):
        text = walk(grammar, random)
        if text is not None:
            finished += 1
            if name != "circle with a way out":
                validator.validate(json.loads(text))
    assert finished


def test_random_schemas(compiled):
    finished = 0
    for seed in range(1000, 1060):
        random = Random(seed)
        schema = random_schemas.schema(random, 0, ())
        try:
            grammar = compiled(schema)
        except RequestError:
            continue
        for _ in range(4):
            text = walk(grammar, random)
            if text is not None:
                finished += 1
                Draft202012Validator(schema).validate(json.loads(text))
    assert finished > 100


def test_recursion_may_go_deep(compiled):
    grammar = compiled({"type": "array", "items": {"$ref": "#"}})
    depth = 3000
    assert accepts(grammar, "[" * depth + "]" * depth)
    assert not accepts(grammar, "[" * depth + "]" * (depth - 1))


def test_long_counts(compiled):
    strings = compiled({"type": "string", "minLength": 300, "maxLength": 600})
    for length in (299, 300, 600, 601):
        assert accepts(strings, json.dumps("é" * length, ensure_ascii=False)) == (
            300 <= length <= 600
        )
        assert accepts(strings, json.dumps("\n" * length)) == (300 <= length <= 600)
    arrays = compiled(
        {"type": "array", "items": {"type": "null"}, "minItems": 100, "maxItems": 200}
    )
    for length in (99, 100, 200, 201):
        assert accepts(arrays, json.dumps([None] * length)) == (100 <= length <= 200)


def test_the_greatest_counts_compile(compiled):
    strings = compiled({"type": "string", "maxLength": 8192})
    assert accepts(strings, '"' + "a" * 8192 + '"')
    assert not accepts(strings, '"' + "a" * 8193 + '"')


def test_many_optional_members(compiled):
    names = [f"member_{place}" for place in range(300)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "null"} for name in names},
        "required": ["member_150"],
        "additionalProperties": False,
    }
    grammar, random = compiled(schema), Random(3)
    for _ in range(10):
        chosen = sorted({150, *random.sample(range(300), random.randint(0, 40))})
        assert accepts(grammar, json.dumps({names[place]: None for place in chosen}))
        assert not accepts(
            grammar, json.dumps({names[place]: None for place in chosen if place != 150})
        )
        swapped = [*chosen[1:], chosen[0]]
        if len(swapped) > 1:
            assert not accepts(grammar, json.dumps({names[place]: None for place in swapped}))
