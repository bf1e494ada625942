"""Greedy columns without tensors: on the host, one numpy pass for the largest logit, and mostly no mask at all.

The largest logit of all, where it is a legal one, is the largest legal one. A decode round of a small model is
bound by the number of its operations, and a greedy column needs hardly any.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from infernix_core.interfaces.sampling import MaskState, SampledRow, SamplerSpec, SamplingRound
from infernix_sampling.columns import Column
from infernix_sampling.scores import mask_words
from infernix_sampling.verification import Verdict

#: Members of an enumeration are slow to reach, and this runs for every token.
_READY, _UNCONSTRAINED = MaskState.READY, MaskState.UNCONSTRAINED


@define(eq=False)
class GreedyShortcut:
    """Verdicts on greedy, unpenalised columns whose logits and masks lie on the host.

    Args:
        spec: The engine's sizes.
    """

    spec: SamplerSpec
    _generable: NDArray[np.bool_] = field(init=False)
    _words: NDArray[np.int32] = field(init=False)

    def __attrs_post_init__(self) -> None:
        words = -(-self.spec.vocabulary_size // 32)
        self._generable = self.spec.generable.cpu().numpy().astype(bool)
        self._words = mask_words(self.spec.generable, 32 * words)

    def single(self, round: SamplingRound) -> tuple[SampledRow, ...] | None:
        """The rows of a round without drafts, where every one of them is such a column; else ``None``.

        It is what :meth:`verdicts` comes to there, and the most common round of all.
        """
        if any(round.extents) or any(round.kept_mass) or round.logits.device.type != "cpu":
            return None
        for config in round.configs:
            if config.temperature != 0 or config.penalised:
                return None
        logits = round.logits[:, 0, : self.spec.vocabulary_size].numpy()
        masks = None
        if round.masks is not None and round.masks.device.type == "cpu":
            masks = round.masks.numpy()
        rows = []
        for index, states in enumerate(round.states):
            words = None
            if states[0] is _READY:
                if masks is None:
                    return None
                words = masks[index, 0]
            elif states[0] is not _UNCONSTRAINED:
                return None
            token = self._best(logits[index], words)
            if token is None:
                return None
            rows.append(SampledRow((token,), 0))
        return tuple(rows)

    def verdicts(self, round: SamplingRound, columns: Sequence[Column]) -> Iterator[Verdict]:
        """Verdicts on those of the columns that have a finite largest legal logit; the others are left out."""
        if round.logits.device.type != "cpu":
            return
        masks = None
        if round.masks is not None:
            if round.masks.device.type != "cpu":
                return
            masks = round.masks.numpy()
        logits = round.logits.numpy()
        for column in columns:
            config = column.config
            if config.temperature != 0 or config.penalised or column.measured:
                continue
            words = None
            if column.masked:
                if masks is None:
                    continue
                words = masks[column.row, column.index]
            token = self._best(logits[column.row, column.index, : self.spec.vocabulary_size], words)
            if token is not None:
                yield Verdict(column, None, token, 0, 0.0, 0.0, None)

    def _best(self, values: NDArray[np.float32], words: NDArray[np.int32] | None) -> int | None:
        """The largest legal value's first index; ``None`` where nothing legal is finite."""
        token = int(values.argmax())
        if not self._generable[token] or (
            words is not None and not int(words[token >> 5]) >> (token & 31) & 1
        ):
            legal = self._generable
            if words is not None:
                bits = np.bitwise_and(words, self._words).view(np.uint8)
                legal = np.unpackbits(bits, count=len(values), bitorder="little").view(bool)
            values = np.where(legal, values, -np.inf)
            token = int(values.argmax())
        return token if math.isfinite(values[token]) else None
