"""The mask service of one unit: each row's masks come from its request, and faults in them are that request's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from infernix_core.engine.mask_jobs import MaskThreads
from infernix_core.engine.resident import MaskPending, Request
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import MaskState


class RowFault(IntegrityError):
    """One request's matcher failed while its masks were filled."""

    def __init__(self, request: Request, fault: Exception) -> None:
        super().__init__(f"{type(fault).__name__}: {fault}")
        self.request = request


@frozen
class RoundMasks:
    """The mask service of one unit: its rows' requests, in batch order."""

    requests: Sequence[Request]
    threads: MaskThreads

    def fill(
        self, row: int, drafts: Sequence[int], columns: NDArray[np.int32]
    ) -> tuple[MaskState, ...]:
        """See ``MaskService``.

        Raises:
            RowFault: The row's matcher failed.
            MaskPending: The row's masks take long.
        """
        try:
            return self.requests[row].fill_masks(drafts, columns, self.threads)
        except MaskPending:
            raise
        except Exception as fault:
            raise RowFault(self.requests[row], fault) from fault
