"""The example plugin, installed as a stranger's would be: found by its entry point, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import EXAMPLE, ROOT

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
    options = EngineOptions(draft_tokens=drafts)
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
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What ``pip install`` would leave: the package on the path and its metadata beside it.

    Made by hand from the plugin's own pyproject.toml, so that the tests need neither pip nor the network.
    """
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text("utf-8"))["project"]
    folder = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    points = project["entry-points"]["infernix"]
    lines = [f"{name} = {value}" for name, value in points.items()]
    (folder / "entry_points.txt").write_text("\n".join(["[infernix]", *lines, ""]))
    path = [str(site), str(EXAMPLE), os.environ.get("PYTHONPATH", "")]
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
