"""Running the application: sockets, connections, signals, and a shutdown that loses nothing and ends in time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import NoReturn

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from infernix_core.cli import exit_codes
from infernix_core.errors import InvalidOption, Location
from infernix_http.app import new_request_id
from infernix_http.wire_errors import HttpError, wire_error

_log = logging.getLogger(__name__)

#: Seconds after which a peer that acknowledges nothing counts as dead.
DEAD_AFTER = 20

#: Connections that the kernel keeps for a server that is busy.
BACKLOG = 128

#: Seconds for handlers to write their last bytes when their requests have ended.
LAST_WORDS = 2.0

#: Seconds after which a connection is closed that asks for nothing, or does not finish its headers.
IDLE = 75.0

#: Seconds of a shutdown beyond the drain timeout, after which the process ends whatever still runs: requests that
#: were cancelled, handlers twice (what they write, then their cancellation), the engine.
LATE = 8.0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; made before the model is loaded, so that a taken port shows at once.

    Clients that come before the server is ready wait.

    Connections inherit its options: a dead peer is noticed within 20 seconds, by unanswered probes
    when nothing is sent and by unacknowledged data when something is.

    Raises:
        InvalidOption: The address cannot be used here, or the port is taken.
    """
    if not 0 <= port <= 65535:
        raise InvalidOption(
            f"{port} is no port", location=Location(field="--port"), hint="0 to 65535"
        )
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (
                ("TCP_KEEPIDLE", DEAD_AFTER // 2),
                ("TCP_KEEPINTVL", DEAD_AFTER // 4),
                ("TCP_KEEPCNT", 2),
                ("TCP_USER_TIMEOUT", DEAD_AFTER * 1000),
            ):
                if hasattr(socket, name):
                    bound.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
            bound.bind(address)
            # Or a second server could bind too, as long as neither listens.
            bound.listen(BACKLOG)
        except BaseException:
            bound.close()
            raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidOption(
            f"cannot listen at {host} port {port}: {reason}",
            location=Location(field="--host, --port"),
            hint="another --port, or 0 for any free one",
        ) from None
    return bound


def url(bound: socket.socket) -> str:
    """The address of a bound socket, for people."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


class _Connection(RequestHandler):
    """aiohttp's, with errors of HTTP itself in the server's own shape, and clients' mistakes out of the log."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is answered when no handler could: the request is malformed, or its response cannot go on."""
        if request.writer.output_size or isinstance(exc, ConnectionError):
            # The middlewares have logged what there is to log; a client that left is nothing.
            raise ConnectionError("the response cannot go on")
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        _log.debug("a malformed request from %s: %s", request.remote, message)
        response = _error(HttpError(status, _first_line(message), code="bad_request"))
        response.force_close()
        return response


class _Connections(web.Server):
    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class Runner(web.AppRunner):
    """How an application of :func:`infernix_http.app.make_app` is run.

    A client that goes away takes its request with it. A body is not decompressed, a connection that asks for
    nothing is closed after a while, and what aiohttp answers by itself has the shape of all other errors.
    """

    __slots__ = ()

    def __init__(self, app: web.Application) -> None:
        super().__init__(
            app,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=IDLE,
            shutdown_timeout=LAST_WORDS,
        )

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        handle = made.request_handler

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            try:
                return await handle(request)
            except web.HTTPException as error:
                # From outside of the middlewares: an Expect header that means nothing here.
                return _error(error)

        made.request_handler = answer
        # aiohttp takes no class for its connections.
        made.__class__ = _Connections
        return made


def _error(error: Exception) -> web.Response:
    wire = wire_error(error)
    headers = {**wire.headers, "x-request-id": new_request_id()}
    return web.json_response(wire.body, status=wire.status, headers=headers)


def _first_line(message: str | None) -> str:
    """What aiohttp says goes on with the bytes that it could not read."""
    line = (message or "").strip().partition("\n")[0].rstrip(": ")
    return f"this is no HTTP request: {line}" if line else "this is no HTTP request"


async def run(
    app: web.Application,
    bound: socket.socket,
    ready: Callable[[], None] | None = None,
    *,
    drain_timeout: float | None = None,
) -> int:
    """Serves until a signal comes, then drains. A second signal ends the process at once.

    Args:
        app: From :func:`infernix_http.app.make_app`.
        bound: From :func:`listen`.
        ready: Called when connections are accepted.
        drain_timeout: The application's. When it is given, the process ends at most so many and :data:`LATE` seconds
            after the signal, also when this function or what its caller does next hangs.

    Returns:
        The number of the signal that ended it.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def signalled(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        _log.info("shutting down; running requests may finish, a second signal ends them")
        if drain_timeout is not None:
            timer = threading.Timer(drain_timeout + LATE, leave, (exit_code(number),))
            timer.daemon = True
            timer.start()
        stop.set_result(number)

    runner = Runner(app)
    await runner.setup()
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is signal.SIG_IGN:
                continue  # a process started to ignore it (nohup) goes on ignoring it
            with contextlib.suppress(NotImplementedError, RuntimeError):
                loop.add_signal_handler(number, signalled, number)
        await web.SockSite(runner, bound).start()
        if ready is not None:
            ready()
        return await stop
    finally:
        await runner.cleanup()


def exit_code(number: int) -> int:
    """A server's exit code after a signal."""
    return exit_codes.INTERRUPTED if number == signal.SIGINT else exit_codes.DONE


def leave(code: int) -> NoReturn:
    """Ends the process, whatever its threads do: native code cannot be broken off, and must not meet the end of
    the interpreter. What was logged and printed is written.
    """
    with contextlib.suppress(Exception):
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)
