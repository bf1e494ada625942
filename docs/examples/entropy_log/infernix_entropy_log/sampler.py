"""A sampler on top of another one: the tokens are the other's, the log is its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence

import torch
from torch import Tensor

from infernix_core.descriptors import SamplerPlugin
from infernix_core.interfaces.model import StateSpec, StateViews
from infernix_core.interfaces.sampling import (
    SampledRow,
    Sampler,
    SamplerPlan,
    SamplerSpec,
    SamplingRound,
)
from infernix_core.plugins import PluginRegistry

#: Names the sampler that chooses.
INNER = "INFERNIX_ENTROPY_LOG_SAMPLER"

_log = logging.getLogger(__name__)


def entropy(logits: Tensor) -> float:
    """The entropy of softmax(logits [V]) in nats; logits of -inf count for nothing."""
    logarithms = torch.log_softmax(logits.double(), dim=0)
    return float(-(logarithms.exp() * logarithms).nan_to_num(0.0).sum())


class EntropyLog:
    """Implements ``Sampler``."""

    def plan(self, spec: SamplerSpec) -> EntropyLogPlan:
        """See ``Sampler``. The engine's own registry has the inner sampler."""
        inner: Sampler = PluginRegistry.current().create(
            SamplerPlugin, os.environ.get(INNER, "sampling")
        )
        return EntropyLogPlan(inner.plan(spec), spec)


class EntropyLogPlan:
    """Implements ``SamplerPlan``."""

    def __init__(self, inner: SamplerPlan, spec: SamplerSpec) -> None:
        self._inner = inner
        self._generable = spec.generable

    def states(self) -> Sequence[StateSpec]:
        """See ``SamplerPlan``."""
        return self._inner.states()

    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        """See ``SamplerPlan``. The entropy is the model's own, before the mask and the sampling law."""
        rows = self._inner.run(round)
        if _log.isEnabledFor(logging.DEBUG):  # a softmax per token is not free
            for index, row in enumerate(rows):
                for column, token in enumerate(row.tokens):
                    own = round.logits[index, column, : len(self._generable)][self._generable]
                    position = round.positions[index] + column
                    _log.debug("position %d token %d %.3f nats", position, token, entropy(own))
        return rows

    def commit(
        self, lanes: Sequence[int], tokens: Sequence[Sequence[int]], views: StateViews
    ) -> None:
        """See ``SamplerPlan``."""
        self._inner.commit(lanes, tokens, views)

    def counts(self, lanes: Sequence[int], views: StateViews) -> Tensor:
        """See ``SamplerPlan``."""
        return self._inner.counts(lanes, views)
