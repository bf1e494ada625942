"""Everything outside the supported subset is refused at its place; nothing is dropped."""

import json

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import (
    ConstraintError,
    InvalidSchema,
    Location,
    UnsatisfiableSchema,
    UnsupportedSchema,
)

UNSUPPORTED_KEYWORDS = {
    "pattern": "^a",
    "format": "date",
    "multipleOf": 2,
    "oneOf": [{}],
    "allOf": [{}],
    "not": {},
    "if": {},
    "then": {},
    "else": {},
    "dependentRequired": {},
    "dependentSchemas": {},
    "dependencies": {},
    "uniqueItems": True,
    "contains": {},
    "minContains": 1,
    "maxContains": 1,
    "patternProperties": {},
    "propertyNames": {},
    "minProperties": 1,
    "maxProperties": 1,
    "prefixItems": [{}],
    "additionalItems": False,
    "unevaluatedProperties": False,
    "unevaluatedItems": False,
    "$dynamicRef": "#a",
    "$recursiveRef": "#",
    "$anchor": "a",
    "$dynamicAnchor": "a",
    "$vocabulary": {},
    "contentEncoding": "base64",
    "nullable": True,
    "id": "x",
    "x-internal": 1,
    "propertees": {},
}


def refused(schema, kind):
    with pytest.raises(ConstraintError) as error:
        reduce_schema(schema if isinstance(schema, str) else json.dumps(schema))
    assert type(error.value) is kind, error.value
    return error.value


@pytest.mark.parametrize("keyword", UNSUPPORTED_KEYWORDS)
def test_unsupported_keywords(keyword):
    inner = {"type": "object", keyword: UNSUPPORTED_KEYWORDS[keyword]}
    for schema, pointer in (
        (inner, ""),
        ({"properties": {"a/b": inner}}, "/properties/a~1b"),
        ({"additionalProperties": inner}, "/additionalProperties"),
        ({"items": inner}, "/items"),
        ({"anyOf": [{}, inner]}, "/anyOf/1"),
        ({"$ref": "#/$defs/x", "$defs": {"x": inner}}, "/$defs/x"),
    ):
        error = refused(schema, UnsupportedSchema)
        assert error.location == Location(pointer=pointer, keyword=keyword)
        assert "additionalProperties" in error.hint


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"$schema": "http://json-schema.org/draft-04/schema#"}, "", "$schema"),
        ({"$schema": 7}, "", "$schema"),
        (
            {"items": {"$schema": "https://json-schema.org/draft/2020-12/schema"}},
            "/items",
            "$schema",
        ),
        ({"items": {"$id": "https://example.org/x"}}, "/items", "$id"),
        ({"$ref": "https://example.org/x.json"}, "", "$ref"),
        ({"items": {"$ref": "other.json#/a"}}, "/items", "$ref"),
        ({"$ref": "#name"}, "", "$ref"),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "items": {"$ref": "#/definitions/a", "minimum": 1},
                "definitions": {"a": {}},
            },
            "/items",
            "minimum",
        ),
        (
            {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]},
            "",
            "items",
        ),
        ({"const": 2**63}, "", "const"),
        ({"enum": [1, -(2**63) - 1]}, "", "enum"),
        ('{"enum": [0.1000000000000000001]}', "", "enum"),
        ('{"minimum": 1.00000000000000000001}', "", "minimum"),
        ('{"maximum": 1e400}', "", "maximum"),
        ('{"items": {"exclusiveMaximum": 123456789012345678901}}', "/items", "exclusiveMaximum"),
        ('{"const": "\\ud800"}', "", "const"),
        ('{"properties": {"\\udc00": {}}}', "", "properties"),
        ('{"required": ["\\udc00"]}', "", "required"),
        ({"items": {"maxLength": 8193}}, "/items", "maxLength"),
        ({"type": "string", "minLength": 8193}, "", "minLength"),
        ({"maxItems": 8193}, "", "maxItems"),
        ('{"minItems": 1e30}', "", "minItems"),
        (
            {"properties": {f"p{n}": {"type": "string", "maxLength": 8192 - n} for n in range(9)}},
            "/properties/p8",
            None,
        ),
        ({"type": "integer", "minimum": 2**63}, "", "minimum"),
        ({"type": "integer", "maximum": -1e30}, "", "maximum"),
        # Not empty, but too narrow for a text of 17 digits that is read back within it.
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 1.0000000000000002}, "", "exclusiveMaximum"),
    ],
)
def test_unsupported_values(schema, pointer, keyword):
    error = refused(schema, UnsupportedSchema)
    assert error.location == Location(pointer=pointer, keyword=keyword)


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        (1, "", None),
        ([], "", None),
        ("null", "", None),
        ({"items": 3}, "/items", None),
        ({"items": [{}]}, "", "items"),
        ({"properties": {"a": "x"}}, "/properties/a", None),
        ({"properties": []}, "", "properties"),
        ({"additionalProperties": None}, "/additionalProperties", None),
        ({"type": "float"}, "", "type"),
        ({"type": []}, "", "type"),
        ({"type": ["null", "null"]}, "", "type"),
        ({"type": 3}, "", "type"),
        ({"type": [["null"]]}, "", "type"),
        ({"required": "a"}, "", "required"),
        ({"required": [1]}, "", "required"),
        ({"required": ["a", "a"]}, "", "required"),
        ({"enum": 1}, "", "enum"),
        ({"minimum": "1"}, "", "minimum"),
        ({"exclusiveMinimum": True}, "", "exclusiveMinimum"),
        ({"minLength": -1}, "", "minLength"),
        ({"maxLength": 1.5}, "", "maxLength"),
        ({"minItems": None}, "", "minItems"),
        ({"maxItems": True}, "", "maxItems"),
        ({"anyOf": []}, "", "anyOf"),
        ({"anyOf": {}}, "", "anyOf"),
        ({"anyOf": [1]}, "/anyOf/0", None),
        ({"$ref": 1}, "", "$ref"),
        ({"$ref": "#/nowhere"}, "", "$ref"),
        ({"$ref": "#/enum/01", "enum": [1]}, "", "$ref"),
        ({"$ref": "#/enum/0", "enum": [1]}, "/enum/0", None),
        ({"$ref": "#/~2"}, "", "$ref"),
        ({"$ref": "#/%ff"}, "", "$ref"),
        ({"$defs": {"unused": {"type": 3}}}, "/$defs/unused", "type"),
        ({"definitions": 1}, "", "definitions"),
        ({"$id": 1}, "", "$id"),
    ],
)
def test_invalid_schemas(schema, pointer, keyword):
    error = refused(schema, InvalidSchema)
    assert error.location == Location(pointer=pointer, keyword=keyword)


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        (False, "", None),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "/properties/a", None),
        (
            {"type": "object", "required": ["a"], "additionalProperties": False},
            "/additionalProperties",
            None,
        ),
        ({"enum": []}, "", "enum"),
        ({"enum": [1, 2], "type": "string"}, "", "enum"),
        ({"const": "abc", "maxLength": 2}, "", "const"),
        ({"const": 5, "enum": [1, 2]}, "", "const"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "", "maximum"),
        ({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}, "", "exclusiveMaximum"),
        ({"type": "integer", "minimum": 0.2, "maximum": 0.8}, "", "maximum"),
        ({"type": "number", "minimum": 1, "exclusiveMaximum": 1}, "", "exclusiveMaximum"),
        ({"type": "string", "minLength": 5, "maxLength": 3}, "", "maxLength"),
        ({"type": "array", "minItems": 2, "maxItems": 1}, "", "maxItems"),
        ({"type": "array", "minItems": 1, "items": False}, "/items", None),
        (
            {"$ref": "#/$defs/a", "type": "null", "$defs": {"a": {"type": "string"}}},
            "/$defs/a",
            "type",
        ),
        ({"anyOf": [False, {"enum": []}]}, "/anyOf/0", None),
        ({"$ref": "#"}, "", None),
        ({"anyOf": [{"$ref": "#"}]}, "", None),
        (
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
            },
            "/$defs/b",
            None,
        ),
        ({"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}, "", None),
        ({"type": "array", "items": {"$ref": "#"}, "minItems": 1}, "", None),
    ],
)
def test_unsatisfiable_schemas(schema, pointer, keyword):
    error = refused(schema, UnsatisfiableSchema)
    assert error.location == Location(pointer=pointer, keyword=keyword)


def test_an_unused_definition_may_assert_what_cannot_be_enforced():
    reduce_schema(json.dumps({"$defs": {"unused": {"pattern": "a", "items": {"not": {}}}}}))


def test_business_objects_are_values():
    reduce_schema(
        json.dumps({"enum": [{"pattern": "(", "$ref": "x", "type": 3}], "default": {"not": 1}})
    )
