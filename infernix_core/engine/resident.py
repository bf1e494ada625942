"""A request as the worker sees it: options resolved, output session, ledger, and what it cost so far."""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Sequence

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray
from torch import Tensor

from infernix_core.engine.constraint_work import ConstraintWork
from infernix_core.engine.mask_jobs import MaskJob, MaskThreads, States
from infernix_core.engine.masks import NotReady, fill_columns
from infernix_core.engine.published import Published
from infernix_core.engine.request import (
    ConstraintReport,
    FinishReason,
    GenerationEnd,
    GenerationHandle,
    GenerationResult,
    RequestOptions,
    TextDelta,
    Timings,
    Usage,
    report_error,
)
from infernix_core.engine.session import OutputSession, Preview
from infernix_core.errors import InfernixError, IntegrityError
from infernix_core.interfaces.frontend import Channel, Piece, PreparedPrompt, Segment
from infernix_core.interfaces.sampling import MaskState, SamplingConfig
from infernix_core.interfaces.speculative import RowStatistics


class Stage(enum.Enum):
    """Where a request is in its life.

    Attributes:
        WAITING: For a lane.
        PREFILL: Its prompt is being executed.
        FIRST: Its first token is to be chosen.
        CLOSE: Its thinking budget is used up: the text that closes the reasoning is being appended.
        DECODE: It takes part in rounds.
        MASK: Its masks take long; it takes part again when they are made.
        FINISHED: Its end was published.
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    FIRST = "first token"
    CLOSE = "close"
    DECODE = "decode"
    MASK = "mask"
    FINISHED = "finished"


@frozen
class Closing:
    """The text that closes a request's reasoning, previewed by its session, on its way into the lane.

    Attributes:
        preview: What it becomes.
        tokens: Those of it that become output.
        ids: What the lane has to execute for it: the anchor, if there is one, and all of its tokens but the last.
        start: The position of the first of these.
    """

    preview: Preview
    tokens: tuple[int, ...]
    ids: tuple[int, ...]
    start: int


@frozen(eq=False)
class PendingMask:
    """Masks in the making.

    Attributes:
        job: Makes them.
        rows: int32 [columns, words]; where they go.
    """

    job: MaskJob
    rows: NDArray[np.int32]


@frozen(eq=False)
class PreparedMask:
    """A mask that was made outside a round.

    Attributes:
        position: For the output token of this index.
        row: int32 [words].
        state: READY or DEAD_END.
    """

    position: int
    row: NDArray[np.int32]
    state: MaskState


class MaskPending(Exception):
    """A row's masks take long. It says whose, and what to wait for."""

    def __init__(self, request: Request, pending: PendingMask) -> None:
        super().__init__("a row's masks take long")
        self.request = request
        self.pending = pending


@define(eq=False)
class Request:
    """One submitted request. After it is queued, only the worker changes it (but for ``cancelled``).

    Attributes:
        history: Prompt and committed output.
        hidden: The prompt's last hidden, between prefill and the first token.
        mask_job: The masks that take long, while they are made.
        prepared: The next position's mask, when it was made outside a round.
        closing: The text that closes the reasoning, while it is appended.
        appended: How many of ``closing.ids`` are executed.
    """

    prompt: PreparedPrompt
    options: RequestOptions
    config: SamplingConfig
    session: OutputSession
    handle: GenerationHandle
    work: ConstraintWork | None
    submitted: float
    deadline: float | None
    cancelled: threading.Event
    stage: Stage = Stage.WAITING
    lane: int = -1
    history: list[int] = field(init=False)
    prefilled: int = 0
    hidden: Tensor | None = None
    mask_job: PendingMask | None = None
    prepared: PreparedMask | None = None
    closing: Closing | None = None
    appended: int = 0
    statistics: RowStatistics = field(factory=RowStatistics)
    draft_seconds: float = 0.0
    queued: float = 0.0
    admitted: float | None = None
    first_token: float | None = None
    published: Published = field(factory=Published)

    def __attrs_post_init__(self) -> None:
        self.history = list(self.prompt.token_ids)

    @property
    def prompt_length(self) -> int:
        """Tokens of the prompt."""
        return len(self.prompt.token_ids)

    @property
    def prepared_here(self) -> bool:
        """Whether the next position's mask is known."""
        return self.prepared is not None and self.prepared.position == len(self.session.tokens)

    def fill_masks(
        self, drafts: Sequence[int], columns: NDArray[np.int32], threads: MaskThreads
    ) -> States:
        """Masks of this request's row; the first position's may have been made before.

        Raises:
            MaskPending: They take long; the request is to be asked again when they are done.
        """
        matcher, work = self.session.matcher, self.work
        assert matcher is not None
        assert work is not None
        started = time.thread_time()
        if self.prepared_here and not drafts:
            assert self.prepared is not None
            columns[0] = self.prepared.row
            states: States = (self.prepared.state,)
        elif not matcher.ready:
            states = self._fill_elsewhere(tuple(drafts), columns, threads)
        else:
            try:
                states = fill_columns(matcher, drafts, columns, looking_up=True)
                work.positions += sum(state is not MaskState.UNREACHABLE for state in states)
            except NotReady:
                states = self._fill_elsewhere(tuple(drafts), columns, threads)
        built = sum(state is MaskState.READY for state in states)
        work.pending_mask_bytes = columns[0].nbytes * built
        work.mask_cpu_seconds += time.thread_time() - started
        return states

    def _fill_elsewhere(
        self, drafts: tuple[int, ...], columns: NDArray[np.int32], threads: MaskThreads
    ) -> States:
        """Masks that may take long, on a thread of their own."""
        matcher = self.session.matcher
        assert matcher is not None
        # Into rows of its own: a round that does not wait any longer uses the columns for others.
        rows = np.empty((len(drafts) + 1, columns.shape[1]), dtype=np.int32)
        job = threads.run(lambda: fill_columns(matcher, drafts, rows))
        if not job.done:
            raise MaskPending(self, PendingMask(job, rows))
        states = self._taken(job)
        columns[: len(rows)] = rows
        return states

    def take_masks(self) -> None:
        """Takes the masks that took long; the first of them is what the next round needs.

        Raises:
            Exception: What the matcher raised.
        """
        assert self.mask_job is not None
        job, rows = self.mask_job.job, self.mask_job.rows
        self.mask_job = None
        states = self._taken(job)
        self.prepared = PreparedMask(len(self.session.tokens), rows[0], states[0])

    def _taken(self, job: MaskJob) -> States:
        assert self.work is not None
        self.work.mask_cpu_seconds += job.cpu_seconds
        if job.fault is not None:
            raise job.fault
        assert job.states is not None
        self.work.positions += sum(state is not MaskState.UNREACHABLE for state in job.states)
        return job.states

    def begin_close(self) -> Closing:
        """Previews the text that closes the reasoning. Its session then waits for :meth:`commit`.

        Raises:
            IntegrityError: See ``OutputSession.preview_close``.
        """
        preview = self.session.preview_close()
        tokens = self.session.early_close[: preview.accepted]
        # Right after the prompt everything is executed; later the last token, the anchor, is not.
        start = len(self.history) - bool(self.session.tokens)
        ids = (*self.history, *tokens)[start:-1]
        return Closing(preview, tokens, ids, start)

    def commit(self, tokens: Sequence[int]) -> None:
        """Confirms previewed tokens, which are durable in the lane."""
        self.session.commit()
        self.history.extend(tokens)
        if self.first_token is None:
            self.first_token, self.hidden = time.monotonic(), None
        self.stage = Stage.CLOSE if self.session.close_due else Stage.DECODE

    def observe(
        self, *, drafted: int, accepted: int, draft_seconds: float, kept_mass: Sequence[float]
    ) -> None:
        """Counts one committed round."""
        self.statistics = self.statistics.after(drafted, accepted)
        self.draft_seconds += draft_seconds
        if self.work is None:
            return
        self.work.mask_bytes += self.work.pending_mask_bytes
        self.work.kept_mass.observe(kept_mass)

    def publish(self, pieces: Sequence[Piece]) -> None:
        """Publishes committed text and calls."""
        for piece in pieces:
            self.published.add(piece)
            if isinstance(piece, Segment):
                tokens = len(self.session.tokens)
                self.handle.publish(TextDelta(piece.channel, piece.text, tokens))
            else:
                self.handle.publish(piece)

    def finish(
        self,
        reason: FinishReason,
        *,
        stop: str | int | None = None,
        error: InfernixError | None = None,
    ) -> None:
        """Publishes the end of the request. It cannot fail, whatever a plugin's matcher does."""
        self.stage = Stage.FINISHED
        try:
            # A preview is open when the engine ends between two pieces of a closing text.
            self.session.discard()
            report = self._report()
        except Exception as fault:
            report = None
            if error is None:
                reason, error = FinishReason.ERROR, integrity_error(fault)
        self.hidden = None
        self.session.release()
        self.handle.publish(
            GenerationEnd(
                GenerationResult(
                    text=self.published.text(Channel.CONTENT),
                    reasoning=self.published.text(Channel.REASONING),
                    finish_reason=reason,
                    token_ids=tuple(self.session.tokens),
                    seed=self.config.seed,
                    usage=Usage(
                        prompt_tokens=self.prompt_length,
                        completion_tokens=len(self.session.tokens),
                        rounds=self.statistics.rounds,
                        drafted_tokens=self.statistics.drafted,
                        accepted_tokens=self.statistics.accepted,
                        drafts_by_position=self.statistics.by_position,
                    ),
                    timings=self._timings(),
                    stop=stop,
                    tool_calls=self.published.calls,
                    constraint=report,
                    error=report_error(error) if error is not None else None,
                )
            )
        )

    def _timings(self) -> Timings:
        now = time.monotonic()
        timings = Timings(
            preparation=self.queued - self.submitted,
            drafts=self.draft_seconds,
            total=now - self.submitted,
        )
        admitted = self.admitted if self.admitted is not None else now
        timings = evolve(timings, queue=admitted - self.queued)
        if self.admitted is not None:
            first = self.first_token if self.first_token is not None else now
            timings = evolve(timings, prefill=first - self.admitted)
        if self.first_token is not None:
            timings = evolve(
                timings,
                decode=now - self.first_token,
                first_token=self.first_token - self.submitted,
            )
        return timings

    def _report(self) -> ConstraintReport | None:
        matcher, work = self.session.matcher, self.work
        if matcher is None or work is None or self.mask_job is not None:
            # A matcher that another thread still works with says nothing.
            return None
        return work.report(matcher, self.prompt, self.session)


def integrity_error(fault: BaseException) -> IntegrityError:
    """A fault of the program or of a plugin; never dressed up as an error of the user's."""
    if isinstance(fault, IntegrityError):
        return fault
    error = IntegrityError(f"{type(fault).__name__}: {fault}")
    error.__cause__ = fault
    return error
