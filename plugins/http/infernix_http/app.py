"""The application: health, the adapters' routes, request ids, access, and errors as bodies."""

from __future__ import annotations

import hmac
import logging
import re
import time
import uuid
from collections.abc import Iterable

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from infernix_core.engine.service import GenerationService
from infernix_core.errors import EngineUnavailable, PluginError
from infernix_core.interfaces.protocol import ProtocolAdapter
from infernix_core.origins import blamed, called
from infernix_http.json_body import shown
from infernix_http.options import ServerOptions
from infernix_http.wire_errors import HttpError, wire_error

_log = logging.getLogger(__name__)

SERVICE = web.AppKey("service", GenerationService)
OPTIONS = web.AppKey("options", ServerOptions)
REQUEST_ID = web.RequestKey("request_id", str)

#: A client's own request id, when it is fit for logs and headers.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")


def make_app(
    service: GenerationService,
    adapters: Iterable[ProtocolAdapter],
    options: ServerOptions | None = None,
) -> web.Application:
    """An application over a service; call it on the loop that will run it.

    It neither makes nor closes the engine. At its shutdown it accepts nothing more, lets what runs
    finish within the drain timeout, and cancels the rest. Run it with ``infernix_http.server.Runner``, or at least
    with ``handler_cancellation=True``, so that a client that goes away takes its request with it, and with
    ``auto_decompress=False``.

    Raises:
        PluginError: Two protocols give the same path, or one gives ``/health``; or what a plugin's adapter gives
            are no routes.
    """
    options = options if options is not None else ServerOptions()
    app = web.Application(
        client_max_size=options.max_request_bytes,
        middlewares=[_identify, _answer_errors, _admit(options.api_key)],
    )
    app[SERVICE], app[OPTIONS] = service, options
    app.router.add_get("/health", _health)
    owners = {_place(route): "the server" for route in app.router.routes()}
    for adapter in adapters:
        _mount(app, adapter, service, owners)

    async def drain(_app: web.Application) -> None:
        await service.drain(options.drain_timeout)

    async def name_response(request: web.Request, response: web.StreamResponse) -> None:
        if (name := request.get(REQUEST_ID)) is not None:
            response.headers.setdefault("x-request-id", name)

    app.on_shutdown.append(drain)
    app.on_response_prepare.append(name_response)
    return app


def _mount(
    app: web.Application,
    adapter: ProtocolAdapter,
    service: GenerationService,
    owners: dict[tuple[str, str], str],
) -> None:
    """Adds an adapter's routes. Of two with one path, aiohttp would let the first answer and say nothing."""
    owner = called(adapter, "protocol adapter")
    with blamed(adapter):
        routes = list(adapter.routes(service))
        if strange := [route for route in routes if not isinstance(route, web.AbstractRouteDef)]:
            kind = type(strange[0]).__name__
            raise TypeError(f"routes() gives a {kind}, not a route such as web.post(…)")
        for route in routes:
            if isinstance(route, web.RouteDef):
                # aiohttp notices some of these by itself, and does not know whose they are.
                _require_free((route.method, route.path), owners, owner)
        try:
            added = [_place(route) for route in app.router.add_routes(routes)]
        except RuntimeError as error:
            raise PluginError(f"the routes of {owner} cannot be mounted: {error}") from error
    for place in added:
        _require_free(place, owners, owner)
        owners[place] = owner


def _require_free(place: tuple[str, str], owners: dict[tuple[str, str], str], owner: str) -> None:
    if place in owners:
        raise PluginError(
            f"{' '.join(place)} is given by {owners[place]} and by {owner}; leave one out"
        )


def _place(route: web.AbstractRoute) -> tuple[str, str]:
    return route.method, route.resource.canonical if route.resource is not None else ""


def request_id(request: web.Request) -> str:
    """The id under which a request is logged and answered."""
    return request[REQUEST_ID]


def server_options(request: web.Request) -> ServerOptions:
    """The options of the application that a request came to."""
    return request.app[OPTIONS]


def new_request_id() -> str:
    """An id of a request that has none of its own."""
    return f"req_{uuid.uuid4().hex}"


async def _health(request: web.Request) -> web.Response:
    if request.app[SERVICE].available:
        return web.json_response({"status": "ok"})
    return web.json_response({"status": "unavailable"}, status=503)


@web.middleware
async def _identify(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Gives the request its id, and one line in the log at its end."""
    given = request.headers.get("x-request-id", "")
    name = given if _REQUEST_ID.fullmatch(given) else new_request_id()
    request[REQUEST_ID] = name
    started = time.monotonic()
    status: int | str = "gone"  # a handler that was cancelled: its client is
    try:
        response = await handler(request)
        status = response.status
        return response
    finally:
        seconds = time.monotonic() - started
        # As it was sent: decoded, a path may hold line ends, and with them lines of its own.
        path = request.rel_url.raw_path
        _log.info("%s %s %s %s %.3fs", name, request.method, path, status, seconds)


@web.middleware
async def _answer_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors that a handler lets through become bodies; a broken connection needs no answer."""
    try:
        return await handler(request)
    except ConnectionError:
        raise
    except Exception as error:
        if isinstance(error, web.HTTPNotFound) and error is request.match_info.http_exception:
            error = _no_such_path(request)
        wire = wire_error(error)
        begun = request.writer.output_size > 0
        if (wire.status >= 500 or begun) and not isinstance(error, EngineUnavailable):
            _log.error("request %s failed", request_id(request), exc_info=error)
        if begun:
            # A second response would stand inside of the first: the connection is cut.
            raise
        headers = dict(wire.headers)
        if isinstance(error, web.HTTPException) and "Allow" in error.headers:
            headers["Allow"] = error.headers["Allow"]
        return web.json_response(wire.body, status=wire.status, headers=headers)


def _no_such_path(request: web.Request) -> HttpError:
    """A missing or doubled part of the path is the commonest mistake of all."""
    asked = request.path.rstrip("/")
    resources = request.app.router.resources()
    paths = dict.fromkeys(resource.canonical for resource in resources)
    near = [path for path in paths if path.endswith(asked) or asked.endswith(path)] if asked else []
    near.sort(key=lambda path: abs(len(path) - len(asked)))
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(paths)}"
    return HttpError(404, f"there is no {shown(request.path)} here; {hint}", code="not_found")


def _admit(api_key: str | None) -> Middleware:
    @web.middleware
    async def admit(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Asks for the key, where there is one."""
        if api_key is not None and request.path != "/health":
            scheme, _, bearer = request.headers.get("Authorization", "").partition(" ")
            given = bearer if scheme.lower() == "bearer" else request.headers.get("x-api-key", "")
            # Neither a header nor an environment variable need be UTF-8.
            if not hmac.compare_digest(
                given.strip().encode(errors="surrogateescape"),
                api_key.encode(errors="surrogateescape"),
            ):
                raise HttpError(
                    401,
                    "a valid API key is needed: 'Authorization: Bearer KEY'",
                    code="invalid_api_key",
                )
        return await handler(request)

    return admit
