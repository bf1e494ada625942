"""The root distribution and its members agree, and what each may import."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = sorted(
    path.parent
    for parent in ("plugins", "frontends", "backends")
    for path in (ROOT / parent).glob("*/pyproject.toml")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CORE = {
    path.relative_to(ROOT / "infernix_core").as_posix(): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "infernix_core").rglob("*.py"))
}

#: Where an import stands: run with the module, run with a function, or not run at all.
TOP, LAZY, TYPES = "top", "lazy", "types"

#: All that the core imports beyond the standard library and its own dependencies.
BEYOND = {
    # Only hatch imports this module, to build the distribution.
    ("hatch_build.py", TOP): {"hatchling"},
    # The routes that an adapter gives are aiohttp's; the core hands them on.
    ("interfaces/protocol.py", TYPES): {"aiohttp"},
    # Suites are classes for pytest, so who imports them has it.
    **{
        (f"testing/conformance/{name}.py", TOP): {"pytest"}
        for name in (
            "__init__",
            "frontend",
            "mask_provider",
            "protocol",
            "sampler",
            "serving",
            "speculative",
        )
    },
    # Lazy, since the suites come in one package, and those of other plugins run without aiohttp.
    ("testing/conformance/protocol.py", LAZY): {"aiohttp"},
    ("testing/conformance/serving.py", LAZY): {"aiohttp"},
    ("testing/conformance/serving.py", TYPES): {"aiohttp"},
    # Lazy: who lacks it is told of the extra.
    ("testing/checkpoints.py", LAZY): {"tokenizers"},
}


def packages(requirements: list[str]) -> set[str]:
    """The names in requirements, which are those of the modules too."""
    return {re.match(r"[\w-]+", item)[0] for item in requirements}


DEPENDENCIES = packages(PROJECT["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"])


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


def imports(node: ast.AST, where: str = TOP) -> Iterator[tuple[str, str]]:
    """Top-level packages that the code imports, and where it does."""
    if isinstance(node, ast.Import):
        yield from ((alias.name.partition(".")[0], where) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert not node.level, "the core imports by absolute names"
        yield node.module.partition(".")[0], where
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        for child in node.body:
            yield from imports(child, TYPES)
        for child in node.orelse:
            yield from imports(child, where)
    else:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            where = LAZY
        for child in ast.iter_child_nodes(node):
            yield from imports(child, where)


def test_the_core_imports_nothing_else() -> None:
    """No plugin and no library of theirs: what is beyond its own dependencies is in BEYOND, by file."""
    found: dict[tuple[str, str], set[str]] = {}
    for file, module in CORE.items():
        for package, where in imports(module):
            if package not in sys.stdlib_module_names | DEPENDENCIES | {"infernix_core"}:
                found.setdefault((file, where), set()).add(package)
    assert found == BEYOND


@pytest.mark.parametrize("name", ["import_module", "__import__"])
def test_the_core_imports_nothing_by_its_name(name: str) -> None:
    """It would pass the test above; plugins are loaded as entry points."""
    spelt = {ast.Name: "id", ast.Attribute: "attr", ast.alias: "name"}
    assert [
        file
        for file, module in CORE.items()
        for node in ast.walk(module)
        if type(node) in spelt and getattr(node, spelt[type(node)]) == name
    ] == []


def test_the_extra_testing_brings_what_the_testing_modules_import() -> None:
    given = packages(PROJECT["project"]["optional-dependencies"]["testing"])
    beyond = [names for (file, _), names in BEYOND.items() if file.startswith("testing/")]
    assert set().union(*beyond) == given
