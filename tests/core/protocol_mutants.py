"""Protocol adapters with one fault each, and the test of the suite that finds it; see conformance_mutants.py."""

from __future__ import annotations

import asyncio
import json

import pytest
from aiohttp import web
from attrs import evolve

from infernix_core.engine.request import FinishReason, TextDelta
from infernix_core.errors import EngineUnavailable, QueueFull, RequestError
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.testing.conformance import ProtocolSuite
from tests.core.json_adapter import JsonAdapter, JsonClient


class Mutant(ProtocolSuite):
    patience = 2.0
    adapter = JsonAdapter
    caught_by: str

    @pytest.fixture
    def create(self):
        return type(self).adapter

    @pytest.fixture
    def client(self):
        return JsonClient()


class TestTakesAPathTwice(Mutant):
    caught_by = "test_routes_mount_beside_the_servers_own"

    class adapter(JsonAdapter):  # noqa: N801
        def routes(self, service):
            return [*super().routes(service), web.get("/", print), *super().routes(service)]


class TestTakesTheServersHealth(Mutant):
    caught_by = "test_routes_mount_beside_the_servers_own"

    class adapter(JsonAdapter):  # noqa: N801
        def routes(self, service):
            return [*super().routes(service), web.get("/health", print)]


class TestAdaptersShareTheirService(Mutant):
    caught_by = "test_two_adapters_know_nothing_of_each_other"

    class adapter(JsonAdapter):  # noqa: N801
        def routes(self, service):
            type(self).service = service
            return super().routes(service)

        async def submit(self, service, asked):
            return await super().submit(self.service, asked)


class TestStripsTheText(Mutant):
    caught_by = "test_the_answer_is_the_engines"

    class adapter(JsonAdapter):  # noqa: N801
        def whole(self, result):
            return super().whole(evolve(result, text=" ".join(result.text.split())))


class LosesEvents(JsonAdapter):
    lost = range(0)

    async def stream(self, request, generation):
        async def some():
            number = 0
            async for event in generation:
                number += isinstance(event, TextDelta)
                if not isinstance(event, TextDelta) or number not in self.lost:
                    yield event

        return await super().stream(request, some())


class TestLosesTheFirstDelta(Mutant):
    caught_by = "test_the_answer_is_the_engines"

    class adapter(LosesEvents):  # noqa: N801
        lost = range(1, 2)


class TestLosesALateDelta(Mutant):
    caught_by = "test_the_answer_is_the_engines"

    class adapter(LosesEvents):  # noqa: N801
        lost = range(8, 9)


class TestCountsTokensWrongly(Mutant):
    caught_by = "test_the_answer_is_the_engines"

    class adapter(JsonAdapter):  # noqa: N801
        def options(self, asked):
            options = super().options(asked)
            return evolve(options, max_tokens=options.max_tokens - 1)


class TestForgetsTheConstraint(Mutant):
    caught_by = "test_a_constrained_answer_is_the_engines"

    class adapter(JsonAdapter):  # noqa: N801
        def options(self, asked):
            return evolve(super().options(asked), constraint=None)


class TestHasATemperatureOfItsOwn(Mutant):
    caught_by = "test_the_engine_decides_what_a_request_leaves_open"

    class adapter(JsonAdapter):  # noqa: N801
        def options(self, asked):
            return evolve(super().options(asked), sampling=SamplingOptions(temperature=1.0))


class TestSaysNeutralPenalties(Mutant):
    """It would switch those of the checkpoint off."""

    caught_by = "test_the_engine_decides_what_a_request_leaves_open"

    class adapter(JsonAdapter):  # noqa: N801
        def options(self, asked):
            return evolve(super().options(asked), sampling=SamplingOptions(presence_penalty=0.0))


class TestCollectsTheStream(Mutant):
    caught_by = "test_a_stream_flows"

    class adapter(JsonAdapter):  # noqa: N801
        async def stream(self, request, generation):
            async def late():
                for event in [event async for event in generation]:
                    yield event

            return await super().stream(request, late())


class TestMixesRequests(Mutant):
    caught_by = "test_requests_do_not_mix"

    class adapter(JsonAdapter):  # noqa: N801
        async def submit(self, service, asked):
            self.prompt = asked["prompt"]
            await asyncio.sleep(0.01)
            return await super().submit(service, {**asked, "prompt": self.prompt})


class TestRemembersEarlierPrompts(Mutant):
    caught_by = "test_the_answer_is_the_engines"

    class adapter(JsonAdapter):  # noqa: N801
        before = ""

        async def submit(self, service, asked):
            self.before += asked["prompt"]
            return await super().submit(service, {**asked, "prompt": self.before})


class TestAnswers500ToBadJson(Mutant):
    caught_by = "test_malformed_requests_are_the_clients_fault"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            return json.loads(await request.read())


class TestForgetsDeepNesting(Mutant):
    caught_by = "test_malformed_requests_are_the_clients_fault"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            try:
                return json.loads(await request.read())
            except ValueError:
                raise web.HTTPBadRequest from None


class TestTakesAnyContentType(Mutant):
    caught_by = "test_malformed_requests_are_the_clients_fault"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            try:
                return json.loads(await request.read())
            except (ValueError, RecursionError):
                raise web.HTTPBadRequest from None


class TestAnswersToRubbish(Mutant):
    caught_by = "test_malformed_requests_are_the_clients_fault"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            try:
                return await super().read(request)
            except web.HTTPBadRequest:
                return {"prompt": "rubbish", "max_tokens": 1}


class TestTrustsTheCharset(Mutant):
    caught_by = "test_no_body_is_a_fault_of_the_server"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            await request.text()
            return await super().read(request)


class TestForgetsLongIntegers(Mutant):
    caught_by = "test_no_body_is_a_fault_of_the_server"

    class adapter(JsonAdapter):  # noqa: N801
        async def read(self, request):
            try:
                return json.loads(await request.read())
            except (json.JSONDecodeError, UnicodeDecodeError, RecursionError):
                raise web.HTTPBadRequest from None


class TestTrustsMembers(Mutant):
    caught_by = "test_no_member_is_a_fault_of_the_server"

    class adapter(JsonAdapter):  # noqa: N801
        def checked(self, asked):
            return asked


class Answers(JsonAdapter):
    """Turns errors of a kind into answers of its own."""

    kind: type[Exception] = Exception

    async def answer(self, request, service):
        try:
            return await super().answer(request, service)
        except web.HTTPException:
            raise
        except self.kind as error:
            return self.told(error)


class TestBlamesItselfForTheRequest(Mutant):
    caught_by = "test_an_error_of_the_request_is_the_clients"

    class adapter(Answers):  # noqa: N801
        kind = RequestError

        def told(self, error):
            return web.Response(status=500)


class TestRefusesInsideTheStream(Mutant):
    caught_by = "test_an_error_of_the_request_is_the_clients"

    class adapter(Answers):  # noqa: N801
        kind = RequestError

        def told(self, error):
            return web.json_response({"error": str(error)}, status=200)


class TestShowsItsInside(Mutant):
    caught_by = "test_a_fault_is_the_servers"

    class adapter(Answers):  # noqa: N801
        def told(self, error):
            return web.Response(status=500, text=str(error))


class TestBlamesTheClientForFaults(Mutant):
    caught_by = "test_a_fault_is_the_servers"

    class adapter(Answers):  # noqa: N801
        def told(self, error):
            return web.Response(status=400)


class TestGivesBrokenAnswers(Mutant):
    caught_by = "test_a_fault_is_the_servers"

    class adapter(JsonAdapter):  # noqa: N801
        def sound(self, result):
            return result


class TestShowsWhyTheEngineStopped(Mutant):
    caught_by = "test_a_stopped_engine_is_unavailable"

    class adapter(Answers):  # noqa: N801
        kind = EngineUnavailable

        def told(self, error):
            return web.Response(status=503, text=f"{error}: {error.__cause__}")


class TestCallsUnavailabilityAFault(Mutant):
    caught_by = "test_a_closed_engine_is_unavailable"

    class adapter(Answers):  # noqa: N801
        kind = EngineUnavailable

        def told(self, error):
            return web.Response(status=500)


class TestBlamesTheClientForTheQueue(Mutant):
    caught_by = "test_a_full_queue_is_worth_another_try"

    class adapter(Answers):  # noqa: N801
        kind = QueueFull

        def told(self, error):
            return web.Response(status=400)


class TestGivesHalfAnAnswerForAWhole(Mutant):
    caught_by = "test_an_answer_that_is_cut_off_is_no_whole_one"

    class adapter(JsonAdapter):  # noqa: N801
        def sound(self, result):
            if result.finish_reason is FinishReason.CANCELLED:
                return result
            return super().sound(result)


class TestGoesOnWithoutTheClient(Mutant):
    caught_by = "test_who_leaves_takes_the_request_along"

    class adapter(JsonAdapter):  # noqa: N801
        def leave(self, generation):
            pass


class TestPreparesWithoutTheClient(Mutant):
    caught_by = "test_who_leaves_takes_the_request_along"

    class adapter(JsonAdapter):  # noqa: N801
        async def submit(self, service, asked):
            return await asyncio.shield(asyncio.create_task(super().submit(service, asked)))


class TestPreparesOnTheLoop(Mutant):
    caught_by = "test_preparation_leaves_the_loop_free"

    class adapter(JsonAdapter):  # noqa: N801
        async def submit(self, service, asked):
            service.engine.prepare(PromptInput(text=asked["prompt"]))
            return await super().submit(service, asked)


class TestPreparesOneAfterTheOther(Mutant):
    caught_by = "test_preparation_leaves_the_loop_free"

    class adapter(JsonAdapter):  # noqa: N801
        def __init__(self):
            self.lock = asyncio.Lock()

        async def submit(self, service, asked):
            async with self.lock:
                return await super().submit(service, asked)


class TestBuildsOnTheLoop(Mutant):
    caught_by = "test_a_build_leaves_the_loop_free"

    class adapter(JsonAdapter):  # noqa: N801
        async def submit(self, service, asked):
            prompt = service.engine.prepare(PromptInput(text=asked["prompt"]))
            service.engine.submit(prompt, self.options(asked)).cancel()
            return await super().submit(service, asked)


class TestWaitsOnTheLoop(Mutant):
    caught_by = "test_generation_leaves_the_loop_free"

    class adapter(JsonAdapter):  # noqa: N801
        async def submit(self, service, asked):
            prompt = service.engine.prepare(PromptInput(text=asked["prompt"]))
            service.engine.submit(prompt, self.options(asked)).wait()
            return await super().submit(service, asked)
