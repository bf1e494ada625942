"""Request bodies: JSON with nothing lost (member order, exact numbers), and attrs classes made from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring
from typing import Any, Literal, TypeVar, get_args, get_origin

from aiohttp import web
from attrs import fields, has
from cattrs import BaseConverter, Converter
from cattrs.errors import (
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
)
from cattrs.gen import make_dict_structure_fn

from infernix_core.engine.daemon_threads import DaemonThreads
from infernix_core.errors import InvalidOption, Location
from infernix_http.wire_errors import HttpError

T = TypeVar("T")

#: A larger body is decoded on a thread, so that the event loop stays responsive.
DECODED_ON_THE_LOOP = 1 << 16

#: Threads of large bodies. They hold up no exit, and no other work waits for them.
DECODERS = DaemonThreads(2, "infernix-decode")

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
    return await read_as(request, lambda members: members)


async def read_as(request: web.Request, make: Callable[[dict[str, Any]], T]) -> T:
    """What is made of the body's JSON object; of a large one, on a thread.

    Args:
        request: Its body was not read.
        make: Checks the object and makes something of it, in a time that its size bounds.

    Raises:
        HttpError: See :func:`read_object`.
        HTTPRequestEntityTooLarge: See there.
    """
    # What a web page of another origin may send without asking is no JSON: this keeps such pages out.
    if request.content_type != "application/json":
        raise HttpError(
            415,
            f"the content type is {shown(request.content_type)}; send 'Content-Type: application/json'",
            code="unsupported_media_type",
        )
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        # A few bytes would become as many as a server holds. No client compresses what it asks.
        raise HttpError(
            415,
            f"the content encoding is {shown(coding)}; send the body as it is (identity)",
            code="unsupported_content_encoding",
        )
    if request.content_length is not None and request.content_length > request.client_max_size > 0:
        # Before it has come; aiohttp says so when it has read as much.
        raise web.HTTPRequestEntityTooLarge(request.client_max_size, request.content_length)
    try:
        async with asyncio.timeout(BODY_TIMEOUT):
            data = await request.read()
    except TimeoutError:
        message = f"the body did not come within {BODY_TIMEOUT:.0f} s"
        raise HttpError(408, message, code="request_timeout") from None
    if len(data) <= DECODED_ON_THE_LOOP:
        return make(decode_object(data))
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(DECODERS, lambda: make(decode_object(data)))


def decode_object(data: bytes) -> dict[str, Any]:
    """See :func:`read_object`.

    Raises:
        InvalidBody: Says what is wrong and where.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            parse_float=ExactFloat,
            parse_int=_integer,
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


def _integer(text: str) -> int:
    """As without it; but a step of Python's own, in which other threads may go on."""
    return int(text)


def _no_constant(name: str) -> None:
    raise InvalidBody(f"holds {name}, which JSON does not know")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InvalidBody(f"gives the member {shown(name)} twice in one object")
            seen.add(name)
    return members


def json_text(value: Any) -> str:
    """A decoded value as JSON text again: members in their order, numbers as they were written.

    Raises:
        RecursionError: It is nested too deeply.
    """
    pieces: list[str] = []
    _write(value, pieces.append)
    return "".join(pieces)


def shown(value: Any, most: int = SHOWN) -> str:
    """A decoded value for an error message: the beginning of its JSON. Looks at no more than that."""
    beginning: list[str] = []
    left = most

    def write(piece: str) -> None:
        nonlocal left
        beginning.append(piece)
        left -= len(piece)
        if left < 0:
            raise _Enough

    try:
        _write(value, write, most)
    except _Enough:
        return f"{''.join(beginning)[: most - 3]}..."
    except RecursionError:
        return f"{json_kind(value)}, nested deeply,"
    return "".join(beginning)


class _Enough(Exception):
    """What was written is as long as it may be."""


def _write(value: Any, write: Callable[[str], object], most: int | None = None) -> None:
    """Writes JSON in pieces.

    Args:
        value: What was decoded.
        write: Takes the next piece.
        most: Characters of a string to look at; the rest is left out.
    """
    kind = type(value)
    if kind is str:
        write(encode_basestring(value if most is None else value[: most + 1]))
    elif kind is ExactFloat:
        write(value.text)
    elif kind is int:
        write(int.__repr__(value))
    elif kind is dict:
        separator = "{"
        for name, item in value.items():
            write(separator)
            _write(name, write, most)
            write(":")
            _write(item, write, most)
            separator = ","
        write("}" if value else "{}")
    elif kind is list:
        separator = "["
        for item in value:
            write(separator)
            _write(item, write, most)
            separator = ","
        write("]" if value else "[]")
    else:
        write(json.dumps(value, ensure_ascii=False))


class _Refused(Exception):
    """A value that does not fit its field."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class _AtIndex(Exception):
    """A fault inside an array."""

    def __init__(self, index: int, error: Exception) -> None:
        super().__init__(index)
        self.index = index
        self.error = error


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
        (item_kind,) = get_args(kind)
        item = converter.get_structure_hook(item_kind)

        def structure(value: Any, _kind: Any) -> Any:
            if not isinstance(value, list):
                raise _Refused(f"an array is needed, not {json_kind(value)}")
            items = []
            for index, one in enumerate(value):
                try:
                    items.append(item(one, item_kind))
                except Exception as error:
                    # The first is told; a body may hold a million more.
                    raise _AtIndex(index, error) from None
            return items

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
    except (BaseValidationError, _AtIndex) as error:
        raise _located(error, path) from None


def _located(error: BaseException, path: str) -> InvalidOption:
    """The first fault in a tree of cattrs errors, at its path."""
    while isinstance(error, BaseValidationError | _AtIndex):
        error, path = _step(error, path)
    where = Location(field=path)
    if isinstance(error, ForbiddenExtraKeysError):
        name = min(error.extra_fields)
        known = ", ".join(field.name for field in fields(error.cl))
        return InvalidOption(
            "no such member", location=Location(field=_join(path, name)), hint=f"known: {known}"
        )
    if isinstance(error, KeyError):
        return InvalidOption("is missing", location=where)
    hint = error.hint if isinstance(error, _Refused) else None
    return InvalidOption(str(error), location=where, hint=hint)


def _step(error: BaseValidationError | _AtIndex, path: str) -> tuple[BaseException, str]:
    if isinstance(error, _AtIndex):
        return error.error, f"{path}[{error.index}]"
    if isinstance(error, ClassValidationError):
        members, others = error.group_exceptions()
        if members:
            inner, note = members[0]
            return inner, _join(path, note.name)
        return others[0], path
    return error.exceptions[0], path


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
