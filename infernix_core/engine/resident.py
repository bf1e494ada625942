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
        drafts: Along which.
        rows: int32 [len(drafts) + 1, words]; where they go.
    """

    job: MaskJob
    drafts: tuple[int, ...]
    rows: NDArray[np.int32]


@frozen(eq=False)
class PreparedMasks:
    """Masks that were made outside a round.

    Attributes:
        position: The first one is for the output token of this index.
        drafts: Those behind it are for the tokens after these.
        rows: int32 [columns, words], of at most len(drafts) + 1 columns.
        states: One per column.
    """

    position: int
    drafts: tuple[int, ...]
    rows: NDArray[np.int32]
    states: States

    def fill(self, drafts: Sequence[int], columns: NDArray[np.int32]) -> States:
        """What of it holds along these drafts. Other columns are UNREACHABLE: a row then ends before them."""
        same = 0
        for known, draft in zip(self.drafts, drafts, strict=False):
            if known != draft:
                break
            same += 1
        known_states = self.states[: same + 1]
        count = len(known_states)
        columns[:count] = self.rows[:count]
        return (*known_states, *[MaskState.UNREACHABLE] * (len(drafts) + 1 - count))


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
        prepared: The next round's masks, when they were made outside of it.
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
    prepared: PreparedMasks | None = None
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
        prepared = self.prepared
        if prepared is not None and prepared.position == len(self.session.tokens):
            states: States = prepared.fill(drafts, columns)
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
        job = threads.run(lambda filled: fill_columns(matcher, drafts, rows, filled=filled))
        if not job.done:
            raise MaskPending(self, PendingMask(job, drafts, rows))
        states = self._taken(job)
        columns[: len(rows)] = rows
        return states

    def take_masks(self) -> None:
        """Takes the masks that took long, for the next round: it drafts the same, since drafts are a function of
        history and seed. A round that went on without drafts would drop drawn ones for what their masks cost.

        Raises:
            Exception: What the matcher raised.
        """
        assert self.mask_job is not None
        pending, self.mask_job = self.mask_job, None
        states = self._taken(pending.job)
        self.prepared = PreparedMasks(
            len(self.session.tokens), pending.drafts, pending.rows, states
        )

    def leave_masks(self) -> bool:
        """Gives up masks of which one takes too long, and takes those before it; False where it is the next token's.

        The thread keeps the matcher that it is busy with. Whether the mask matters is up to the next round: if it gets
        there, it is the next token's then.

        Raises:
            Exception: What a new matcher raises.
        """
        assert self.mask_job is not None
        pending = self.mask_job
        states = tuple(pending.job.filled)
        if not states:
            return False
        assert self.work is not None
        self.mask_job = None
        self.work.positions += len(states)
        self.session.leave_matcher()
        rows = pending.rows[: len(states)].copy()
        self.prepared = PreparedMasks(len(self.session.tokens), pending.drafts, rows, states)
        return True

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
