"""Protocol adapters: wire formats over the engine, served by one aiohttp application."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from aiohttp.web import AbstractRouteDef

    from infernix_core.engine.engine import Engine


class ProtocolAdapter(Protocol):
    """One wire protocol."""

    def routes(self, engine: Engine) -> Iterable[AbstractRouteDef]:
        """The routes to mount; handlers use the engine's public methods only."""
