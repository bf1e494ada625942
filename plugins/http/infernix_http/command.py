"""``infernix serve``: the arguments, and the order of a start."""

from __future__ import annotations

import argparse
import asyncio
import gc
import ipaddress
import logging
import os
import sys
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from infernix_core.cli.engine_arguments import (
    add_engine_arguments,
    add_model_argument,
    engine_options,
    resolve_model,
)
from infernix_core.descriptors import ProtocolPlugin
from infernix_core.engine.option_checks import impossible
from infernix_core.engine.options import MIB, EngineOptions
from infernix_core.errors import InvalidOption, Location, PluginError
from infernix_core.interfaces.tools import ToolConstraints
from infernix_core.origins import origin_of
from infernix_core.plugins import PluginRegistry
from infernix_http.options import ServerOptions

if TYPE_CHECKING:
    import socket

    from infernix_core.engine.engine import Engine
    from infernix_core.interfaces.protocol import ProtocolAdapter

API_KEY = "INFERNIX_API_KEY"
LEVELS = ("debug", "info", "warning", "error")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    defaults, server_defaults = EngineOptions(), ServerOptions()
    add_model_argument(parser)
    server = parser.add_argument_group("server")
    server.add_argument("--host", default="127.0.0.1", help="(default: %(default)s)")
    server.add_argument(
        "--port", type=int, default=8000, metavar="N", help="0 takes any free one (default: 8000)"
    )
    server.add_argument(
        "--model-id", metavar="NAME", help="the model's public name (default: MODEL's own)"
    )
    server.add_argument(
        "--api-key",
        metavar="KEY",
        help=f"what clients must present; {API_KEY} says it unseen by other users (default: none)",
    )
    server.add_argument(
        "--max-request-bytes",
        type=int,
        default=server_defaults.max_request_bytes,
        metavar="N",
        help=f"largest request body (default: {server_defaults.max_request_bytes // MIB} MiB)",
    )
    server.add_argument(
        "--drain-timeout",
        type=float,
        default=server_defaults.drain_timeout,
        metavar="S",
        help="seconds that running requests may go on at shutdown "
        f"(default: {server_defaults.drain_timeout:g})",
    )
    server.add_argument("--log-level", choices=LEVELS, default="info", help="(default: info)")
    requests = parser.add_argument_group("requests")
    requests.add_argument(
        "--lanes",
        type=int,
        default=defaults.lanes,
        metavar="N",
        help="most requests decoded at once (default: %(default)s)",
    )
    requests.add_argument(
        "--queue-limit",
        type=int,
        default=defaults.queue_limit,
        metavar="N",
        help="most requests that wait for a lane (default: %(default)s)",
    )
    requests.add_argument(
        "--pending-timeout",
        type=float,
        metavar="S",
        help="seconds a request may wait for a lane (default: as long as it takes)",
    )
    requests.add_argument(
        "--default-max-tokens",
        type=int,
        metavar="N",
        help="output limit of requests that name none (default: what the context leaves)",
    )
    requests.add_argument(
        "--tool-constraints",
        choices=[level.value for level in ToolConstraints],
        default=server_defaults.tool_constraints.value,
        help="how much of a tool call is enforced for requests that do not say (default: %(default)s)",
    )
    thinking = requests.add_mutually_exclusive_group()
    thinking.add_argument(
        "--thinking",
        dest="thinking",
        action="store_true",
        default=None,
        help="think first in chats that do not say (default: the template's)",
    )
    thinking.add_argument(
        "--no-thinking", dest="thinking", action="store_false", help="answer at once in these"
    )
    add_engine_arguments(parser)


def run(namespace: argparse.Namespace, registry: PluginRegistry) -> int:
    """Serves until it is told to stop."""
    # What can be found wrong without the model is found before it is loaded.
    api_key = namespace.api_key if namespace.api_key is not None else os.environ.get(API_KEY)
    for name, least in (("max_request_bytes", 1), ("drain_timeout", 0), ("default_max_tokens", 1)):
        value = getattr(namespace, name)
        if value is not None and not least <= value < float("inf"):
            raise impossible(name, value, f"at least {least}")
    protocols = registry.all(ProtocolPlugin)
    if not protocols:
        raise PluginError("no protocol is installed; pip install infernix-openai")
    model = resolve_model(namespace.model, registry)
    options = engine_options(namespace)

    from infernix_core.engine.engine import Engine
    from infernix_http.server import LAST_WORDS, exit_code, leave, listen

    server_options = ServerOptions(
        max_request_bytes=namespace.max_request_bytes,
        api_key=api_key,
        drain_timeout=namespace.drain_timeout,
        tool_constraints=ToolConstraints(namespace.tool_constraints),
    )
    logging.basicConfig(
        level=namespace.log_level.upper(),
        format="%(asctime)s %(levelname)s %(message)s",
        stream=sys.stderr,
    )
    adapters = [registry.create(ProtocolPlugin, protocol.name) for protocol in protocols]
    model_id = namespace.model_id if namespace.model_id is not None else model.name
    if not model_id.strip():
        raise InvalidOption("the name is empty", location=Location(field="--model-id"))
    with listen(namespace.host, namespace.port) as bound:
        engine = Engine.load(model.directory, options=options, registry=registry)
        try:
            engine.warm_up()
            # What is there to stay is not looked through at every collection: that would hold tokens up.
            gc.collect()
            gc.freeze()
            number = asyncio.run(
                _serve(engine, adapters, model_id, server_options, bound, namespace)
            )
        except BaseException:
            engine.close()
            raise
        engine.close(LAST_WORDS)
    if any(thread.name.startswith("infernix-") for thread in threading.enumerate()):
        # Of builds and masks that nobody wants any more.
        leave(exit_code(number))
    return exit_code(number)


async def _serve(
    engine: Engine,
    adapters: Sequence[ProtocolAdapter],
    model_id: str,
    options: ServerOptions,
    bound: socket.socket,
    namespace: argparse.Namespace,
) -> int:
    """Serves until a signal comes; says which."""
    from infernix_core.engine.service import GenerationService
    from infernix_http.app import make_app
    from infernix_http.server import run, url

    service = GenerationService(
        engine,
        model_id=model_id,
        default_max_tokens=namespace.default_max_tokens,
        enable_thinking=namespace.thinking,
    )
    app = make_app(service, adapters, options)

    def ready() -> None:
        paths = {route.resource.canonical for route in app.router.routes() if route.resource}
        version = "/v1" if any(path.startswith("/v1/") for path in paths) else ""
        names = ", ".join(origin.name for one in adapters if (origin := origin_of(one)))
        print(
            f"infernix: serving {model_id} at {url(bound)}{version} ({names})",
            file=sys.stderr,
            flush=True,
        )
        if options.api_key is None and not _is_loopback(bound.getsockname()[0]):
            print(
                "infernix: anybody who reaches this address may use it; see --api-key",
                file=sys.stderr,
            )

    try:
        return await run(app, bound, ready, drain_timeout=options.drain_timeout)
    finally:
        service.close()


def _is_loopback(host: str) -> bool:
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback
