"""The conformance suite on the default sampler."""

from __future__ import annotations

import pytest

from infernix_core.testing.conformance import SamplerSuite


class TestSampling(SamplerSuite):
    @pytest.fixture
    def sampler(self):
        from infernix_sampling.sampler import TorchSampler

        return TorchSampler()
