"""Offers ``infernix check``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import CliCommand, hookimpl

if TYPE_CHECKING:
    from infernix_core.plugins import PluginRegistry

__all__ = ["infernix_cli_commands"]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    from infernix_constraints.check import add_arguments

    add_arguments(parser)


def _run(arguments: argparse.Namespace, registry: PluginRegistry) -> int:
    from infernix_constraints.check import run

    return run(arguments, registry)


@hookimpl
def infernix_cli_commands() -> Iterator[CliCommand]:
    """Give the command that checks a constraint, and a text against it, without a model."""
    yield CliCommand(
        name="check",
        summary="Check a constraint, and a text against it, without a model.",
        add_arguments=_add_arguments,
        run=_run,
    )
