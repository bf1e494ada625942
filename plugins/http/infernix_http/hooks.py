"""The hooks of this plugin. Import-light, as `command` is: aiohttp is loaded when the server starts."""

from __future__ import annotations

from collections.abc import Iterable

from infernix_core.hookspecs import CliCommand, hookimpl
from infernix_http.command import add_arguments, run


@hookimpl
def infernix_cli_commands() -> Iterable[CliCommand]:
    """Give ``infernix serve``."""
    yield CliCommand(
        name="serve",
        summary="Serve a model over HTTP to OpenAI-compatible clients.",
        add_arguments=add_arguments,
        run=run,
    )
