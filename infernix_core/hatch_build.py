"""Build hooks: a checkout's distribution holds the core and every plugin of the repo; an sdist's the core alone.

Each member (plugins/*, frontends/*, backends/*) writes its entry points and dependencies once, in its own
pyproject.toml; these hooks fold them into the root's. An sdist has no members, so a wheel built from it has none.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PARENTS = ("plugins", "frontends", "backends")


def members(root: str) -> list[tuple[Path, dict[str, Any]]]:
    """Folder and ``[project]`` table of every member distribution, in a stable order."""
    paths = sorted(
        path for parent in PARENTS for path in Path(root, parent).glob("*/pyproject.toml")
    )
    return [(path.parent, tomllib.loads(path.read_text("utf-8"))["project"]) for path in paths]


class FoldMetadata(MetadataHookInterface):
    """Adds the members' entry points and dependencies to the root's metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling with the ``[project]`` table to complete."""
        dependencies = list(self.config["dependencies"])
        points: dict[str, str] = {}
        for _, project in members(self.root):
            points.update(project["entry-points"]["infernix"])
            dependencies += [
                item for item in project["dependencies"] if not item.startswith("infernix")
            ]
        metadata["dependencies"] = sorted(set(dependencies))
        metadata["entry-points"] = {"infernix": points} if points else {}


class IncludeMembers(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the members' packages into a plain wheel of a checkout; an editable one finds them by path."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds a wheel of kind ``version``."""
        if version != "standard":
            return
        for folder, _ in members(self.root):
            for package in folder.glob("infernix_*"):
                build_data["force_include"][str(package)] = package.name
