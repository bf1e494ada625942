"""The conformance suites on the core's own test doubles."""

from __future__ import annotations

import pytest

from infernix_core.testing.conformance import MaskProviderSuite
from infernix_core.testing.plain_provider import PlainProvider


class TestPlainProvider(MaskProviderSuite):
    @pytest.fixture
    def provider(self) -> PlainProvider:
        return PlainProvider()
