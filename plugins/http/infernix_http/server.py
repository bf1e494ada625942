"""Running the application: sockets, signals, and a shutdown that loses nothing."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable

from aiohttp import web

from infernix_core.errors import InvalidOption, Location

_log = logging.getLogger(__name__)

#: Seconds after which a peer that acknowledges nothing counts as dead.
DEAD_AFTER = 20

#: Seconds for handlers to write their last bytes when their requests have ended.
LAST_WORDS = 5.0


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; bound before the model is loaded, so that a taken port shows at once.

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


async def run(
    app: web.Application, bound: socket.socket, ready: Callable[[], None] | None = None
) -> int:
    """Serves until a signal comes, then drains. A second signal ends the process at once.

    Args:
        app: From :func:`infernix_http.app.make_app`.
        bound: From :func:`listen`.
        ready: Called when connections are accepted.

    Returns:
        The number of the signal that ended it.
    """
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[int] = loop.create_future()

    def signalled(number: int) -> None:
        if stop.done():
            os._exit(128 + number)
        _log.info("shutting down; running requests may finish, a second signal ends them")
        stop.set_result(number)

    runner = web.AppRunner(
        app, handler_cancellation=True, access_log=None, shutdown_timeout=LAST_WORDS
    )
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
