"""What users of other engines reported about schemas, with the right verdicts."""

from __future__ import annotations

import json

import pytest

from infernix_constraints.json_schema import reduce_schema
from tests.plugins.constraints.json_schema.membership import exact, member

REPORTS = {
    "xgrammar 208": (
        {"properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        [{"a": 1, "b": "x"}],
        [{"a": "x"}],
    ),
    "xgrammar 895": ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc"], ["abcd"]),
    "xgrammar 858": (
        {
            "type": "object",
            "properties": {"modifier": {"type": "string"}, "x": {}},
            "additionalProperties": False,
            "anyOf": [{"required": ["modifier"]}, {"required": ["x"]}],
        },
        [{"modifier": "a"}, {"x": 1}],
        [{}, {"y": 1}, {"modifier": 1}, "any"],
    ),
    "vllm 17894": ({"type": "integer", "maximum": 20000000000}, [20000000000], [20000000001]),
    "xgrammar 192": (
        {
            "oneOf": [{"type": "integer", "minimum": 0}, {"$ref": "#/$defs/list"}],
            "$defs": {"list": {"type": "array", "items": {"type": "integer"}}},
        },
        [1, [1]],
        [-1, ["a"], "x"],
    ),
    "llama.cpp 7789": (
        {"type": "object", "properties": {"ab": {"type": "null"}}},
        [{"a": 1}, {"abc": 1}, {}],
        [{"ab": 1}],
    ),
    "llama.cpp 7703": (
        {"type": "object", "properties": {"a": {"type": "null"}}, "anyOf": [{"required": ["a"]}]},
        [{"a": None}],
        [{}, {"a": 1}],
    ),
    "llama.cpp 27580": ({"type": "string", "pattern": "^\\d+\\w\\s$"}, ["12a ", "1_\t"], ["a1 "]),
    "llama.cpp 25923": (
        {"type": "object", "properties": {}, "additionalProperties": False},
        [{}],
        [{"a": 1}],
    ),
    "xgrammar 968": ({"allOf": [{"type": "string"}, {"enum": ["yes", "no"]}]}, ["yes"], ["x", 1]),
    "xgrammar 958": (
        {
            "propertyNames": {"pattern": "^[a-z]+$", "maxLength": 3},
            "properties": {"ab": {"type": "null"}, "A": {}},
            "patternProperties": {"c$": {"type": "integer"}},
        },
        [{"ab": None, "abc": 1}],
        [{"A": 1}, {"abcd": 1}, {"abc": None}],
    ),
}


@pytest.mark.parametrize("report", REPORTS)
def test_reports(report: str):
    schema, accepted, refused = REPORTS[report]
    reduced = reduce_schema(json.dumps(schema))
    for values, expected in ((accepted, True), (refused, False)):
        for value in values:
            assert member(reduced, exact(json.dumps(value))) is expected, value
