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

#: Keywords that assert in another dialect than the document's, which is 2020-12.
FOREIGN_KEYWORDS = {
    "additionalItems": False,
    "$recursiveRef": "#",
    "divisibleBy": 2,
    "disallow": "string",
    "extends": {},
}
#: Keywords that assert nothing in it.
ANNOTATIONS = {
    "id": "x",
    "x-internal": 1,
    "self": {"vendor": "a"},
    "links": [],
    "nullable": True,
    "propertees": {"a": {"type": 3}},
    "contentEncoding": "base64",
    "contentMediaType": "text/plain",
    "$vocabulary": {},
    "$recursiveAnchor": "a",
    "format": "uri-reference",
}


def refused(schema, kind):
    with pytest.raises(ConstraintError) as error:
        reduce_schema(schema if isinstance(schema, str) else json.dumps(schema))
    assert type(error.value) is kind, error.value
    return error.value


@pytest.mark.parametrize("keyword", FOREIGN_KEYWORDS)
def test_keywords_that_assert_in_other_dialects_are_refused_where_they_are_used(keyword):
    inner = {"type": "object", keyword: FOREIGN_KEYWORDS[keyword]}
    for schema, pointer in (
        (inner, ""),
        ({"properties": {"a/b": inner}}, "/properties/a~1b"),
        ({"additionalProperties": inner}, "/additionalProperties"),
        ({"items": inner}, "/items"),
        ({"anyOf": [{}, inner]}, "/anyOf/1"),
        ({"not": inner}, "/not"),
        ({"$ref": "#/$defs/x", "$defs": {"x": inner}}, "/$defs/x"),
    ):
        error = refused(schema, UnsupportedSchema)
        assert error.location == Location(pointer=pointer, keyword=keyword)
        assert "draft" in error.hint or "2019-09" in error.hint
    reduce_schema(json.dumps({"$defs": {"unused": inner}}))


@pytest.mark.parametrize("keyword", ANNOTATIONS)
def test_what_asserts_nothing_is_noted(keyword):
    schema = {"type": "object", "title": "t", "items": {keyword: ANNOTATIONS[keyword]}}
    reduced = reduce_schema(json.dumps(schema))
    assert [(note.pointer, note.keyword) for note in reduced.notes] == [("/items", keyword)]
    assert reduced.nodes == reduce_schema('{"type": "object"}').nodes


def test_what_stands_beside_a_reference_is_ignored_and_noted_up_to_draft_07():
    schema = {
        "items": {"$ref": "#/definitions/a", "minimum": 1, "$id": "urn:x"},
        "definitions": {"a": {}},
    }
    old = reduce_schema(
        json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema})
    )
    assert [(note.pointer, note.keyword) for note in old.notes] == [
        ("/items", "minimum"),
        ("/items", "$id"),
    ]
    assert "draft-07" in old.notes[0].text


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword"),
    [
        ({"$schema": "http://json-schema.org/draft-03/schema#"}, "", "$schema"),
        ({"$schema": 7}, "", "$schema"),
        (
            {"items": {"$schema": "http://json-schema.org/draft-07/schema#"}},
            "/items",
            "$schema",
        ),
        ({"$ref": "https://example.org/x.json"}, "", "$ref"),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, "", "$ref"),
        ({"items": {"$ref": "other.json#/a"}}, "/items", "$ref"),
        (
            {"items": {"$id": "https://example.org/x", "items": {"$ref": "#/$defs/a"}}},
            "/items/items",
            "$ref",
        ),
        ({"$ref": "#a", "$defs": {"x": {"$anchor": "a"}, "y": {"$anchor": "a"}}}, "", "$ref"),
        (
            {
                "items": {"$dynamicRef": "#a"},
                "$defs": {"x": {"$dynamicAnchor": "a"}, "y": {"$id": "y", "$dynamicAnchor": "a"}},
            },
            "/items",
            "$dynamicRef",
        ),
        # What cannot be told exactly.
        ({"type": "array", "uniqueItems": True}, "", "uniqueItems"),
        ({"uniqueItems": True, "items": {"type": "integer"}}, "", "uniqueItems"),
        (
            {"allOf": [{"contains": {"const": 1}}, {"contains": {"const": 2}}]},
            "/allOf/1",
            "contains",
        ),
        ({"prefixItems": [{}], "contains": {"const": 1}}, "", "contains"),
        ({"type": "number", "not": {"multipleOf": 0.5}}, "/not", "multipleOf"),
        ({"not": {"anyOf": [{"multipleOf": 3}, {"multipleOf": 2}]}}, "/not/anyOf/0", "multipleOf"),
        ({"type": "integer", "multipleOf": 123456789}, "", "multipleOf"),
        # A part of the numbers can be told: 0 of the first, the fractions of the second.
        (
            {"type": "integer", "minimum": 0, "multipleOf": 999983, "not": {"const": 999983}},
            "",
            "multipleOf",
        ),
        ({"type": "number", "not": {"multipleOf": 999983}}, "/not", "multipleOf"),
        ({"not": {"patternProperties": {"a": {"type": "null"}}}}, "/not", "patternProperties"),
        ({"not": {"additionalProperties": {"type": "null"}}}, "/not", "additionalProperties"),
        ({"not": {"const": [1]}}, "/not", "const"),
        ({"not": {"unevaluatedProperties": False}}, "/not", "unevaluatedProperties"),
        ({"unevaluatedItems": False, "contains": {"const": 1}}, "", "unevaluatedItems"),
        ({"not": {"$ref": "#"}}, "/not", None),
        ({"pattern": "(?<a>x)\\k<a>"}, "", "pattern"),
        ({"items": {"pattern": "("}}, "/items", "pattern"),
        ({"const": 2**63}, "", "const"),
        ({"enum": [1, -(2**63) - 1]}, "", "enum"),
        ('{"enum": [0.1000000000000000001]}', "", "enum"),
        ('{"minimum": 1.00000000000000000001}', "", "minimum"),
        ('{"maximum": 1e400}', "", "maximum"),
        ('{"items": {"exclusiveMaximum": 123456789012345678901}}', "/items", "exclusiveMaximum"),
        ('{"const": "\\ud800"}', "", "const"),
        ('{"properties": {"\\udc00": {}}}', "", "properties"),
        ('{"required": ["\\udc00"]}', "", "required"),
        ({"type": "string", "minLength": 8193}, "", "minLength"),
        ({"minProperties": 8193}, "", "minProperties"),
        ('{"minItems": 1e30}', "", "minItems"),
        (
            {"properties": {f"p{n}": {"type": "string", "minLength": 8192 - n} for n in range(9)}},
            "/properties/p8",
            None,
        ),
        ({"type": "integer", "minimum": 2**63}, "", "minimum"),
        ({"type": "integer", "maximum": -1e30}, "", "maximum"),
        # Not empty, but too narrow for a text of 17 digits that is read back within it.
        ({"exclusiveMinimum": 1, "exclusiveMaximum": 1.0000000000000002}, "", "exclusiveMaximum"),
        # The last interval is empty, but the first is not.
        (
            {"minimum": 1, "maximum": 1.0000000000000002, "not": {"enum": [1, 1.0000000000000002]}},
            "/not",
            "enum",
        ),
    ],
)
def test_unsupported_values(schema, pointer, keyword):
    error = refused(schema, UnsupportedSchema)
    assert error.location == Location(pointer=pointer, keyword=keyword)


@pytest.mark.parametrize("listed", [{}, {"const": "x"}, {"enum": ["x", "y"]}])
def test_patterns_take_as_many_states_beside_listed_values(listed):
    # Each has 8,194 states and a few more. A ninth is looked at no more, for eight of them have more than 65,536.
    schema = {
        "properties": {
            f"p{n}": {"type": "string", "pattern": f"(a|b)*a(a|b){{12}}c{{{n + 1}}}|^x$", **listed}
            for n in range(10)
        }
    }
    error = refused(schema, UnsupportedSchema)
    assert error.location.keyword == "pattern"
    assert "too many states" in error.message
    del schema["properties"]["p8"], schema["properties"]["p9"]
    reduce_schema(json.dumps(schema))


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
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "", "required"),
        (
            {"type": "object", "required": ["a"], "additionalProperties": False},
            "",
            "required",
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
        (
            {"type": "string", "allOf": [{"pattern": "^a"}, {"pattern": "^b"}]},
            "/allOf/1",
            "pattern",
        ),
        ({"type": "string", "pattern": "^a{4}$", "maxLength": 3}, "", "pattern"),
        ({"type": "string", "format": "date", "minLength": 11}, "", "format"),
        ({"type": "integer", "multipleOf": 7, "minimum": 1, "maximum": 6}, "", "multipleOf"),
        ({"type": "number", "multipleOf": 0.5, "minimum": 0.6, "maximum": 0.9}, "", "multipleOf"),
        (
            {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 3, "multipleOf": 3},
            "",
            "multipleOf",
        ),
        ({"type": "number", "multipleOf": 3, "not": {"type": "integer"}}, "/not", "type"),
        (
            {"type": "number", "minimum": 1, "maximum": 1, "not": {"type": "integer"}},
            "/not",
            "type",
        ),
        ({"type": "object", "minProperties": 2, "maxProperties": 1}, "", "maxProperties"),
        ({"type": "object", "required": ["b"], "propertyNames": {"pattern": "^a"}}, "", "required"),
        ({"type": "array", "contains": False}, "", "contains"),
        (
            {"type": "array", "items": {"type": "null"}, "contains": {"type": "string"}},
            "",
            "contains",
        ),
        (
            {"type": "array", "contains": {}, "minContains": 3, "maxContains": 2},
            "",
            "contains",
        ),
        (
            {"type": "array", "uniqueItems": True, "items": {"const": 1}, "minItems": 2},
            "",
            "uniqueItems",
        ),
        ({"oneOf": [{"type": "null"}, {"type": "null"}]}, "", "type"),
        ({"not": {}}, "/not", None),
        ({"type": "null", "not": {"const": None}}, "/not", "const"),
        ({"type": "boolean", "not": {"enum": [True, False]}}, "/not", "enum"),
        ({"type": "string", "not": {"type": "string"}}, "/not", "type"),
        (
            {"type": "object", "unevaluatedProperties": False, "required": ["a"]},
            "",
            "required",
        ),
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


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "required": ["z"], "additionalProperties": False},
        {"type": "object", "required": ["a", "z"], "properties": {"z": False}},
        {"type": "object", "required": ["z"], "patternProperties": {"z": False}},
        {"type": "object", "required": ["z"], "propertyNames": {"maxLength": 0}},
        {"type": "object", "required": ["z"], "unevaluatedProperties": False},
        {"required": ["z"], "allOf": [{"type": "object", "additionalProperties": False}]},
    ],
)
def test_a_required_member_that_is_not_admitted_is_named(schema):
    error = refused(schema, UnsatisfiableSchema)
    assert error.location == Location(pointer="", keyword="required")
    assert error.message == "'z' is required, but no such member is admitted"


OBJECTLESS = {"required": ["zz"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "notes"),
    [
        (OBJECTLESS, [("", "required")]),
        ({"properties": {"b": OBJECTLESS, "a": {}}}, [("/properties/b", "required")]),
        ({"required": ["a"], "properties": {"a": {"enum": []}}}, [("/properties/a", "enum")]),
        ({"minProperties": 2, "maxProperties": 1}, [("", "maxProperties")]),
        (
            {"properties": {"a": {}}, "additionalProperties": False, "minProperties": 2},
            [("", "type")],
        ),
        ({"required": ["a"], "properties": {"a": {"not": {}}}}, [("", "required")]),
        ({"anyOf": [{"type": "string"}, OBJECTLESS]}, [("/anyOf/1", "required")]),
        (
            {"required": ["a"], "properties": {"a": {"type": "null", "not": {"const": None}}}},
            [("/properties/a/not", "const")],
        ),
        ({"required": ["a"], "properties": {"a": {"$ref": "#/properties/a"}}}, [("", "type")]),
        ({"required": ["a"], "maxProperties": 0}, [("", "type")]),
        # Objects remain, or were not to be expected, or are ruled out in so many words.
        ({"anyOf": [{"type": "object"}, OBJECTLESS]}, []),
        ({"type": ["object", "string"], **OBJECTLESS}, []),
        ({"not": {"type": "object"}}, []),
        ({"required": ["a"]}, []),
        ({"const": 1}, []),
        ({"enum": [1, {}], "minimum": 1}, []),
        ({"if": OBJECTLESS, "then": {"minimum": 1}}, []),
        ({"not": OBJECTLESS, "type": "object"}, []),
    ],
)
def test_objects_that_vanish_beside_other_types_are_noted(schema, notes):
    found = reduce_schema(json.dumps(schema)).notes
    assert [(note.pointer, note.keyword) for note in found] == notes
    for note in found:
        assert note.text.startswith("no object fits: ")


def test_the_note_of_vanished_objects_says_why():
    (note,) = reduce_schema(json.dumps(OBJECTLESS)).notes
    assert note.text == "no object fits: 'zz' is required, but no such member is admitted"


def test_an_unused_definition_may_assert_what_cannot_be_enforced():
    reduce_schema(json.dumps({"$defs": {"unused": {"pattern": "a", "items": {"not": {}}}}}))


def test_business_objects_are_values():
    reduce_schema(
        json.dumps({"enum": [{"pattern": "(", "$ref": "x", "type": 3}], "default": {"not": 1}})
    )
