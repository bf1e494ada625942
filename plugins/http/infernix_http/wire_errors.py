"""Errors on the wire: which status, and the body that OpenAI-style clients read."""

from __future__ import annotations

import re
from typing import Any

from aiohttp import web
from attrs import evolve, frozen

from infernix_core.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineUnavailable,
    InfernixError,
    QueueFull,
    RequestError,
)


class HttpError(InfernixError):
    """An error that only HTTP knows.

    Args:
        status: HTTP status.
        message: What is wrong and what would work, in one line.
        code: Machine-readable name.
        param: The request's field, when there is one.
        kind: OpenAI's error type; by default what the status stands for.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.kind = kind


@frozen
class WireError:
    """An error as it goes over the wire.

    Attributes:
        status: HTTP status.
        kind: ``invalid_request_error`` and the like.
        message: One line, without the program's internals.
        param: Path of the field at fault, such as ``messages[0].content``.
        code: Machine-readable name.
    """

    status: int
    kind: str
    message: str
    param: str | None = None
    code: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        """The error envelope of OpenAI's API."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": self.param,
                "code": self.code,
            }
        }

    @property
    def headers(self) -> dict[str, str]:
        """When another try makes sense, says when."""
        return {"Retry-After": "1"} if self.status in (429, 503) else {}


#: Of a message.
MOST_CHARACTERS = 1000

KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


def wire_error(error: BaseException) -> WireError:
    """What a client is told about an error. A fault of the program shows none of its text."""
    wire = _wire_error(error)
    if len(wire.message) <= MOST_CHARACTERS:
        return wire
    # Whatever of the request it repeats, a client need not get it all back.
    half = MOST_CHARACTERS // 2
    return evolve(wire, message=f"{wire.message[:half]} ... {wire.message[-half:]}")


def _wire_error(error: BaseException) -> WireError:
    if isinstance(error, HttpError):
        return WireError(
            error.status, error.kind or _kind(error.status), str(error), error.param, error.code
        )
    if isinstance(error, RequestError):
        param = error.location.field if error.location is not None else None
        overflow = isinstance(error, ContextOverflow)
        code = "context_length_exceeded" if overflow else _snake(type(error).__name__)
        return WireError(400, _kind(400), str(error), param, code)
    if isinstance(error, QueueFull):
        return WireError(429, _kind(429), str(error), code="queue_full")
    if isinstance(error, DeadlineExceeded):
        return WireError(503, _kind(503), str(error), code="deadline_exceeded")
    if isinstance(error, EngineUnavailable):
        return WireError(503, _kind(503), str(error), code="engine_unavailable")
    if isinstance(error, web.HTTPRequestEntityTooLarge):
        return WireError(413, _kind(413), error.text or "too large", code="request_too_large")
    if isinstance(error, web.RequestPayloadError):
        message = "the request body is broken: it ends early, or is not encoded as its headers say"
        return WireError(400, _kind(400), message, code="invalid_body")
    if isinstance(error, web.HTTPException):
        text = error.text or error.reason
        name = error.reason.lower().replace(" ", "_") or None
        return WireError(error.status, _kind(error.status), text, code=name)
    return WireError(
        500, _kind(500), "an internal error; the server's log has it under this request's id"
    )


def _kind(status: int) -> str:
    return KINDS.get(status, "invalid_request_error" if status < 500 else "server_error")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
