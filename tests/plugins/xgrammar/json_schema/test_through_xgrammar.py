"""The lowered grammars inside xgrammar, byte by byte: same verdicts, and walks along the masks are valid."""

import json
from random import Random

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from infernix_core.errors import RequestError
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
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


def test_counted_strings_count_escapes_wherever_they_stand(compiled):
    for least, greatest in ((0, 1), (0, 2), (1, 3), (3, 40), (0, 128), (0, 129), (130, 200)):
        grammar = compiled({"type": "string", "minLength": least, "maxLength": greatest})
        for length in {max(least - 1, 0), least, greatest - 1, greatest, greatest + 1}:
            for place in {0, 1, 2, length // 2, length - 2, length - 1}:
                for escapes in ("\n", '"\u0001', "\\😀"):
                    text = ("é" * length)[:place] + escapes + ("a" * length)[place + len(escapes) :]
                    accepted = accepts(grammar, json.dumps(text, ensure_ascii=False))
                    assert accepted == (least <= len(text) <= greatest), (least, greatest, text)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "maxLength": 5},
        {"type": "string", "minLength": 3, "maxLength": 60},
        {"type": "array", "items": {"type": "string", "minLength": 2, "maxLength": 9}},
        {"type": "object", "properties": {"ab": {"maxLength": 30}, "a\n": {"type": "number"}}},
        {"type": "array", "items": {"enum": ["a", "ab\n", "b"]}, "minItems": 2, "maxItems": 3},
        {
            "type": "object",
            "properties": {"b": {"minimum": -3.5, "maximum": 12}},
            "required": ["b"],
        },
    ],
)
def test_masks_over_longer_tokens_agree_with_their_bytes(compiled, schema):
    random = Random(7)
    by_bytes = compiled(schema)
    documents = [walk(by_bytes, random) for _ in range(40)]
    raw = "".join(filter(None, documents)).encode()
    cuts = {raw[at : at + random.randint(2, 6)] for at in range(0, len(raw), 3)}
    cuts |= {
        b'"' * 2,
        b'",',
        b'"]',
        b'"}',
        b"\\n\\",
        b'\\"a',
        b'a\\"',
        b'aaa"',
        b'":',
        b'", "',
        b"\n  ",
    }
    pieces = sorted(cuts | {bytes([byte]) for byte in range(256)})[:3000]
    classes = [TokenClass.TEXT] * len(pieces) + [TokenClass.END]
    vocabulary = Vocabulary((*pieces, b""), tuple(classes))
    grammar = XGrammarMaskProvider().bind(vocabulary).compile(Content(JsonSchema.of(schema)))
    row = np.zeros(vocabulary.words, np.int32)
    for document in documents[:6]:
        matcher = grammar.start()
        accepted = b""
        for byte in (document or "").encode()[:60]:
            matcher.fill(row)
            legal = np.unpackbits(row.view(np.uint8), bitorder="little")
            for token in random.sample(range(len(pieces)), min(400, len(pieces))):
                expected = _continues(by_bytes, accepted, pieces[token])
                assert bool(legal[token]) == expected, (accepted, pieces[token])
            assert matcher.accept(pieces.index(bytes([byte])))
            accepted += bytes([byte])


def _continues(grammar, accepted, piece):
    matcher = grammar.start([accepted])
    return all(matcher.accept(byte) for byte in piece)
