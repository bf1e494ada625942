"""A path belongs to one protocol: a second one is refused at the start, not shadowed."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from aiohttp import web

from infernix_core.descriptors import ProtocolPlugin
from infernix_core.engine.service import GenerationService
from infernix_core.errors import PluginError
from infernix_core.hookspecs import hookimpl
from infernix_core.plugins import PluginRegistry
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


def registry_of(**adapters: object) -> PluginRegistry:
    """Protocols by name, each from a plugin of its own."""
    registry = PluginRegistry()
    for name, adapter in adapters.items():

        @hookimpl
        def infernix_protocols(name: str = name, adapter: object = adapter) -> list[ProtocolPlugin]:
            return [ProtocolPlugin(name, create=lambda: adapter)]

        module = types.SimpleNamespace(infernix_protocols=infernix_protocols)
        registry.register(module, f"p-{name}")
    return registry


def mounted(mount, **adapters: object) -> None:
    registry = registry_of(**adapters)
    mount(*(registry.create(ProtocolPlugin, name) for name in adapters))


def test_two_protocols_on_one_path_are_both_named(mount) -> None:
    says = "GET /a is given by protocol 'one' of plugin 'p-one' and by protocol 'two' of plugin 'p-two'"
    with pytest.raises(PluginError, match=says):
        mounted(mount, one=Routes(A), two=Routes(B, A))
    with pytest.raises(PluginError, match="/health is given by the server and by protocol 'one'"):
        mounted(mount, one=Routes(web.get("/health", handler)))


class Given:
    """Gives as routes whatever it was told to."""

    def __init__(self, routes: object) -> None:
        self.given = routes

    def routes(self, _service: GenerationService) -> object:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def failing() -> Iterable[web.AbstractRouteDef]:
    yield A
    raise KeyError("late")


@pytest.mark.parametrize(
    ("routes", "says"),
    [
        (None, "gives None, which cannot be iterated"),
        ([("GET", "/a", handler)], "TypeError: routes.. gives a tuple, not a route"),
        ([web.get("a", handler)], "ValueError: "),
        (ValueError("bad"), "ValueError: bad"),
        (failing(), "KeyError: 'late'"),
    ],
)
def test_routes_that_are_none_name_the_plugin(mount, routes: object, says: str) -> None:
    """And how to start without it."""
    expected = (
        f"^protocol 'one' of plugin 'p-one' cannot be used: .*{says}.*INFERNIX_BLOCK_PLUGINS="
    )
    with pytest.raises(PluginError, match=expected):
        mounted(mount, one=Given(routes))


def test_methods_and_paths_of_their_own_are_fine(mount) -> None:
    mount(Routes(A, web.post("/a", handler)), Routes(B, web.get("/b", handler)))
