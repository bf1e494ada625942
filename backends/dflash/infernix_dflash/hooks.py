"""The hooks of this plugin. Import-light: torch is loaded when the backend is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SpeculativeBackendPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.speculative import SpeculativeBackend


def _create() -> SpeculativeBackend:
    from infernix_dflash.backend import DFlashBackend

    return DFlashBackend()


@hookimpl
def infernix_speculative_backends() -> Iterable[SpeculativeBackendPlugin]:
    """Give the backend ``dflash``."""
    yield SpeculativeBackendPlugin(
        name="dflash",
        create=_create,
        description="a block of masks over the target's features (DFlashDraftModel); 1 to 15 drafts",
    )
