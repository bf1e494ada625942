"""What becomes of the rows of a unit that was run, before anything of it is durable."""

from __future__ import annotations

import logging

from attrs import frozen

from infernix_core.engine.resident import Request, integrity_error
from infernix_core.engine.session import Preview
from infernix_core.errors import (
    ConstraintDeadEnd,
    InfernixError,
    IntegrityError,
    NonFiniteLogits,
)
from infernix_core.interfaces.sampling import PendingRowFailure, SampledRow

_log = logging.getLogger(__name__)


class PreviewFault(Exception):
    """A request's output session failed: nothing of the round can be kept.

    Attributes:
        request: Whose it is.
        error: What ends that request.
    """

    def __init__(self, request: Request, fault: Exception) -> None:
        super().__init__("a request's output session failed")
        self.request = request
        self.error = integrity_error(fault)


@frozen
class Outcome:
    """What becomes of one row: tokens to commit, or why its request ends without any.

    Attributes:
        preview: What its session makes of the tokens, unless the request ends.
        cancelled: Whether it was cancelled meanwhile.
        error: Why it fails.
    """

    preview: Preview | None = None
    cancelled: bool = False
    error: InfernixError | None = None

    @property
    def count(self) -> int:
        """Tokens to commit."""
        return self.preview.accepted if self.preview is not None else 0


def outcome_of(request: Request, row: SampledRow, sampler: str) -> Outcome:
    """Previews one row; its session then waits for a commit or a discard.

    Args:
        request: The row's.
        row: What the sampler gave.
        sampler: What messages call the sampler.

    Raises:
        PreviewFault: The session failed.
    """
    if request.cancelled.is_set():
        return Outcome(cancelled=True)
    if row.failure is not None:
        return Outcome(error=_failure(row.failure))
    if request.options.constraint_stats and len(row.kept_mass) != len(row.tokens):
        # Its tokens are good, so nobody else is touched; but a report without it would look whole.
        error = IntegrityError(
            f"{sampler} gives {len(row.kept_mass)} kept masses for "
            f"{len(row.tokens)} tokens, though they are asked for"
        )
        _log.error("a request's statistics cannot be given: %s", error)
        return Outcome(error=error)
    try:
        return Outcome(request.session.preview(row.tokens))
    except Exception as fault:
        _log.exception("a request's output session failed")
        raise PreviewFault(request, fault) from fault


def _failure(failure: PendingRowFailure) -> InfernixError:
    if failure is PendingRowFailure.DEAD_END:
        return ConstraintDeadEnd(
            "the constraint leaves no legal next token here",
            hint="the text so far is a prefix that the vocabulary cannot continue",
        )
    return NonFiniteLogits("the model's logits leave no finite selection")
