"""The conformance suite on the xgrammar provider, with every kind of constraint."""

from __future__ import annotations

import pytest

from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.testing.conformance import ContentCase, MaskProviderSuite
from infernix_core.testing.conformance.walks import CASES, CHOICE


class TestXGrammar(MaskProviderSuite):
    @pytest.fixture
    def provider(self):
        from infernix_xgrammar.provider import XGrammarMaskProvider

        return XGrammarMaskProvider()

    @pytest.fixture(params=["choice", *CASES])
    def contents(self, request: pytest.FixtureRequest) -> tuple[ContentCase, ...]:
        return ({"choice": CHOICE, **CASES}[request.param],)

    @pytest.fixture
    def invalid(self) -> tuple[OutputConstraint, ...]:
        return (
            Regex("("),
            Grammar("root ::= other"),
            Choice(["\ud800"]),
            JsonSchema("{"),
            JsonSchema.of({"type": "nothing"}),
            JsonSchema.of({"not": {}}),
            JsonSchema.of(False),
        )
