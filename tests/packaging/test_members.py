"""The root distribution and its members agree, and what each may import."""

from __future__ import annotations

import ast
import re
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


def test_the_extra_testing_brings_what_the_testing_modules_import() -> None:
    """Whether a module imports it at its top or only when a test runs."""
    names = set()
    for path in (ROOT / "infernix_core" / "testing").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                called = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
                if called in ("import_module", "_library") and isinstance(
                    node.args[0], ast.Constant
                ):
                    names.add(node.args[0].value)
    top = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
    core = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
    given = {
        re.match(r"[\w-]+", item)[0]
        for item in (*core, *PROJECT["project"]["optional-dependencies"]["testing"])
    }
    assert top <= given | {"infernix_core"}


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
