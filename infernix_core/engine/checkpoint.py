"""A checkpoint directory, and the model that the frontend which knows it makes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from infernix_core.descriptors import ModelFrontendPlugin
from infernix_core.engine.options import EngineOptions
from infernix_core.errors import CheckpointError, InvalidOption, Location
from infernix_core.interfaces.frontend import LoadedModel, LoadOptions
from infernix_core.plugins import PluginRegistry


def load_model(directory: Path, options: EngineOptions, registry: PluginRegistry) -> LoadedModel:
    """The model of a checkpoint directory, on the device that ``options`` names.

    Raises:
        CheckpointError: The directory cannot be loaded.
        PluginError: A frontend fails.
        InvalidOption: The device is unknown or not present.
    """
    frontend = registry.frontend_for(read_config(directory), directory)
    model: LoadedModel = registry.create(ModelFrontendPlugin, frontend.name).load(
        directory,
        LoadOptions(
            device=checked_device(options.device),
            dtype=getattr(torch, options.dtype) if options.dtype is not None else None,
            deterministic=options.deterministic,
        ),
    )
    return model


def checked_device(name: str) -> str:
    """A device that torch can use here.

    Raises:
        InvalidOption: It is unknown or not present.
    """
    where = Location(field="device")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidOption(
            f"{name!r} is no device", location=where, hint="cpu, cuda or cuda:N"
        ) from None
    present = device.type == "cpu"
    if device.type == "cuda":
        present = torch.cuda.is_available() and (device.index or 0) < torch.cuda.device_count()
    if not present:
        raise InvalidOption(f"{name} is not available here", location=where, hint="use cpu")
    return name


def read_config(directory: Path) -> dict[str, Any]:
    """A checkpoint's ``config.json``.

    Raises:
        CheckpointError: The directory or the file is missing, or it is not a JSON object.
    """
    path = directory / "config.json"
    if not directory.is_dir():
        raise CheckpointError(f"{directory} is not a directory; give a checkpoint directory")
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing; {directory} is not a checkpoint") from None
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from error
    if not isinstance(config, dict):
        raise CheckpointError(f"{path} holds no JSON object")
    return config
