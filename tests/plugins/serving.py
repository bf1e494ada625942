"""A server in a thread of its own, over an engine that the test owns."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from aiohttp import web
from attrs import define

from infernix_core.engine.engine import Engine
from infernix_core.engine.service import GenerationService
from infernix_core.interfaces.protocol import ProtocolAdapter
from infernix_core.testing.toy import ToyModel, ToyTarget, toy_vocabulary
from infernix_http.app import make_app
from infernix_http.options import ServerOptions
from infernix_http.server import Runner, listen, url
from infernix_openai.adapter import OpenAIAdapter


@define
class Server:
    """A running server.

    Attributes:
        url: Without a path.
        stop: Shuts the application down, as a signal would; waits until it is.
    """

    url: str
    port: int
    service: GenerationService
    loop: asyncio.AbstractEventLoop
    stop: Callable[[], None]


@contextmanager
def serving(
    engine: Engine,
    *,
    adapters: Sequence[ProtocolAdapter] | None = None,
    options: ServerOptions | None = None,
    **service: Any,
) -> Iterator[Server]:
    """Serves an engine on a free port."""
    started, bound = threading.Event(), listen("127.0.0.1", 0)
    found: dict[str, Any] = {}

    async def main() -> None:
        found["service"] = GenerationService(engine, **{"model_id": "toy", **service})
        app = make_app(
            found["service"], [OpenAIAdapter()] if adapters is None else adapters, options
        )
        runner = Runner(app)
        await runner.setup()
        await web.SockSite(runner, bound).start()
        found["loop"], found["stop"] = asyncio.get_running_loop(), asyncio.Event()
        started.set()
        await found["stop"].wait()
        await runner.cleanup()
        found["service"].close()

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert started.wait(30)

    def stop() -> None:
        if thread.is_alive():
            found["loop"].call_soon_threadsafe(found["stop"].set)
            thread.join(60)

    try:
        port = bound.getsockname()[1]
        yield Server(url(bound), port, found["service"], found["loop"], stop)
    finally:
        stop()
        bound.close()


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    """Waits for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


class SlowTarget(ToyTarget):
    """Every forward takes a while."""

    seconds = 0.0

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        time.sleep(self.seconds)
        return super().forward(*arguments, **keywords)


def slow_toy(seconds: float) -> ToyModel:
    """A toy whose every forward takes so long."""
    target = SlowTarget(toy_vocabulary())
    target.seconds = seconds
    return ToyModel(target)


def raw_request(port: int, path: str, body: str) -> socket.socket:
    """A connection on which a request was sent, and nothing was read."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=30)
    data = body.encode()
    head = (
        f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(data)}\r\n\r\n"
    )
    connection.sendall(head.encode() + data)
    return connection
