"""What every kind of block drafter does to be bound: found, checked, read, put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from attrs import frozen

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import DraftSetup
from infernix_dflash.block import Around, Block, BlockForward
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
from infernix_dflash.host import HostAround, HostBlock
from infernix_dflash.host_context import HostContext
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
        reference: Whether torch computes also where ``host`` can.
    """

    name: str
    config: C
    blocks: tuple[int, ...]
    width: int
    tensors: DrafterTensors
    reference: bool = False

    @property
    def on_host(self) -> bool:
        """Whether ``host`` computes."""
        return (
            self.tensors.device.type == "cpu"
            and self.tensors.dtype == torch.float32
            and not self.reference
        )

    def bound(
        self,
        target: TargetModel,
        setup: DraftSetup,
        choice: Choice,
        around: Around | None = None,
        host_around: HostAround | None = None,
    ) -> BlockDrafter:
        """The drafter, put together. Lets go of the files.

        Args:
            target: What it drafts for.
            setup: Says whether rows are computed alone.
            choice: How its kind chooses drafts.
            around: What its kind does around the sublayers.
            host_around: The same in numpy.
        """
        config = self.config
        weights = load_weights(self.tensors, config)
        self.tensors.close()
        rotary = Rotary(config.head_dim, config.rope_theta, target.device)
        names = [f"block:{block}" for block in self.blocks]
        parts = (self.name, config, weights.context, names, rotary)
        context: Context
        block: BlockForward
        if self.on_host:
            context = HostContext(*parts, deterministic=setup.deterministic)
            block = HostBlock(config, weights, context, rotary, target, host_around)
        else:
            context = Context(*parts, deterministic=setup.deterministic)
            block = Block(config, weights, context, rotary, target, around)
        return BlockDrafter(
            context, block, choice, width=self.width, deterministic=setup.deterministic
        )


def open_drafter(
    name: str,
    target: TargetModel,
    setup: DraftSetup,
    parse: Callable[[Mapping[str, Any], str], C],
    shapes: Callable[[C, int], Mapping[str, tuple[int, ...]]],
    *,
    reference: bool = False,
) -> Opened[C]:
    """Finds and checks a drafter.

    Args:
        name: The backend's, and the folder's that a checkpoint brings along.
        target: What it has to fit.
        setup: Where it is, and how many drafts are asked for.
        parse: Reads ``config.json``, given what errors call it.
        shapes: Its tensors, given the number of features.
        reference: See :class:`Opened`.

    Raises:
        InvalidOption: See ``SpeculativeBackend.bind``.
        CheckpointError: Likewise.
    """
    facts = TargetFacts.of(target, name)
    directory = find_drafter(name, setup)
    where = str(directory / "config.json")
    config = parse(read_drafter(directory, name, setup.checkpoint), where)
    blocks = check_fit(config, facts, where)
    width = check_drafts(setup, config, name)
    tensors = DrafterTensors(directory, shapes(config, len(blocks)), facts.device, facts.dtype)
    return Opened(name, config, blocks, width, tensors, reference)
