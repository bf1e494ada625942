"""The conformance suite on tiny random checkpoints of the family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.testing.conformance import FrontendSuite
from infernix_qwen3_5.testing import random_checkpoint
from tests.frontends.qwen3_5.checkpoints import write_checkpoint

MODES = ("ordinary", "deterministic")


@pytest.fixture(
    scope="module",
    params=[(shape, mode) for shape in ("grouped", "mixture", "draft layer") for mode in MODES],
    ids=" ".join,
)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    from infernix_qwen3_5.frontend import Qwen3_5Frontend

    shape, mode = request.param
    directory: Path = tmp_path_factory.mktemp(mode)
    if shape == "draft layer":
        directory = random_checkpoint(directory / "x", mtp=True)
    else:
        write_checkpoint(directory, shape)
    options = LoadOptions(deterministic=mode == "deterministic")
    return Qwen3_5Frontend().load(directory, options)


class TestQwen35(FrontendSuite):
    @pytest.fixture
    def model(self, loaded: Any) -> Any:
        return loaded
