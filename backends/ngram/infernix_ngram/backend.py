"""The backend ``ngram``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.model import StateSpec, StateViews, TargetModel
from infernix_core.interfaces.speculative import BoundBackend, DraftRow, DraftSetup, Proposal
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_ngram.backoff import BackOff
from infernix_ngram.index import LONGEST_MATCH, WIDTHS, WindowIndex
from infernix_ngram.sequence import CopySource

#: Most drafts of a row, and as many as there are where the engine leaves it to the backend.
MOST_DRAFTS = 15

#: A match is found by a window that lies in it.
LEAST_MATCH = WIDTHS[-1]

#: Tokens of a match where the engine leaves it to the backend.
DEFAULT_MATCH = 12


class NgramBackend:
    """Implements ``SpeculativeBackend``."""

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        """See ``SpeculativeBackend``. Any target will do."""
        if setup.drafter is not None:
            raise _refused(
                "drafter", f"copies need no drafter, and {setup.drafter} is given", "leave it out"
            )
        if setup.drafts is not None and not 1 <= setup.drafts <= MOST_DRAFTS:
            raise _refused(
                "draft_tokens",
                f"{setup.drafts} tokens cannot be copied at once",
                f"1 to {MOST_DRAFTS}",
            )
        min_match = DEFAULT_MATCH if setup.min_match is None else setup.min_match
        if not LEAST_MATCH <= min_match <= LONGEST_MATCH:
            raise _refused(
                "ngram_min_match",
                f"a match of {min_match} tokens cannot be asked for",
                f"{LEAST_MATCH} to {LONGEST_MATCH}",
            )
        return BoundNgram(vocabulary, setup, min_match)


class BoundNgram:
    """Implements ``BoundBackend``. It keeps an index per lane on the host, and none of the program's state.

    Args:
        vocabulary: The target's tokens; copies stop at those that are no text.
        setup: What the engine fixes.
        min_match: Tokens of a match at first.
    """

    def __init__(self, vocabulary: Vocabulary, setup: DraftSetup, min_match: int) -> None:
        self.width = setup.drafts or MOST_DRAFTS
        special = bytes(kind is not TokenClass.TEXT for kind in vocabulary.classes)
        self._sources = [
            CopySource(
                WindowIndex(setup.capacity, special, min_match),
                BackOff(min_match),
                self.width,
            )
            for _ in range(setup.lanes)
        ]

    def states(self) -> Sequence[StateSpec]:
        """None."""
        return ()

    def features(self) -> Sequence[str]:
        """None."""
        return ()

    def prefilled(
        self,
        lane: int,
        ids: Sequence[int],
        start: int,
        features: Mapping[str, Tensor],
        views: StateViews,
    ) -> None:
        """See ``BoundBackend``."""
        self._sources[lane].foresee(ids, start)

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        """See ``BoundBackend``. One-hot drafts, as many as were found."""
        copies: list[Sequence[int]] = []
        for row in rows:
            source = self._sources[row.lane]
            # Also where no drafts are wanted, or a later round would have much to take in.
            source.advance(row.history, row.prompt_length)
            copies.append(source.copy(row.limit))
        extents = tuple(map(len, copies))
        ids = np.zeros((len(rows), max(extents, default=0)), dtype=np.int64)
        for index, copy in enumerate(copies):
            ids[index, : len(copy)] = copy
        return Proposal(torch.from_numpy(ids), extents)

    def prepare_commit(
        self, counts: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """Nothing: what became history is read from it by the next round."""

    def commit(self) -> None:
        """Nothing."""

    def abort(self) -> None:
        """Nothing: all that was taken in is history."""

    def rebuild(
        self, lane: int, history: Sequence[int], features: Mapping[str, Tensor], views: StateViews
    ) -> None:
        """See ``BoundBackend``. The next round takes the history in, and says where its prompt ends."""
        self._sources[lane].clear()

    def release(self, lane: int) -> None:
        """See ``BoundBackend``."""
        self._sources[lane].clear()


def _refused(option: str, problem: str, hint: str) -> InvalidOption:
    return InvalidOption(problem, location=Location(field=option), hint=hint)
