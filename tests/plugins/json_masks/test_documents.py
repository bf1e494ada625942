"""Documents and texts of listed schemas, byte by byte, and walks along their masks."""

from __future__ import annotations

import json
from random import Random

import pytest
from jsonschema import Draft202012Validator

from tests.plugins.json_masks.cases import CASES, TEXTS, layouts
from tests.plugins.json_masks.stepping import accepts, check_mask, grammar_of, legal, random_text


@pytest.fixture
def compiled(byte_masks):
    return lambda schema: grammar_of(byte_masks, schema)


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
        text = random_text(grammar, random)
        if text is not None:
            finished += 1
            if name != "circle with a way out":
                validator.validate(json.loads(text))
    assert finished


def test_recursion_may_go_deep(compiled):
    grammar = compiled({"type": "array", "items": {"$ref": "#"}})
    depth = 3000
    assert accepts(grammar, "[" * depth + "]" * depth)
    assert not accepts(grammar, "[" * depth + "]" * (depth - 1))
    assert not accepts(grammar, "[" * depth + "]" * (depth + 1))


def test_masks_of_deep_nesting(masks):
    grammar = grammar_of(
        masks, {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#"}}]}
    )
    for text in (b"[" * 2000, b"[" * 2000 + b"1", b"[" * 2000 + b"]" * 1998):
        check_mask(grammar.start([text]), text[-5:])


def test_long_counts(compiled):
    strings = compiled({"type": "string", "minLength": 300, "maxLength": 600})
    for length in (299, 300, 600, 601):
        expected = 300 <= length <= 600
        assert accepts(strings, json.dumps("é" * length, ensure_ascii=False)) == expected
        assert accepts(strings, json.dumps("😀" * length)) == expected
        assert accepts(strings, json.dumps("\n" * length)) == expected
    arrays = compiled(
        {"type": "array", "items": {"type": "null"}, "minItems": 100, "maxItems": 200}
    )
    for length in (99, 100, 200, 201):
        assert accepts(arrays, json.dumps([None] * length)) == (100 <= length <= 200)


@pytest.mark.parametrize("bound", [8192, 10**6, 10**15])
def test_great_lengths_cost_no_more_than_small_ones(masks, bound):
    grammar = grammar_of(masks, {"type": "string", "maxLength": bound})
    matcher = grammar.start([b'"' + b"a" * 5000])
    check_mask(matcher, "a")
    assert accepts(grammar, '"' + "a" * 8192 + '"')
    assert accepts(grammar, '"' + "a" * 8193 + '"') == (bound > 8192)


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
                    for ascii_only in (False, True):
                        written = json.dumps(text, ensure_ascii=ascii_only)
                        expected = least <= len(text) <= greatest
                        assert accepts(grammar, written) == expected, (least, greatest, text)


def test_many_listed_values_and_names(byte_masks):
    """At every prefix: what goes on with some value, and a backslash, since any character may be escaped."""
    values = [f"value {index * 31}" for index in range(3_000)]
    texts = sorted(f'"{value}"'.encode() for value in values)
    grammar, text = grammar_of(byte_masks, {"enum": values}), texts[1234]
    for size in range(1, len(text)):
        following = {each[size] for each in texts if each.startswith(text[:size])}
        escape = {ord("\\")} if following != {*b'"'} else set()
        assert legal(grammar.start([text[:size]])) == following | escape
    names = {f"name{index}": {"type": "null"} for index in range(300)}
    schema = {"type": "object", "properties": names, "additionalProperties": False}
    matcher = grammar_of(byte_masks, schema).start([b'{"name29'])
    assert legal(matcher) == {*b'"0123456789\\'}
