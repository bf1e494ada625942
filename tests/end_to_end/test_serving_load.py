"""Many streaming clients at once, some of which break off: no text lost or mixed, everything given back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import time
from typing import Any

import openai
import pytest
from attrs import define

from infernix_core.descriptors import BundledCheckpoint
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.plugins import PluginRegistry
from infernix_xgrammar.matcher import XGrammarMatcher
from tests.plugins.serving import serving, until

CLIENTS = 16
WORDS = [
    "alpha",
    "bravo",
    "charlie",
    "delta",
    "echo",
    "foxtrot",
    "golf",
    "hotel",
    "india",
    "juliet",
]


@define
class Tally:
    whole: int = 0
    cancelled: int = 0


async def client(
    number: int, api: openai.AsyncOpenAI, end: float, least: int, tally: Tally
) -> None:
    """Asks for texts that nobody else asks for; every tenth time or so it does not wait for the end."""
    draw = random.Random(number)
    turn = 0
    while turn < least or time.monotonic() < end:
        turn += 1
        text = (
            f"client {number} turn {turn}: {' '.join(draw.choices(WORDS, k=draw.randint(1, 12)))}"
        )
        asked: dict[str, Any] = {
            "model": "demo",
            "stream": True,
            "extra_body": {"structured_outputs": {"choice": [text]}},
        }
        if turn % 3:
            messages = [{"role": "user", "content": f"Say: {text}"}]
            call = api.chat.completions.create(**asked, messages=messages)
        else:
            call = api.completions.create(**asked, prompt=f"Say: {text}")
        if draw.random() < 0.1:
            tally.cancelled += 1
            await break_off(call, draw)
            continue
        got, finish = "", None
        async for chunk in await call:
            (choice,) = chunk.choices
            got += choice.text if hasattr(choice, "text") else choice.delta.content or ""
            finish = choice.finish_reason
        assert (got, finish) == (text, "stop")
        tally.whole += 1


async def break_off(call: Any, draw: random.Random) -> None:
    """Before the answer begins, or after some of it."""
    if draw.random() < 0.5:
        task = asyncio.ensure_future(call)
        await asyncio.sleep(draw.random() * 0.05)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await task).close()
        return
    stream = await call
    for _ in range(draw.randint(1, 4)):
        await anext(aiter(stream), None)
    await stream.close()


def matchers() -> int:
    """How many are alive in this process."""
    gc.collect()
    return sum(type(item) is XGrammarMatcher for item in gc.get_objects())


def load(seconds: float, least: int) -> Tally:
    registry, tally, before = PluginRegistry.discover(), Tally(), matchers()
    directory = registry.get(BundledCheckpoint, "demo").path()
    with (
        Engine.load(directory, options=EngineOptions(lanes=6), registry=registry) as engine,
        serving(engine, model_id="demo") as server,
    ):

        async def main() -> None:
            end = time.monotonic() + seconds
            async with openai.AsyncOpenAI(
                base_url=f"{server.url}/v1", api_key="x", max_retries=0
            ) as api:
                await asyncio.gather(
                    *(client(number, api, end, least, tally) for number in range(CLIENTS))
                )

        asyncio.run(main())
        until(lambda: engine.outstanding == 0 and server.service.live == 0)
        assert sorted(engine._worker._free) == list(range(6))
        assert matchers() == before
    return tally


def test_a_burst_of_clients() -> None:
    tally = load(0.0, 2)
    assert tally.whole + tally.cancelled == 2 * CLIENTS
    assert tally.cancelled


@pytest.mark.heavy
def test_a_minute_of_clients() -> None:
    tally = load(60.0, 4)
    print(tally)
    assert tally.whole > 200
    assert tally.cancelled > 20
