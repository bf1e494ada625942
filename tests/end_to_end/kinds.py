"""One or more constraints of every kind, each with an independent judge of its texts."""

from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import regex
from attrs import frozen

from infernix_core.engine.request import FinishReason, GenerationResult
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from tests.end_to_end.json_prefix import verdict


@frozen
class Kind:
    """A constraint, and what a plain program says about its texts."""

    name: str
    constraint: OutputConstraint
    complete: Callable[[str], bool]
    prefix: Callable[[str], bool]
    ends_itself: bool
    """Whether its texts are so bounded that an output of 200 tokens always ends."""


def _pattern(name: str, constraint: OutputConstraint, pattern: str, *, ends: bool) -> Kind:
    compiled = regex.compile(pattern)
    return Kind(
        name,
        constraint,
        lambda text: compiled.fullmatch(text) is not None,
        lambda text: compiled.fullmatch(text, partial=True) is not None,
        ends,
    )


def _json(name: str, constraint: OutputConstraint, schema: dict, *, ends: bool) -> Kind:
    validator = jsonschema.Draft202012Validator(schema)

    def complete(text: str) -> bool:
        return validator.is_valid(json.loads(text))

    return Kind(name, constraint, complete, lambda text: not verdict(text).startswith("inv"), ends)


def _schema(name: str, schema: dict, *, ends: bool) -> Kind:
    return _json(name, JsonSchema.of(schema), schema, ends=ends)


BUG = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "maxLength": 16},
        "line": {"type": "integer", "minimum": 1, "maximum": 9999},
        "severity": {"enum": ["low", "high"]},
    },
    "required": ["file", "line", "severity"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": ["number", "null"], "exclusiveMinimum": -2, "maximum": 1.5},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["value"],
        }
    },
    "$ref": "#/$defs/node",
}
MIXED = {
    "anyOf": [
        {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        {"const": {"a": [1, "x y"]}},
        {"type": "string", "minLength": 2, "maxLength": 5},
    ]
}
PATH = (
    'root ::= "edit " path " line " num "\\n"\n'
    'path ::= [a-z]{1,8} ("/" [a-z]{1,8}){0,2} ".java"\n'
    "num ::= [1-9] [0-9]{0,3}\n"
)
PATH_PATTERN = r"edit [a-z]{1,8}(?:/[a-z]{1,8}){0,2}\.java line [1-9][0-9]{0,3}\n"
COLOURS = ("red", "green", "grey", "blue", "été €", " leading", "")

KINDS = (
    _pattern("grammar", Grammar(PATH), PATH_PATTERN, ends=True),
    _pattern(
        "recursive grammar",
        Grammar('root ::= "(" root ")" | [^()\\x00-\\x1f]{1,3} | ""'),
        r"(\((?:(?1))\)|[^()\x00-\x1f]{1,3}|)",
        ends=False,
    ),
    _pattern(
        "regex",
        Regex(r"\d{4}-(0[1-9]|1[0-2]) (é|\w){2,5}"),
        r"[0-9]{4}-(?:0[1-9]|1[0-2]) (?:é|[A-Za-z0-9_]){2,5}",
        ends=True,
    ),
    _pattern("regex, any text", Regex(".{0,40}"), "[^\n\r\u2028\u2029]{0,40}", ends=True),
    Kind(
        "choice",
        Choice(COLOURS),
        lambda text: text in COLOURS,
        lambda text: any(colour.startswith(text) for colour in COLOURS),
        True,
    ),
    _json("json object", JsonObject(), {"type": "object"}, ends=False),
    _schema("schema, bug report", BUG, ends=True),
    _schema("schema, recursive", TREE, ends=False),
    _schema("schema, mixed", MIXED, ends=True),
    _schema("schema, anything", {}, ends=False),
)


def content_bytes(result: GenerationResult, vocabulary: Vocabulary, *, thinking: bool) -> bytes:
    """The raw content that the output's tokens spell: after ``</think>`` and the separator, if thinking."""
    tokens = list(result.token_ids)
    if thinking:
        close = vocabulary.framing["</think>"]
        if close not in tokens:
            return b""
        tokens = tokens[tokens.index(close) + 1 :]
    raw = b"".join(
        vocabulary.token_bytes[token]
        for token in tokens
        if vocabulary.classes[token] is TokenClass.TEXT
    )
    if thinking:
        assert raw.startswith(b"\n\n"[: len(raw)])
    return raw[2:] if thinking else raw


def assert_conforms(
    kind: Kind, result: GenerationResult, vocabulary: Vocabulary, *, thinking: bool = False
) -> None:
    """The output is a whole text of the language, or an honest prefix with finish length."""
    assert result.error is None
    report = result.constraint
    assert report is not None
    raw = content_bytes(result, vocabulary, thinking=thinking)
    if result.finish_reason is FinishReason.STOP:
        assert report.terminated
        assert report.complete
        text = raw.decode()
        assert kind.complete(text), text
        assert result.text == text
    else:
        assert result.finish_reason is FinishReason.LENGTH
        assert not report.terminated
        text = raw.decode(errors="ignore")
        assert kind.prefix(text), text
        assert result.text.rstrip("\ufffd") == text.rstrip("\ufffd")
        if report.complete:
            assert kind.complete(raw.decode())
