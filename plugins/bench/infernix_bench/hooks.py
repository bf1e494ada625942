"""Offers ``infernix bench``."""

from __future__ import annotations

from collections.abc import Iterator

from infernix_bench.command import add_arguments, run
from infernix_core.hookspecs import CliCommand, hookimpl

__all__ = ["infernix_cli_commands"]


@hookimpl
def infernix_cli_commands() -> Iterator[CliCommand]:
    """Give the command that measures the engine on this machine."""
    yield CliCommand(
        name="bench",
        summary="Measure decoding, compilation and masks on this machine.",
        add_arguments=add_arguments,
        run=run,
    )
