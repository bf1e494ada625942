"""The semantics of every keyword on sample values: jsonschema's verdict, and the reduced graph's."""

from __future__ import annotations

import json

import jsonschema
import pytest

from infernix_constraints.json_schema import reduce_schema
from tests.plugins.constraints.json_schema.membership import exact, member

DRAFTS = {
    4: ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
    7: ("http://json-schema.org/draft-07/schema#", jsonschema.Draft7Validator),
    2019: ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    2020: (None, jsonschema.Draft202012Validator),
}


def check(schema, accepted, refused, draft: int = 2020) -> None:
    """Compares both verdicts with the expected one."""
    uri, validator = DRAFTS[draft]
    if uri is not None:
        schema = {"$schema": uri, **schema}
    validator.check_schema(schema)
    judge = validator(schema, format_checker=None)
    reduced = reduce_schema(json.dumps(schema))
    for values, expected in ((accepted, True), (refused, False)):
        for value in values:
            assert judge.is_valid(value) is expected, ("jsonschema", value)
            assert member(reduced, exact(json.dumps(value))) is expected, value


@pytest.mark.parametrize(
    ("schema", "accepted", "refused"),
    [
        # Strings.
        ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc", "a"], ["abcd", "", 1]),
        ({"pattern": "a", "minLength": 2}, ["ba", "😀a", 1], ["a", "bb"]),
        ({"allOf": [{"pattern": "a"}, {"pattern": "^b"}]}, ["ba"], ["a", "b"]),
        # Numbers.
        ({"type": "integer", "multipleOf": 3, "minimum": -4}, [-3, 0, 9, 3.0], [-6, 1, 4.5]),
        ({"type": "number", "multipleOf": 0.5}, [1, 0.5, -1.5], [0.25, "x"]),
        ({"allOf": [{"multipleOf": 4}, {"multipleOf": 6}]}, [12, 0, "s"], [4, 6, 18]),
        ({"type": "integer", "multipleOf": 1.5}, [3, -3, 0], [1, 2, 1.5]),
        ({"not": {"type": "integer"}}, [1.5, "x", None], [1, 2.0]),
        ({"not": {"multipleOf": 3}}, [1, 1.5, -4], [3, 0, 6.0, "x"]),
        # No fraction is a multiple of 3, but integers are.
        ({"multipleOf": 3, "not": {"multipleOf": 2}}, [3, -9], [2, 6, 4.5]),
        # What no schema writes beyond a number that is left out: integers of more bits, and more digits.
        ({"type": "integer", "not": {"const": 2**63 - 1}}, [2**63 - 2, -(2**63)], [2**63 - 1]),
        (
            {"type": "number", "not": {"enum": [1, 1.0000000000000002]}},
            [1.0000000000000004, 0],
            [1, 1.0000000000000002],
        ),
        ({"oneOf": [{"multipleOf": 3}, {"multipleOf": 5}], "type": "integer"}, [3, 5], [15, 1]),
        ({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 2}]}, [1, 2.5], [2, 1.5]),
        ({"minimum": 1.5, "exclusiveMaximum": 3}, [1.5, 2, 2.99, "x"], [1.49, 3]),
        # Objects.
        (
            {"patternProperties": {"^x": {"type": "null"}}, "additionalProperties": False},
            [{}, {"x1": None}, 1],
            [{"x1": 1}, {"y": None}],
        ),
        (
            {
                "properties": {"xa": {"minimum": 2}},
                "patternProperties": {"^x": {"type": "integer"}, "a$": {"maximum": 5}},
                "additionalProperties": {"type": "string"},
            },
            [{"xa": 3}, {"xb": 9}, {"ba": 4.5}, {"ba": "s"}, {"c": "s"}],
            [{"xa": 1}, {"xa": 6}, {"xb": "s"}, {"ba": 6}, {"c": 1}, {"xca": 6}],
        ),
        (
            {"propertyNames": {"maxLength": 2, "pattern": "^a"}, "required": ["a"]},
            [{"a": 1}, {"a": 1, "ab": 2}],
            [{}, {"a": 1, "b": 2}, {"a": 1, "abc": 2}],
        ),
        ({"propertyNames": {"enum": ["a", "b"]}}, [{}, {"a": 1, "b": 1}, 3], [{"c": 1}]),
        (
            {"properties": {"a": {}, "b": {}}, "minProperties": 1, "maxProperties": 2},
            [{"a": 1}, {"z": 1}, {"a": 1, "z": 1}],
            [{}, {"a": 1, "b": 1, "c": 1}],
        ),
        (
            {
                "properties": {"a": {}, "b": {}},
                "additionalProperties": False,
                "minProperties": 2,
            },
            [{"a": 1, "b": 1}],
            [{"a": 1}, {"b": 1}, {}],
        ),
        (
            {
                "allOf": [
                    {"properties": {"a": {}}, "additionalProperties": False},
                    {"properties": {"b": {}}},
                ]
            },
            [{"a": 1}, {}],
            [{"b": 1}],
        ),
        (
            {"required": ["u"], "additionalProperties": {"type": "integer"}},
            [{"u": 1}],
            [{"u": "x"}, {}],
        ),
        (
            {"dependentRequired": {"a": ["b"]}},
            [{}, {"b": 1}, {"a": 1, "b": 1}, 5],
            [{"a": 1}, {"a": 1, "c": 1}],
        ),
        (
            {"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
            [{"b": "x"}, {"a": 1, "b": 2}, {"a": 1}],
            [{"a": 1, "b": "x"}],
        ),
        # Arrays.
        (
            {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
            [[], [1], [1, "a"], {}],
            [["a"], [1, 2]],
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 5}},
            [[5], [1, 6, 2]],
            [[], [1, 2], [5, "x"]],
        ),
        (
            {"contains": {"const": 1}, "minContains": 2, "maxContains": 3, "maxItems": 4},
            [[1, 1], [1, 2, 1, 1], "x"],
            [[1], [1, 1, 1, 1], [1, 1, 2, 2, 2]],
        ),
        ({"contains": {"const": 1}, "minContains": 0}, [[], [2], [1]], []),
        ({"contains": {"type": "null"}, "maxContains": 0, "minContains": 0}, [[], [2]], [[None]]),
        (
            {"prefixItems": [{}, {}], "items": False, "contains": {"type": "null"}},
            [[None], [1, None], [None, 2], [None, None]],
            [[], [1], [1, 2], [1, 2, None]],
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"enum": [1, 2, "a"]}, "minItems": 1},
            [[1], [2, 1], ["a", 1, 2]],
            [[], [1, 1], [3], [1, 2, "a", 1]],
        ),
        ({"uniqueItems": True, "items": {"type": "boolean"}}, [[], [True, False]], [[True, True]]),
        ({"uniqueItems": True, "maxItems": 1}, [[], [{"a": 1}]], [[1, 2]]),
        # Compositions.
        (
            {"properties": {"m": {}}, "anyOf": [{"required": ["m"]}, {"required": ["x"]}]},
            [{"m": 1}, {"x": 1}, 5],
            [{}, {"y": 1}],
        ),
        ({"oneOf": [{"type": "string"}, {"maxLength": 2}]}, ["abc", 5, None], ["ab"]),
        (
            {
                "oneOf": [{"multipleOf": 5}, {"multipleOf": 3}],
                "type": "integer",
                "enum": [3, 5, 15],
            },
            [3, 5],
            [15, 1],
        ),
        (
            {
                "oneOf": [
                    {"properties": {"k": {"const": "a"}, "v": {"type": "integer"}}},
                    {"properties": {"k": {"const": "b"}, "v": {"type": "string"}}},
                ],
                "required": ["k"],
                "type": "object",
            },
            [{"k": "a", "v": 1}, {"k": "b", "v": "x"}, {"k": "a"}],
            [{"k": "a", "v": "x"}, {"k": "c"}, {}],
        ),
        (
            {
                "oneOf": [
                    {"required": ["a"], "properties": {"a": {}}, "additionalProperties": False},
                    {"required": ["b"], "properties": {"b": {}}, "additionalProperties": False},
                ]
            },
            [{"a": 1}, {"b": 1}],
            [{}, {"a": 1, "b": 1}, 5],
        ),
        ({"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]}, ["a", "b"], ["ab", "c"]),
        ({"oneOf": [{"maximum": 2}, {"minimum": 3}], "type": "number"}, [1, 2, 3], [2.5]),
        ({"not": {"type": ["array", "object", "null"]}}, [1, "x", True], [[], {}, None]),
        ({"not": {"enum": [1, "a", None, True, [], {}]}}, [2, 1.5, "b", [1], False], [1, "a", []]),
        ({"not": {"required": ["a"]}, "type": "object"}, [{}, {"b": 1}], [{"a": 1}, 5]),
        (
            {"not": {"properties": {"a": {"type": "string"}}, "required": ["b"]}},
            [{"a": 1, "b": 1}, {}],
            [{"b": 1}, {"a": "x", "b": 1}, 5],
        ),
        ({"not": {"pattern": "^a", "minLength": 2}, "type": "string"}, ["a", "bb"], ["ab"]),
        ({"not": {"items": {"type": "string"}}}, [["x", 1]], [[], ["x"], 5]),
        ({"not": {"minimum": 3}}, [2, 2.5], [3, "x"]),
        ({"not": {"not": {"type": "string"}}}, ["x"], [1]),
        ({"not": {"additionalProperties": False, "properties": {"a": {}}}}, [{"b": 1}], [{}, 5]),
        (
            {
                "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
                "then": {"required": ["a"]},
                "else": {"required": ["b"]},
            },
            [{"k": 1, "a": 1}, {"b": 1}, {"k": 2, "b": 1}, 5],
            [{"k": 1, "b": 1}, {"a": 1}, {"k": 2}],
        ),
        # References and what is not evaluated.
        (
            {
                "$ref": "#/$defs/tree",
                "$defs": {
                    "tree": {
                        "type": "object",
                        "properties": {"next": {"$ref": "#/$defs/tree"}},
                        "unevaluatedProperties": False,
                    }
                },
            },
            [{}, {"next": {"next": {}}}],
            [{"next": 1}, {"other": 1}, {"next": {"x": 1}}],
        ),
        (
            {
                "allOf": [{"properties": {"a": {}}}],
                "anyOf": [{"properties": {"b": {}}}, {"properties": {"c": {"type": "null"}}}],
                "unevaluatedProperties": False,
            },
            [{"a": 1, "b": 1}, {"c": None}, {"b": 1, "c": None}],
            [{"d": 1}, {"c": 1}],
        ),
        (
            {"prefixItems": [{}], "unevaluatedItems": {"type": "null"}},
            [[1], [1, None]],
            [[1, 2]],
        ),
        ({"$ref": "#/$defs/a", "maximum": 3, "$defs": {"a": {"minimum": 1}}}, [1, 3], [0, 4]),
        ({"$ref": "#name", "$defs": {"a": {"$anchor": "name", "type": "null"}}}, [None], [1]),
        (
            {
                "$id": "https://example.org/root",
                "$ref": "https://example.org/root#/$defs/a",
                "$defs": {"a": {"$ref": "part"}, "b": {"$id": "part", "type": "null"}},
            },
            [None],
            [1],
        ),
        (
            {"$dynamicRef": "#x", "$defs": {"a": {"$dynamicAnchor": "x", "type": "null"}}},
            [None],
            [1],
        ),
        # const and enum under their siblings.
        ({"enum": ["yes", "no", 1], "type": "string", "not": {"const": "no"}}, ["yes"], ["no", 1]),
        (
            {"const": {"a": [1, 1]}, "properties": {"a": {"contains": {"const": 1}}}},
            [{"a": [1, 1]}],
            [{}],
        ),
        (
            {"enum": [[1, 2], [1, 1], [3]], "uniqueItems": True, "contains": {"maximum": 2}},
            [[1, 2]],
            [[1, 1], [3]],
        ),
    ],
)
def test_2020_12(schema, accepted, refused):
    check(schema, accepted, refused)


@pytest.mark.parametrize(
    ("draft", "schema", "accepted", "refused"),
    [
        (4, {"minimum": 1, "exclusiveMinimum": True}, [2, 1.5], [1, 0]),
        (4, {"maximum": 1, "exclusiveMaximum": False}, [1], [2]),
        (
            4,
            {"items": [{"type": "null"}], "additionalItems": False},
            [[], [None]],
            [[1], [None, 1]],
        ),
        (4, {"items": {"type": "null"}, "additionalItems": False}, [[None, None]], [[1]]),
        (
            4,
            {"dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            [{"a": 1, "b": 1}],
            [{"a": 1}],
        ),
        (
            4,
            {"$ref": "#a", "definitions": {"x": {"id": "#a", "type": "null"}}},
            [None],
            [1],
        ),
        (7, {"$ref": "#/definitions/a", "maximum": 1, "definitions": {"a": {}}}, [5, 0], []),
        (7, {"if": {"type": "string"}, "then": {"maxLength": 1}}, ["a", 5], ["ab"]),
        (7, {"propertyNames": {"pattern": "^a"}, "contains": {}}, [{"a": 1}, [1]], [{"b": 1}, []]),
        (2019, {"items": [{}], "additionalItems": {"type": "null"}}, [[1, None]], [[1, 1]]),
        (2019, {"items": {"$recursiveRef": "#"}, "type": "array"}, [[[]]], [[1]]),
        (2019, {"$ref": "#/$defs/a", "maximum": 1, "$defs": {"a": {"minimum": 0}}}, [1], [2, -1]),
    ],
)
def test_older_dialects(draft, schema, accepted, refused):
    check(schema, accepted, refused, draft)


def test_formats_are_assertions_and_lengths_join_them():
    reduced = reduce_schema(
        '{"type": "string", "format": "date", "pattern": "^2", "maxLength": 10}'
    )
    for text, expected in (("2024-02-29", True), ("2023-02-29", False), ("1999-01-01", False)):
        assert member(reduced, text) is expected
