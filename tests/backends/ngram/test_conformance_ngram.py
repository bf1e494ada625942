"""The contract of speculative backends, for several shortest matches."""

from __future__ import annotations

import pytest
from attrs import evolve, frozen

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_ngram.backend import NgramBackend


@frozen
class Matching:
    """The backend with a shortest match of its own: the suite's setups have the default."""

    min_match: int

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        return NgramBackend().bind(target, vocabulary, evolve(setup, min_match=self.min_match))


class TestNgram(SpeculativeBackendSuite):
    # The suite's tokens are few, so that the shorter ones do copy; with 64 there is nothing to copy.
    @pytest.fixture(params=[4, 5, 8, 12, 16, 64])
    def backend(self, request: pytest.FixtureRequest) -> Matching:
        return Matching(request.param)
