"""Offers the token-mask provider ``xgrammar``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import MaskProviderPlugin, hookimpl

if TYPE_CHECKING:
    from infernix_core.interfaces.mask_provider import MaskProvider

__all__ = ["create", "infernix_mask_providers"]


def create() -> MaskProvider:
    """Makes the provider; loads xgrammar."""
    from infernix_xgrammar.provider import XGrammarMaskProvider

    return XGrammarMaskProvider()


@hookimpl
def infernix_mask_providers() -> Iterator[MaskProviderPlugin]:
    """Give the provider."""
    yield MaskProviderPlugin(
        name="xgrammar", create=create, description="exact masks by the xgrammar library"
    )
