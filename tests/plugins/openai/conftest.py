"""One server over the demo model, and the official client."""

from __future__ import annotations

from collections.abc import Iterator

import openai
import pytest
import torch

from infernix_core.descriptors import BundledCheckpoint
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.plugins import PluginRegistry
from tests.plugins.serving import Server, serving


@pytest.fixture(scope="session")
def demo() -> Iterator[Engine]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    directory = PluginRegistry.discover().get(BundledCheckpoint, "demo").path()
    with Engine.load(directory, options=EngineOptions(lanes=4)) as engine:
        yield engine
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def server(demo: Engine) -> Iterator[Server]:
    with serving(demo, model_id="demo") as server:
        yield server


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="any", max_retries=0) as client:
        yield client
