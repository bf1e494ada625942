"""Fields that clients know and this server cannot serve: neutral values pass, others are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infernix_core.errors import InvalidOption, Location
from infernix_http.json_body import shown

#: Per field, the values that ask for nothing (null is always one), and what to do instead.
COMMON: dict[str, tuple[tuple[Any, ...], str]] = {
    "n": ((1,), "one output per request; send several requests"),
    "best_of": ((1,), "one output per request"),
    "use_beam_search": ((False,), "tokens are sampled one by one"),
    "min_tokens": ((0,), "say the least length in a constraint"),
    "ignore_eos": ((False,), "an end token ends the output"),
    "repetition_penalty": ((1,), "use presence_penalty or frequency_penalty"),
    "length_penalty": ((1,), "there is no beam search"),
    "service_tier": (("auto", "default"), "there is one tier"),
}

CHAT: dict[str, tuple[tuple[Any, ...], str]] = {
    **COMMON,
    "logprobs": ((False,), "log probabilities are not given"),
    "top_logprobs": ((0,), "log probabilities are not given"),
    "functions": (([],), 'use tools: [{"type": "function", "function": {...}}]'),
    "function_call": (("none", "auto"), "use tool_choice"),
    "modalities": ((["text"],), "the model gives text"),
    "audio": ((), "the model gives text"),
    "prediction": ((), "leave it out"),
    "verbosity": (("medium",), "ask for it in the prompt"),
    "store": ((False,), "completions are not stored"),
    "web_search_options": ((), "there is no search"),
}

_CHATS = "a raw text declares no tools; ask /v1/chat/completions"

COMPLETIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    **COMMON,
    "logprobs": ((), "log probabilities are not given"),
    "echo": ((False,), "the prompt is not repeated"),
    "suffix": (("",), "text is continued, not filled in"),
    "tools": (([],), _CHATS),
    "tool_choice": (("none", "auto"), _CHATS),
}

_SOURCES = "put it under structured_outputs, or use response_format for JSON"
_SCHEMA = "use response_format with type json_schema"

#: How other servers, or a misunderstanding of the SDK, spell a constraint. Unknown fields are ignored, but an
#: ignored constraint would be a free answer to somebody who asked for a shape. Null and false ask for none.
FOREIGN: dict[str, str] = {
    "guided_json": _SCHEMA,
    "guided_json_object": "use response_format with type json_object",
    "guided_regex": "use structured_outputs.regex",
    "guided_choice": "use structured_outputs.choice",
    "guided_grammar": "use structured_outputs.grammar",
    "guided_decoding": _SOURCES,
    "guided_decoding_backend": "leave it out",
    "guided_whitespace_pattern": "leave it out; blanks are bounded",
    "grammar": "use structured_outputs.grammar",
    "json": _SCHEMA,
    "json_object": "use response_format with type json_object",
    "json_schema": _SCHEMA,
    "regex": "use structured_outputs.regex",
    "choice": "use structured_outputs.choice",
    "ebnf": "use structured_outputs.grammar, in GBNF",
    "structural_tag": _SOURCES,
    "structured_output": "the name is structured_outputs",
    "format": "use response_format",
    "output_format": "use response_format",
    "response_schema": _SCHEMA,
    "schema": _SCHEMA,
    "extra_body": "its members go to the top level of the request",
}

#: Objects that have other uses too, and are refused for a constraint inside: what such a member's name begins with.
FOREIGN_INSIDE: dict[str, tuple[str, str]] = {
    "text": ("format", "use response_format"),
    "output_config": ("format", "use response_format"),
    "nvext": ("guided_", _SOURCES),
}

#: The prompt of the other endpoint, which would be ignored.
OTHER_CHAT = {"prompt": "give messages, or ask /v1/completions"}
OTHER_COMPLETIONS = {"messages": "give a prompt, or ask /v1/chat/completions"}


def refuse(
    body: Mapping[str, Any],
    table: Mapping[str, tuple[tuple[Any, ...], str]],
    other: Mapping[str, str],
) -> None:
    """Refuses what cannot be given.

    Args:
        body: The request.
        table: Fields with their neutral values, and what to do instead.
        other: Fields of the other endpoint, and what to do instead.

    Raises:
        InvalidOption: Names the field, its value, and what would work.
    """
    for field, value in body.items():
        if value is None:
            continue
        if field in other:
            raise InvalidOption(
                "is no field of this endpoint", location=Location(field=field), hint=other[field]
            )
        _refuse_foreign(field, value)
        neutral, hint = table.get(field, (None, ""))
        if neutral is not None and not any(_same(value, item) for item in neutral):
            raise _impossible(field, value, hint)
    biases = body.get("logit_bias")
    if biases is not None and not (
        isinstance(biases, dict) and all(_same(bias, 0) for bias in biases.values())
    ):
        raise _impossible("logit_bias", biases, "tokens cannot be biased; use a constraint")


def _refuse_foreign(field: str, value: Any) -> None:
    hint = FOREIGN.get(field)
    if hint is None and field.startswith("guided_"):
        hint = _SOURCES
    if field in FOREIGN_INSIDE and isinstance(value, dict):
        beginning, inside = FOREIGN_INSIDE[field]
        for name, item in value.items():
            if name.startswith(beginning) and not _asks_nothing(item):
                field, value, hint = f"{field}.{name}", item, inside
                break
    if hint is not None and not _asks_nothing(value):
        raise InvalidOption(
            "this server does not know it and will not ignore it",
            location=Location(field=field),
            hint=hint,
        )


def _asks_nothing(value: Any) -> bool:
    return value is None or value is False or value == {"type": "text"}


def _same(value: Any, neutral: Any) -> bool:
    """Whether a value is a neutral one. Numbers are equal however they are spelled; true is no number."""
    if isinstance(neutral, int | float) and not isinstance(neutral, bool):
        return isinstance(value, int | float) and not isinstance(value, bool) and value == neutral
    return type(value) is type(neutral) and bool(value == neutral)


def _impossible(field: str, value: Any, hint: str) -> InvalidOption:
    return InvalidOption(
        f"{shown(value)} cannot be given", location=Location(field=field), hint=hint
    )
