"""The backend ``dflash2``."""

from __future__ import annotations

from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftSetup
from infernix_core.interfaces.vocabulary import Vocabulary


class DFlash2Backend:
    """Implements ``SpeculativeBackend``."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``."""
        raise NotImplementedError
