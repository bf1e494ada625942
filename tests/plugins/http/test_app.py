"""The application around any protocol: ids, keys, limits, health, streams that live and die with their reader."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from typing import Any

import pytest
from aiohttp import web

from infernix_core.engine.request import RequestOptions, TextDelta
from infernix_core.errors import (
    ContextOverflow,
    DeadlineExceeded,
    EngineUnavailable,
    IntegrityError,
    InvalidGrammar,
    InvalidOption,
    Location,
    QueueFull,
)
from infernix_core.interfaces.frontend import Channel, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_http import sse
from infernix_http.app import request_id
from infernix_http.json_body import read_object
from infernix_http.options import ServerOptions
from infernix_http.server import listen
from tests.plugins.serving import raw_request, serving, slow_toy, until

ERRORS = {
    "option": InvalidOption("no", location=Location(field="max_tokens"), hint="yes"),
    "grammar": InvalidGrammar("no", location=Location(line=2, column=3)),
    "overflow": ContextOverflow("too long"),
    "full": QueueFull("full"),
    "late": DeadlineExceeded("late"),
    "stopped": EngineUnavailable("stopped"),
    "broken": IntegrityError("a secret of the program"),
    "bug": ZeroDivisionError("a secret of the program"),
    "gone": web.HTTPGone(text="no more"),
}


class Adapter:
    """Raises, echoes, and streams."""

    def routes(self, service: Any) -> Iterable[web.AbstractRouteDef]:
        async def fail(request: web.Request) -> web.Response:
            raise ERRORS[request.match_info["name"]]

        async def echo(request: web.Request) -> web.Response:
            return web.json_response(await read_object(request))

        async def stream(request: web.Request) -> web.StreamResponse:
            body = await read_object(request)
            options = RequestOptions(max_tokens=body["tokens"], sampling=SamplingOptions(seed=1))
            generation = await service.submit(
                PromptInput(text=body["prompt"]), options, request_id=request_id(request)
            )
            try:
                events = sse.EventStream(request)
                async for event in sse.events(generation, events):
                    if isinstance(event, TextDelta):
                        await events.send({"text": event.text})
                await events.send("end", event="done")
                await events.close()
                return events.response
            finally:
                generation.cancel()

        return [
            web.get("/fail/{name}", fail),
            web.post("/echo", echo),
            web.post("/stream", stream),
        ]


def call(
    url: str, body: Any = None, headers: dict[str, str] | None = None, method: str | None = None
) -> tuple[int, dict[str, str], Any]:
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = (
        {"Content-Type": "application/json", **(headers or {})}
        if data is not None
        else {**(headers or {})}
    )
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            status, got, text = response.status, response.headers, response.read()
    except urllib.error.HTTPError as error:
        status, got, text = error.code, error.headers, error.read()
    return status, {name.lower(): value for name, value in got.items()}, json.loads(text)


@pytest.fixture
def server(make_engine):
    with serving(
        make_engine(), adapters=[Adapter()], options=ServerOptions(max_request_bytes=1000)
    ) as server:
        yield server


@pytest.mark.parametrize(
    ("name", "status", "kind", "param", "code", "text"),
    [
        (
            "option",
            400,
            "invalid_request_error",
            "max_tokens",
            "invalid_option",
            "max_tokens: no (yes)",
        ),
        ("grammar", 400, "invalid_request_error", None, "invalid_grammar", "line 2, column 3: no"),
        ("overflow", 400, "invalid_request_error", None, "context_length_exceeded", "too long"),
        ("full", 429, "rate_limit_error", None, "queue_full", "full"),
        ("late", 503, "server_error", None, "deadline_exceeded", "late"),
        ("stopped", 503, "server_error", None, "engine_unavailable", "stopped"),
        ("broken", 500, "server_error", None, None, "internal error"),
        ("bug", 500, "server_error", None, None, "internal error"),
        ("gone", 410, "invalid_request_error", None, "gone", "no more"),
    ],
)
def test_errors_are_bodies(server, name, status, kind, param, code, text) -> None:
    got, headers, body = call(f"{server.url}/fail/{name}")
    assert (got, set(body)) == (status, {"error"})
    error = body["error"]
    assert (error["type"], error["param"], error["code"]) == (kind, param, code)
    assert text in error["message"]
    assert "secret" not in json.dumps(body)
    assert headers["x-request-id"].startswith("req_")
    assert ("retry-after" in headers) == (status in (429, 503))


def test_request_ids_are_taken_when_they_are_fit_and_made_when_not(server) -> None:
    def named(name: str) -> str:
        return call(f"{server.url}/health", headers={"x-request-id": name})[1]["x-request-id"]

    assert named("mine-1.2:3") == "mine-1.2:3"
    assert named("x" * 129).startswith("req_")
    assert named("two words").startswith("req_")
    ids = {call(f"{server.url}/nowhere")[1]["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


def test_paths_methods_types_and_sizes(server) -> None:
    assert call(f"{server.url}/nowhere")[0] == 404
    status, headers, body = call(f"{server.url}/echo", method="GET")
    assert (status, headers["allow"]) == (405, "POST")
    assert body["error"]["message"]
    status, _, body = call(f"{server.url}/echo", {"a": "x" * 1000})
    assert (status, body["error"]["code"]) == (413, "request_too_large")
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        status, _, body = call(f"{server.url}/echo", {"a": 1}, {"Content-Type": kind})
        assert status == 415
        assert "application/json" in body["error"]["message"]
    assert call(f"{server.url}/echo", b"{}x")[2]["error"]["code"] == "invalid_json"
    kind = {"Content-Type": "application/json; charset=utf-8"}
    assert call(f"{server.url}/echo", {"a": [1.5]}, kind)[2] == {"a": [1.5]}


def test_large_bodies_are_read_too(make_engine) -> None:
    body = {"a": ["x" * 100] * 2000, "b": 1.25}
    with serving(make_engine(), adapters=[Adapter()]) as server:
        assert call(f"{server.url}/echo", body)[2] == body


def test_health_follows_the_engine(make_engine) -> None:
    engine = make_engine()
    with serving(engine, adapters=[]) as server:
        assert call(f"{server.url}/health")[::2] == (200, {"status": "ok"})
        engine.close()
        assert call(f"{server.url}/health")[::2] == (503, {"status": "unavailable"})


def test_a_key_is_asked_for(make_engine) -> None:
    options = ServerOptions(api_key="s3cret é")
    with serving(make_engine(), adapters=[Adapter()], options=options) as server:
        assert call(f"{server.url}/health")[0] == 200

        def status(**headers: str) -> int:
            return call(f"{server.url}/echo", {}, headers)[0]

        assert status() == 401
        assert status(Authorization="Bearer wrong") == 401
        assert status(Authorization="Basic s3cret") == 401
        assert call(f"{server.url}/nowhere")[0] == 401
        good = "s3cret é".encode().decode("latin-1")
        assert status(Authorization=f"Bearer {good}") == 200
        assert status(**{"x-api-key": good}) == 200


def body(tokens: int) -> str:
    return json.dumps({"prompt": "abc", "tokens": tokens})


def read_all(connection: socket.socket) -> str:
    data = b""
    while b"event: done" not in data and (part := connection.recv(65536)):
        data += part
    return data.decode()


def test_every_kind_of_line_end_stays_inside_its_event(make_engine) -> None:
    """A bare carriage return ends a line too, for a reader of a stream of events."""

    class Lines:
        def routes(self, service: Any) -> Iterable[web.AbstractRouteDef]:
            async def lines(request: web.Request) -> web.StreamResponse:
                stream = sse.EventStream(request)
                await stream.send("a\rb\r\nc\n\nid: 5\u2028d")
                await stream.send("", event="done")
                await stream.close()
                return stream.response

            return [web.post("/lines", lines)]

    with serving(make_engine(), adapters=[Lines()]) as server:
        text = read_all(raw_request(server.port, "/lines", "{}"))
    assert "data: a\ndata: b\ndata: c\ndata: \ndata: id: 5\u2028d\n\n" in text


def test_a_cancellation_that_comes_with_an_event_is_not_swallowed(make_engine) -> None:
    """As asyncio.wait_for does it up to Python 3.11."""

    async def main() -> None:
        class Source:
            def __init__(self) -> None:
                self.news = asyncio.get_running_loop().create_future()

            async def next_event(self) -> Any:
                return await self.news

        source = Source()

        async def read() -> None:
            async for _ in sse.events(source, None):
                await asyncio.sleep(3600)

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        source.news.set_result(TextDelta(Channel.CONTENT, "x", 1))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 5)

    asyncio.run(main())


def test_quiet_streams_are_kept_alive(make_engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "KEEP_ALIVE", 0.05)
    with serving(make_engine(slow_toy(0.3)), adapters=[Adapter()]) as server:
        text = read_all(raw_request(server.port, "/stream", body(3)))
    assert text.count(": keep-alive") >= 3
    assert text.count("data: ") >= 2
    assert "x-request-id: req_" in text


@pytest.mark.parametrize("when", ["waiting", "prefill", "streaming"])
def test_a_reader_that_goes_away_takes_its_request_with_it(make_engine, when: str) -> None:
    engine = make_engine(slow_toy(0.02), lanes=1, prefill_chunk=4)
    with serving(engine, adapters=[Adapter()]) as server:
        first = raw_request(server.port, "/stream", body(3000))
        if when == "waiting":
            first.recv(1)
            second = raw_request(server.port, "/stream", body(3000))
            until(lambda: engine.outstanding == 2)
            second.close()
            until(lambda: engine.outstanding == 1)
        elif when == "streaming":
            first.recv(1)
        else:
            first.close()
            long = json.dumps({"prompt": "x" * 3000, "tokens": 5})
            first = raw_request(server.port, "/stream", long)
            until(lambda: engine.outstanding >= 1)
        first.close()
        until(lambda: engine.outstanding == 0)


def test_a_reader_that_reads_nothing_is_given_up_and_is_no_error_in_the_log(
    make_engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sse, "STALL", 0.2)

    class Flood:
        """Writes more than any socket buffer holds."""

        def __init__(self) -> None:
            self.given_up = threading.Event()

        def routes(self, service: Any) -> Iterable[web.AbstractRouteDef]:
            async def flood(request: web.Request) -> web.StreamResponse:
                stream = sse.EventStream(request)
                try:
                    for _ in range(1000):
                        await stream.send("x" * 100_000)
                except ConnectionError:
                    self.given_up.set()
                    raise
                return stream.response

            return [web.post("/flood", flood)]

    adapter = Flood()
    with serving(make_engine(), adapters=[adapter]) as server:
        connection = raw_request(server.port, "/flood", "{}")
        assert adapter.given_up.wait(60)
        connection.close()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_shutdown_lets_streams_finish_and_refuses_new_requests(make_engine) -> None:
    engine = make_engine(slow_toy(0.01))
    with serving(engine, adapters=[Adapter()]) as server:
        running = raw_request(server.port, "/stream", body(100))
        running.recv(1)
        kept = socket.create_connection(("127.0.0.1", server.port), timeout=30)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        until(lambda: not server.service.available)
        kept.close()
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", server.port), timeout=5)
        text = read_all(running)
        stopping.join(60)
    assert "event: done\ndata: end" in text
    assert engine.outstanding == 0


def test_shutdown_cancels_what_takes_too_long(
    make_engine, caplog: pytest.LogCaptureFixture
) -> None:
    """Left alone, the request would run for a minute and more."""
    caplog.set_level(logging.INFO)
    engine = make_engine(slow_toy(0.05))
    options = ServerOptions(drain_timeout=0.1)
    with serving(engine, adapters=[Adapter()], options=options) as server:
        running = raw_request(server.port, "/stream", body(3000))
        running.recv(1)
        started = time.monotonic()
        server.stop()
        assert time.monotonic() - started < 10
        running.close()
    assert engine.outstanding == 0
    assert "finish=cancelled" in caplog.text
    assert "cancelling 1 requests" in caplog.text


def test_addresses_that_cannot_be_used() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for host, number, said in (
            ("127.0.0.1", port, "in use"),
            ("no.such.host.invalid", 1, "no.such.host.invalid"),
            ("127.0.0.1", 70000, "no port"),
            ("127.0.0.1", -1, "no port"),
            ("203.0.113.7", 0, "203.0.113.7"),  # reserved for documentation
            ("x" * 300, 0, "cannot listen"),
        ):
            with pytest.raises(InvalidOption) as caught:
                listen(host, number)
            assert said in str(caught.value)


def test_dead_peers_are_probed() -> None:
    """What a connection inherits from its listener; the kernel does the rest."""
    with listen("127.0.0.1", 0) as listener:
        listener.listen()
        client = socket.create_connection(listener.getsockname())
        accepted, _ = listener.accept()
        option = accepted.getsockopt
        assert option(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle = option(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
        interval = option(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL)
        count = option(socket.IPPROTO_TCP, socket.TCP_KEEPCNT)
        assert idle + interval * count <= 20
        assert option(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
        accepted.close()
        client.close()
