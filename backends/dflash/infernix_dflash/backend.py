"""The backend ``dflash``."""

from __future__ import annotations

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_dflash.choice import Candidates, Largest
from infernix_dflash.config import parse_config
from infernix_dflash.opening import open_drafter
from infernix_dflash.weights import expected_shapes

NAME = "dflash"


class DFlashBackend:
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
        return opened.bound(target, setup, Largest(Candidates(target, vocabulary)))
