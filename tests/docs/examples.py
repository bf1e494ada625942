"""Example plugins, installed by pip as a stranger's would be, and used in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import distributions
from pathlib import Path

from tests.docs.pages import ROOT


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, but for what importing leaves."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def installed() -> set[tuple[str, str]]:
    """Name and version of what the running environment holds."""
    return {(one.name, one.version) for one in distributions()}


def install(example: Path, site: Path) -> dict[str, str]:
    """Has pip install an example from its folder into ``site``, without the network.

    Returns:
        The variables of a process that finds the installed plugin, and the checkout's copy of it nowhere.
    """
    checkout, environment = tree(example), installed()
    pip = [sys.executable, "-m", "pip", "--isolated", "--disable-pip-version-check", "install"]
    alone = ["--no-build-isolation", "--no-deps", "--no-index", "--no-cache-dir"]
    subprocess.run(
        [*pip, *alone, "--quiet", "--target", site, example], check=True, timeout=120, cwd=site
    )
    assert tree(example) == checkout, "building left something in the checkout"
    assert installed() == environment, "the running environment was changed"
    path = [str(site), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        env=environment,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
