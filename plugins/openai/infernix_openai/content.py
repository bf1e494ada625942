"""Where a request says the shape of its content: response_format or structured_outputs, never both."""

from __future__ import annotations

from typing import Any

from attrs import evolve, frozen

from infernix_core.errors import ConstraintError, InvalidOption, InvalidSchema, Location
from infernix_core.exact_json import json_text
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_http.json_body import json_kind, shown

LEVELS = '{"type": "json_schema", "json_schema": {"name": "...", "schema": {...}}}'
FORMATS = ("text", "json_object", "json_schema")
MAKERS = {"grammar": Grammar, "regex": Regex, "choice": Choice}
KINDS = tuple(MAKERS)


@frozen
class JsonSchemaFormat:
    """``response_format.json_schema``. ``strict`` is no switch: the schema is enforced either way."""

    schema: dict[str, Any]
    name: str | None = None
    description: str | None = None
    strict: bool | None = None


@frozen
class ResponseFormat:
    """``response_format``."""

    type: str
    json_schema: JsonSchemaFormat | None = None


@frozen
class StructuredOutputs:
    """``structured_outputs``: exactly one of its members."""

    grammar: str | None = None
    regex: str | None = None
    choice: list[str] | None = None


@frozen
class ContentSource:
    """A request's constraint, and the wire path that it came from."""

    constraint: OutputConstraint | None = None
    path: str = "response_format"


def check_format(value: Any) -> None:
    """Refuses a response format whose type is unknown, before its members are looked at.

    Raises:
        InvalidOption: Names the type.
    """
    if not isinstance(value, dict):
        return
    kind = value.get("type")
    if "type" in value and kind not in FORMATS:
        given = shown(kind) if isinstance(kind, str) else json_kind(kind)
        raise InvalidOption(
            f"{given} is not a type of response format",
            location=Location(field="response_format.type"),
            hint=f"one of {', '.join(FORMATS)}; other shapes go to structured_outputs",
        )
    if "schema" in value:
        raise InvalidOption(
            "the schema stands in json_schema",
            location=Location(field="response_format.schema"),
            hint=LEVELS,
        )
    schema = value.get("json_schema")
    if isinstance(schema, dict) and "schema" not in schema:
        raise InvalidOption(
            "is missing",
            location=Location(field="response_format.json_schema.schema"),
            hint=f"the schema stands one level deeper: {LEVELS}",
        )


def check_outputs(value: Any) -> None:
    """Refuses JSON under structured_outputs, which has its own place.

    Raises:
        InvalidOption: Names the member.
    """
    if not isinstance(value, dict):
        return
    for name in ("json", "json_object"):
        if value.get(name) is not None:
            kind = "json_schema" if name == "json" else "json_object"
            raise InvalidOption(
                f"{name} is not one of {', '.join(KINDS)}",
                location=Location(field=f"structured_outputs.{name}"),
                hint=f"use response_format with type {kind}",
            )


def content_source(
    response_format: ResponseFormat | None,
    outputs: StructuredOutputs | None,
    compact: bool | None = None,
) -> ContentSource:
    """The one constraint that a request names.

    Args:
        response_format: As it was sent.
        outputs: As it was sent.
        compact: ``compact_json``: no blanks between the tokens of JSON.

    Raises:
        InvalidOption: It names none where one is due, or several; located.
        ConstraintError: The source is not what its kind takes; located.
    """
    source = ContentSource()
    if response_format is not None:
        source = _of_format(response_format, bool(compact))
    if compact and source.constraint is None:
        raise InvalidOption(
            "goes with a response_format of JSON alone", location=Location(field="compact_json")
        )
    if outputs is None:
        return source
    given = [name for name in KINDS if getattr(outputs, name) is not None]
    if len(given) != 1:
        raise InvalidOption(
            f"exactly one kind is needed, not {' and '.join(given) or 'none'}",
            location=Location(field="structured_outputs"),
            hint=f"one of {', '.join(KINDS)}",
        )
    if source.constraint is not None:
        raise InvalidOption(
            "cannot be combined with response_format: the content has one shape",
            location=Location(field="structured_outputs"),
            hint="leave out one of them",
        )
    (kind,) = given
    path = f"structured_outputs.{kind}"
    try:
        made: OutputConstraint = MAKERS[kind](getattr(outputs, kind))
    except ConstraintError as error:
        location = error.location if error.location is not None else Location()
        error.location = evolve(location, field=path)
        raise
    return ContentSource(made, path)


def _of_format(response_format: ResponseFormat, compact: bool) -> ContentSource:
    if response_format.json_schema is not None and response_format.type != "json_schema":
        raise InvalidOption(
            f"a response format of type {response_format.type} has no schema",
            location=Location(field="response_format.json_schema"),
            hint="the type for it is json_schema",
        )
    if response_format.type == "text":
        return ContentSource()
    if response_format.type == "json_object":
        return ContentSource(JsonObject(compact=compact))
    if response_format.json_schema is None:
        raise InvalidOption("is missing", location=Location(field="response_format.json_schema"))
    path = "response_format.json_schema.schema"
    try:
        # As text, so that member order and the numbers' own digits survive.
        text = json_text(response_format.json_schema.schema)
        return ContentSource(JsonSchema(text, compact=compact), path)
    except RecursionError:
        raise InvalidSchema(
            "the schema is nested too deeply", location=Location(field=path)
        ) from None
