"""Schemas with documents that must and must not be generable, in the generated layout."""

import json

ANY = [None, True, 0, -1.5, "", "text", [], [1, [2]], {}, {"a": {"b": None}}]

#: schema, documents that belong to it, documents that do not. Documents are values; texts stand in ``TEXTS``.
CASES = {
    "true": (True, ANY, []),
    "empty": ({}, ANY, []),
    "annotations": (
        {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.org/s",
            "title": "t",
            "description": "d",
            "default": 10**40 + 1,
            "examples": [float(1)],
            "$comment": "c",
            "readOnly": True,
            "writeOnly": False,
            "deprecated": True,
            "type": "null",
        },
        [None],
        [1],
    ),
    "draft-07": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "$ref": "#/definitions/a",
            "definitions": {"a": {"type": "integer"}},
            "title": "beside a reference",
        },
        [3],
        ["3"],
    ),
    "types": ({"type": ["string", "null", "integer"]}, ["x", None, 7], [1.5, True, [], {}]),
    "boolean": ({"type": "boolean"}, [True, False], [0, "true"]),
    "object": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {}},
            "required": ["b"],
            "additionalProperties": False,
        },
        [{"a": 1, "b": "x", "c": []}, {"b": ""}, {"a": 1, "b": ""}, {"b": "", "c": {}}],
        [{}, {"a": 1}, {"b": "", "a": 1}, {"b": 1}, {"b": "", "d": 1}, {"a": "1", "b": ""}],
    ),
    "object of an earlier key order": (
        {"type": "object", "properties": {"z": {}, "a": {}}, "required": ["a", "z"]},
        [{"z": 1, "a": 2}, {"z": 1, "a": 2, "more": 3}],
        [{"a": 2, "z": 1}, {"more": 3, "z": 1, "a": 2}],
    ),
    "empty object": ({"type": "object", "properties": {}}, [{}, {"a": 1}], [[]]),
    "closed empty object": (
        {"type": "object", "properties": {}, "required": [], "additionalProperties": False},
        [{}],
        [{"a": 1}],
    ),
    "no properties": ({"type": "object"}, [{}, {"a": 1, "b": [1]}], [1]),
    "additional schema": (
        {"properties": {"a": {"type": "null"}}, "additionalProperties": {"type": "integer"}},
        [{"a": None}, {"a": None, "b": 1, "ab": 2}, {"b": 1}, 5, "x"],
        [{"a": 1}, {"b": "x"}, {"b": None}],
    ),
    # A declared optional member must not come back as an additional one.
    "declared and open": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": True},
        [{"a": 1}, {"a": 1, "aa": "x"}, {"": 1}, {"b": "x"}],
        [{"a": "x"}, {"b": 1, "a": "x"}, {"b": 1, "a": 1}],
    ),
    "name that is a prefix": (
        {"type": "object", "properties": {"a": {"const": 1}, "abc": {"const": 2}}},
        [{"a": 1, "abc": 2, "ab": 3}, {"ab": 3, "abcd": 4}, {"abc": 2}],
        [{"abc": 2, "a": 1}, {"ab": 3, "abc": 2}],
    ),
    "required but undeclared": (
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["z"]},
        [{"a": 1, "z": "anything"}, {"z": None, "more": 1}],
        [{"a": 1}, {}],
    ),
    "required under the additional schema": (
        {
            "type": "object",
            "required": ["y", "x"],
            "additionalProperties": {"type": "integer"},
        },
        [{"y": 1, "x": 2}, {"y": 1, "x": 2, "z": 3}],
        [{"y": 1, "x": "2"}, {"y": 1}],
    ),
    "impossible optional member": (
        {"type": "object", "properties": {"a": False, "b": {"type": "null"}}},
        [{}, {"b": None}, {"c": 1}],
        [{"a": 1}, {"a": None, "b": None}],
    ),
    "keys that need escapes": (
        {
            "type": "object",
            "properties": {'a"b': {"const": 1}, "x\ny\u0001": {"const": 2}, "s\\/": {}, "é😀": {}},
            "additionalProperties": {"type": "null"},
        },
        [
            {'a"b': 1, "x\ny\u0001": 2, "s\\/": [], "é😀": {}},
            {'a"': None, "x\n": None, "x\ny\u0002": None, "x\ty": None, "s\\": None, "é": None},
        ],
        [{'a"b': None}, {"x\ny\u0001": None}, {"a": 1}],
    ),
    "typeless properties": (
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        [5, "x", None, [], {"a": 1}],
        [{}, {"a": "x"}],
    ),
    "typeless minimum": ({"minimum": 3}, ["x", {}, None, 3, 4.5], [2, -4, 2.5]),
    "array": (
        {"type": "array", "items": {"type": "integer"}},
        [[], [1], [1, 2, 3]],
        [["x"], [1, None], 1],
    ),
    "array lengths": (
        {"type": "array", "items": {"type": "null"}, "minItems": 2, "maxItems": 4},
        [[None] * 2, [None] * 3, [None] * 4],
        [[], [None], [None] * 5],
    ),
    "array minimum": ({"type": "array", "minItems": 1}, [[1], [1, "x", []]], [[]]),
    "array maximum": ({"type": "array", "maxItems": 1}, [[], [{}]], [[1, 2]]),
    "array of nothing": ({"type": "array", "items": False}, [[]], [[1]]),
    "empty array": ({"type": "array", "maxItems": 0}, [[]], [[1]]),
    "typeless items": ({"items": {"type": "null"}}, [[None], [], "x", {"a": 1}], [[1]]),
    "string": ({"type": "string"}, ["", "a", 'q"\\\n\t\u0001\u007f\u2028é😀'], [1, None]),
    "string lengths": (
        {"type": "string", "minLength": 2, "maxLength": 3},
        ["ab", "abc", '"\\', "\n\t\u0001", "😀é", "\u0000\u001f"],
        ["", "a", "abcd", "😀", '""""'],
    ),
    "string minimum": ({"type": "string", "minLength": 2}, ["ab", "a" * 50], ["", "a", "\n"]),
    "string maximum": ({"type": "string", "maxLength": 2}, ["", "\\", "😀😀"], ["abc", '"""']),
    "no string": ({"type": "string", "maxLength": 0}, [""], ["a"]),
    "integer": (
        {"type": "integer"},
        [0, 7, -7, 2**63 - 1, -(2**63)],
        [1.5, "1", 2**63, -(2**63) - 1, 10**19],
    ),
    "integer range": (
        {"type": "integer", "minimum": -12, "maximum": 105},
        [-12, -11, -9, 0, 9, 10, 99, 100, 105],
        [-13, 106, 110, 200, 1000, -100],
    ),
    "integer of fractional bounds": (
        {"type": "integer", "minimum": 0.5, "exclusiveMaximum": 3.0},
        [1, 2],
        [0, 3, 4],
    ),
    "integer beyond 32 bits": (
        {"type": "integer", "maximum": 20000000000, "minimum": 0},
        [0, 20000000000, 19999999999],
        [20000000001, -1],
    ),
    "integer bound beyond 64 bits": (
        {"type": "integer", "maximum": 2**64 - 1, "minimum": 2**63 - 2},
        [2**63 - 2, 2**63 - 1],
        [2**63, 2**63 - 3],
    ),
    "number": (
        {"type": "number"},
        [0, -1, 1.5, 1e300, 1.7976931348623157e308, 5e-324, -2.5e-7, 123456789012345678],
        ["1", None],
    ),
    "number range": (
        {"type": "number", "minimum": -0.5, "exclusiveMaximum": 2},
        [-0.5, -0.25, 0, 0.0, 1e-7, 1, 1.5, 1.9999999999999998, -4e-10],
        [-0.5000000000000001, 2, 2.0, 2.5, -1, 1e300, -3e5],
    ),
    "number above zero": (
        {"type": "number", "exclusiveMinimum": 0},
        [5e-324, 0.1, 3, 1e308, 2**62],
        [0, 0.0, -1, -5e-324],
    ),
    "enum": (
        {"enum": ["red", 2, None, True, [1, {"k": "v w"}], {"b": [], "a": 2.5}]},
        ["red", 2, None, True, [1, {"k": "v w"}], {"b": [], "a": 2.5}],
        ["re", 1, False, [1], {"a": 2.5, "b": []}],
    ),
    "enum beside a type": ({"enum": [1, "1", True], "type": "integer"}, [1], ["1", True]),
    "enum beside a range": ({"enum": [1, 5, 9, "x"], "minimum": 5}, [5, 9, "x"], [1]),
    "enum beside members": (
        {"enum": [{"a": 1}, {"a": "x"}, {"b": 1}], "properties": {"a": {"type": "integer"}}},
        [{"a": 1}, {"b": 1}],
        [{"a": "x"}],
    ),
    "enum beside enum": ({"enum": [1, 2, 3], "const": 2}, [2], [1, 3]),
    "const": (
        {"const": {"a": [1, {"b": "x y"}], "c": None}},
        [{"a": [1, {"b": "x y"}], "c": None}],
        [{}],
    ),
    "const text": ({"const": 'é"\n'}, ['é"\n'], ["é"]),
    "anyOf": (
        {"anyOf": [{"type": "string"}, {"type": "array", "items": {"const": 0}}]},
        ["x", [0]],
        [0, [1]],
    ),
    "anyOf beside assertions": (
        {"minimum": 3, "anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
        [3, 4, "x", ""],
        [2, 3.5, "xx", None],
    ),
    "anyOf beside members": (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        [{"a": 1}, {"b": 1}, {"a": 1, "b": 2}, {"a": 1, "x": "y"}],
        [{}, {"x": 1}, {"a": "x"}],
    ),
    "anyOf and a closed object": (
        {
            "type": "object",
            "properties": {"modifier": {"type": "string"}},
            "additionalProperties": False,
            "anyOf": [{"required": ["modifier"]}, {"required": ["x"]}],
        },
        [{"modifier": ""}],
        [{}, {"x": 1}, 5, {"modifier": 1}],
    ),
    "anyOf that cannot reopen": (
        {
            "additionalProperties": False,
            "properties": {"a": {}},
            "type": "object",
            "anyOf": [{"properties": {"b": {}}}],
        },
        [{}, {"a": 1}],
        [{"b": 1}, {"a": 1, "b": 1}],
    ),
    "anyOf with dead branches": (
        {"anyOf": [False, {"type": "integer", "minimum": 2, "maximum": 1}, {"const": 1}]},
        [1],
        [2, None],
    ),
    "reference": (
        {"type": "array", "items": {"$ref": "#/$defs/a~1b%25~0"}, "$defs": {"a/b%~": {"const": 1}}},
        [[1, 1]],
        [[2]],
    ),
    "reference beside assertions": (
        {"$ref": "#/$defs/n", "minimum": 5, "$defs": {"n": {"type": "integer", "maximum": 7}}},
        [5, 7],
        [4, 8, "x"],
    ),
    "reference into an anyOf": (
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/anyOf/0"}}]},
        [None, [None]],
        [[1], [[]]],
    ),
    "recursion": (
        {
            "type": "object",
            "properties": {"value": {"type": "integer"}, "next": {"$ref": "#"}},
            "required": ["value"],
            "additionalProperties": False,
        },
        [{"value": 1}, {"value": 1, "next": {"value": 2, "next": {"value": 3}}}],
        [{"next": {"value": 1}}, {"value": 1, "next": {}}],
    ),
    "recursion through anyOf": (
        {
            "$ref": "#/$defs/tree",
            "$defs": {
                "tree": {
                    "anyOf": [
                        {"type": "integer"},
                        {"type": "array", "items": {"$ref": "#/$defs/tree"}},
                    ]
                }
            },
        },
        [1, [], [1, [2, [[]]]]],
        ["x", [1, ["x"]]],
    ),
    "mutual recursion with an intersection": (
        {
            "type": "object",
            "properties": {"a": {"$ref": "#", "required": ["b"]}, "b": {"type": "null"}},
            "additionalProperties": False,
        },
        [{}, {"a": {"b": None}}, {"a": {"a": {"b": None}, "b": None}, "b": None}],
        [{"a": {}}, {"a": {"a": {}, "b": None}}],
    ),
    "circle with a way out": ({"anyOf": [{"$ref": "#"}, {"type": "string"}]}, ["x"], [1]),
    "lesson 8": (
        {
            "type": "object",
            "properties": {
                "file": {"type": "string", "maxLength": 16},
                "line": {"type": "integer", "minimum": 1, "maximum": 9999},
                "severity": {"enum": ["low", "high"]},
            },
            "required": ["file", "line", "severity"],
        },
        [{"file": "Parser.java", "line": 88, "severity": "high"}],
        [
            {"file": "Parser.java", "line": 0, "severity": "high"},
            {"file": "Parser.java", "line": 88, "severity": "medium"},
            {"file": "x" * 17, "line": 88, "severity": "low"},
        ],
    ),
}

#: schema, texts that belong to it, texts that do not.
TEXTS = {
    "blanks": (
        {"type": "array", "items": {"type": "integer"}},
        [" [ 1 , 2 ] ", "\n\t\r [\n]\n", "[" + " " * 32 + "1]", " " * 32 + "[]" + " " * 32],
        ["[" + " " * 33 + "1]", " " * 33 + "[]", "[1 2]", "[1,]", "[,1]", "[1]x", "\u00a0[]", ""],
    ),
    "blanks in an object": (
        {"type": "object", "properties": {"a": {}}},
        [' { "a" : 1 , "b" : 2 } ', "{ }", '{\n  "a": 1\n}'],
        ['{"a" 1}', '{"a":1,}', '{,"a":1}', '{"a":1 "b":2}', "{" + " " * 33 + "}"],
    ),
    "any": (
        {},
        ['{"a": [1, 2], "b": "x"}', "[true]", "[[[[[[1]]]]]]", "null"],
        ['{"a": [1, 2', '{"a": -}', "{} extra", "tru", "'a'", "NaN", "+1", ".5", "01", "1."],
    ),
    "string": (
        {"type": "string"},
        [
            '"\\b\\f\\n\\r\\t\\"\\\\/"',
            '"\\u0000\\u001f\\u000b"',
            '"\\/\\u0061\\u001F\\u0009\\u00e9\\u00E9"',
            '"\\ud83d\\ude00\\uD83D\\uDE00"',
        ],
        # Control characters need an escape, and surrogates a pair.
        [
            *('"\t"', '"\x1f"', '"\\x"', '"a', '"\\u00g0"', '"\\u00"', '"\\U0061"', '"\\\'"'),
            *('"\\ud83d"', '"\\ude00"', '"\\ude00\\ud83d"', '"\\ud83d\\u0061"', '"\\ud83da"'),
            *('"\\ud83d\\ud83d\\ude00"', '"\\ud83d\\n"', '"\\ud83d\\ude0"'),
        ],
    ),
    "counted string": (
        {"type": "string", "maxLength": 2},
        ['"\\n\\u0001"', '"\\"\\\\"', '"\\u0061\\ud83d\\ude00"'],
        ['"\n"', '"\\n\\n\\n"', '"\\u0061bc"', '"\\ud83d\\ude00\\ud83d\\ude00\\ud83d\\ude00"'],
    ),
    "aliased name": (
        {"type": "object", "properties": {"a": {"type": "integer"}, "\n": {}}},
        ['{"a":1,"\\n":2,"\\\\n":3}', '{"\\u0061":1,"\\u000a":2}', '{"\\u000A":[]}'],
        [
            *('{"\\u0061":"s"}', '{"b":1,"\\u000a":2}', '{"a":1,"a":1}', '{"a":1,"\\u0061":1}'),
            *('{"\\n":1,"\\u000A":1}', '{"b":1,"\\u0061":"s"}', '{"b":1,"a":1}'),
        ],
    ),
    "undeclared name twice": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        ['{"b":1,"b":2}'],  # a reader keeps either, and each satisfies the schema
        ['{"b":1,"b":"x"}'],
    ),
    "integer": (
        {"type": "integer"},
        ["0", "-1", "9223372036854775807", "-9223372036854775808"],
        ["-0", "01", "1.0", "1e2", "9223372036854775808", "-9223372036854775809", "+1", "-", "--1"],
    ),
    "number": (
        {"type": "number"},
        [
            "0",
            "-0.5",
            "12.5e3",
            "1E5",
            "1e+05",
            "1e308",
            "1.7976931348623157e+308",
            "1e-324",
            "0.000",
        ],
        ["1e309", "1.8e308", "1e1000", "-", "1e", "1.e5", ".5", "00", "1e+", "0x1", "Infinity"],
    ),
    "number range": (
        {"type": "number", "minimum": 0.1, "maximum": 1200},
        [
            "0.1",
            "0.10",
            "1e-1",
            "1.2e3",
            "1200",
            "1200.0",
            "1.19e+03",
            "3E2",
            "0.10000000000000001",
        ],
        ["0.09", "9.9e-2", "1.21e3", "1200.00001", "1e4", "0.099999999999999999", "-0.5", "1201"],
    ),
    "literal with blanks": (
        {"const": {"a": [1, "x y"], "b": {}}},
        ['{ "a" : [ 1 , "x y" ] , "b" : { } }', '{"a":[1,"x y"],"b":{}}'],
        ['{"a":[1,"x  y"],"b":{}}', '{"b":{},"a":[1,"x y"]}'],
    ),
    "literal numbers": (
        {"enum": [1.0, 2, -0.0, 1e22, 100]},
        ["1.0", "2", "-0.0", "1e+22", "100"],
        ["1", "2.0", "1e2", "1E+22"],
    ),
}


def layouts(value):
    """A value as text with the usual spacings."""
    for options in ({"separators": (",", ":")}, {}, {"indent": 2}, {"indent": "\t"}):
        yield json.dumps(value, ensure_ascii=False, **options)
