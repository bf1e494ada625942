"""A path belongs to one protocol: a second one is refused at the start, not shadowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

from infernix_core.engine.service import GenerationService
from infernix_core.errors import PluginError
from infernix_http.app import make_app


class Routes:
    def __init__(self, *routes: web.AbstractRouteDef) -> None:
        self._routes = routes

    def routes(self, service: Any) -> Iterable[web.AbstractRouteDef]:
        return self._routes


async def handler(request: web.Request) -> web.Response:
    return web.Response()


@pytest.fixture
def mount(make_engine) -> Callable[..., web.Application]:
    engine = make_engine()

    def mount(*adapters: Routes) -> web.Application:
        async def main() -> web.Application:
            return make_app(GenerationService(engine, model_id="toy"), adapters)

        return asyncio.run(main())

    return mount


A, B = web.get("/a", handler), web.post("/b", handler)


@pytest.mark.parametrize(
    "adapters",
    [
        (Routes(A, B), Routes(A)),
        (Routes(B), Routes(B)),
        (Routes(A, B, A),),
        (Routes(web.get("/health", handler)),),
        (Routes(web.get("/a/{name}", handler), B), Routes(web.get("/a/{name}", handler))),
    ],
)
def test_a_path_taken_twice_stops_the_start(mount, adapters: tuple[Routes, ...]) -> None:
    with pytest.raises(PluginError):
        mount(*adapters)


def test_methods_and_paths_of_their_own_are_fine(mount) -> None:
    mount(Routes(A, web.post("/a", handler)), Routes(B, web.get("/b", handler)))
