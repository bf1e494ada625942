"""The hooks of this plugin. Import-light: aiohttp is loaded when the server starts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import ProtocolPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.protocol import ProtocolAdapter


def _create() -> ProtocolAdapter:
    from infernix_openai.adapter import OpenAIAdapter

    return OpenAIAdapter()


@hookimpl
def infernix_protocols() -> Iterable[ProtocolPlugin]:
    """Give the protocol ``openai``."""
    yield ProtocolPlugin(
        name="openai",
        create=_create,
        description="/v1/models, /v1/chat/completions and /v1/completions, streamed and not",
    )
