"""Request bodies: JSON with nothing lost (member order, exact numbers), and attrs classes made from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, get_args, get_origin

from aiohttp import web
from attrs import fields, has
from cattrs import BaseConverter, Converter
from cattrs.cols import list_structure_factory
from cattrs.errors import (
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_structure_fn

from infernix_core.errors import InvalidOption, Location
from infernix_http.wire_errors import HttpError

T = TypeVar("T")

#: A larger body is decoded on a thread, so that the event loop stays responsive.
DECODED_ON_THE_LOOP = 1 << 16

#: Most characters of a value in an error message.
SHOWN = 60

#: Seconds for a client to send its body.
BODY_TIMEOUT = 60.0


class ExactFloat(float):
    """A JSON number with a fraction or an exponent, and how it was written."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        """From its JSON spelling."""
        number = super().__new__(cls, text)
        number.text = text
        return number


class InvalidBody(HttpError):
    """The body is not a JSON object."""

    def __init__(self, message: str) -> None:
        super().__init__(400, f"the request body {message}", code="invalid_json")


async def read_object(request: web.Request) -> dict[str, Any]:
    """The body's JSON object, members in their order, numbers exact.

    Raises:
        HttpError: The content type is another, the body does not come, or it is no JSON object.
        HTTPRequestEntityTooLarge: It is over the application's limit.
    """
    # What a web page of another origin may send without asking is no JSON: this keeps such pages out.
    if request.content_type != "application/json":
        raise HttpError(
            415,
            f"the content type is {request.content_type!r}; send 'Content-Type: application/json'",
            code="unsupported_media_type",
        )
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        raise HttpError(408, f"the body did not come within {BODY_TIMEOUT:.0f} s") from None
    if len(data) > DECODED_ON_THE_LOOP:
        return await asyncio.to_thread(decode_object, data)
    return decode_object(data)


def decode_object(data: bytes) -> dict[str, Any]:
    """See :func:`read_object`.

    Raises:
        InvalidBody: Says what is wrong and where.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_float=ExactFloat,
            parse_constant=_no_constant,
            object_pairs_hook=_members,
        )
    except UnicodeDecodeError as error:
        raise InvalidBody(f"is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidBody(
            f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except RecursionError:
        raise InvalidBody("is nested too deeply") from None
    except ValueError:
        # Python refuses integers of thousands of digits.
        raise InvalidBody("holds an integer of too many digits") from None
    if not isinstance(value, dict):
        raise InvalidBody("is not a JSON object")
    return value


def _no_constant(name: str) -> None:
    raise InvalidBody(f"holds {name}, which JSON does not know")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidBody(f"gives the member {twice!r} twice in one object")
    return members


def json_text(value: Any) -> str:
    """A decoded value as JSON text again: members in their order, numbers as they were written.

    Raises:
        RecursionError: It is nested too deeply.
    """
    if isinstance(value, ExactFloat):
        return value.text
    if isinstance(value, dict):
        members = (f"{json_text(name)}:{json_text(item)}" for name, item in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(json_text(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def shown(value: Any) -> str:
    """A decoded value for an error message: the beginning of its JSON."""
    try:
        text = json_text(value)
    except RecursionError:
        return f"{json_kind(value)}, nested deeply,"
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


class _Refused(Exception):
    """A value that does not fit its field."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


def json_kind(value: Any) -> str:
    """A value's JSON type, as error messages name it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int():
            return "an integer"
        case float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
    return "an object"


def _is(origin: Any) -> Callable[[Any], bool]:
    """A predicate over types: whether they are a form of ``origin``."""
    return lambda kind: get_origin(kind) is origin


def _exactly(expected: str, fits: Callable[[Any], bool]) -> Callable[[Any, Any], Any]:
    def structure(value: Any, _kind: Any) -> Any:
        if not fits(value):
            raise _Refused(f"{expected} is needed, not {json_kind(value)}")
        return value

    return structure


def make_converter() -> Converter:
    """A converter for wire classes: JSON types are taken as they are, never converted into one another.

    It knows attrs classes, ``str``, ``int``, ``float``, ``bool``, ``None``, ``list``, ``dict[str, Any]`` (taken
    whole), ``Literal`` and optional forms of these, and ``str | list[str] | None``.
    """
    converter = Converter(detailed_validation=True)
    for kind, hook in {
        str: _exactly("a string", lambda value: isinstance(value, str)),
        bool: _exactly("a boolean", lambda value: isinstance(value, bool)),
        int: _exactly(
            "an integer", lambda value: isinstance(value, int) and not isinstance(value, bool)
        ),
        float: _exactly(
            "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
        ),
    }.items():
        converter.register_structure_hook(kind, hook)
    converter.register_structure_hook_func(
        _is(dict),
        _exactly("an object", lambda value: isinstance(value, dict)),
    )

    def listed(kind: Any, converter: BaseConverter) -> Callable[[Any, Any], Any]:
        items = list_structure_factory(kind, converter)

        def structure(value: Any, kind: Any) -> Any:
            if not isinstance(value, list):
                raise _Refused(f"an array is needed, not {json_kind(value)}")
            return items(value, kind)

        return structure

    converter.register_structure_hook_factory(_is(list))(listed)

    def classes(kind: Any, converter: BaseConverter) -> Callable[[Any, Any], Any]:
        return _members_of(kind, converter, forbid=False)

    converter.register_structure_hook_factory(has)(classes)

    def literal(value: Any, kind: Any) -> Any:
        for choice in get_args(kind):
            if type(value) is type(choice) and value == choice:
                return value
        raise _Refused(
            f"{shown(value)} is not possible",
            f"one of {', '.join(map(str, get_args(kind)))}",
        )

    converter.register_structure_hook_func(_is(Literal), literal)

    def text_or_texts(value: Any, kind: Any) -> Any:
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, list):
            return converter.structure(value, list[str])
        raise _Refused(f"a string or an array of strings is needed, not {json_kind(value)}")

    converter.register_structure_hook(str | list[str] | None, text_or_texts)
    return converter


def forbid_unknown_members(converter: Converter, *kinds: type) -> None:
    """From now on, objects of these attrs classes may hold no members that the class lacks."""
    for kind in kinds:
        converter.register_structure_hook(kind, _members_of(kind, converter, forbid=True))


def _members_of(kind: Any, converter: BaseConverter, *, forbid: bool) -> Callable[[Any, Any], Any]:
    members = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=forbid)

    def structure(value: Any, kind: Any) -> Any:
        if not isinstance(value, dict):
            raise _Refused(f"an object is needed, not {json_kind(value)}")
        return members(value, kind)

    return structure


def structure(converter: Converter, value: Any, kind: type[T], *, path: str = "") -> T:
    """Makes a wire class of a decoded value.

    Args:
        converter: From :func:`make_converter`.
        value: What was decoded.
        kind: The class.
        path: Where the value stands in the request.

    Raises:
        InvalidOption: A field is missing or does not fit; the location is its wire path, such as
            ``messages[0].role``.
    """
    if not isinstance(value, Mapping):
        raise InvalidOption(
            f"an object is needed, not {json_kind(value)}", location=Location(field=path or None)
        )
    try:
        return converter.structure(value, kind)
    except BaseValidationError as error:
        raise _located(error, path) from None


def _located(error: BaseException, path: str) -> InvalidOption:
    """The first fault in a tree of cattrs errors, at its path."""
    while isinstance(error, BaseValidationError):
        error, path = _step(error, path)
    where = Location(field=path)
    if isinstance(error, ForbiddenExtraKeysError):
        name = sorted(error.extra_fields)[0]
        known = ", ".join(field.name for field in fields(error.cl))
        return InvalidOption(
            "no such member", location=Location(field=_join(path, name)), hint=f"known: {known}"
        )
    if isinstance(error, KeyError):
        return InvalidOption("is missing", location=where)
    hint = error.hint if isinstance(error, _Refused) else None
    return InvalidOption(str(error), location=where, hint=hint)


def _step(error: BaseValidationError, path: str) -> tuple[BaseException, str]:
    if isinstance(error, ClassValidationError):
        members, others = error.group_exceptions()
        if members:
            inner, note = members[0]
            return inner, _join(path, note.name)
        return others[0], path
    if isinstance(error, IterableValidationError):
        items, rest = error.group_exceptions()
        if items:
            inner, place = items[0]
            return inner, f"{path}[{place.index}]"
        return rest[0], path
    return error.exceptions[0], path


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
