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
