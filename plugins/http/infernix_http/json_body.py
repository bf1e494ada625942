"""Request bodies: JSON with nothing lost, be it the order of members or the digits of a number."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any, TypeVar

from aiohttp import web

from infernix_core.engine.daemon_threads import DaemonThreads
from infernix_core.exact_json import ExactFloat, write_json
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
        write_json(value, write, most)
    except _Enough:
        return f"{''.join(beginning)[: most - 3]}..."
    except RecursionError:
        return f"{json_kind(value)}, nested deeply,"
    return "".join(beginning)


class _Enough(Exception):
    """What was written is as long as it may be."""


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
