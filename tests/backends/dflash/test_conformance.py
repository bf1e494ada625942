"""The conformance suite on a random checkpoint of the Qwen3.5 family, with a random drafter in its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, frozen

from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_dflash.backend import DFlashBackend
from infernix_dflash.testing import random_drafter
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from infernix_qwen3_5.testing import random_checkpoint
from infernix_sampling.hooks import infernix_samplers

SIZES: dict[str, Any] = {"hidden_size": 64, "vocab_size": 512, "target_layers": 4}
WINDOWS = (9, None)


@frozen
class Beside:
    """A backend that finds its drafter in a directory, as it does beside a target's checkpoint."""

    backend: Any
    checkpoint: Path

    def bind(self, target: Any, vocabulary: Any, setup: Any) -> Any:
        return self.backend.bind(target, vocabulary, evolve(setup, checkpoint=self.checkpoint))


@pytest.fixture(scope="module", params=["ordinary", "deterministic"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = random_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    random_drafter(directory / "dflash", windows=WINDOWS, **SIZES)
    options = LoadOptions(deterministic=request.param == "deterministic")
    return Qwen3_5Frontend().load(directory, options), directory


class TestDFlash(SpeculativeBackendSuite):
    @pytest.fixture
    def model(self, loaded: Any) -> Any:
        return loaded[0]

    @pytest.fixture
    def backend(self, loaded: Any) -> Any:
        return Beside(DFlashBackend(), loaded[1])

    @pytest.fixture
    def sampler(self) -> Any:
        return next(iter(infernix_samplers())).create()
