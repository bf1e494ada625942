"""``infernix copyable``."""

from __future__ import annotations

import argparse

from infernix_copy_drafts.copying import copyable
from infernix_core.cli import exit_codes
from infernix_core.errors import InvalidOption, Location


def run(arguments: argparse.Namespace) -> int:
    """Prints one line; bytes stand for tokens."""
    if arguments.window < 1:
        raise InvalidOption("at least 1", location=Location(field="--window"))
    raw = arguments.text.encode()
    print(f"{copyable(raw, arguments.window)} of {len(raw)} bytes follow by copying")
    return exit_codes.DONE
