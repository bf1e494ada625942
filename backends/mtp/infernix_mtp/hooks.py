"""The hooks of this plugin. Import-light: torch is loaded when the backend is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SpeculativeBackendPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.speculative import SpeculativeBackend


def _create() -> SpeculativeBackend:
    from infernix_mtp.backend import MtpBackend

    return MtpBackend()


@hookimpl
def infernix_speculative_backends() -> Iterable[SpeculativeBackendPlugin]:
    """Give the backend ``mtp``."""
    yield SpeculativeBackendPlugin(
        name="mtp",
        create=_create,
        description="recursion over the checkpoint's own MTP layer; 1 to 5 drafts",
    )
