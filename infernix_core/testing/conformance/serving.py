"""What the protocol suite serves: a server of its own for each test."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from attrs import define, frozen

from infernix_core.engine.request import GenerationHandle, RequestOptions
from infernix_core.engine.service import GenerationService
from infernix_core.errors import (
    DeadlineExceeded,
    EngineUnavailable,
    QueueFull,
    RequestError,
)
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.protocol import ProtocolAdapter
from infernix_core.testing.conformance.controlled import Controls, controlled_engine
from infernix_core.testing.conformance.wire import Reply, WireClient, WireRequest
from infernix_core.testing.toy_engine import ToyEngine

if TYPE_CHECKING:
    from aiohttp import ClientSession, web

Application = Callable[[GenerationService, Iterable[ProtocolAdapter]], "web.Application"]


def plain_application(
    service: GenerationService, adapters: Iterable[ProtocolAdapter]
) -> web.Application:
    """The adapters' routes, and what a server owes them: an error that is let through gets a status."""
    from aiohttp import web

    statuses = {
        RequestError: 400,
        web.RequestPayloadError: 400,
        QueueFull: 429,
        DeadlineExceeded: 503,
        EngineUnavailable: 503,
    }

    @web.middleware
    async def answer_errors(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            response: web.StreamResponse = await handler(request)
            return response
        except Exception as error:
            if request.writer.output_size or isinstance(error, web.HTTPException | ConnectionError):
                raise  # once a response has begun, the connection is cut
            for kind, status in statuses.items():
                if isinstance(error, kind):
                    return web.Response(status=status, text=str(error))
            return web.Response(status=500, text="an internal error")

    app = web.Application(middlewares=[answer_errors])
    for adapter in adapters:
        app.add_routes(adapter.routes(service))
    return app


@define(eq=False)
class Server:
    """A running application, and its client."""

    client: WireClient
    controls: Controls
    engine: ToyEngine
    service: GenerationService
    url: str
    session: ClientSession

    async def send(self, request: WireRequest) -> Reply:
        """Sends a request and reads the answer to its end."""
        from aiohttp import ClientError

        status, body = 0, b""
        try:
            async with self.session.request(
                request.method, self.url + request.path, data=request.body, headers=request.headers
            ) as response:
                status = response.status
                async for data, _ in response.content.iter_chunks():
                    body += data
        except (ClientError, ConnectionError):
            return Reply(status, body, broken=True)
        return Reply(status, body)

    async def ask(self, prompt: str, *, max_tokens: int = 24) -> str:
        """The text of a whole answer, which must come."""
        reply = await self.send(self.client.plain(prompt, max_tokens=max_tokens))
        return self.read(reply, stream=False)

    def read(self, reply: Reply, *, stream: bool) -> str:
        """The text of an answer that is as it should be."""
        assert not reply.broken, "the connection broke"
        assert reply.status == 200, reply.body
        return (self.client.streamed_text if stream else self.client.text)(reply.body)

    def failed(self, reply: Reply) -> bool:
        """Whether the client sees that there is no whole answer, through no fault of its own."""
        if reply.status >= 500 or reply.broken:
            return True
        if reply.status != 200:
            return False
        try:
            self.client.streamed_text(reply.body)
        except Exception:
            return True
        return False

    async def expected(
        self, prompt: str, *, max_tokens: int = 24, choices: Sequence[str] = ()
    ) -> str:
        """The engine's own answer."""
        handle = await asyncio.to_thread(self.submit, prompt, max_tokens, choices)
        return (await asyncio.to_thread(handle.wait)).raise_for_error().text

    def submit(self, prompt: str, max_tokens: int, choices: Sequence[str] = ()) -> GenerationHandle:
        """A request that does not come over the wire."""
        constraint = Choice(choices) if choices else None
        options = RequestOptions(max_tokens=max_tokens, constraint=constraint)
        return self.engine.submit(self.engine.prepare(PromptInput(text=prompt)), options)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Waits for a condition, a generous while."""
        end = time.monotonic() + self.controls.patience
        while not condition():
            assert time.monotonic() < end, what
            await asyncio.sleep(0.005)

    @property
    def idle(self) -> bool:
        """Whether nothing is prepared, waits or runs."""
        return not self.engine.outstanding and not self.service.live


@asynccontextmanager
async def serving(
    adapter: ProtocolAdapter,
    client: WireClient,
    application: Application,
    patience: float,
    **options: Any,
) -> AsyncIterator[Server]:
    """Serves an adapter on a free port, on the running loop; the options are ``controlled_engine``'s."""
    from aiohttp import ClientSession, ClientTimeout, TCPConnector, web

    controls = Controls(patience)
    with controlled_engine(controls, **options) as engine:
        service = GenerationService(engine, model_id="toy")
        runner = web.AppRunner(
            application(service, [adapter]), handler_cancellation=True, access_log=None
        )
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            # A connection that is used again could carry one answer's rest into the next.
            async with ClientSession(
                connector=TCPConnector(limit=0, force_close=True), timeout=ClientTimeout(total=120)
            ) as session:
                url = f"http://{host}:{port}"
                yield Server(client, controls, engine, service, url, session)
        finally:
            controls.let_go()
            service.close()
            await asyncio.to_thread(engine.close)
            await runner.cleanup()


@frozen
class Rig:
    """Runs a check against a server of its own.

    Attributes:
        create: Makes the adapter.
        patience: Seconds after which something that ought to happen is given up.
    """

    create: Callable[[], ProtocolAdapter]
    client: WireClient
    application: Application
    patience: float

    def serve(self, **options: Any) -> Any:
        """A server; see :func:`serving`."""
        return serving(self.create(), self.client, self.application, self.patience, **options)

    def run(self, check: Callable[[Server], Awaitable[None]], **options: Any) -> None:
        """Serves, and checks on the server's own loop."""

        async def main() -> None:
            async with self.serve(**options) as server:
                await check(server)

        asyncio.run(main())

    def ask(self, prompt: str, *, max_tokens: int = 24, **asked: Any) -> WireRequest:
        """The client's request; skips what the protocol cannot express."""
        request = self.client.request(prompt, max_tokens=max_tokens, **asked)
        if request is None:
            pytest.skip("the protocol cannot ask for it")
        return request
