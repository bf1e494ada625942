"""A handler that fails within its stream: the connection is cut, and no second response stands inside the first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from aiohttp import web

from infernix_core.errors import IntegrityError, InvalidOption
from tests.plugins.serving import raw_request, serving


class Broken:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def routes(self, service: Any) -> Iterable[web.AbstractRouteDef]:
        async def stream(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"some")
            raise self.error

        return [web.post("/stream", stream)]


@pytest.mark.parametrize("error", [ZeroDivisionError(), IntegrityError("x"), InvalidOption("x")])
def test_a_broken_stream_is_cut_and_logged_once(
    make_engine, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(make_engine(), adapters=[Broken(error)]) as server:
        with raw_request(server.port, "/stream", "{}") as connection:
            data = b""
            while part := connection.recv(4096):
                data += part
        assert len([record for record in caplog.records if record.exc_info]) == 1
        assert data.count(b"HTTP/1.1") == 1
        assert data.endswith(b"4\r\nsome\r\n"), "neither an end nor anything else follows"
