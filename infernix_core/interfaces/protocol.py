"""Protocol adapters: wire formats over the engine, served by one aiohttp application."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef

    from infernix_core.engine.service import GenerationService


class ProtocolAdapter(Protocol):
    """One wire protocol."""

    def routes(self, service: GenerationService) -> Iterable[AbstractRouteDef]:
        """The routes to mount. Called once per application, on its event loop.

        Handlers use the service's public methods only, never block the loop, and cancel the generation
        when they are cancelled themselves: the server cancels a handler whose client is gone. An
        ``InfernixError`` that a handler lets through becomes a response of the server's own shape; once a
        stream has begun, whatever a handler lets through cuts the connection.
        """
