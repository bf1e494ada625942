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
    """Implements ``SpeculativeBackend``."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``."""
        opened = open_drafter(NAME, target, setup, parse_config, expected_shapes)
        return opened.bound(target, setup, Largest(Candidates(target, vocabulary)))
