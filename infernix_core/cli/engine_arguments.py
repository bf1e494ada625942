"""The engine's options and MODEL on a command line; commands of plugins share them."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from attrs import fields, frozen

from infernix_core.descriptors import BundledCheckpoint
from infernix_core.engine.options import DTYPES, EngineOptions
from infernix_core.errors import CheckpointError, InvalidOption, Location
from infernix_core.plugins import PluginRegistry


@frozen
class ModelChoice:
    """What MODEL means.

    Attributes:
        name: A public name: the bundled checkpoint's, or the directory's own.
        directory: The checkpoint.
    """

    name: str
    directory: Path


def add_model_argument(parser: argparse.ArgumentParser) -> None:
    """Declares MODEL."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="checkpoint directory, or a bundled checkpoint's name (default: the bundled one)",
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of :class:`EngineOptions`."""
    engine = parser.add_argument_group("engine")
    _add(engine, "device", "cpu or a CUDA device", metavar="NAME")
    engine.add_argument("--dtype", choices=DTYPES)
    engine.add_argument(
        "--max-context",
        type=int,
        metavar="N",
        help="most tokens of prompt and output together (default: the checkpoint's, at most 8192)",
    )
    _add(engine, "prefill_chunk", "prompt tokens executed at a time", type=int, metavar="N")
    _add(engine, "mask_timeout", "seconds that one token mask may take", type=float, metavar="S")
    _add(engine, "grammar_cache_bytes", "compiled grammars to keep", type=int, metavar="N")
    engine.add_argument(
        "--deterministic", action="store_true", help="numbers that do not depend on the batch"
    )
    _add(engine, "mask_provider", "plugin that makes token masks", metavar="NAME")
    _add(engine, "sampler", "plugin that chooses tokens", metavar="NAME")
    engine.add_argument("--spec", metavar="NAME", help="speculative backend")
    engine.add_argument(
        "--draft-tokens", type=int, metavar="K", help="most drafts (default: the backend's)"
    )
    engine.add_argument(
        "--drafter",
        metavar="DIR",
        help="directory of the drafter (default: the one that the checkpoint brings along)",
    )
    _add(
        engine,
        "ngram_draft_tokens",
        "most tokens copied in place of the backend's drafts where that gives more",
        type=int,
        metavar="N",
    )
    engine.add_argument(
        "--ngram-min-match",
        type=int,
        metavar="N",
        help="fewest equal tokens before a copy (default: 12)",
    )
    engine.add_argument("--threads", type=int, metavar="N", help="CPU threads of the model")


def _add(group: argparse._ArgumentGroup, name: str, text: str, **keywords: Any) -> None:
    """An option of the engine with the engine's own default."""
    group.add_argument(
        f"--{name.replace('_', '-')}",
        default=getattr(EngineOptions(), name),
        help=f"{text} (default: %(default)s)",
        **keywords,
    )


def engine_options(namespace: argparse.Namespace, **fixed: Any) -> EngineOptions:
    """Engine options from the command line; sets torch's threads as it says.

    Args:
        namespace: Parsed arguments.
        fixed: Options that the command decides itself, such as ``lanes``.

    Raises:
        InvalidOption: A value is out of range.
    """
    if namespace.threads is not None:
        if not 1 <= namespace.threads <= 1024:
            raise InvalidOption(
                f"{namespace.threads} threads are not possible",
                location=Location(field="--threads"),
                hint="1 to 1024",
            )
        from infernix_core.threads import set_threads

        set_threads(namespace.threads)
    given = {field.name for field in fields(EngineOptions)} & vars(namespace).keys()
    return EngineOptions(**{name: getattr(namespace, name) for name in given} | fixed)


def resolve_model(model: str | None, registry: PluginRegistry) -> ModelChoice:
    """The checkpoint that MODEL means.

    Raises:
        InvalidOption: No model was given and none is bundled.
        CheckpointError: It is neither a directory nor a bundled checkpoint's name.
        PluginError: A bundled checkpoint does not tell its directory.
    """
    bundled = registry.all(BundledCheckpoint)
    names = ", ".join(checkpoint.name for checkpoint in bundled) or "none"
    if model is None:
        defaults = [checkpoint for checkpoint in bundled if checkpoint.default]
        if len(defaults) != 1:
            raise InvalidOption(
                f"give MODEL: {len(defaults)} default checkpoints are bundled (bundled: {names})"
            )
        return ModelChoice(defaults[0].name, registry.path(defaults[0]))
    if model and Path(model).is_dir():
        return ModelChoice(Path(model).resolve().name, Path(model))
    for checkpoint in bundled:
        if checkpoint.name == model:
            return ModelChoice(model, registry.path(checkpoint))
    message = f"{model!r} is neither a checkpoint directory nor a bundled checkpoint ({names})"
    if Path(model).is_file():
        message += "; give the directory that holds the file"
    elif model.count("/") == 1 and not model.startswith((".", "~", "/")):
        message += (
            f"; nothing is downloaded here: run 'hf download {model} --local-dir DIR' and give DIR"
        )
    raise CheckpointError(message)
