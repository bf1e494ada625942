"""The hooks of this plugin. Import-light: aiohttp is loaded when the server starts."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from infernix_core.hookspecs import CliCommand, hookimpl
from infernix_core.plugins import PluginRegistry


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from infernix_http.command import add_arguments

    add_arguments(parser)


def _run(namespace: argparse.Namespace, registry: PluginRegistry) -> int:
    from infernix_http.command import run

    return run(namespace, registry)


@hookimpl
def infernix_cli_commands() -> Iterable[CliCommand]:
    """Give ``infernix serve``."""
    yield CliCommand(
        name="serve",
        summary="Serve a model over HTTP to OpenAI-compatible clients.",
        add_arguments=_add_arguments,
        run=_run,
    )
