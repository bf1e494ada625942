"""The conformance suite on the provider of JSON's masks."""

from __future__ import annotations

import pytest

from infernix_core.interfaces.constraints import Choice, JsonSchema, OutputConstraint
from infernix_core.testing.conformance import ContentCase, MaskProviderSuite
from infernix_core.testing.conformance.walks import CASES

JSON = ("json_object", "json_schema")


class TestJsonMasks(MaskProviderSuite):
    @pytest.fixture
    def provider(self):
        from infernix_json_masks.provider import JsonMaskProvider

        return JsonMaskProvider()

    @pytest.fixture(params=JSON)
    def contents(self, request: pytest.FixtureRequest) -> tuple[ContentCase, ...]:
        return (CASES[request.param],)

    @pytest.fixture
    def invalid(self) -> tuple[OutputConstraint, ...]:
        return (
            Choice(["a"]),  # known to other providers
            JsonSchema("{"),
            JsonSchema.of({"type": "nothing"}),
            JsonSchema.of({"not": {}}),
            JsonSchema.of(False),
        )
