"""The hooks of this plugin. Import-light: torch is loaded when the backend is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SpeculativeBackendPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.speculative import SpeculativeBackend


def _create() -> SpeculativeBackend:
    from infernix_ngram.backend import NgramBackend

    return NgramBackend()


@hookimpl
def infernix_speculative_backends() -> Iterable[SpeculativeBackendPlugin]:
    """Give the backend ``ngram``."""
    yield SpeculativeBackendPlugin(
        name="ngram",
        create=_create,
        description="what followed the same tokens before in the prompt and the output",
    )
