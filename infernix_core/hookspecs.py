"""The hooks of Infernix, on one page.

A plugin is an entry point in the group ``infernix``; its value is an import-light module whose functions are
marked with :data:`hookimpl`. Hooks run once, at start-up, and yield frozen descriptors. See docs/hooks/.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from infernix_core.descriptors import (
    BundledCheckpoint,
    CliCommand,
    MaskProviderPlugin,
    ModelFrontendPlugin,
    ProtocolPlugin,
    SamplerPlugin,
    SpeculativeBackendPlugin,
)

__all__ = [
    "BundledCheckpoint",
    "CliCommand",
    "MaskProviderPlugin",
    "ModelFrontendPlugin",
    "ProtocolPlugin",
    "SamplerPlugin",
    "SpeculativeBackendPlugin",
    "hookimpl",
    "hookspec",
]

PROJECT = "infernix"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def infernix_mask_providers() -> Iterable[MaskProviderPlugin]:
    """Give token-mask providers: output language in, per-token masks out."""
    raise NotImplementedError


@hookspec
def infernix_samplers() -> Iterable[SamplerPlugin]:
    """Give samplers: logits and masks in, tokens out."""
    raise NotImplementedError


@hookspec
def infernix_speculative_backends() -> Iterable[SpeculativeBackendPlugin]:
    """Give speculative backends: draft tokens ahead of the target."""
    raise NotImplementedError


@hookspec
def infernix_model_frontends() -> Iterable[ModelFrontendPlugin]:
    """Give model frontends: checkpoint in; prompts, framing, decoding and a target model out."""
    raise NotImplementedError


@hookspec
def infernix_protocols() -> Iterable[ProtocolPlugin]:
    """Give wire protocols: routes over the engine."""
    raise NotImplementedError


@hookspec
def infernix_cli_commands() -> Iterable[CliCommand]:
    """Give subcommands of the ``infernix`` program."""
    raise NotImplementedError


@hookspec
def infernix_bundled_checkpoints() -> Iterable[BundledCheckpoint]:
    """Give checkpoint directories that ship with a plugin."""
    raise NotImplementedError
