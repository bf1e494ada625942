"""``infernix plugins``: what is installed, from where, and whether it loads."""

from __future__ import annotations

import argparse
import json

from infernix_core.cli import exit_codes
from infernix_core.descriptors import CliCommand
from infernix_core.plugins import PluginRegistry

HEADER = ("name", "kind", "distribution", "version", "status")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--json", action="store_true", help="print a JSON array instead of a table")


def run(namespace: argparse.Namespace, registry: PluginRegistry) -> int:
    """Prints one line per plugin; 1 when any failed to load or gives what another one gives too."""
    doubled = registry.doubled()
    rows = [
        (
            record.name,
            ", ".join(record.provides) or "-",
            record.distribution,
            record.version,
            "; ".join([record.status, *doubled.get(record.name, ())]),
        )
        for record in registry.records
    ]
    if namespace.json:
        print(json.dumps([dict(zip(HEADER, row, strict=True)) for row in rows], indent=2))
    else:
        widths = [max(len(row[column]) for row in (HEADER, *rows)) for column in range(len(HEADER))]
        for row in (HEADER, *rows):
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
    failed = any(record.status.startswith("failed") for record in registry.records)
    return exit_codes.REQUEST if failed or doubled else exit_codes.DONE


COMMAND = CliCommand(
    name="plugins",
    summary="List the installed plugins.",
    add_arguments=add_arguments,
    run=run,
)
