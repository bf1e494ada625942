"""Offers the Qwen3.5 frontend to Infernix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from infernix_core.hookspecs import ModelFrontendPlugin, hookimpl
from infernix_qwen3_5.kinds import MODEL_TYPES

if TYPE_CHECKING:
    from infernix_core.interfaces.frontend import ModelFrontend

__all__ = ["create", "infernix_model_frontends", "recognises"]


def recognises(config: dict[str, object]) -> bool:
    """Whether ``config.json`` belongs to the family, by its ``model_type``."""
    kind = config.get("model_type")
    return isinstance(kind, str) and kind in MODEL_TYPES


def create() -> ModelFrontend:
    """The frontend; imports torch, tokenizers and jinja2."""
    from infernix_qwen3_5.frontend import Qwen3_5Frontend

    return Qwen3_5Frontend()


@hookimpl
def infernix_model_frontends() -> Iterator[ModelFrontendPlugin]:
    """Give the frontend of the Qwen3.5 family."""
    yield ModelFrontendPlugin(
        name="qwen3_5",
        recognises=recognises,
        create=create,
        description="Qwen3.5 / 3.6 / 3.8 text models, dense and mixtures of experts (Gated DeltaNet and gated attention)",
    )
