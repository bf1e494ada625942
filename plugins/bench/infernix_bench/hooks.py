"""Offers ``infernix bench``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import CliCommand, hookimpl

if TYPE_CHECKING:
    from infernix_core.plugins import PluginRegistry

__all__ = ["infernix_cli_commands"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from infernix_bench.command import add_arguments

    add_arguments(parser)


def _run(arguments: argparse.Namespace, registry: PluginRegistry) -> int:
    from infernix_bench.command import run

    return run(arguments, registry)


@hookimpl
def infernix_cli_commands() -> Iterator[CliCommand]:
    """Give the command that measures the engine on this machine."""
    yield CliCommand(
        name="bench",
        summary="Measure decoding, compilation and masks on this machine.",
        add_arguments=_add_arguments,
        run=_run,
    )
