"""The second example plugin, a sampler: installed by pip, run, and held to the samplers' contract."""

from __future__ import annotations

import logging
import math
from pathlib import Path

import pytest
import torch

from infernix_core.engine.request import RequestOptions
from infernix_core.errors import PluginError
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.plugins import PluginRegistry
from infernix_core.testing.conformance import SamplerSuite
from infernix_core.testing.toy_engine import toy_engine
from tests.docs.examples import install, run
from tests.docs.pages import SAMPLER_EXAMPLE

GENERATE = """
import logging, sys

logging.basicConfig(level="DEBUG", stream=sys.stdout)
from infernix_core.cli.main import main

sys.exit(main(["generate", "--sampler", "entropy-log", "--threads", "1", "--greedy",
    "--max-tokens", "4", "--prompt", "Repeat: yes"]))
"""


@pytest.fixture
def sampler(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SAMPLER_EXAMPLE))
    from infernix_entropy_log.sampler import EntropyLog

    return EntropyLog()


class TestEntropyLog(SamplerSuite):
    draws = 256

    @pytest.fixture
    def sampler(self, sampler):
        return sampler


def test_it_logs_every_token_and_changes_none(sampler, caplog: pytest.LogCaptureFixture) -> None:
    def tokens(**parts: object) -> tuple[int, ...]:
        with toy_engine(**parts) as engine:
            prompt = engine.prepare(PromptInput(text="ab"))
            options = RequestOptions(sampling=SamplingOptions(seed=3), max_tokens=6)
            return tuple(engine.submit(prompt, options).wait().raise_for_error().token_ids)

    caplog.set_level(logging.DEBUG, "infernix_entropy_log")
    chosen = tokens(sampler=sampler)
    lines = [record.message for record in caplog.records if "nats" in record.message]
    assert [int(line.split()[3]) for line in lines] == list(chosen)
    assert chosen == tokens()


def test_entropy(sampler) -> None:
    from infernix_entropy_log.sampler import entropy

    assert entropy(torch.zeros(8)) == pytest.approx(math.log(8))
    assert entropy(torch.tensor([5.0, -math.inf])) == 0.0


def test_a_missing_inner_sampler_is_a_plugin_error(
    sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    from infernix_entropy_log import hooks

    monkeypatch.setenv("INFERNIX_ENTROPY_LOG_SAMPLER", "nobody's")
    registry = PluginRegistry()
    registry.register(hooks, "entropy_log")
    from infernix_core.descriptors import SamplerPlugin

    with pytest.raises(PluginError, match='no sampler "nobody\'s"; installed: entropy-log'):
        toy_engine(sampler=registry.create(SamplerPlugin, "entropy-log"))


def test_it_is_installed_and_generates(tmp_path: Path) -> None:
    result = run(install(SAMPLER_EXAMPLE, tmp_path), "-c", GENERATE)
    assert result.returncode in (0, 3), result.stderr
    assert result.stdout.count("DEBUG:infernix_entropy_log.sampler:position ") >= 2
