"""The backend ``dflash2``."""

from __future__ import annotations

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_dflash.choice import Candidates
from infernix_dflash.opening import open_drafter
from infernix_dflash2.config import parse_config
from infernix_dflash2.convolutions import Convolutions
from infernix_dflash2.selector import Selector
from infernix_dflash2.weights import expected_shapes, load_convolutions, load_selector

NAME = "dflash2"


class DFlash2Backend:
    """Implements ``SpeculativeBackend``."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``."""
        opened = open_drafter(NAME, target, setup, parse_config, expected_shapes)
        convolutions = Convolutions(opened.config, load_convolutions(opened.tensors, opened.config))
        selector = Selector(
            opened.config, load_selector(opened.tensors), Candidates(target, vocabulary)
        )
        return opened.bound(target, setup, selector, convolutions)
