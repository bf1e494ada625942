"""What users of other engines reported about JSON, with the right verdicts of the masks.

The reports are in the project's collection of public issues, sections 2a, 2b, 2c and 2g. What concerns servers and tool
calls is tested where these are; schemas' verdicts on values alone are with the reduction.
"""

from __future__ import annotations

import json

import pytest

from infernix_constraints.json_schema import reduce_schema
from infernix_core.errors import ConstraintError, InvalidSchema, UnsupportedSchema
from infernix_core.interfaces.constraints import JsonObject, JsonSchema
from infernix_core.interfaces.language import Content
from tests.plugins.constraints.json_schema.membership import exact
from tests.plugins.constraints.json_schema.test_public_reports import REPORTS
from tests.plugins.json_masks.arrangements import arrangements, written
from tests.plugins.json_masks.stepping import accepts, check_mask, grammar_of, legal

BLANKS = {*b" \t\n\r"}

#: Section 2a, mlc-ai/xgrammar's open combinations: schema, values that belong to it, values that do not.
COMBINATIONS = {
    "958: propertyNames beside patternProperties": (
        {
            "type": "object",
            "propertyNames": {"minLength": 2},
            "patternProperties": {"^a": {"type": "integer"}},
            "additionalProperties": {"type": "null"},
        },
        [{"ab": 1, "bb": None}, {}],
        [{"a": 1}, {"ab": None}, {"b": None}],
    ),
    "959: propertyNames beside unevaluatedProperties": (
        {
            "type": "object",
            "properties": {"ab": {"type": "integer"}},
            "propertyNames": {"pattern": "^a"},
            "unevaluatedProperties": {"type": "null"},
        },
        [{"ab": 1}, {"ab": 1, "ac": None}],
        [{"ab": None}, {"b": None}, {"ac": 1}],
    ),
    "960: patternProperties beside properties": (
        {
            "type": "object",
            "properties": {"ab": {"type": "integer"}},
            "patternProperties": {"^a": {"minimum": 3}},
            "additionalProperties": False,
        },
        [{"ab": 3}, {"ab": 3, "ax": "x"}],
        [{"ab": 2}, {"ax": 1}, {"b": 3}],
    ),
    "961: patternProperties twice": (
        {
            "type": "object",
            "patternProperties": {"^a": {"type": "integer"}, "z$": {"minimum": 3}},
            "additionalProperties": False,
        },
        [{"a": 1, "az": 3, "z": "x"}],
        [{"az": 1}, {"z": 2}, {"b": 1}],
    ),
    "964: a pattern and lengths": (
        {"type": "string", "pattern": "^(ab)+$", "minLength": 3, "maxLength": 7},
        ["abab", "ababab"],
        ["ab", "abababab", "aba"],
    ),
    "965: a format": (
        {"type": "string", "format": "date"},
        ["2024-02-29"],
        ["2023-02-29", "today", "2024-2-29"],
    ),
    "966: uniqueItems": (
        {"type": "array", "items": {"enum": [1, 2, "a"]}, "uniqueItems": True},
        [[], [2, "a", 1]],
        [[1, 1], ["a", 2, "a"]],
    ),
    "967: contains": (
        {"type": "array", "contains": {"const": "x"}, "maxContains": 1},
        [["x"], [1, "x", "y"]],
        [[], [1], ["x", "x"]],
    ),
    "968: allOf of several branches": (
        {
            "allOf": [
                {"type": "object", "properties": {"a": {"type": "integer"}}},
                {"required": ["a"], "properties": {"a": {"maximum": 3}, "b": {"type": "null"}}},
            ]
        },
        [{"a": 3}, {"a": 1, "b": None}],
        [{}, {"a": 4}, {"a": 1, "b": 1}, {"a": "x"}],
    ),
}


@pytest.mark.parametrize("report", {**REPORTS, **COMBINATIONS})
def test_verdicts(byte_masks, report):
    schema, valid, invalid = {**REPORTS, **COMBINATIONS}[report]
    grammar, reduced = grammar_of(byte_masks, schema), reduce_schema(json.dumps(schema))
    for values, expected in ((valid, True), (invalid, False)):
        for value in values:
            orders = arrangements(reduced, exact(json.dumps(value)))
            assert any(accepts(grammar, written(one)) for one in orders) == expected, value


def test_xgrammar_831_a_declared_name_out_of_order_forces_no_escape(masks):
    """It cannot be closed, and may go on in any way; nothing drives the model into an escaped quote."""
    schema = {"type": "object", "properties": {"name": {}, "id": {}}, "additionalProperties": True}
    grammar = grammar_of(masks, schema)
    mask = check_mask(grammar.start([b'{"id": 1, "name']), "name")
    assert ord('"') not in mask
    assert mask >= {*b"abcdefghijklmnopqrstuvwxyz0123456789 _-:,{}\\"}
    assert not grammar.start([b'{"id": 1, "na']).accept_text(b'me"')
    assert accepts(grammar, '{"id": 1, "names": 1}')
    assert accepts(grammar, '{"name": 1, "id": 1}')


def test_llama_cpp_19051_what_cannot_be_enforced_is_refused(byte_masks):
    for schema in ({"type": "array", "uniqueItems": True}, {"$ref": "https://example.org/a"}):
        with pytest.raises(UnsupportedSchema):
            grammar_of(byte_masks, schema)
    with pytest.raises(InvalidSchema):
        grammar_of(byte_masks, {"type": "strin"})


@pytest.mark.parametrize(
    ("report", "schema", "before"),
    [
        ("vllm 38696", {}, b'{"a": "b"'),
        ("omlx 2990: a string that a quote closed too early", {}, '{"a": "„Vers"'.encode()),
        ("atlas 143", {"type": "object"}, b"{"),
        ("ollama 18567: after a comma", {"type": "object"}, b'{"a": 1,'),
        ("QwenLM 1421: before the first brace", {"type": "object"}, b""),
        ("behind the text", {"type": "integer"}, b"1"),
        ("after a colon", {"type": "object"}, b'{"a":'),
        ("in a list", {"type": "array"}, b"["),
    ],
)
def test_runs_of_blanks_end(masks, report, schema, before):
    grammar = grammar_of(masks, schema)
    for run in range(33):
        matcher = grammar.start([before, b" " * run])
        assert bool(legal(matcher) & BLANKS) == (run < 32)
    assert legal(matcher)
    check_mask(matcher, before)
    assert not grammar.start([before]).accept_text(b" " * 33)


def test_vllm_26362_no_blanks_is_an_option_with_an_effect(masks):
    for constraint in (JsonObject(compact=True), JsonSchema.of({"type": "object"}, compact=True)):
        grammar = masks.compile(Content(constraint))
        assert accepts(grammar, '{"a":[1,{"b":" "}]}')
        for before in (
            b"",
            b"{",
            b'{"a"',
            b'{"a":',
            b'{"a":1',
            b'{"a":1,',
            b'{"a":[1,',
            b'{"a":[]}',
        ):
            matcher = grammar.start([before])
            assert not check_mask(matcher, before) & BLANKS
            words = masks.vocabulary.token_bytes
            assert not any(
                words[token][:1] in b" \t\n\r" for token in legal(matcher) if words[token]
            )


def test_vllm_50989_an_object_without_members_closes(masks):
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    grammar = grammar_of(masks, schema)
    words = masks.vocabulary.token_bytes
    following = {words[token].strip() for token in legal(grammar.start([b"{"]))}
    assert following == {b"", b"}"}


def test_xgrammar_286_a_raw_tab_is_no_character(byte_masks):
    grammar = grammar_of(byte_masks, {"properties": {"text": {"type": "string"}}})
    assert not accepts(grammar, '{"text":"\tx"}')
    assert accepts(grammar, '{"text":"\\tx"}')


@pytest.mark.parametrize("bounds", [{"maxLength": 10}, {"minLength": 2, "maxLength": 10}])
def test_xgrammar_800_822_bounded_strings_have_escapes(masks, bounds):
    grammar = grammar_of(masks, {"type": "string", **bounds})
    for text in ('a"b\\\n', "\t\t\t", "\u0001\u0002", "😀\n"):
        assert accepts(grammar, json.dumps(text))
    assert ord("\\") in check_mask(grammar.start([b'"ab']), "ab")


def test_xgrammar_655_escaped_names_are_the_same_names(byte_masks):
    schema = {"type": "object", "properties": {"a\nb": {"type": "integer"}, 'q"': {"type": "null"}}}
    grammar = grammar_of(byte_masks, schema)
    for text in ('{"a\\nb":1,"q\\"":null}', '{"\\u0061\\u000Ab":1,"q\\u0022":null}'):
        assert accepts(grammar, text)
    for text in (
        '{"a\nb":1}',
        '{"\\u0061\\nb":"x"}',
        '{"a\\u000ab":null}',
        '{"a\\nb":1,"a\\u000ab":2}',
    ):
        assert not accepts(grammar, text)


def test_vllm_16363_escapes_are_never_forced(masks):
    """Wherever an escape may stand, so may the character itself, unless JSON forbids it."""
    grammar = grammar_of(masks, {"type": "string", "pattern": "^[é日a-z]*$", "maxLength": 20})
    mask = check_mask(grammar.start([b'"ab']), "ab")
    words = masks.vocabulary.token_bytes
    assert {"é".encode(), "日".encode(), b"a"} <= {words[token] for token in mask}


def test_vllm_15210_a_class_with_code_points(byte_masks):
    grammar = grammar_of(byte_masks, {"type": "string", "pattern": "^[\\x00-\\u2e7f]+$"})
    assert accepts(grammar, json.dumps("a\u0000é\u2e7f"))
    assert not accepts(grammar, json.dumps("\u2e80"))


def test_llama_cpp_25283_26600_deep_schemas_are_refused(byte_masks):
    for source in (
        '{"items":' * 60_000 + "{}" + "}" * 60_000,
        '{"type": "string", "pattern": "' + "(" * 60_000 + '"}',
    ):
        with pytest.raises(ConstraintError):
            grammar_of(byte_masks, source)


def test_sglang_7639_recursion(byte_masks):
    schema = {
        "$ref": "#/$defs/a",
        "$defs": {
            "a": {"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#/$defs/a"}}]}
        },
    }
    grammar = grammar_of(byte_masks, schema)
    assert accepts(grammar, "[" * 500 + "]" * 500)
    with pytest.raises(ConstraintError):
        grammar_of(
            byte_masks,
            {
                "$ref": "#/$defs/a",
                "$defs": {"a": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/a"}}},
            },
        )


def test_vllm_17313_19270_37642_43920_bad_patterns_harm_nothing_else(byte_masks):
    good = {"type": "string", "pattern": "^(.*)$"}
    for _ in range(2):
        assert accepts(grammar_of(byte_masks, good), '"a"')
        with pytest.raises(ConstraintError):
            grammar_of(byte_masks, {"type": "string", "pattern": "foo**"})
        assert accepts(grammar_of(byte_masks, {"type": "string", "pattern": "^(|.*)$"}), '""')


def test_lmstudio_824_xgrammar_680_many_large_schemas(masks):
    """128 tools of 40 parameters each, as one schema: compiled, and the first masks are there."""

    def tool(number):
        members = {
            f"p{n}": {"type": "string", "maxLength": n + 1, "description": "d" * 100}
            for n in range(40)
        }
        return {
            "type": "object",
            "properties": {"name": {"const": f"tool_{number}"}, **members},
            "required": ["name", "p1"],
        }

    grammar = grammar_of(masks, {"anyOf": [tool(number) for number in range(128)]})
    before = b'{"name": "tool_77", "p1": "ab", "p'
    for cut in (0, 1, 10, 16, 18, 20, 28, len(before)):
        check_mask(grammar.start([before[:cut]]), before[:cut])
