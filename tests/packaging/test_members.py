"""The root distribution and its members agree, and hooks load nothing heavy."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = sorted(
    path.parent
    for parent in ("plugins", "frontends", "backends")
    for path in (ROOT / parent).glob("*/pyproject.toml")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def project(folder: Path) -> dict:
    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_folder_is_a_distribution() -> None:
    folders = sorted(
        path
        for parent in ("plugins", "frontends", "backends")
        for path in (ROOT / parent).glob("*/")
        if path.is_dir() and any(path.glob("infernix_*"))
    )
    assert folders == MEMBERS
    assert MEMBERS


def test_the_editable_paths_are_the_root_and_every_member() -> None:
    listed = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["dev-mode-dirs"]
    assert listed == [".", *(str(folder.relative_to(ROOT)) for folder in MEMBERS)]


def test_the_extra_all_names_every_member() -> None:
    names = sorted(project(folder)["name"] for folder in MEMBERS)
    assert sorted(PROJECT["project"]["optional-dependencies"]["all"]) == names


@pytest.mark.parametrize("folder", MEMBERS, ids=lambda folder: folder.name)
def test_a_member_keeps_to_the_conventions(folder: Path) -> None:
    table = project(folder)
    package = f"infernix_{folder.name}"
    assert table["name"] == package.replace("_", "-")
    assert table["entry-points"]["infernix"] == {folder.name: f"{package}.hooks"}
    assert any(item.split(">")[0].split("=")[0] == "infernix" for item in table["dependencies"])
    assert table["requires-python"] == PROJECT["project"]["requires-python"]
    assert (folder / "README.md").is_file()
    assert (folder / package / "py.typed").is_file()


def test_hooks_are_import_light() -> None:
    """Listing plugins must not cost the import of torch, and a plugin must not need another's library."""
    modules = [f"infernix_{folder.name}.hooks" for folder in MEMBERS]
    heavy = ("torch", "aiohttp", "xgrammar", "transformers", "tokenizers", "numpy")
    code = (
        "import importlib, sys\n"
        f"for name in {modules!r}: importlib.import_module(name)\n"
        "import infernix_core.plugins\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert result.stdout.strip() == "[]"


def test_the_core_imports_no_plugin_and_no_library_of_theirs() -> None:
    foreign = ("xgrammar", "aiohttp", "tokenizers", "safetensors", "jinja2", "transformers")
    members = tuple(f"infernix_{folder.name}" for folder in MEMBERS)
    found = []
    for path in (ROOT / "infernix_core").rglob("*.py"):
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            words = line.split()
            if words[:1] in (["import"], ["from"]) and words[1].split(".")[0] in foreign + members:
                under_type_checking = line.startswith("    ") and "aiohttp" in words[1]
                if not under_type_checking:
                    found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []
