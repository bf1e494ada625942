"""The conformance suites on the core's own test doubles."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from aiohttp import web
from attrs import evolve, frozen

import infernix_core
from infernix_core.engine.request import GenerationEnd, TextDelta
from infernix_core.engine.service import Generation
from infernix_core.interfaces.sampling import (
    PendingRowFailure,
    SampledRow,
    Sampler,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.random import Purpose, uniform
from infernix_core.testing.conformance import (
    FrontendSuite,
    MaskProviderSuite,
    ProtocolSuite,
    Row,
    SamplerSuite,
    SpeculativeBackendSuite,
    law,
)
from infernix_core.testing.conformance.rounds import spec
from infernix_core.testing.conformance.serving import Application, plain_application
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.plain_sampler import PlainSampler, PlainSamplerPlan
from infernix_core.testing.scripted_model import ScriptedModel, saying
from infernix_core.testing.toy import ToyModel, toy_vocabulary
from infernix_http.app import make_app
from infernix_sampling.hooks import infernix_samplers
from tests.core.json_adapter import JsonAdapter, JsonClient
from tests.core.toy_head import HeadedTarget


@frozen
class CoolSampler:
    """A sampler with a further law: no temperature above 0.7. Sampler and plan in one, over the plain one."""

    def plan(self, spec: SamplerSpec) -> CoolPlan:
        return CoolPlan(spec)


class CoolPlan(PlainSamplerPlan):
    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        return super().run(evolve(round, configs=tuple(map(cooled, round.configs))))


def cooled(config: SamplingConfig) -> SamplingConfig:
    return evolve(config, temperature=min(config.temperature, 0.7))


class TestCoolSampler(SamplerSuite):
    draws = 256

    @pytest.fixture
    def sampler(self) -> CoolSampler:
        return CoolSampler()

    @pytest.fixture
    def law(self):
        def cool_law(row: Row, column: int) -> dict[int, float] | PendingRowFailure:
            return law(evolve(row, config=cooled(row.config)), column)

        return cool_law


def test_a_further_law_that_is_not_told_is_found_out() -> None:
    """With its numbers labelled."""
    suite = SamplerSuite()
    plan = CoolSampler().plan(spec(64, 4))
    with pytest.raises(AssertionError, match=r"chi-square \d+.*freedom.*token \d+: \d+ drawn"):
        suite.test_draws_follow_the_law(plan, law, "min-p", constrained=False)


class TestPlainProvider(MaskProviderSuite):
    @pytest.fixture
    def provider(self) -> PlainProvider:
        return PlainProvider()


class TestPlainSampler(SamplerSuite):
    @pytest.fixture
    def sampler(self) -> PlainSampler:
        return PlainSampler()


class TestScriptedModel(FrontendSuite):
    # Its prompts end with a token of their own, which no frontend of a checkpoint would add.
    test_prompts_are_tokens_of_the_vocabulary = None
    test_raw_text_becomes_text_tokens_that_spell_it = None

    @pytest.fixture
    def model(self) -> ScriptedModel:
        return saying("naïve 🙂", words=[b"re", b"\n\n"])

    @pytest.fixture
    def tolerance(self) -> float:
        return 0.0


class TestToyModel(FrontendSuite):
    @pytest.fixture
    def model(self) -> ToyModel:
        return ToyModel.make([b"re", b"\n\n", b"\nr", "🙂".encode()[:2]])

    @pytest.fixture
    def tolerance(self) -> float:
        return 0.0


class TestToyModelWithHead(TestToyModel):
    @pytest.fixture
    def model(self) -> ToyModel:
        return ToyModel(HeadedTarget(toy_vocabulary()))


def repeat(row: DraftRow) -> list[int]:
    return [row.history[-1], row.history[0], row.history[len(row.history) // 2]]


class BackendSuite(SpeculativeBackendSuite):
    @pytest.fixture
    def sampler(self) -> Sampler:
        return next(iter(infernix_samplers())).create()


class TestScriptedBackend(BackendSuite):
    @pytest.fixture
    def backend(self) -> ScriptedBackend:
        return ScriptedBackend(repeat)


class TestSampledBackend(BackendSuite):
    @pytest.fixture
    def backend(self) -> SampledBackend:
        def law(row: DraftRow, drafts: Sequence[int]) -> tuple[list[int], list[float]]:
            return [97, 98, row.history[-1] % 7], [0.5, 0.25, 0.25]

        def draw(row: DraftRow, position: int, weights: Sequence[float]) -> int:
            u = uniform(row.seed, len(row.history) + position, Purpose.DRAFT)
            return sum(u > bound for bound in itertools.accumulate(weights[:-1]))

        return SampledBackend(law, draw)


class TestJsonLines(ProtocolSuite):
    @pytest.fixture
    def create(self) -> type[JsonAdapter]:
        return JsonAdapter

    @pytest.fixture
    def client(self) -> JsonClient:
        return JsonClient()


class RaisesInStreams(JsonAdapter):
    """Its streams have no word for an error, so the server cuts them."""

    async def stream(self, request: web.Request, generation: Generation) -> web.StreamResponse:
        response = web.StreamResponse()
        async for event in generation:
            if isinstance(event, TextDelta):
                if not response.prepared:
                    await response.prepare(request)
                await response.write(json.dumps({"text": event.text}).encode() + b"\n")
            elif isinstance(event, GenerationEnd):
                self.sound(event.result)
        await response.write(b'{"done": true}\n')
        return response


class TestRaisesInStreams(TestJsonLines):
    @pytest.fixture
    def create(self) -> type[JsonAdapter]:
        return RaisesInStreams

    @pytest.fixture(params=[plain_application, make_app])
    def application(self, request: pytest.FixtureRequest) -> Application:
        return request.param


def test_only_the_suites_import_pytest() -> None:
    core = Path(infernix_core.__file__).parent
    importing = {
        path.relative_to(core).parts[:2]
        for path in core.rglob("*.py")
        if re.search(r"^\s*(import|from) pytest", path.read_text("utf-8"), re.MULTILINE)
    }
    assert importing == {("testing", "conformance")}
