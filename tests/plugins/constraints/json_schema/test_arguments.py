"""The arguments of a tool: which schemas can be enforced, and what is written as raw text."""

from __future__ import annotations

import itertools
import json

import pytest

from infernix_constraints.json_schema.arguments import raw_strings, reduce_arguments
from infernix_constraints.strings.pattern import from_pattern
from infernix_constraints.strings.texts import without_part
from infernix_core.errors import InvalidSchema, UnsatisfiableSchema, UnsupportedSchema

END = "\n</parameter>"


def closed(**properties):
    return {"type": "object", "properties": properties, "additionalProperties": False}


def members(schema):
    found = reduce_arguments(json.dumps(schema), END)
    return [
        (member.name, member.required, member.name in found.raw) for member in found.shape.members
    ]


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
CITY = {**closed(city=STRING, days=INTEGER), "required": ["days"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (CITY, [("city", False, True), ("days", True, False)]),
        (closed(), []),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": CITY}},
            [("city", False, True), ("days", True, False)],
        ),
        ({"allOf": [closed(a=STRING), {"required": ["a"]}]}, [("a", True, True)]),
        (closed(a={"enum": ["x", "y"]}, b={"const": ""}), [("a", False, True), ("b", False, True)]),
        (closed(a={"enum": [1, None, {"b": "c"}]}), [("a", False, False)]),
        (closed(a={"type": ["integer", "null", "object"]}), [("a", False, False)]),
        (
            closed(a={"anyOf": [{"type": "string", "pattern": "^a"}, {"const": "b"}]}),
            [("a", False, True)],
        ),
        # Arguments are an object whatever else the schema admits.
        ({**closed(a=STRING), "type": ["object", "null"]}, [("a", False, True)]),
        ({"properties": {"a": STRING}, "additionalProperties": False}, [("a", False, True)]),
        # Raw text has no escapes: a pattern that the end fits in leaves other texts.
        (closed(a={"type": "string", "pattern": "</parameter>"}), [("a", False, True)]),
    ],
)
def test_what_is_written_how(schema, expected):
    assert members(schema) == expected


@pytest.mark.parametrize(
    ("schema", "error", "pointer", "said"),
    [
        (
            {"type": "object", "properties": {"a": STRING}},
            UnsupportedSchema,
            "",
            "additionalProperties",
        ),
        ({"properties": {}, "required": []}, UnsupportedSchema, "", "additionalProperties"),
        ({"type": "array"}, UnsupportedSchema, "", "not an object"),
        (
            {"anyOf": [closed(a=STRING), closed(b=STRING)]},
            UnsupportedSchema,
            "",
            "more than one shape",
        ),
        ({"const": {"a": 1}}, UnsupportedSchema, "", "more than one shape"),
        (
            closed(a={"type": ["string", "null"]}),
            UnsupportedSchema,
            "/properties/a",
            "mixes strings",
        ),
        (closed(a={}), UnsupportedSchema, "/properties/a", "mixes strings"),
        (closed(a={"enum": ["x", 1]}), UnsupportedSchema, "/properties/a", "mixes strings"),
        (closed(**{"a/b~": {}}), UnsupportedSchema, "/properties/a~1b~0", "mixes strings"),
        (closed(a={"const": f"x{END}y"}), UnsupportedSchema, "/properties/a", "ends a value"),
        (
            closed(a={"enum": ["x", END]}),
            UnsupportedSchema,
            "/properties/a",
            "leave that value out",
        ),
        (
            closed(a={"type": "string", "pattern": f"^{END}$"}),
            UnsupportedSchema,
            "/properties/a",
            "every value",
        ),
        (
            closed(a={"type": "string", "pattern": f"^(x|y{END}z)$", "minLength": 2}),
            UnsupportedSchema,
            "/properties/a",
            "every value",
        ),
        (closed(**{"a\nb": STRING}), UnsupportedSchema, "/properties/a\nb", "line breaks"),
        (closed(**{"": STRING}), UnsupportedSchema, "/properties/", "not empty"),
        ({"$ref": "#/$defs/a", "$defs": {"a": closed(b={})}}, UnsupportedSchema, "", "'b' mixes"),
        (closed(a={"type": "strin"}), InvalidSchema, "/properties/a", "strin"),
        ({**closed(a=False), "required": ["a"]}, UnsatisfiableSchema, "", ""),
    ],
)
def test_what_is_refused_and_where(schema, error, pointer, said):
    with pytest.raises(error) as caught:
        reduce_arguments(json.dumps(schema), END)
    assert caught.value.location is not None
    assert caught.value.location.pointer == pointer
    assert said in str(caught.value)


@pytest.mark.parametrize("part", ["a", "ab", "aab", "aba", "abab"])
def test_texts_without_a_part(part):
    automaton = without_part(part)
    for size in range(7):
        for letters in itertools.product("abc", repeat=size):
            text = "".join(letters)
            assert (text in automaton) == (part not in text)


def test_raw_strings_keep_the_pattern():
    automaton = raw_strings(from_pattern("^[a-z\n</>]*$"), END)
    for text in ("", "abc", "a\n</parameter", "</parameter>", "\n\n</p>"):
        assert text in automaton
    for text in (END, f"a{END}", f"{END}a", "A", f"\n{END}"):
        assert text not in automaton
