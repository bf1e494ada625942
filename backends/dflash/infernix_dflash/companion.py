"""A drafter's directory: where it is looked for, whether it is one, and whether it was made for the target."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from attrs import frozen

from infernix_core.checkpoint_files import one_line, read_json_object
from infernix_core.errors import CheckpointError, InvalidOption, Location
from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import DraftSetup
from infernix_dflash.config import DrafterConfig, default_feature_layers

#: The backend that takes a drafter, by its architecture.
BACKENDS = {"DFlashDraftModel": "dflash", "DFlash2DraftModel": "dflash2"}


@frozen
class TargetFacts:
    """What a drafter has to fit.

    Attributes:
        hidden_size: Width of embeddings.
        blocks: Decoder blocks.
        feature_size: Width of each block's feature.
        rows: Rows of the output matrix.
        dtype: Of its activations.
    """

    hidden_size: int
    blocks: int
    feature_size: int
    rows: int
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, target: TargetModel, name: str) -> TargetFacts:
        """Asks a target for them.

        Raises:
            InvalidOption: It does not tell what its decoder blocks give, which the backend ``name`` reads.
        """
        sizes = {
            feature: width
            # An object of duck type may lack what it has nothing to say for.
            for feature, width in getattr(target, "features", {}).items()
            if feature.startswith("block:")
        }
        if not sizes:
            raise InvalidOption(
                f"{name} reads the residual streams of the target's decoder blocks, and this target does not give them",
                location=Location(field="spec"),
                hint="choose another backend, or none",
            )
        embedded = target.embed(torch.zeros(1, dtype=torch.int64, device=target.device))
        return cls(
            hidden_size=embedded.shape[-1],
            blocks=len(sizes),
            feature_size=min(sizes.values()),
            rows=target.logits_width,
            dtype=embedded.dtype,
            device=target.device,
        )


def find_drafter(name: str, setup: DraftSetup) -> Path:
    """The directory that the user named, or else the folder ``name`` of the target's checkpoint.

    Raises:
        InvalidOption: There is neither.
    """
    if setup.drafter is not None:
        if not _is_directory(setup.drafter):
            raise InvalidOption(
                f"{setup.drafter} is not a directory",
                location=Location(field="drafter"),
                hint=f"a directory with the config.json and the weights of a {_architecture(name)}",
            )
        return setup.drafter
    where = "the target has no checkpoint directory that could bring one along"
    if setup.checkpoint is not None:
        bundled = setup.checkpoint / name
        if _is_directory(bundled):
            return bundled
        where = f"{bundled} does not exist"
    raise InvalidOption(
        f"{name} needs a drafter, and none was named; {where}",
        location=Location(field="spec"),
        hint=f"name a drafter's directory with --drafter DIR (drafter): a {_architecture(name)} for this target",
    )


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        # Such as a name that is too long for any file.
        return False


def read_drafter(directory: Path, name: str, checkpoint: Path | None = None) -> dict[str, Any]:
    """The drafter's ``config.json``, once it is one that the backend ``name`` takes.

    Args:
        directory: The drafter's.
        name: The backend's.
        checkpoint: The target's directory, if it has one.

    Raises:
        CheckpointError: It cannot be read, or is another kind of model.
    """
    document = read_json_object(directory / "config.json")
    found = document.get("architectures")
    names = [
        kind for kind in (found if isinstance(found, list) else [found]) if isinstance(kind, str)
    ]
    expected = _architecture(name)
    if expected in names:
        return document
    shown = one_line(", ".join(names))[:100] or "no architecture"
    other = next((BACKENDS[kind] for kind in names if kind in BACKENDS), None)
    advice = (
        f"--spec {other} takes it" if other is not None else f"it is no drafter that {name} knows"
    )
    if checkpoint is not None and directory.resolve() == checkpoint.resolve():
        advice = (
            f"this is the target itself, and a drafter that it brings along, as {directory / name}, "
            "is taken without --drafter (drafter)"
        )
    raise CheckpointError(
        f"{directory / 'config.json'} names {shown} in 'architectures'; expected {expected}; {advice}"
    )


def check_drafts(setup: DraftSetup, config: DrafterConfig, name: str) -> int:
    """K: as many drafts as were asked for, or as the drafter's own block has.

    Raises:
        InvalidOption: The drafter was not trained for so many.
    """
    most = config.most_drafts
    if setup.drafts is None:
        return most
    if not 1 <= setup.drafts <= most:
        raise InvalidOption(
            f"{name} cannot draft {setup.drafts} tokens with a drafter whose block_size is {config.block_size}",
            location=Location(field="draft_tokens"),
            hint=f"1 to {most}",
        )
    return setup.drafts


def check_fit(config: DrafterConfig, facts: TargetFacts, where: str) -> tuple[int, ...]:
    """The blocks whose features the drafter reads, once it was made for such a target.

    Raises:
        CheckpointError: It was made for another one; gives the numbers of both.
    """
    sizes = (
        ("hidden_size", config.hidden_size, "embeddings are", facts.hidden_size),
        ("target_hidden_size", config.target_hidden_size, "features are", facts.feature_size),
        ("vocab_size", config.vocab_size, "output rows are", facts.rows),
        ("num_target_layers", config.target_layers, "decoder blocks are", facts.blocks),
    )
    for key, expected, what, found in sizes:
        if expected is not None and expected != found:
            raise _other_target(where, key, expected, f"the target's {what} {found}")
    if config.mask_token_id >= facts.rows:
        raise _other_target(
            where,
            "mask_token_id",
            config.mask_token_id,
            f"the target's embedding has {facts.rows} rows",
        )
    layers = config.feature_layers or default_feature_layers(config.layers, facts.blocks)
    if not all(0 <= layer < facts.blocks for layer in layers):
        raise _other_target(
            where,
            "target_layer_ids",
            list(layers),
            f"the target's decoder blocks are {facts.blocks}: 0 to {facts.blocks - 1}",
        )
    return layers


def _other_target(where: str, key: str, value: object, found: str) -> CheckpointError:
    return CheckpointError(
        f"{where}: the drafter was made for another target: {key!r} is {value}, but {found}"
    )


def _architecture(name: str) -> str:
    by_backend: Mapping[str, str] = {backend: kind for kind, backend in BACKENDS.items()}
    return by_backend[name]
