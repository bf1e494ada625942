"""Offers the token-mask provider ``json_masks``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import MaskProviderPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.mask_provider import MaskProvider


def create() -> MaskProvider:
    """Makes the provider."""
    from infernix_json_masks.provider import JsonMaskProvider

    return JsonMaskProvider()


@hookimpl
def infernix_mask_providers() -> Iterator[MaskProviderPlugin]:
    """Give the provider."""
    yield MaskProviderPlugin(
        name="json_masks",
        create=create,
        description="exact masks of JSON and JSON Schema; xgrammar uses it for these",
    )
