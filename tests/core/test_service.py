"""The engine behind an event loop: events in order, cancellation at any time, a loop that never waits."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from infernix_core.engine import service as service_module
from infernix_core.engine.request import (
    FinishReason,
    GenerationEnd,
    GenerationStart,
    RequestOptions,
    TextDelta,
)
from infernix_core.engine.service import GenerationService, log_line
from infernix_core.errors import EngineUnavailable, InvalidOption, InvalidPrompt, QueueFull
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.toy import ToyModel, ToyTarget, toy_vocabulary
from tests.core.conftest import answer, chat

SEEDED = RequestOptions(sampling=SamplingOptions(seed=3), max_tokens=12)


def run(coroutine: Any) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await coroutine

    return asyncio.run(bounded())


class EndlessTarget(ToyTarget):
    """Every forward takes a while, so that no long output ends within a test."""

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        time.sleep(0.02)
        return super().forward(*arguments, **keywords)


def endless() -> ToyModel:
    return ToyModel(EndlessTarget(toy_vocabulary()))


#: A minute and more of an endless toy.
ENDLESS = RequestOptions(constraint=Choice(["ab" * 1500]), max_tokens=4000)


class HangingTarget(ToyTarget):
    """Its forwards wait until they may go on."""

    def __init__(self, vocabulary: Any) -> None:
        super().__init__(vocabulary)
        self.hangs, self.go = threading.Event(), threading.Event()

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        self.hangs.set()
        assert self.go.wait(60)
        return super().forward(*arguments, **keywords)


class SlowProvider:
    """Its builds wait until they may go on."""

    def __init__(self) -> None:
        self.building, self.go = threading.Event(), threading.Event()

    def bind(self, vocabulary: Any) -> Any:
        self.plain = PlainProvider().bind(vocabulary)
        return self

    def compile(self, language: Any, check: Any = None) -> Any:
        self.building.set()
        assert self.go.wait(60)
        return self.plain.compile(language)


def test_events_come_in_order_and_are_those_of_the_engine(make_engine) -> None:
    engine = make_engine()
    expected = answer(engine, "abc", seed=3, max_tokens=12)

    async def main() -> list[Any]:
        service = GenerationService(engine, model_id="toy")
        generation = await service.submit(PromptInput(text="abc"), SEEDED, request_id="r")
        return [event async for event in generation]

    start, *deltas, end = run(main())
    assert isinstance(start, GenerationStart)
    assert all(isinstance(event, TextDelta) for event in deltas)
    assert "".join(event.text for event in deltas) == expected.text
    assert isinstance(end, GenerationEnd)
    assert end.result.token_ids == expected.token_ids


def test_many_requests_at_once_do_not_mix(make_engine) -> None:
    engine = make_engine(lanes=3)
    prompts = [f"prompt {index}" for index in range(24)]
    expected = [answer(engine, prompt, seed=3, max_tokens=12).text for prompt in prompts]

    async def one(service: GenerationService, prompt: str) -> str:
        generation = await service.submit(PromptInput(text=prompt), SEEDED, request_id=prompt)
        return (await generation.result()).text

    async def main() -> list[str]:
        service = GenerationService(engine, model_id="toy")
        texts = await asyncio.gather(*(one(service, prompt) for prompt in prompts))
        assert service.live == 0
        return texts

    assert run(main()) == expected


def test_an_end_is_logged_once_also_when_it_is_cancelled_afterwards(
    make_engine, caplog: pytest.LogCaptureFixture
) -> None:
    engine = make_engine()

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        for prompt in ("a", "b"):
            generation = await service.submit(PromptInput(text=prompt), SEEDED, request_id=prompt)
            if prompt == "b":
                generation.cancel()
            await generation.result()
            generation.cancel()

    with caplog.at_level("INFO", logger="infernix_core.engine.service"):
        run(main())
    ends = [record.getMessage().split()[1] for record in caplog.records]
    assert sorted(ends) == ["a", "b"], caplog.text


def test_the_services_defaults_fill_what_a_request_leaves_open(make_engine) -> None:
    engine = make_engine()

    async def main() -> None:
        service = GenerationService(
            engine, model_id="toy", default_max_tokens=5, enable_thinking=True
        )

        async def ask(prompt: PromptInput, **options: Any) -> Any:
            generation = await service.submit(prompt, RequestOptions(**options), request_id="r")
            return await generation.result()

        silent = PromptInput(messages=[{"role": "user", "content": "x"}])
        result = await ask(silent, constraint=Choice(["a"]))
        assert (result.usage.completion_tokens, result.text) == (5, "")
        result = await ask(chat("x", thinking=False), constraint=Choice(["a"]), max_tokens=9)
        assert result.text == "a"

    run(main())


def test_the_loop_goes_on_while_a_grammar_is_built(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        options = RequestOptions(constraint=Choice(["a"]), max_tokens=4)
        slow = asyncio.create_task(
            service.submit(PromptInput(text="x"), options, request_id="slow")
        )
        await asyncio.to_thread(provider.building.wait, 60)
        generation = await service.submit(PromptInput(text="abc"), SEEDED, request_id="r")
        assert (await generation.result()).finish_reason is FinishReason.LENGTH
        assert not slow.done()
        provider.go.set()
        assert (await (await slow).result()).text == "a"

    run(main())


def test_a_caller_that_is_cancelled_during_preparation_gives_its_place_back_at_once(
    make_engine,
) -> None:
    """Its build cannot be broken off; the service and the engine serve others meanwhile, and never run it."""
    provider = SlowProvider()
    engine = make_engine(endless(), provider=lambda: provider, lanes=1, queue_limit=0)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        task = asyncio.create_task(service.submit(PromptInput(text="x"), ENDLESS, request_id="r"))
        await asyncio.to_thread(provider.building.wait, 60)
        with pytest.raises(QueueFull):
            await service.submit(PromptInput(text="x"), SEEDED, request_id="r")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert service.live == 0
        assert (engine.outstanding, service.busy) == (1, True)
        short = RequestOptions(max_tokens=1)
        for _ in range(3):
            generation = await service.submit(PromptInput(text="x"), short, request_id="r")
            assert (await generation.result()).finish_reason is FinishReason.LENGTH
        provider.go.set()
        async with asyncio.timeout(10):
            while engine.outstanding or service.busy:
                await asyncio.sleep(0.01)

    run(main())


def test_what_is_to_be_served_may_be_made_on_the_thread(make_engine) -> None:
    engine = make_engine()
    threads = []

    def make() -> tuple[PromptInput, RequestOptions]:
        threads.append(threading.current_thread())
        return PromptInput(text="abc"), SEEDED

    def fail() -> tuple[PromptInput, RequestOptions]:
        raise InvalidOption("no")

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        result = await (await service.submit_made(make, request_id="r")).result()
        assert result.usage.completion_tokens == 12
        assert threads[0] is not threading.main_thread()
        with pytest.raises(InvalidOption):
            await service.submit_made(fail, request_id="r")
        assert service.live == 0

    run(main())


def test_refusals_reach_the_caller_and_leave_nothing_behind(make_engine) -> None:
    engine = make_engine()

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        for prompt, options, error in (
            (PromptInput(text=""), RequestOptions(), InvalidPrompt),
            (PromptInput(text="x"), RequestOptions(max_tokens=-1), InvalidOption),
        ):
            with pytest.raises(error):
                await service.submit(prompt, options, request_id="r")
            assert service.live == engine.outstanding == 0

    run(main())


def test_a_full_service_refuses_at_once(make_engine) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider, lanes=1, queue_limit=1)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        options = RequestOptions(constraint=Choice(["a"]), max_tokens=4)
        tasks = [
            asyncio.create_task(service.submit(PromptInput(text="x"), options, request_id="r"))
            for _ in range(2)
        ]
        await asyncio.to_thread(provider.building.wait, 60)
        with pytest.raises(QueueFull):
            await service.submit(PromptInput(text="x"), options, request_id="r")
        provider.go.set()
        for task in tasks:
            assert (await (await task).result()).text == "a"
        await (await service.submit(PromptInput(text="x"), options, request_id="r")).result()

    run(main())


def test_draining_lets_requests_finish_and_takes_no_more(make_engine) -> None:
    engine = make_engine()

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        options = RequestOptions(max_tokens=200, sampling=SamplingOptions(seed=1))
        generation = await service.submit(PromptInput(text="x"), options, request_id="r")
        assert service.available
        await service.drain()
        assert not service.available
        assert (await generation.result()).finish_reason is not FinishReason.CANCELLED
        with pytest.raises(EngineUnavailable):
            await service.submit(PromptInput(text="x"), options, request_id="r")

    run(main())


def test_a_drain_that_takes_too_long_cancels(make_engine) -> None:
    engine = make_engine(endless(), lanes=2)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        generations = [
            await service.submit(PromptInput(text="x"), ENDLESS, request_id="r") for _ in range(3)
        ]
        async with asyncio.timeout(10):
            await service.drain(0.1)
            results = [await generation.result() for generation in generations]
        assert {result.finish_reason for result in results} == {FinishReason.CANCELLED}
        assert service.live == engine.outstanding == 0

    run(main())


def test_a_service_that_closes_cancels(make_engine) -> None:
    engine = make_engine(endless())

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        generation = await service.submit(PromptInput(text="x"), ENDLESS, request_id="r")
        async with asyncio.timeout(10):
            service.close()
            assert (await generation.result()).finish_reason is FinishReason.CANCELLED

    run(main())


@pytest.mark.parametrize("gone", [False, True])
def test_a_drain_does_not_wait_for_a_build_that_nobody_can_break_off(
    make_engine, gone: bool
) -> None:
    provider = SlowProvider()
    engine = make_engine(provider=lambda: provider)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        task = asyncio.create_task(service.submit(PromptInput(text="x"), ENDLESS, request_id="r"))
        await asyncio.to_thread(provider.building.wait, 60)
        if gone:
            task.cancel()
        async with asyncio.timeout(10):
            await service.drain(60 if gone else 0.1)
            with pytest.raises(asyncio.CancelledError if gone else EngineUnavailable):
                await task
        assert (service.live, service.busy) == (0, True)
        provider.go.set()

    run(main())


def test_a_drain_does_not_wait_for_a_cancelled_request_that_hangs(
    make_engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask that takes long holds up the engine's own thread."""
    monkeypatch.setattr(service_module, "GRACE", 0.1)
    model = ToyModel(HangingTarget(toy_vocabulary()))
    engine = make_engine(model)

    async def main() -> None:
        service = GenerationService(engine, model_id="toy")
        generation = await service.submit(PromptInput(text="x"), SEEDED, request_id="r")
        await asyncio.to_thread(model.target.hangs.wait, 60)
        generation.cancel()
        async with asyncio.timeout(10):
            await service.drain(60)
        assert service.live == 1
        model.target.go.set()
        assert (await generation.result()).finish_reason is FinishReason.CANCELLED

    run(main())


def test_the_log_line_has_counts_and_no_text(make_engine) -> None:
    engine = make_engine()
    result = answer(engine, "secret prompt", constraint=Choice(["private"]), max_tokens=20)
    line = log_line(result)
    assert "secret" not in line
    assert "private" not in line
    assert f"completion_tokens={result.usage.completion_tokens}" in line
    assert "finish=stop" in line
    assert "constraint=choice" in line
    assert "grammar=built" in line


def test_a_listener_that_fails_harms_nobody(make_engine) -> None:
    engine = make_engine()
    expected = answer(engine, "abc", seed=3, max_tokens=12)
    handle = engine.submit(engine.prepare(PromptInput(text="abc")), SEEDED)

    def listener(event: Any) -> None:
        raise RuntimeError("no")

    handle.forward(listener)
    assert handle.wait(60).token_ids == expected.token_ids
    assert list(handle) == []
