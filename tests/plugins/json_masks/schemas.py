"""Schemas of every shape, and reduced graphs that no short document leads to."""

from __future__ import annotations

from infernix_constraints.json_schema import (
    ArrayShape,
    BooleanShape,
    FiniteShape,
    IntegerShape,
    Member,
    NullShape,
    ObjectShape,
    OtherMembers,
    ReducedSchema,
    StringShape,
)
from infernix_constraints.strings.pattern import from_pattern
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}


def closed(properties, **more):
    """An object of these members alone."""
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def each(items, **more):
    """An array."""
    return {"type": "array", "items": items, **more}


#: By name: documents, and one language.
SCHEMAS = {
    "anything": True,
    "object": {"type": "object"},
    "any array": {"type": "array"},
    "string": STRING,
    "at most 5 characters": {"type": "string", "maxLength": 5},
    "3 to 40 characters": {"type": "string", "minLength": 3, "maxLength": 40},
    "at least 4 characters": {"type": "string", "minLength": 4},
    "no character": {"type": "string", "maxLength": 0},
    "counted strings in an array": each({"type": "string", "minLength": 2, "maxLength": 9}),
    "letters": {"type": "string", "pattern": "^[a-z]+$"},
    "search": {"type": "string", "pattern": "ab"},
    "few letters": {"type": "string", "pattern": "^[ab]*$"},
    "pattern and length": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
    "pattern and both lengths": {
        "type": "string",
        "pattern": "^(ab|cde)+$",
        "minLength": 5,
        "maxLength": 11,
    },
    "pattern and least length": {"type": "string", "pattern": "^(ab)*c?$", "minLength": 6},
    "controls by pattern": {"type": "string", "pattern": '^[\\n"\\\\\\t]*$'},
    "beyond ASCII by pattern": {"type": "string", "pattern": "^[é-ü€日本😀-😂]*$", "maxLength": 4},
    "without a letter": {"type": "string", "pattern": "^[^a]*$"},
    "email": {"type": "string", "format": "email"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuids": each({"type": "string", "format": "uuid"}),
    "ipv4": {"type": "string", "format": "ipv4"},
    "uri": {"type": "string", "format": "uri", "maxLength": 20},
    "integer": INTEGER,
    "integers in an array": each({"type": "integer", "minimum": -12, "maximum": 105}),
    "number": {"type": "number"},
    "bounded number": closed({"n": {"type": "number", "minimum": -0.5, "exclusiveMaximum": 2}}),
    "multiples": each({"type": "number", "multipleOf": 0.25}),
    "even integers": each({"type": "integer", "multipleOf": 6}),
    "scalars": {"type": ["null", "boolean", "integer"]},
    "booleans": each({"type": "boolean"}),
    "members": closed({"a": INTEGER, "ab": STRING, "b": NULL}, required=["ab"]),
    "optional members": closed({"a": NULL, "ab": NULL, "abc": NULL, "value": NULL, "name": NULL}),
    "open object": {"type": "object", "properties": {"a": INTEGER, "name": STRING}},
    "names in every spelling": closed(
        {'a"b': NULL, "a\nb": NULL, "é😀": NULL, "\u0001": NULL, "/": NULL, "": NULL}
    ),
    "open with odd names": {
        "type": "object",
        "properties": {'a"': NULL, "é": NULL, "\n": NULL, "": NULL},
    },
    "others by pattern": {
        "type": "object",
        "properties": {"ab": NULL},
        "patternProperties": {"^a": INTEGER, "b$": {"maximum": 3}},
        "additionalProperties": {"type": "boolean"},
    },
    "few names": {"type": "object", "propertyNames": {"enum": ["a", "ab", "b", "é"]}},
    "short names": {
        "type": "object",
        "propertyNames": {"maxLength": 2},
        "additionalProperties": INTEGER,
    },
    "least members": {"type": "object", "minProperties": 2, "additionalProperties": NULL},
    "most members": {"type": "object", "maxProperties": 2, "additionalProperties": NULL},
    "counted declared": closed(
        dict.fromkeys("abcde", NULL), minProperties=2, maxProperties=3, required=["c"]
    ),
    "counted both": {
        "type": "object",
        "properties": {"a": NULL, "b": NULL},
        "required": ["b"],
        "minProperties": 3,
        "maxProperties": 4,
        "additionalProperties": INTEGER,
    },
    "counted few names": {
        "type": "object",
        "properties": {"a": NULL},
        "propertyNames": {"enum": ["a", "ab", "b", "x"]},
        "additionalProperties": NULL,
        "minProperties": 3,
    },
    "counted by pattern": {
        "type": "object",
        "patternProperties": {"^[ab]$": NULL, "^c": INTEGER},
        "additionalProperties": False,
        "minProperties": 2,
    },
    "list": each(STRING),
    "counted list": each(NULL, minItems=2, maxItems=3),
    "tuple": {
        "type": "array",
        "prefixItems": [STRING, INTEGER, {"type": "boolean"}],
        "items": False,
    },
    "tuple with more": {
        "type": "array",
        "prefixItems": [NULL, STRING],
        "items": INTEGER,
        "minItems": 3,
    },
    "contains": {"type": "array", "contains": STRING, "minContains": 2, "maxContains": 3},
    "contains and length": each(
        {"type": ["integer", "null"]}, contains=NULL, minItems=2, maxItems=3
    ),
    "unique": each({"enum": ["a", "ab", 1, None, [1]]}, uniqueItems=True),
    "unique with length": each({"enum": ["a", "b", "c"]}, uniqueItems=True, minItems=2),
    "words": {"enum": ["name", "named", "value", "é", "日本", "a\nb", 'a"b', ""]},
    "composite values": {
        "enum": [{"a": [1, "x y"], "b": {}}, {"a": [1, "x"]}, [], [[1], None], "x", -0.5, 10]
    },
    "const": {"const": {"name": "a\n", "list": [True, 1.5, 1e22]}},
    "scalars by value": {"enum": [1, 12, 123, 1.5, "1", None, True]},
    "ambiguous strings": {
        "anyOf": [{"type": "string", "maxLength": 3}, {"pattern": "^a*$", "type": "string"}]
    },
    "ambiguous objects": {
        "anyOf": [
            closed({"type": {"const": "a"}, "value": INTEGER}, required=["type"]),
            closed({"type": {"const": "ab"}, "value": STRING}, required=["type"]),
            {"type": "object", "properties": {"name": NULL}, "required": ["name"]},
        ]
    },
    "ambiguous arrays": {
        "anyOf": [
            each(INTEGER, maxItems=2),
            each({"type": "number"}),
            each(STRING),
            each({"enum": [1]}),
        ]
    },
    "ambiguous numbers": {
        "anyOf": [INTEGER, {"type": "number", "multipleOf": 0.5}, {"enum": [1, 12.25]}]
    },
    "tree": {
        "$ref": "#/$defs/t",
        "$defs": {
            "t": closed({"v": INTEGER, "l": {"$ref": "#/$defs/t"}, "r": {"$ref": "#/$defs/t"}})
        },
    },
    "nested lists": {"anyOf": [INTEGER, each({"$ref": "#"})]},
    "linked list": closed(
        {"value": STRING, "next": {"anyOf": [{"$ref": "#"}, NULL]}}, required=["next"]
    ),
    "records": each(
        closed(
            {"id": INTEGER, "name": {"type": "string", "maxLength": 8}, "list": each(STRING)},
            required=["id"],
        )
    ),
    "condition": {
        "type": "object",
        "properties": {"type": {"enum": ["a", "b"]}, "value": {}},
        "required": ["type"],
        "if": {"properties": {"type": {"const": "a"}}},
        "then": {"properties": {"value": INTEGER}},
        "else": {"properties": {"value": STRING}},
    },
    "compact": Content(JsonSchema.of(True, compact=True)),
}

_AUTOMATON = from_pattern("^[ab]{2,}$")

#: By name: graphs.
GRAPHS = {
    "strings of two shapes": ReducedSchema(
        ((StringShape(2, 6, _AUTOMATON), StringShape(0, 1), FiniteShape(("abab", "name", "é"))),)
    ),
    "others of two kinds": ReducedSchema(
        (
            (
                ObjectShape(
                    (Member("a", 1, True), Member("name", 2, False)),
                    frozenset({"a", "name", "value"}),
                    (OtherMembers(_AUTOMATON, 1), OtherMembers(from_pattern("^[cd]"), 2)),
                    minimum=3,
                    maximum=4,
                ),
            ),
            (NullShape(),),
            (BooleanShape(), IntegerShape(0, 12)),
        )
    ),
    "alternatives below alternatives": ReducedSchema(
        (
            (ArrayShape((1,), 2, 1, 3), ArrayShape((2, 1), None, 2, 2), ArrayShape((), 3, 0, None)),
            (ObjectShape((Member("a", 2, False),), frozenset("a"), ()), StringShape(1, 2)),
            (
                ObjectShape((Member("a", 3, True), Member("b", 3, False)), frozenset("ab"), ()),
                StringShape(2, 3),
            ),
            (IntegerShape(1, 3), FiniteShape(("aa", "ab"))),
        )
    ),
}
