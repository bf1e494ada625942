"""The example plugin, installed by pip as a stranger's would be, and used in processes of its own."""

from __future__ import annotations

import re
import shlex
from importlib.metadata import distributions
from pathlib import Path

import pytest

from tests.docs.examples import install, run, tree
from tests.docs.pages import EXAMPLE

ENGINE = """
import torch

torch.set_num_threads(1)
from infernix_core.descriptors import SamplerPlugin, SpeculativeBackendPlugin
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.plugins import PluginRegistry
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.toy import ToyModel

registry = PluginRegistry.discover()


def answers(drafts):
    backend = registry.get(SpeculativeBackendPlugin, "copy").create() if drafts else None
    sampler = registry.get(SamplerPlugin, "sampling").create()
    options = EngineOptions(draft_tokens=drafts or None)
    model = ToyModel.make()
    with Engine(
        model, mask_provider=PlainProvider, sampler=sampler, backend=backend, options=options
    ) as engine:
        prompt = engine.prepare(PromptInput(text="ab ab"))
        for constraint in (None, Choice(["abab" * 5, "cdcd" * 5])):
            request = RequestOptions(
                constraint=constraint, sampling=SamplingOptions(seed=5), max_tokens=40
            )
            yield engine.submit(prompt, request).wait().raise_for_error()


plain, copied = list(answers(0)), list(answers(4))
assert [r.token_ids for r in plain] == [r.token_ids for r in copied]
print(copied[1].usage.accepted_tokens, "accepted")
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pip installs the plugin."""
    return tmp_path_factory.mktemp("site")


@pytest.fixture(scope="module", autouse=True)
def environment(site: Path) -> dict[str, str]:
    """Of a process that finds the installed plugin."""
    return install(EXAMPLE, site)


def test_pip_installs_the_package_and_its_entry_point(site: Path) -> None:
    """All of it: what is missing from a wheel shows nowhere while the checkout is on the path."""
    assert tree(site / "infernix_copy_drafts") == tree(EXAMPLE / "infernix_copy_drafts")
    (point,) = (
        point
        for one in distributions(path=[str(site)])
        for point in one.entry_points
        if point.group == "infernix"
    )
    assert (point.name, point.value) == ("copy_drafts", "infernix_copy_drafts.hooks")


def test_it_is_imported_from_where_it_was_installed(
    environment: dict[str, str], site: Path
) -> None:
    result = run(environment, "-c", "import infernix_copy_drafts as it; print(it.__file__)")
    assert Path(result.stdout.strip()).is_relative_to(site), result


def test_it_is_listed_and_imports_nothing_heavy(environment: dict[str, str]) -> None:
    code = (
        "import sys\n"
        "from infernix_core.cli.main import main\n"
        "code = main(['plugins'])\n"
        "assert 'torch' not in sys.modules\n"
        "sys.exit(code)\n"
    )
    result = run(environment, "-c", code)
    assert result.returncode == 0, result.stderr
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("copy_drafts "))
    assert "speculative backend copy" in line
    assert "command copyable" in line
    assert line.split()[-3:] == ["infernix-copy-drafts", "0.1.0", "loaded"]


def test_its_command_runs(environment: dict[str, str]) -> None:
    command = ("-m", "infernix_core.cli.main", "copyable", "--text", "to be or not to be")
    result = run(environment, *command)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "2 of 18 bytes follow by copying\n"
    refused = run(environment, *command, "--window", "0")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == "infernix: error: --window: at least 1\n"


def test_an_engine_generates_with_it(environment: dict[str, str]) -> None:
    result = run(environment, "-c", ENGINE)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout.split()[0]) > 4


def test_generate_drafts_with_it(environment: dict[str, str]) -> None:
    """On the demo model, by the command of the example's own README; the answer stays what it is."""
    readme = (EXAMPLE / "README.md").read_text("utf-8")
    (line,) = (line for line in readme.splitlines() if line.startswith("infernix generate "))
    program = ("-m", "infernix_core.cli.main")
    arguments = [*shlex.split(line)[1:], "--threads", "1"]
    drafted = run(environment, *program, *arguments)
    assert drafted.returncode == 0, drafted.stderr
    found = re.search(r"^drafts: (\d+) of (\d+) accepted", drafted.stderr, flags=re.MULTILINE)
    assert found, drafted.stderr
    assert 0 < int(found[1]) <= int(found[2])
    without = [*arguments]
    for option in ("--spec", "--draft-tokens"):
        place = without.index(option)
        del without[place : place + 2]
    plain = run(environment, *program, *without)
    assert (plain.returncode, plain.stdout) == (0, drafted.stdout)
    assert "drafts:" not in plain.stderr


def test_it_uses_public_modules_only() -> None:
    public = (
        *("infernix_core.interfaces", "infernix_core.hookspecs", "infernix_core.descriptors"),
        *("infernix_core.errors", "infernix_core.cli", "infernix_core.plugins"),
    )
    for path in Path(EXAMPLE, "infernix_copy_drafts").glob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            words = line.split()
            if words[:1] in (["from"], ["import"]) and words[1].startswith("infernix_core"):
                assert words[1].startswith(public), line
