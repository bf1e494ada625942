"""Offers the bundled checkpoint to Infernix."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from infernix_core.hookspecs import BundledCheckpoint, hookimpl

__all__ = ["checkpoint_path", "infernix_bundled_checkpoints"]


def checkpoint_path() -> Path:
    """The checkpoint's folder, in the layout of a Hugging Face model repository."""
    return Path(__file__).with_name("checkpoint")


@hookimpl
def infernix_bundled_checkpoints() -> Iterator[BundledCheckpoint]:
    """Give the demo checkpoint, the one that is used when no model is named."""
    yield BundledCheckpoint(
        name="demo",
        path=checkpoint_path,
        description="Qwen3.5 layout, 3 M parameters: bugs, contacts and log lines to JSON, two tools",
        default=True,
    )
