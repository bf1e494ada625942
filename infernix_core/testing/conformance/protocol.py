"""The contract of protocol adapters as tests, over HTTP, on a whole engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from attrs import evolve

from infernix_core.interfaces.protocol import ProtocolAdapter
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.testing.conformance.controlled import HELD, SECRET
from infernix_core.testing.conformance.serving import (
    Application,
    Rig,
    Server,
    plain_application,
)
from infernix_core.testing.conformance.wire import (
    WireClient,
    WireRequest,
    members_replaced,
    rubbish,
)

PROMPTS = ("once upon", "Grüße, 你好 🙂", '{"a": [1,\n\n2]}\r\n')

#: Texts to choose from; the first byte does not tell them apart.
CHOICES = ("red", "reddish", "rot: €\n\n🙂")

#: An answer that is still running when a test has long been over.
ENDLESS = 3500

#: Seconds per execution of the model, where something has to happen meanwhile.
PAUSE = 0.01


class ProtocolSuite:
    """Inherit it as ``Test…`` and give ``create`` and ``client``.

    The server is a plain application over an engine on an exact toy model, whose answers hold every kind of line
    end and cut characters. Where a request says nothing about sampling, the model's own choice is the
    most likely token, so that each answer is known.

    Fixtures:
        create: Makes a ``ProtocolAdapter``, as ``ProtocolPlugin.create`` does.
        client: A ``WireClient``: how to ask, and how to read the answer. Its model is named ``toy``.
        application: Makes the aiohttp application of a service and adapters. By default a plain one, which turns
            an ``InfernixError`` into a status; an adapter that builds upon a server's own helpers gives
            that server's.

    Attributes:
        patience: Seconds after which something that ought to happen is given up. No test waits for as long
            as that unless it fails.
    """

    patience = 15.0

    @pytest.fixture
    def create(self) -> Callable[[], ProtocolAdapter]:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'create'")

    @pytest.fixture
    def client(self) -> WireClient:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'client'")

    @pytest.fixture
    def application(self) -> Application:
        """A server of no protocol's own."""
        return plain_application

    @pytest.fixture
    def rig(
        self,
        create: Callable[[], ProtocolAdapter],
        client: WireClient,
        application: Application,
    ) -> Rig:
        """What each test serves."""
        return Rig(create, client, application, self.patience)

    @pytest.fixture(params=[False, True], ids=["whole", "stream"])
    def stream(self, request: pytest.FixtureRequest) -> bool:
        """Each way of answering in turn."""
        return bool(request.param)

    # The routes.

    def test_routes_mount_beside_the_servers_own(self, rig: Rig) -> None:
        """They are aiohttp's route definitions; no path is taken twice, nor the server's ``/health``."""
        from aiohttp import web

        async def health(request: web.Request) -> web.Response:
            return web.Response()

        async def check(server: Server) -> None:
            routes = list(rig.create().routes(server.service))
            assert routes
            assert all(isinstance(route, web.AbstractRouteDef) for route in routes)
            app = web.Application()
            app.add_routes([web.get("/health", health), *routes])
            mounted = [
                (route.method, route.resource.canonical)
                for route in app.router.routes()
                if route.resource is not None
            ]
            assert len(set(mounted)) == len(mounted), "a path is taken twice"

        rig.run(check)

    def test_two_adapters_know_nothing_of_each_other(self, rig: Rig) -> None:
        """Two of ``create``, on two services: each answers for its own."""

        async def main() -> None:
            async with rig.serve(seed=1) as one, rig.serve(seed=2) as other:
                for prompt in PROMPTS:
                    texts = await asyncio.gather(one.ask(prompt), other.ask(prompt))
                    assert texts[0] == await one.expected(prompt)
                    assert texts[1] == await other.expected(prompt)
                    assert texts[0] != texts[1]

        asyncio.run(main())

    # The answer.

    def test_the_answer_is_the_engines(self, rig: Rig, stream: bool) -> None:
        """To the last character, in one piece and in pieces."""
        requests = [rig.ask(prompt, stream=stream) for prompt in PROMPTS]

        async def check(server: Server) -> None:
            for prompt, request in zip(PROMPTS, requests, strict=True):
                text = server.read(await server.send(request), stream=stream)
                assert text == await server.expected(prompt)

        rig.run(check)

    def test_a_constrained_answer_is_the_engines(self, rig: Rig, stream: bool) -> None:
        """The constraint reaches the engine, and its text the client."""
        request = rig.ask("colour: ", stream=stream, choices=CHOICES)

        async def check(server: Server) -> None:
            text = server.read(await server.send(request), stream=stream)
            assert text in CHOICES
            assert text == await server.expected("colour: ", choices=CHOICES)

        rig.run(check)

    def test_the_engine_decides_what_a_request_leaves_open(self, rig: Rig, stream: bool) -> None:
        """No sampling option is set that the client did not set; a seed would change no law."""
        request = rig.ask("once upon", stream=stream)

        async def check(server: Server) -> None:
            await server.send(request)
            ((_, options),) = server.engine.submitted
            assert evolve(options.sampling, seed=None) == SamplingOptions()

        rig.run(check)

    def test_a_stream_flows(self, rig: Rig) -> None:
        """The client reads of it while the model is still at work."""
        request = rig.ask("once upon", stream=True, max_tokens=24)

        async def check(server: Server) -> None:
            server.controls.decode.shut(spared=12)
            async with server.session.request(
                request.method,
                server.url + request.path,
                data=request.body,
                headers=request.headers,
            ) as response:
                assert response.status == 200
                body = await response.content.readany()
                assert body
                assert not server.controls.expired, "nothing came before the generation had ended"
                server.controls.let_go()
                body += await response.read()
            assert server.client.streamed_text(body) == await server.expected("once upon")

        rig.run(check)

    def test_requests_do_not_mix(self, rig: Rig) -> None:
        """Sixteen at once, whole and streamed, on four lanes."""
        prompts = [f"request {number} of many" for number in range(16)]

        async def check(server: Server) -> None:
            async def ask(number: int, prompt: str) -> str:
                request = server.client.request(prompt, max_tokens=24, stream=number % 2 == 1)
                streamed = request is not None and number % 2 == 1
                request = request or server.client.plain(prompt, max_tokens=24)
                return server.read(await server.send(request), stream=streamed)

            server.controls.pause = PAUSE / 5
            texts = await asyncio.gather(*map(ask, range(len(prompts)), prompts))
            server.controls.pause = 0
            for prompt, text in zip(prompts, texts, strict=True):
                assert text == await server.expected(prompt)

        rig.run(check, lanes=4)

    # What the client does wrong.

    def test_malformed_requests_are_the_clients_fault(self, rig: Rig) -> None:
        """A 4xx, and the server lives on."""

        async def check(server: Server) -> None:
            for request in server.client.malformed():
                reply = await server.send(request)
                assert 400 <= reply.status < 500, (request.body[:60], reply)
            assert not server.engine.submitted
            assert await server.ask("once upon") == await server.expected("once upon")

        rig.run(check)

    def test_no_body_is_a_fault_of_the_server(self, rig: Rig) -> None:
        """Rubbish of any kind, in any protocol: never a 5xx, and the server lives on."""
        requests = rubbish(rig.client.plain("a prompt", max_tokens=1))

        async def check(server: Server) -> None:
            for request in requests:
                reply = await server.send(request)
                assert 200 <= reply.status < 500, (request.body[:60], request.headers, reply)
            assert await server.ask("once upon") == await server.expected("once upon")

        rig.run(check, max_context=128)

    def test_no_member_is_a_fault_of_the_server(self, rig: Rig) -> None:
        """Each member of a good JSON body with values of every kind: never a 5xx, and the server lives on."""
        good = rig.client.plain("a prompt", max_tokens=1)
        try:
            requests = list(members_replaced(good))
        except ValueError:
            pytest.skip("the protocol's bodies are no JSON objects")

        async def check(server: Server) -> None:
            for request in requests:
                reply = await server.send(request)
                assert 200 <= reply.status < 500, (request.body[:90], reply)
            assert await server.ask("once upon") == await server.expected("once upon")

        rig.run(check, max_context=128)

    def test_an_error_of_the_request_is_the_clients(self, rig: Rig, stream: bool) -> None:
        """What the engine refuses has a status also where a stream was asked for."""
        request = rig.ask("x" * 200, stream=stream)

        async def check(server: Server) -> None:
            reply = await server.send(request)
            assert 400 <= reply.status < 500, reply
            assert reply.status != 429, "another try would not help"
            assert server.idle

        rig.run(check, max_context=128)

    # What the server cannot do.

    @pytest.mark.parametrize(
        ("part", "sound"),
        [("preparation", 0), ("prefill", 1), ("decoder", 0), ("decoder", 6), ("matcher", 1)],
        ids=["preparation", "prefill", "first token", "later token", "matcher"],
    )
    def test_a_fault_is_the_servers(self, rig: Rig, stream: bool, part: str, sound: int) -> None:
        """A 5xx without the program's own words; inside a stream, an error or a cut. Others go on."""
        choices = CHOICES if part == "matcher" else ()
        request = rig.ask("a longer prompt", stream=stream, choices=choices)

        async def check(server: Server) -> None:
            server.controls.broken, server.controls.sound = part, sound
            reply = await server.send(request)
            assert SECRET.encode() not in reply.body
            assert server.failed(reply) if stream else reply.status >= 500, reply
            await server.until(lambda: server.idle, "the request that failed is still there")
            server.controls.broken = None
            assert await server.ask("once upon") == await server.expected("once upon")

        rig.run(check)

    def test_a_stopped_engine_is_unavailable(self, rig: Rig, stream: bool) -> None:
        """To the request that met the fault, a 5xx; to those after it a 503; to neither the cause."""
        request = rig.ask("once upon", stream=stream)

        async def check(server: Server) -> None:
            server.controls.broken, server.controls.sound = "decode", 4
            replies = [await server.send(request), await server.send(request)]
            assert server.failed(replies[0]) if stream else replies[0].status >= 500, replies
            assert replies[1].status == 503
            assert not any(SECRET.encode() in reply.body for reply in replies), replies

        rig.run(check)

    def test_a_closed_engine_is_unavailable(self, rig: Rig, stream: bool) -> None:
        """503."""
        request = rig.ask("once upon", stream=stream)

        async def check(server: Server) -> None:
            await asyncio.to_thread(server.engine.close)
            assert (await server.send(request)).status == 503

        rig.run(check)

    def test_a_full_queue_is_worth_another_try(self, rig: Rig, stream: bool) -> None:
        """429, 503, or 529 as some protocols have it; and the other try succeeds."""
        request = rig.ask("once upon", stream=stream)

        async def check(server: Server) -> None:
            server.controls.pause = PAUSE
            occupant = server.submit("occupied", ENDLESS)
            assert (await server.send(request)).status in (429, 503, 529)
            occupant.cancel()
            await server.until(lambda: server.idle, "a cancelled request does not end")
            server.controls.pause = 0
            text = server.read(await server.send(request), stream=stream)
            assert text == await server.expected("once upon")

        rig.run(check, lanes=1, queue_limit=0)

    def test_an_answer_that_is_cut_off_is_no_whole_one(self, rig: Rig, stream: bool) -> None:
        """The engine is closed while it generates: the client learns that the text is not all."""
        request = rig.ask("once upon", stream=stream, max_tokens=ENDLESS)

        async def check(server: Server) -> None:
            server.controls.pause = PAUSE
            sent = asyncio.create_task(server.send(request))
            await server.until(lambda: server.controls.decodes >= 4, "nothing is generated")
            await asyncio.to_thread(server.engine.close)
            reply = await sent
            assert server.failed(reply) if stream else reply.status >= 500, reply

        rig.run(check)

    # Clients that leave.

    @pytest.mark.parametrize("when", ["preparing", "waiting", "prefilling", "generating"])
    def test_who_leaves_takes_the_request_along(self, rig: Rig, stream: bool, when: str) -> None:
        """Its lane is free again long before the answer would have ended, and serves others."""
        prompt = HELD if when == "preparing" else "once upon" * (300 if when == "prefilling" else 1)
        lanes = 1 if when == "waiting" else 2
        request = rig.ask(prompt, stream=stream, max_tokens=ENDLESS)

        async def check(server: Server) -> None:
            engine, controls = server.engine, server.controls
            controls.pause, occupants = PAUSE, 0
            if when == "preparing":
                controls.preparation.shut()
            if when == "waiting":
                occupant, occupants = server.submit("occupied", ENDLESS), 1
            begun = {
                "preparing": lambda: controls.preparation.reached,
                "waiting": lambda: engine.outstanding == 2,
                "prefilling": lambda: controls.prefills >= 3,
                "generating": lambda: controls.decodes >= 4,
            }
            sent = asyncio.create_task(server.send(request))
            await server.until(begun[when], "the request does not begin")
            assert not sent.done()
            sent.cancel()
            await asyncio.wait([sent])
            controls.let_go()
            await server.until(
                lambda: engine.outstanding == occupants and not server.service.live,
                "the client has left, and its request is still there",
            )
            if occupants:
                occupant.cancel()
            controls.pause = 0
            assert await server.ask("once upon") == await server.expected("once upon")

        rig.run(check, lanes=lanes)

    # The event loop.

    def test_preparation_leaves_the_loop_free(self, rig: Rig, stream: bool) -> None:
        """While one prompt is prepared, which may take long, another request is answered."""
        request = rig.ask(HELD, stream=stream)

        async def check(server: Server) -> None:
            server.controls.preparation.shut()
            sent = asyncio.create_task(server.send(request))
            await server.until(lambda: server.controls.preparation.reached, "nothing is prepared")
            assert await server.ask("once upon") == await server.expected("once upon")
            _free(server)
            assert server.read(await sent, stream=stream) == await server.expected(HELD)

        rig.run(check)

    def test_a_build_leaves_the_loop_free(self, rig: Rig, stream: bool) -> None:
        """While one constraint is built, which may take long, another request is answered."""
        request = rig.ask("colour: ", stream=stream, choices=CHOICES)

        async def check(server: Server) -> None:
            server.controls.build.shut()
            sent = asyncio.create_task(server.send(request))
            await server.until(lambda: server.controls.build.reached, "nothing is built")
            assert await server.ask("once upon") == await server.expected("once upon")
            _free(server)
            assert server.read(await sent, stream=stream) in CHOICES

        rig.run(check)

    def test_generation_leaves_the_loop_free(self, rig: Rig, stream: bool) -> None:
        """While the model is at work, the server answers what needs no model."""
        request = rig.ask("once upon", stream=stream)

        async def check(server: Server) -> None:
            server.controls.decode.shut(spared=4)
            sent = asyncio.create_task(server.send(request))
            await server.until(lambda: server.controls.decode.reached, "nothing is generated")
            reply = await server.send(WireRequest("/there/is/no/such/path", method="GET"))
            assert reply.status == 404
            _free(server)
            assert server.read(await sent, stream=stream) == await server.expected("once upon")

        rig.run(check)


def _free(server: Server) -> None:
    """The gate was opened by the test, which runs on the server's loop, not by itself."""
    assert not server.controls.expired, "the event loop was blocked"
    server.controls.let_go()
