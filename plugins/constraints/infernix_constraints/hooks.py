"""Offers ``infernix check``."""

from __future__ import annotations

from collections.abc import Iterator

from infernix_constraints.check import add_arguments, run
from infernix_core.hookspecs import CliCommand, hookimpl

__all__ = ["infernix_cli_commands"]


@hookimpl
def infernix_cli_commands() -> Iterator[CliCommand]:
    """Give the command that checks a constraint, and a text against it, without a model."""
    yield CliCommand(
        name="check",
        summary="Check a constraint, and a text against it, without a model.",
        add_arguments=add_arguments,
        run=run,
    )
