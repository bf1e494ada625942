"""The conformance suite on the example plugin's backend, used as a stranger would use it."""

from __future__ import annotations

import pytest

from infernix_core.testing.conformance import SpeculativeBackendSuite
from tests.docs.pages import EXAMPLE


class TestCopyBackend(SpeculativeBackendSuite):
    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.syspath_prepend(str(EXAMPLE))
        from infernix_copy_drafts.backend import CopyBackend

        return CopyBackend()
