"""The conformance suite on the example plugin's backend, used as a stranger would use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infernix_core.errors import InvalidOption
from infernix_core.interfaces.speculative import DraftSetup
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_core.testing.toy import ToyModel
from tests.docs.pages import EXAMPLE


class TestCopyBackend(SpeculativeBackendSuite):
    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.syspath_prepend(str(EXAMPLE))
        from infernix_copy_drafts.backend import CopyBackend

        return CopyBackend()

    def test_a_drafter_is_refused(self, backend) -> None:
        model = ToyModel.make()
        setup = DraftSetup(lanes=1, drafts=None, capacity=64, drafter=Path("there"))
        with pytest.raises(InvalidOption) as caught:
            backend.bind(model.target, model.vocabulary, setup)
        assert str(caught.value) == "drafter: copies need no drafter (leave it out)"
