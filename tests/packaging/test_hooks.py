"""Every hook is documented and tested, and every hooks module is light to import.

Documented: the hook has a page under docs/hooks, and each suite its line in docs/testing-a-plugin.md. The pages' parts
are checked by tests/docs/test_pages.py, that the hooks are all of the hookspecs by tests/core/test_plugins.py.

Tested: where a conformance suite is named after the interface that the hook's descriptor creates, a ``Test…`` class
under tests/ inherits it, directly or through a class of the same module. Where there is none, code that the suite
runs (a test module, or a python block of a page) calls the hook or asks a registry for its descriptor.

Light: a member's hooks module, imported and registered in a fresh interpreter, loads the standard library, pluggy,
attrs, the core and its own package, and nothing else.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from infernix_core.plugins import FAMILIES
from infernix_core.testing import conformance
from tests.docs.pages import DOCS, ROOT, blocks
from tests.packaging.test_members import MEMBERS

SUITES = [name for name in conformance.__all__ if name.endswith("Suite")]
TESTS = {
    str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8"))
    for path in sorted((ROOT / "tests").rglob("test_*.py"))
}
PAGES = {str(block): ast.parse(block.text) for block in blocks("python")}


def stem(kind: type) -> str:
    return kind.__name__.removesuffix("Plugin")


def suites_of(kind: type) -> list[str]:
    """A frontend's suite is FrontendSuite, its descriptor ModelFrontendPlugin."""
    return [suite for suite in SUITES if stem(kind).endswith(suite.removesuffix("Suite"))]


def heirs(module: ast.Module, base: str) -> Iterator[str]:
    """``Test…`` classes of a module that inherit ``base``."""
    known = {base}
    for node in module.body:
        if isinstance(node, ast.ClassDef):
            bases = {parent.id for parent in node.bases if isinstance(parent, ast.Name)}
            if bases & known:
                known.add(node.name)
                if node.name.startswith("Test"):
                    yield node.name


def uses(module: ast.Module, hook: str, kind: type) -> bool:
    """Whether it calls the hook, or ``get`` or ``all`` with the descriptor's class."""
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", None))
        first = node.args[0] if node.args else None
        if name == hook or (
            name in ("get", "all") and isinstance(first, ast.Name) and first.id == kind.__name__
        ):
            return True
    return False


def test_every_suite_is_of_one_hook_and_is_described() -> None:
    page = (DOCS / "testing-a-plugin.md").read_text("utf-8")
    kinds = [kind for kind, _ in FAMILIES.values()]
    for suite in SUITES:
        assert len([kind for kind in kinds if suite in suites_of(kind)]) == 1, suite
        assert f"| `{suite}` |" in page


@pytest.mark.parametrize("hook", sorted(FAMILIES))
def test_every_hook_is_tested(hook: str) -> None:
    kind, _ = FAMILIES[hook]
    for suite in suites_of(kind):
        found = [name for module in TESTS.values() for name in heirs(module, suite)]
        assert found, f"no test class inherits {suite}"
    if not suites_of(kind):
        found = [name for name, code in {**TESTS, **PAGES}.items() if uses(code, hook, kind)]
        assert found, f"no test calls {hook} or looks a {kind.__name__} up"


@pytest.mark.parametrize("folder", MEMBERS, ids=lambda folder: folder.name)
def test_hooks_are_import_light(folder: Path) -> None:
    """Listing plugins must not cost the import of torch, and a plugin must not need another's library.

    What the interpreter itself loads at its start, such as the finders of editable installs, is left out.
    """
    module = f"infernix_{folder.name}"
    code = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "import importlib\n"
        "from infernix_core.plugins import PluginRegistry\n"
        f"PluginRegistry().register(importlib.import_module('{module}.hooks'), '{folder.name}')\n"
        "print(*sorted({name.partition('.')[0] for name in set(sys.modules) - before}))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = set(result.stdout.split())
    light = {"attr", "attrs", "pluggy", "infernix_core", module}
    assert module in loaded
    assert loaded - light - sys.stdlib_module_names == set()
