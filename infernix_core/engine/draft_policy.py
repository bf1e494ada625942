"""Draft policies: how many drafts each row of a round gets."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from infernix_core.interfaces.speculative import RowStatistics


@frozen
class FixedDrafts:
    """Every row gets the same number of drafts, as far as its own limit allows.

    Attributes:
        drafts: Drafts per row.
    """

    drafts: int

    def plan(self, limits: Sequence[int], statistics: Sequence[RowStatistics]) -> tuple[int, ...]:
        """See ``DraftPolicy``."""
        return tuple(min(self.drafts, limit) for limit in limits)
