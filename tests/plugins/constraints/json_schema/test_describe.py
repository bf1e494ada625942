"""The reduced form of a schema as people read it."""

from __future__ import annotations

import json

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_constraints.json_schema.describe import describe_schema


def described(schema: object) -> str:
    return describe_schema(reduce_schema(json.dumps(schema)))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 9}, "root = integer from 1 to 9"),
        ({"type": "integer"}, "root = integer"),
        ({"type": "number", "maximum": 1.5, "minimum": -2}, "root = number from -2 to 1.5"),
        ({"type": "string"}, "root = string"),
        ({"type": "string", "minLength": 2}, "root = string of at least 2 characters"),
        ({"type": "string", "maxLength": 2}, "root = string of at most 2 characters"),
        ({"enum": ["a\n", 1, {"b": [None, True]}]}, 'root = "a\\n" | 1 | {"b": [null, true]}'),
        (
            {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
            "root = [... boolean] of 1 to 3 items",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "null"}, 'b"': {"type": "string"}},
                "required": ["a"],
                "additionalProperties": False,
            },
            'root = {\n  "a": null\n  "b\\""?: string\n}',
        ),
        (
            {"type": "object", "properties": {"n": {"$ref": "#"}}, "additionalProperties": False},
            'root = {\n  "n"?: root\n}',
        ),
        ({"type": "object", "maxItems": 3, "additionalProperties": False}, "root = {}"),
        (
            {"type": "integer", "multipleOf": 3, "minimum": 1, "maximum": 9},
            "root = integer from 3 to 9, multiples of 3",
        ),
        ({"type": "number", "multipleOf": 0.5}, "root = number, multiples of 0.5"),
        (
            {"type": "number", "not": {"multipleOf": 3}},
            "root = number, no integers | integer, no multiples of 3",
        ),
        ({"type": "string", "pattern": "^(ab|c)$"}, 'root = string of "c" | "ab"'),
        (
            {"type": "string", "pattern": "^a+$", "maxLength": 9},
            'root = string such as "a" (3 states) of at most 9 characters',
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"enum": [1, "a"]}},
            'root = [... different of 1 | "a"] of at most 2 items',
        ),
        (
            {"type": "array", "items": {"enum": [1, "a"]}, "contains": {"const": 1}},
            'root = [... 1 | "a"] of at least 1 items of at least 1 of the first kind',
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^x": {"type": "null"}},
                "additionalProperties": False,
                "minProperties": 2,
            },
            'root = {\n  ... such as "x" (3 states): null\n} of at least 2 members',
        ),
    ],
)
def test_the_reduced_form(schema: object, text: str) -> None:
    assert described(schema) == text


def test_deep_nesting_is_shown_by_name() -> None:
    schema: dict = {"type": "null"}
    for _ in range(100):
        schema = {"type": "array", "items": schema, "minItems": 1}
    lines = described(schema).splitlines()
    assert 5 < len(lines) < 20
    assert all(len(line) < 400 for line in lines)
    assert lines[-1].count("null") == 1
