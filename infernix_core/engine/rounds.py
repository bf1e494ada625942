"""What a program's units take and give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import MaskState, SampledRow, SamplingConfig


@frozen
class DecodeRow:
    """One row of a unit.

    Attributes:
        lane: Its sequence.
        history: Prompt and committed output, the anchor last.
        prompt_length: How many of them are the prompt.
        config: Its sampling law.
        constrained: Whether the mask service fills its columns.
        draft_limit: Most drafts to verify.
        kept_mass: Whether the sampler measures what its constraint leaves of the model's probability.
    """

    lane: int
    history: Sequence[int] = field(eq=False, repr=False)
    prompt_length: int
    config: SamplingConfig
    constrained: bool
    draft_limit: int = 0
    kept_mass: bool = False


class MaskService(Protocol):
    """Fills mask columns of the current unit's rows. Borrowed for one call of the program."""

    def fill(
        self, row: int, drafts: Sequence[int], columns: NDArray[np.int32]
    ) -> tuple[MaskState, ...]:
        """States of ``len(drafts) + 1`` columns of batch row ``row``, their masks written."""


@frozen
class PendingBatch:
    """Outcome of a unit, not yet durable.

    Attributes:
        rows: The unit's rows, in order.
        sampled: One outcome per row.
        extents: Drafts verified per row.
        executed: False for a prefill's first token, whose columns are durable already.
        draft_seconds: Wall seconds that the round waited for its drafts.
    """

    rows: tuple[DecodeRow, ...]
    sampled: tuple[SampledRow, ...]
    extents: tuple[int, ...]
    executed: bool
    features: dict[str, Tensor] = field(factory=dict, eq=False, repr=False)
    draft_seconds: float = 0.0


class RoundFault(IntegrityError):
    """A drafter failed. The round's requests end; nothing of it is durable, and the engine goes on."""

    def __str__(self) -> str:
        cause = self.__cause__
        return super().__str__() + (f": {type(cause).__name__}: {cause}" if cause else "")
