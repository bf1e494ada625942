"""Grammars of schemas against an independent validator: what is generated is valid, what is valid is accepted."""

import itertools
import json
from random import Random

import pytest
from jsonschema import Draft202012Validator

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import UnsatisfiableSchema
from infernix_xgrammar.json_schema import lower_schema
from tests.plugins.xgrammar.json_schema import random_schemas
from tests.plugins.xgrammar.json_schema.cases import CASES, TEXTS, layouts
from tests.plugins.xgrammar.json_schema.texts import Texts


def texts_of(schema):
    return Texts(lower_schema(reduce_schema(json.dumps(schema))))


def is_valid(validator, value):
    """The verdict, or None where the validator follows a circle of references without end."""
    try:
        return validator.is_valid(value)
    except RecursionError:
        return None


@pytest.mark.parametrize("name", CASES)
def test_documents_are_accepted_or_refused_as_the_schema_says(name):
    schema, valid, invalid = CASES[name]
    texts = texts_of(schema)
    for document in valid:
        for text in layouts(document):
            assert texts.accepts(text), text
    for document in invalid:
        for text in layouts(document):
            assert not texts.accepts(text), text


@pytest.mark.parametrize("name", CASES)
def test_random_walks_are_valid(name):
    schema = CASES[name][0]
    texts, validator, random = texts_of(schema), Draft202012Validator(schema), Random(name)
    for _ in range(30):
        text = texts.sample(random, random.choice([5, 20, 60]))
        assert is_valid(validator, json.loads(text)) is not False, text


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    schema, valid, invalid = TEXTS[name]
    texts = texts_of(schema)
    for text in valid:
        assert texts.accepts(text), text
        json.loads(text)
    for text in invalid:
        assert not texts.accepts(text), text


def check(seed):
    random = Random(seed)
    schema = random_schemas.document(random)
    validator = Draft202012Validator(schema)
    try:
        texts = texts_of(schema)
    except UnsatisfiableSchema:
        texts = None
    if texts is not None:
        for place in range(8):
            text = texts.sample(random, random.choice([5, 20, 60]))
            assert is_valid(validator, json.loads(text)) is not False, (schema, text)
            # The sampler and the recogniser read the rules independently of each other.
            assert place or texts.accepts(text), (schema, text)
    for _ in range(20):
        value = random_schemas.value(random)
        verdict = is_valid(validator, value)
        if verdict is None:
            return
        if texts is None:
            assert not verdict, (schema, value)
            continue
        spellings = itertools.islice(random_schemas.spellings(value), 400)
        accepted = any(
            texts.accepts(random.choice(list(layouts(spelling)))) for spelling in spellings
        )
        assert accepted == verdict, (schema, value)


@pytest.mark.parametrize("block", range(8))
def test_random_schemas(block):
    for seed in range(block * 25, block * 25 + 25):
        check(seed)


@pytest.mark.heavy
@pytest.mark.parametrize("block", range(8, 80))
def test_more_random_schemas(block):
    for seed in range(block * 50, block * 50 + 50):
        check(seed)
