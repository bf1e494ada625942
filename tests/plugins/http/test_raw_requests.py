"""Requests that no HTTP library would send."""

from __future__ import annotations

import logging
import socket

import pytest

from infernix_http.app import ServerOptions
from tests.plugins.serving import serving, until


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
