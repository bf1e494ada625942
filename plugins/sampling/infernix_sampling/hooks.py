"""The hooks of this plugin. Import-light: torch is loaded when the sampler is created."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SamplerPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.sampling import Sampler


def _create() -> Sampler:
    from infernix_sampling.sampler import TorchSampler

    return TorchSampler()


@hookimpl
def infernix_samplers() -> Iterable[SamplerPlugin]:
    """Give the sampler ``sampling``."""
    yield SamplerPlugin(
        name="sampling",
        create=_create,
        description="penalties, masks, top-k, min-p, top-p and draft verification in plain torch",
    )
