"""What is no schema of its dialect is refused, exactly where the dialect's metaschema says so."""

from __future__ import annotations

import json

import jsonschema
import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import ConstraintError, InvalidSchema, Location

DIALECTS = {
    "http://json-schema.org/draft-04/schema#": jsonschema.Draft4Validator,
    "http://json-schema.org/draft-06/schema#": jsonschema.Draft6Validator,
    "http://json-schema.org/draft-07/schema#": jsonschema.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema.Draft201909Validator,
    "https://json-schema.org/draft/2020-12/schema": jsonschema.Draft202012Validator,
}
KEYWORDS = [
    *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("multipleOf", "minLength", "maxLength", "pattern", "format", "items", "prefixItems"),
    *("additionalItems", "minItems", "maxItems", "uniqueItems", "contains", "minContains"),
    *("maxContains", "properties", "patternProperties", "additionalProperties", "propertyNames"),
    *("required", "minProperties", "maxProperties", "unevaluatedProperties", "unevaluatedItems"),
    *("dependentRequired", "dependentSchemas", "dependencies", "allOf", "anyOf", "oneOf", "not"),
    *("if", "then", "else", "$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions", "id"),
    *("$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "title"),
    *("description", "default", "examples", "$comment", "readOnly", "writeOnly", "deprecated"),
    *("contentEncoding", "contentMediaType", "contentSchema", "x-more"),
]
VALUES = [
    *(None, True, False, 0, 1, -1, 1.5, 2.0, -0.5, "", "a", "a b", "#", "#a", "string"),
    *([], [1], ["a"], ["a", "a"], ["null"], ["null", "null"], ["null", 1], [{}], [True], [[]]),
    *([None], [{"type": 3}], {}, {"a": 1}, {"a": {}}, {"a": ["b"]}, {"a": []}, {"a": True}),
    *({"a": ["b", "b"]}, {"a": None}, {"type": "null"}, {"type": "strin"}, {"a": {"type": 3}}),
    *({"a": [1]}, {"required": True}, {"minLength": -1}, {"properties": {"b": 1}}),
]


def is_schema(document: object, validator: type) -> bool:
    return not list(validator(validator.META_SCHEMA).iter_errors(document))


@pytest.mark.parametrize("uri", DIALECTS)
@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_value_of_every_keyword_is_judged_as_the_metaschema_does(uri: str, keyword: str):
    for place, value in enumerate(VALUES):
        around = {"maximum": 3, "minimum": 1} if keyword.startswith("exclusive") else {}
        schema = {**around, keyword: value}
        document = {"$schema": uri, **(schema if place % 2 else {"properties": {"p": schema}})}
        try:
            reduce_schema(json.dumps(document))
        except InvalidSchema as error:
            if keyword.lower().endswith("ref") and (
                "leads nowhere" in error.message or "draft-04" in uri
            ):
                continue  # the metaschemas say nothing about that
            valid = False
        except ConstraintError:
            valid = True
        else:
            valid = True
        assert valid == is_schema(document, DIALECTS[uri]), document


@pytest.mark.parametrize(
    ("schema", "pointer", "keyword", "word"),
    [
        ({"type": "strin"}, "", "type", "integer"),
        ({"properties": {"a": {"required": True}}}, "/properties/a", "required", "beside"),
        ({"items": [{}]}, "", "items", "prefixItems"),
        ({"minimum": 1, "exclusiveMinimum": True}, "", "exclusiveMinimum", "draft-04"),
        ({"anyOf": [{"title": 3}]}, "/anyOf/0", "title", "string"),
        ({"not": {"contains": {"minContains": -1}}}, "/not/contains", "minContains", "negative"),
    ],
)
def test_the_place_and_a_way_out_are_named(schema, pointer, keyword, word):
    with pytest.raises(InvalidSchema, match=word) as error:
        reduce_schema(json.dumps(schema))
    assert error.value.location == Location(pointer=pointer, keyword=keyword)
