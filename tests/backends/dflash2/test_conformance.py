"""The conformance suite on a random checkpoint of the Qwen3.5 family, with a random drafter in its folder."""

from __future__ import annotations

from typing import Any

import pytest

from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_dflash2.backend import DFlash2Backend
from infernix_dflash2.testing import random_drafter
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from infernix_qwen3_5.testing import random_checkpoint
from infernix_sampling.hooks import infernix_samplers
from tests.backends.dflash.test_conformance import SIZES, WINDOWS, Beside


@pytest.fixture(scope="module", params=["ordinary", "deterministic"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = random_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    random_drafter(directory / "dflash2", windows=WINDOWS, **SIZES)
    options = LoadOptions(deterministic=request.param == "deterministic")
    return Qwen3_5Frontend().load(directory, options), directory


class TestDFlash2(SpeculativeBackendSuite):
    @pytest.fixture
    def model(self, loaded: Any) -> Any:
        return loaded[0]

    @pytest.fixture
    def backend(self, loaded: Any) -> Any:
        return Beside(DFlash2Backend(), loaded[1])

    @pytest.fixture
    def sampler(self) -> Any:
        return next(iter(infernix_samplers())).create()
