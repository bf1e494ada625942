"""The suite of speculative backends, on models with a draft layer."""

from __future__ import annotations

from typing import Any

import pytest

from infernix_core.interfaces.frontend import LoadOptions
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_mtp.hooks import infernix_speculative_backends
from infernix_qwen3_5.frontend import Qwen3_5Frontend
from infernix_sampling.hooks import infernix_samplers
from tests.backends.mtp.checkpoints import FORMS, foresighted, made


@pytest.fixture(scope="module", params=[*FORMS, "foresighted"])
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Deterministic, so that texts can be compared."""
    directory = tmp_path_factory.mktemp("models") / request.param
    if request.param == "foresighted":
        foresighted(directory)
    else:
        made(directory, request.param)
    return Qwen3_5Frontend().load(directory, LoadOptions(deterministic=True))


class TestMtp(SpeculativeBackendSuite):
    @pytest.fixture
    def backend(self) -> Any:
        (plugin,) = infernix_speculative_backends()
        return plugin.create()

    @pytest.fixture
    def model(self, loaded: Any) -> Any:
        return loaded

    @pytest.fixture
    def sampler(self) -> Any:
        (plugin,) = infernix_samplers()
        return plugin.create()
