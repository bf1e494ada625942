"""What plugins yield from their hooks: frozen records that name a thing and know how to make it.

Descriptors are import-light on purpose. ``create`` callables import the heavy modules when they are called.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import field, frozen

if TYPE_CHECKING:
    from infernix_core.interfaces.frontend import ModelFrontend
    from infernix_core.interfaces.mask_provider import MaskProvider
    from infernix_core.interfaces.protocol import ProtocolAdapter
    from infernix_core.interfaces.sampling import Sampler
    from infernix_core.interfaces.speculative import SpeculativeBackend
    from infernix_core.plugins import PluginRegistry


@frozen
class MaskProviderPlugin:
    """A token-mask provider, selected by ``--mask-provider NAME``."""

    name: str
    create: Callable[[], MaskProvider] = field(eq=False)
    description: str = ""


@frozen
class SamplerPlugin:
    """A sampler, selected by ``--sampler NAME``."""

    name: str
    create: Callable[[], Sampler] = field(eq=False)
    description: str = ""


@frozen
class SpeculativeBackendPlugin:
    """A speculative backend, selected by ``--spec NAME``."""

    name: str
    create: Callable[[], SpeculativeBackend] = field(eq=False)
    description: str = ""


@frozen
class ModelFrontendPlugin:
    """A model frontend. It is selected by asking each one whether it recognises the checkpoint.

    Attributes:
        recognises: True when ``config.json`` (as a parsed object) belongs to this family. Must be cheap
            and must not raise.
    """

    name: str
    recognises: Callable[[dict[str, object]], bool] = field(eq=False)
    create: Callable[[], ModelFrontend] = field(eq=False)
    description: str = ""


@frozen
class ProtocolPlugin:
    """One wire protocol over HTTP."""

    name: str
    create: Callable[[], ProtocolAdapter] = field(eq=False)
    description: str = ""


@frozen
class CliCommand:
    """A subcommand of ``infernix``.

    Attributes:
        add_arguments: Declares the command's options on its parser.
        run: Runs it and returns the exit code: 0 done, 1 request error, 2 usage, 3 incomplete.
    """

    name: str
    summary: str
    add_arguments: Callable[[argparse.ArgumentParser], None] = field(eq=False)
    run: Callable[[argparse.Namespace, PluginRegistry], int] = field(eq=False)


@frozen
class BundledCheckpoint:
    """A checkpoint directory that a plugin ships.

    Attributes:
        path: Returns the directory. Called only when the checkpoint is used.
        default: Whether ``infernix generate`` without a model takes this one.
    """

    name: str
    path: Callable[[], Path] = field(eq=False)
    description: str = ""
    default: bool = False
