"""Values of arguments that are not strict: what a declared type makes of a text."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infernix_qwen3_5.tool_values import TYPES, Writing, hinted_form, open_value

OMITTED = None

STRING = {"type": "string"}
INTEGER = {"type": "integer"}


@pytest.mark.parametrize(
    "schema",
    [
        STRING,
        {"type": "string", "enum": ["1", "2"]},
        {"type": ["null", "string"]},
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        {"oneOf": [{"type": "null"}, {"type": ["boolean", "string"]}]},
    ],
)
def test_a_type_that_admits_strings_keeps_the_text(schema: Any) -> None:
    assert hinted_form(schema).writing is Writing.TEXT


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        (INTEGER, {"integer"}),
        ({"type": ["integer", "null"]}, {"integer", "null"}),
        ({"anyOf": [INTEGER, {"type": "null"}]}, {"integer", "null"}),
        ({"oneOf": [{"type": "object"}, {"type": "array"}]}, {"object", "array"}),
        ({"type": "integer", "anyOf": [STRING]}, {"integer"}),
        # What says nothing that helps.
        ({}, set()),
        (True, set()),
        (None, set()),
        ("string", set()),
        ({"type": 5}, set()),
        ({"type": "text"}, set()),
        ({"type": []}, set()),
        ({"type": [["string"]]}, set()),
        ({"enum": ["1", "2"]}, set()),
        ({"$ref": "#/$defs/name"}, set()),
        ({"anyOf": [STRING, {"$ref": "#/$defs/name"}]}, set()),
        ({"anyOf": [STRING, {"anyOf": [INTEGER]}]}, set()),
        ({"anyOf": []}, set()),
        ({"anyOf": "x"}, set()),
        ({"allOf": [STRING]}, set()),
    ],
)
def test_declared_types_of_other_values(schema: Any, types: set[str]) -> None:
    form = hinted_form(schema)
    assert form.writing is Writing.OPEN
    assert form.types == types


@pytest.mark.parametrize(
    ("text", "types", "published"),
    [
        # Legal JSON of a declared type keeps it, and numbers their digits.
        ("7", {"integer"}, "7"),
        (" 7\n", {"integer"}, "7"),
        ("-0", {"integer"}, "-0"),
        ("1.50", {"number"}, "1.50"),
        ("1e400", {"number"}, "1e400"),
        ("9" * 5000, {"integer"}, "9" * 5000),
        ('{"b": 1.0, "a": []}', {"object"}, '{"b": 1.0, "a": []}'),
        ("[1,\n 2]", {"array"}, "[1,\n 2]"),
        ("null", {"integer", "null"}, "null"),
        # Booleans in any case, where they are declared.
        ("TRUE", {"boolean"}, "true"),
        (" False ", {"boolean", "integer"}, "false"),
        ("True", {"integer"}, '"True"'),
        ("true", {"integer"}, "true"),
        # Nothing at all is left out.
        ("", {"integer"}, OMITTED),
        (" \n", {"object", "null"}, OMITTED),
        ("", set(), '""'),
        (" ", set(), '" "'),
        # What fits no declared type stays, so that the tool can complain.
        ("1.5", {"integer"}, "1.5"),
        ('"x"', {"integer"}, '"x"'),
        ("null", {"integer"}, "null"),
        ("seven", {"integer"}, '"seven"'),
        (" seven ", {"integer"}, '" seven "'),
        ("{'a': 1}", {"object"}, "\"{'a': 1}\""),
        # Without a declared type.
        ("7", set(), "7"),
        ("hello", set(), '"hello"'),
        ("True", set(), '"True"'),
        ("true", set(), "true"),
        ('say "hi"\n\\ é', set(), '"say \\"hi\\"\\n\\\\ é"'),
        # No JSON, though some readers take it.
        ("NaN", {"number"}, '"NaN"'),
        ("Infinity", {"number"}, '"Infinity"'),
        ("-Infinity", set(), '"-Infinity"'),
        ("[NaN]", {"array"}, '"[NaN]"'),
        ("01", {"integer"}, '"01"'),
        ("+1", {"integer"}, '"+1"'),
        ("1_000", {"integer"}, '"1_000"'),
        ("\u00a07", {"integer"}, '"\u00a07"'),
        ("[1,]", {"array"}, '"[1,]"'),
        ('{"a": "\n"}', {"object"}, '"{\\"a\\": \\"\\n\\"}"'),
        ("7 8", {"integer"}, '"7 8"'),
        # A pair of escapes is a character, half a pair is none.
        ('["\\ud83d\\ude42"]', {"array"}, '["\\ud83d\\ude42"]'),
        ('["\\ud83d"]', {"array"}, '"[\\"\\\\ud83d\\"]"'),
        ("[" * 100_000, {"array"}, json.dumps("[" * 100_000)),
    ],
)
def test_values(text: str, types: set[str], published: str | None) -> None:
    assert types <= TYPES
    assert open_value(text, frozenset(types)) == published
    if published is not None:
        json.loads(published, parse_int=str)
