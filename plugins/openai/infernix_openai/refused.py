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
    "repetition_penalty": ((1, 1.0), "use presence_penalty or frequency_penalty"),
    "length_penalty": ((1, 1.0), "there is no beam search"),
    "service_tier": (("auto", "default"), "there is one tier"),
}

CHAT: dict[str, tuple[tuple[Any, ...], str]] = {
    **COMMON,
    "logprobs": ((False,), "log probabilities are not given"),
    "top_logprobs": ((0,), "log probabilities are not given"),
    "tools": (([],), "tools cannot be called yet; ask for JSON with response_format"),
    "tool_choice": (("none", "auto"), "tools cannot be called yet"),
    "functions": (([],), "tools cannot be called yet"),
    "function_call": (("none", "auto"), "tools cannot be called yet"),
    "modalities": ((["text"],), "the model gives text"),
    "audio": ((), "the model gives text"),
    "prediction": ((), "leave it out"),
    "verbosity": (("medium",), "ask for it in the prompt"),
    "store": ((False,), "completions are not stored"),
    "web_search_options": ((), "there is no search"),
}

COMPLETIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    **COMMON,
    "logprobs": ((), "log probabilities are not given"),
    "echo": ((False,), "the prompt is not repeated"),
    "suffix": (("",), "text is continued, not filled in"),
}

_SOURCES = "put it under structured_outputs, or use response_format for JSON"

#: How other servers, or a misunderstanding of the SDK, spell a constraint. Unknown fields are ignored, but an
#: ignored constraint would be a free answer to somebody who asked for a shape.
FOREIGN: dict[str, str] = {
    "guided_json": "use response_format with type json_schema",
    "guided_regex": "use structured_outputs.regex",
    "guided_choice": "use structured_outputs.choice",
    "guided_grammar": "use structured_outputs.grammar",
    "guided_decoding_backend": "leave it out",
    "guided_whitespace_pattern": "leave it out; blanks are bounded",
    "grammar": "use structured_outputs.grammar",
    "json_schema": "use response_format with type json_schema",
    "regex": "use structured_outputs.regex",
    "choice": "use structured_outputs.choice",
    "ebnf": "use structured_outputs.grammar, in GBNF",
    "structural_tag": _SOURCES,
    "format": "use response_format",
    "schema": "use response_format with type json_schema",
    "extra_body": "its members go to the top level of the request",
}


def refuse(body: Mapping[str, Any], table: Mapping[str, tuple[tuple[Any, ...], str]]) -> None:
    """Refuses what cannot be given.

    Raises:
        InvalidOption: Names the field, its value, and what would work.
    """
    for field, value in body.items():
        if value is None:
            continue
        if field in FOREIGN:
            raise InvalidOption(
                "this server does not know it and will not ignore it",
                location=Location(field=field),
                hint=FOREIGN[field],
            )
        neutral, hint = table.get(field, (None, ""))
        if neutral is not None and not any(
            type(value) is type(item) and value == item for item in neutral
        ):
            raise _impossible(field, value, hint)
    biases = body.get("logit_bias")
    if biases is not None and not (
        isinstance(biases, dict)
        and all(type(b) in (int, float) and b == 0 for b in biases.values())
    ):
        raise _impossible("logit_bias", biases, "tokens cannot be biased; use a constraint")


def _impossible(field: str, value: Any, hint: str) -> InvalidOption:
    return InvalidOption(
        f"{shown(value)} cannot be given", location=Location(field=field), hint=hint
    )
