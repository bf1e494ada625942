"""What this plugin gives. Imported whenever ``infernix`` starts, so it imports nothing heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import SamplerPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.sampling import Sampler


def create() -> Sampler:
    """Makes the sampler."""
    from infernix_entropy_log.sampler import EntropyLog

    return EntropyLog()


@hookimpl
def infernix_samplers() -> Iterator[SamplerPlugin]:
    """Give the sampler ``entropy-log``."""
    yield SamplerPlugin("entropy-log", create=create, description="logs each token's entropy")
