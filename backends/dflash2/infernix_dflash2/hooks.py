"""The hooks of this plugin. Import-light: torch is loaded when the backend is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SpeculativeBackendPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.speculative import SpeculativeBackend


def _create() -> SpeculativeBackend:
    from infernix_dflash2.backend import DFlash2Backend

    return DFlash2Backend()


@hookimpl
def infernix_speculative_backends() -> Iterable[SpeculativeBackendPlugin]:
    """Give the backend ``dflash2``."""
    yield SpeculativeBackendPlugin(
        name="dflash2",
        create=_create,
        description="DFlash with convolutions and sampled candidates (DFlash2DraftModel); 1 to 15 drafts",
    )
