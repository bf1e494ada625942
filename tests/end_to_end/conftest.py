"""Shared pieces of the end-to-end tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch

from infernix_core.cli.main import main
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.testing.toy import ToyModel
from infernix_sampling.hooks import infernix_samplers
from infernix_xgrammar.hooks import infernix_mask_providers
from tests.end_to_end.command import Infernix, Outcome

# Tiny models gain nothing from more threads, and the suite may share its cores.
torch.set_num_threads(1)

WAIT = 300


@pytest.fixture
def toy_engine() -> Iterator[Any]:
    """Makes engines over the toy model with the real mask provider and sampler."""
    with ExitStack() as stack:

        def make(
            model: ToyModel | None = None,
            *,
            mask_provider: Any = None,
            sampler: Any = None,
            backend: Any = None,
            copier: Any = None,
            **options: Any,
        ) -> Engine:
            engine = Engine(
                model if model is not None else ToyModel.make(),
                mask_provider=mask_provider or next(iter(infernix_mask_providers())).create,
                sampler=sampler or next(iter(infernix_samplers())).create(),
                backend=backend,
                copier=copier,
                options=EngineOptions(**options),
            )
            return stack.enter_context(engine)

        yield make


@pytest.fixture
def infernix(capfdbinary: pytest.CaptureFixture[bytes]) -> Infernix:
    """Runs the program in this process."""

    def run(*arguments: str) -> Outcome:
        capfdbinary.readouterr()
        code: Any
        try:
            code = main(arguments)
        except SystemExit as exit_:
            code = exit_.code
        captured = capfdbinary.readouterr()
        return Outcome(code, captured.out.decode(), captured.err.decode())

    return run
