"""What a sampler gave, checked where it comes in: its mistakes are not laid to those who use it next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import MaskState, SampledRow
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

#: Members of an enumeration are slow to reach, and this runs for every token.
_READY, _UNCONSTRAINED = MaskState.READY, MaskState.UNCONSTRAINED


class RowCheck:
    """Checks the rows of every round; a few comparisons per token.

    Args:
        sampler: What messages call the sampler.
        vocabulary: The tokens that there are.
    """

    def __init__(self, sampler: str, vocabulary: Vocabulary) -> None:
        self._sampler = sampler
        self._size = vocabulary.size
        self._end_ids = vocabulary.end_ids
        self._forbidden = frozenset(vocabulary.ids(TokenClass.FORBIDDEN))

    def __call__(
        self,
        sampled: Sequence[SampledRow],
        states: Sequence[Sequence[MaskState]],
        drafts: Tensor,
        masks: NDArray[np.int32],
    ) -> tuple[SampledRow, ...]:
        """The rows, in order.

        Args:
            sampled: What the sampler gave.
            states: One per row and valid column.
            drafts: [rows, columns - 1], on the host.
            masks: [rows, columns, words].

        Raises:
            IntegrityError: A row breaks the contract of ``SamplerPlan.run``; names the sampler.
        """
        rows = tuple(sampled) if isinstance(sampled, Sequence) else (sampled,)
        if len(rows) != len(states):
            raise IntegrityError(f"{self._sampler} gives {len(rows)} rows of {len(states)}")
        proposed: list[list[int]] = []
        for index, (row, columns) in enumerate(zip(rows, states, strict=True)):
            fault = self._fault(row, columns, masks[index])
            if fault is None and row.accepted:
                # The model has executed the drafts: what stands for one must be it.
                proposed = proposed or drafts.tolist()
                stood, tokens = proposed[index][: row.accepted], [*row.tokens[: row.accepted]]
                if tokens != stood:
                    fault = f"it accepts the drafts {stood} as {tokens}"
            if fault is not None:
                raise IntegrityError(f"{self._sampler}, row {index}: {fault}")
        return rows

    def _fault(
        self, row: SampledRow, columns: Sequence[MaskState], masks: NDArray[np.int32]
    ) -> str | None:
        if not isinstance(row, SampledRow):
            return f"it is a {type(row).__name__}, not a SampledRow"
        tokens = row.tokens
        if (row.failure is None) != bool(tokens):
            return f"{len(tokens)} tokens and the failure {row.failure}"
        if len(tokens) > len(columns):
            return f"{len(tokens)} tokens of {len(columns)} columns"
        last = len(tokens) - 1
        if not max(last, 0) <= row.accepted <= min(len(tokens), len(columns) - 1):
            return f"{row.accepted} drafts accepted, and {len(tokens)} tokens"
        for column, token in enumerate(tokens):
            if not isinstance(token, int):
                return f"a token is a {type(token).__name__}, not an int"
            if not 0 <= token < self._size:
                return f"token {token} is not in the vocabulary of {self._size}"
            if token in self._forbidden:
                return f"token {token} is never generable"
            state = columns[column]
            if state is _READY:
                if not masks.item(column, token >> 5) >> (token & 31) & 1:
                    return f"token {token} is illegal in column {column}"
            elif state is not _UNCONSTRAINED:
                return f"token {token} in column {column}, which is {state.name}"
            if column < last and token in self._end_ids:
                return f"tokens follow the end token {token}"
        return None
