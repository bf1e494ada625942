"""What the metaschemas ask of keywords that assert nothing."""

from __future__ import annotations

from infernix_constraints.json_schema.source import Json
from infernix_core.errors import InvalidSchema, Location

_STRINGS = frozenset({"title", "description", "$comment", "contentEncoding", "contentMediaType"})
_BOOLEANS = frozenset({"readOnly", "writeOnly", "deprecated"})


def check_annotation(pointer: str, keyword: str, value: Json) -> None:
    """Checks the value of a keyword that describes.

    Raises:
        InvalidSchema: It is none that the keyword takes.
    """
    what = None
    if keyword in _STRINGS and not isinstance(value, str):
        what = "a string"
    elif keyword in _BOOLEANS and not isinstance(value, bool):
        what = "a boolean"
    elif keyword == "examples" and not isinstance(value, list):
        what = "a list"
    if what is not None:
        raise InvalidSchema(
            f"{keyword} must be {what}", location=Location(pointer=pointer, keyword=keyword)
        )
