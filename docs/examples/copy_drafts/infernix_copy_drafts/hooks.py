"""What this plugin gives. It runs whenever ``infernix`` starts, so it imports nothing but the hooks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import CliCommand, SpeculativeBackendPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.speculative import SpeculativeBackend
    from infernix_core.plugins import PluginRegistry


def _create() -> SpeculativeBackend:
    from infernix_copy_drafts.backend import CopyBackend  # imports torch

    return CopyBackend()


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--text", metavar="TEXT", required=True, help="the text to look at")
    parser.add_argument("--window", metavar="N", type=int, default=3, help="default: %(default)s")


def _run(arguments: argparse.Namespace, registry: PluginRegistry) -> int:
    from infernix_copy_drafts.command import run

    return run(arguments)


@hookimpl
def infernix_speculative_backends() -> Iterator[SpeculativeBackendPlugin]:
    """Give the backend ``copy``."""
    yield SpeculativeBackendPlugin(
        "copy", create=_create, description="what followed the same tokens before"
    )


@hookimpl
def infernix_cli_commands() -> Iterator[CliCommand]:
    """Give the command ``copyable``."""
    yield CliCommand(
        "copyable", "Say how much of a text copying would have drafted right.", _add_arguments, _run
    )
