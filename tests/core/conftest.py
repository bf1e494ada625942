"""Engines over the exact toy model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.toy import ToyModel
from infernix_sampling.hooks import infernix_samplers

WAIT = 60


@pytest.fixture
def make_engine() -> Iterator[Callable[..., Engine]]:
    """Makes engines that are closed after the test; keywords beyond the engine's are its options."""
    with ExitStack() as stack:

        def make(
            model: ToyModel | None = None,
            *,
            provider: Any = PlainProvider,
            backend: Any = None,
            copier: Any = None,
            policy: Any = None,
            sampler: Any = None,
            **options: Any,
        ) -> Engine:
            options.setdefault("prefill_chunk", 8)
            return stack.enter_context(
                Engine(
                    model if model is not None else ToyModel.make(),
                    mask_provider=provider,
                    sampler=sampler
                    if sampler is not None
                    else next(iter(infernix_samplers())).create(),
                    backend=backend,
                    copier=copier,
                    policy=policy,
                    options=EngineOptions(**options),
                )
            )

        yield make


def ask(engine: Engine, prompt: PromptInput | str, *, seed: int = 0, **options: Any) -> Any:
    """Submits; sampling options may be given by name."""
    names = {"greedy", "temperature", "top_k", "top_p", "presence_penalty", "frequency_penalty"}
    sampling = {name: options.pop(name) for name in names & options.keys()}
    prompt = PromptInput(text=prompt) if isinstance(prompt, str) else prompt
    return engine.submit(
        engine.prepare(prompt),
        RequestOptions(sampling=SamplingOptions(seed=seed, **sampling), **options),
    )


def answer(engine: Engine, prompt: PromptInput | str, **options: Any) -> GenerationResult:
    return ask(engine, prompt, **options).wait(WAIT)


def chat(text: str, *, thinking: bool = False) -> PromptInput:
    return PromptInput(messages=[{"role": "user", "content": text}], enable_thinking=thinking)
