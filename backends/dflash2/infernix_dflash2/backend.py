"""The backend ``dflash2``."""

from __future__ import annotations

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_dflash.choice import Candidates
from infernix_dflash.opening import open_drafter
from infernix_dflash2.config import parse_config
from infernix_dflash2.convolutions import Convolutions
from infernix_dflash2.host import HostConvolutions, HostSelector
from infernix_dflash2.selector import Selector
from infernix_dflash2.weights import expected_shapes, load_convolutions, load_selector

NAME = "dflash2"


class DFlash2Backend:
    """Implements ``SpeculativeBackend``.

    Args:
        reference: Whether torch computes also where there is a faster way for the device.
    """

    def __init__(self, *, reference: bool = False) -> None:
        self.reference = reference

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``."""
        opened = open_drafter(
            NAME, target, setup, parse_config, expected_shapes, reference=self.reference
        )
        config = opened.config
        convolutions = load_convolutions(opened.tensors, config)
        weights, candidates = load_selector(opened.tensors), Candidates(target, vocabulary)
        if opened.on_host:
            return opened.bound(
                target,
                setup,
                HostSelector(config, weights, candidates),
                host_around=HostConvolutions(config, convolutions),
            )
        return opened.bound(
            target,
            setup,
            Selector(config, weights, candidates),
            Convolutions(config, convolutions),
        )
