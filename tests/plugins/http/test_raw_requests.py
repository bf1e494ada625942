"""Requests that no HTTP library would send."""

from __future__ import annotations

import gzip
import json
import logging
import socket
import zlib

import pytest

from infernix_core.errors import InvalidOption
from infernix_http import server as server_module
from infernix_http.options import ServerOptions
from tests.plugins.serving import serving, slow_toy, until


def exchange(port: int, data: bytes) -> tuple[int, dict[str, str], bytes]:
    """Sends bytes; the answer's status, headers and body."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(data)
        got = b""
        while part := connection.recv(4096):
            got += part
    head, _, body = got.partition(b"\r\n\r\n")
    line, *lines = head.decode().split("\r\n")
    headers = dict(one.lower().split(": ", 1) for one in lines)
    return int(line.split()[1]), headers, body


def status(port: int, path: str, *headers: bytes) -> int:
    """The status of a GET."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        lines = [f"GET {path} HTTP/1.1".encode(), b"Host: x", b"Connection: close", *headers]
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n")
        data = b""
        while part := connection.recv(4096):
            data += part
    return int(data.split()[1])


@pytest.mark.parametrize("key", ["k\u00e4y", "k\udce4y"], ids=["UTF-8", "latin-1"])
def test_a_key_is_bytes(make_engine, key: str) -> None:
    good = key.encode(errors="surrogateescape")
    with serving(make_engine(), options=ServerOptions(api_key=key)) as server:
        for name in (b"Authorization: Bearer ", b"x-api-key: "):
            assert status(server.port, "/v1/models", name + good) == 200
            for wrong in (b"\xff", b"\xed\xa0\x80", good + b"\xff", b""):
                assert status(server.port, "/v1/models", name + wrong) == 401


def test_a_path_makes_no_lines_in_the_log(make_engine, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="infernix_http.app")
    with serving(make_engine()) as server:
        assert status(server.port, "/v1/models/a%0d%0aforged") == 404
        until(lambda: bool(caplog.messages))
    assert any("/v1/models/a%0d%0aforged" in message for message in caplog.messages)
    assert not any("\n" in message for message in caplog.messages)


@pytest.mark.parametrize("key", ["  key", "key \n", "\tkey\r\n", "key"])
def test_blanks_around_a_key_are_no_part_of_it(make_engine, key: str) -> None:
    """No header can carry them: with them, nobody could get in."""
    with serving(make_engine(), options=ServerOptions(api_key=key)) as server:
        assert status(server.port, "/v1/models", b"Authorization: Bearer key") == 200
        assert status(server.port, "/v1/models", b"Authorization: Bearer  key ") == 200
        assert status(server.port, "/v1/models", b"Authorization: Bearer") == 401


@pytest.mark.parametrize("key", ["", " ", "\n", "a\nb", "a\x00"])
def test_a_key_that_nobody_could_send_stops_the_start(key: str) -> None:
    with pytest.raises(InvalidOption):
        ServerOptions(api_key=key)


MALFORMED = {
    "no HTTP": b"\x00\xff\xfe garbage\r\n\r\n",
    "version": b"GET /health HTTP/9.9\r\nHost: x\r\n\r\n",
    "header": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    "path": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "length": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    "lengths": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
    b"Content-Length: 5\r\n\r\n0\r\n\r\n",
    "expectation": b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: banana\r\n"
    b"Connection: close\r\nContent-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", MALFORMED)
def test_errors_of_http_itself_have_the_shape_of_all_others(
    make_engine, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    caplog.set_level(logging.INFO)
    with serving(make_engine()) as server:
        code, headers, body = exchange(server.port, MALFORMED[name])
        assert status(server.port, "/health") == 200
    assert code == (417 if name == "expectation" else 400)
    assert headers["x-request-id"].startswith("req_")
    assert headers["content-type"].startswith("application/json")
    error = json.loads(body)["error"]
    assert error["type"] == "invalid_request_error"
    assert len(error["message"]) < 300
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def post(body: bytes, *headers: bytes, path: bytes = b"/v1/completions") -> bytes:
    lines = [
        b"POST " + path + b" HTTP/1.1",
        b"Host: x",
        b"Connection: close",
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
        *headers,
    ]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


ASKED = b'{"model": "toy", "prompt": "x", "max_tokens": 1}'


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        (b"gzip", gzip.compress(ASKED)),
        (b"gzip", gzip.compress(b" " * (64 << 20))),
        (b"deflate", zlib.compress(ASKED)),
        (b"br", ASKED),
        (b"zstd", ASKED),
        (b"banana", ASKED),
        (b"gzip", ASKED),
    ],
    ids=lambda value: str(value)[:16],
)
def test_a_body_in_another_content_encoding_is_refused_unread(
    make_engine, coding: bytes, body: bytes
) -> None:
    with serving(make_engine()) as server:
        data = post(body, b"Content-Encoding: " + coding)
        code, _, answer = exchange(server.port, data)
        assert code == 415
        message = json.loads(answer)["error"]["message"]
        assert coding.decode() in message
        assert "identity" in message
        assert exchange(server.port, post(ASKED, b"Content-Encoding: identity"))[0] == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (b"/chat/completions", "did you mean /v1/chat/completions?"),
        (b"/completions", "did you mean /v1/completions?"),
        (b"/v1/v1/completions", "did you mean /v1/completions?"),
        (b"/v1/completions/", "did you mean /v1/completions?"),
        (b"/models", "did you mean /v1/models?"),
        (b"/v1/responses", "there are /health, /v1/models, /v1/models/{name}, /v1/chat/comp"),
        (b"/", "there are /health"),
        (b"/" + b"x" * 5000, "xxx... here; there are /health"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_an_unknown_path_names_the_ones_that_are_known(make_engine, path: bytes, said: str) -> None:
    with serving(make_engine()) as server:
        code, _, answer = exchange(server.port, post(b"{}", path=path))
    assert code == 404
    assert said in json.loads(answer)["error"]["message"]
    assert len(answer) < 500


def test_a_body_that_will_be_too_large_is_refused_before_it_comes(make_engine) -> None:
    with serving(make_engine()) as server:
        head = post(b"").replace(b"Content-Length: 0", b"Content-Length: %d" % (64 << 20))
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
            connection.sendall(head)
            assert connection.recv(20).split()[1] == b"413"


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_connection_that_asks_for_nothing_is_closed(
    make_engine, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(server_module, "IDLE", 0.2)
    with serving(make_engine()) as server:
        connection = socket.create_connection(("127.0.0.1", server.port), timeout=10)
        connection.sendall(sent)
        assert connection.recv(1) == b""
        connection.close()


def test_a_client_that_leaves_a_stream_is_no_error_in_the_log(
    make_engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine(slow_toy(0.02))
    with serving(engine) as server:
        for _ in range(3):
            body = b'{"model": "toy", "prompt": "x", "max_tokens": 3000, "stream": true}'
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
                connection.sendall(post(body))
                connection.recv(1)
        until(lambda: engine.outstanding == 0)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
