"""What every kind of block drafter does to be bound: found, checked, read, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from attrs import frozen

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import DraftSetup
from infernix_dflash.block import Around, Block
from infernix_dflash.choice import Choice
from infernix_dflash.companion import (
    TargetFacts,
    check_drafts,
    check_fit,
    find_drafter,
    read_drafter,
)
from infernix_dflash.config import DrafterConfig
from infernix_dflash.context import Context
from infernix_dflash.drafter import BlockDrafter
from infernix_dflash.layers import Rotary
from infernix_dflash.weights import DrafterTensors, load_weights

C = TypeVar("C", bound=DrafterConfig)


@frozen(eq=False)
class Opened(Generic[C]):
    """A drafter that fits the target and the setup.

    Attributes:
        name: The backend's.
        blocks: The target's blocks whose features it reads.
        width: K.
        tensors: Its files, every tensor checked.
    """

    name: str
    config: C
    blocks: tuple[int, ...]
    width: int
    tensors: DrafterTensors

    def bound(
        self,
        target: TargetModel,
        setup: DraftSetup,
        choice: Choice,
        around: Around | None = None,
    ) -> BlockDrafter:
        """The drafter with its kind's choice of drafts and what it does around the sublayers. Lets go of the files."""
        config = self.config
        weights = load_weights(self.tensors, config)
        self.tensors.close()
        rotary = Rotary(config.head_dim, config.rope_theta, target.device)
        context = Context(
            self.name,
            config,
            weights.context,
            [f"block:{block}" for block in self.blocks],
            rotary,
            deterministic=setup.deterministic,
        )
        return BlockDrafter(
            target,
            context,
            Block(config, weights, context, rotary, around),
            choice,
            width=self.width,
            mask_token_id=config.mask_token_id,
            deterministic=setup.deterministic,
        )


def open_drafter(
    name: str,
    target: TargetModel,
    setup: DraftSetup,
    parse: Callable[[Mapping[str, Any], str], C],
    shapes: Callable[[C, int], Mapping[str, tuple[int, ...]]],
) -> Opened[C]:
    """Finds and checks a drafter.

    Args:
        name: The backend's, and the folder's that a checkpoint brings along.
        target: What it has to fit.
        setup: Where it is, and how many drafts are asked for.
        parse: Reads ``config.json``, given what errors call it.
        shapes: Its tensors, given the number of features.

    Raises:
        InvalidOption: See ``SpeculativeBackend.bind``.
        CheckpointError: Likewise.
    """
    facts = TargetFacts.of(target, name)
    directory = find_drafter(name, setup)
    where = str(directory / "config.json")
    config = parse(read_drafter(directory, name), where)
    blocks = check_fit(config, facts, where)
    width = check_drafts(setup, config, name)
    tensors = DrafterTensors(directory, shapes(config, len(blocks)), facts.device, facts.dtype)
    return Opened(name, config, blocks, width, tensors)
