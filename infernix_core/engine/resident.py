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

from infernix_core.engine.mask_jobs import MaskJob, MaskThreads, States
from infernix_core.engine.masks import fill_columns
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
from infernix_core.engine.session import OutputSession
from infernix_core.errors import InfernixError, IntegrityError
from infernix_core.interfaces.frontend import Channel, Piece, PreparedPrompt, Segment, StartPhase
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.sampling import MaskState, SamplingConfig
from infernix_core.interfaces.speculative import RowStatistics


class Stage(enum.Enum):
    """Where a request is in its life.

    Attributes:
        WAITING: For a lane.
        PREFILL: Its prompt is being executed.
        FIRST: Its first token is to be chosen.
        DECODE: It takes part in rounds.
        MASK: Its masks take long; it takes part again when they are made.
        FINISHED: Its end was published.
    """

    WAITING = "waiting"
    PREFILL = "prefill"
    FIRST = "first token"
    DECODE = "decode"
    MASK = "mask"
    FINISHED = "finished"


@define(eq=False)
class KeptMass:
    """What a constraint left of the model's probability, over the output tokens that it was measured at."""

    tokens: int = 0
    total: float = 0.0
    minimum: float = 1.0
    below_tenth: int = 0

    def observe(self, masses: Sequence[float]) -> None:
        """Adds the measurements of one committed round; none when they are not asked for."""
        for mass in masses:
            self.tokens += 1
            self.total += mass
            self.minimum = min(self.minimum, mass)
            self.below_tenth += mass < 0.1


@define(eq=False)
class ConstraintWork:
    """What a constraint cost one request. Rolled-back lookahead is work done and stays counted."""

    language: Language
    kind: str
    cache: str
    preparation_cpu_seconds: float
    notes: tuple[str, ...] = ()
    positions: int = 0
    pending_mask_bytes: int = 0
    mask_bytes: int = 0
    mask_cpu_seconds: float = 0.0
    kept_mass: KeptMass = field(factory=KeptMass)


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
    statistics: RowStatistics = field(factory=RowStatistics)
    queued: float = 0.0
    admitted: float | None = None
    first_token: float | None = None
    texts: dict[Channel, list[str]] = field(factory=lambda: {channel: [] for channel in Channel})

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
        elif matcher.ready and not drafts:
            states = fill_columns(matcher, drafts, columns)
            work.positions += 1
        else:
            # Into rows of its own: a round that does not wait any longer uses the columns for others.
            rows = np.empty((len(drafts) + 1, columns.shape[1]), dtype=np.int32)
            fixed = tuple(drafts)
            job = threads.run(lambda: fill_columns(matcher, fixed, rows))
            if not job.done:
                raise MaskPending(self, PendingMask(job, rows))
            states = self._taken(job)
            columns[: len(rows)] = rows
        built = sum(state is MaskState.READY for state in states)
        work.pending_mask_bytes = columns[0].nbytes * built
        work.mask_cpu_seconds += time.thread_time() - started
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

    def observe(self, *, drafted: int, accepted: int, kept_mass: Sequence[float]) -> None:
        """Counts one committed round."""
        self.statistics = RowStatistics(
            self.statistics.rounds + 1,
            self.statistics.drafted + drafted,
            self.statistics.accepted + accepted,
        )
        if self.work is None:
            return
        self.work.mask_bytes += self.work.pending_mask_bytes
        self.work.kept_mass.observe(kept_mass)

    def publish(self, pieces: Sequence[Piece]) -> None:
        """Publishes committed text and calls."""
        for piece in pieces:
            if not isinstance(piece, Segment):
                self.handle.publish(piece)
                continue
            self.texts[piece.channel].append(piece.text)
            self.handle.publish(TextDelta(piece.channel, piece.text, len(self.session.tokens)))

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
                    text="".join(self.texts[Channel.CONTENT]),
                    reasoning="".join(self.texts[Channel.REASONING]),
                    finish_reason=reason,
                    token_ids=tuple(self.session.tokens),
                    seed=self.config.seed,
                    usage=Usage(
                        prompt_tokens=self.prompt_length,
                        completion_tokens=len(self.session.tokens),
                        rounds=self.statistics.rounds,
                        drafted_tokens=self.statistics.drafted,
                        accepted_tokens=self.statistics.accepted,
                    ),
                    timings=self._timings(),
                    stop=stop,
                    constraint=report,
                    error=report_error(error) if error is not None else None,
                )
            )
        )

    def _timings(self) -> Timings:
        now = time.monotonic()
        timings = Timings(preparation=self.queued - self.submitted, total=now - self.submitted)
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
        tokens = len(self.session.tokens)
        # A raw prompt's output is content from its first token; others label where theirs begins.
        raw = self.prompt.phase is StartPhase.RAW
        kept = work.kept_mass
        labels = ("content",) if raw else matcher.labels()
        return ConstraintReport(
            kind=work.kind,
            branch=(*labels, "undecided")[0] if tokens else "undecided",
            # An empty output is never called a complete one: nothing was generated that could be.
            complete=bool(tokens) and (matcher.terminated or matcher.may_end),
            terminated=matcher.terminated,
            cache=work.cache,
            notes=work.notes,
            positions=work.positions,
            mask_bytes=work.mask_bytes,
            preparation_cpu_seconds=work.preparation_cpu_seconds,
            mask_cpu_seconds=work.mask_cpu_seconds,
            accept_cpu_seconds=self.session.accept_cpu_seconds,
            kept_mass=kept.total / kept.tokens if kept.tokens else None,
            kept_mass_minimum=kept.minimum if kept.tokens else None,
            kept_mass_below_tenth=kept.below_tenth if kept.tokens else None,
        )


def integrity_error(fault: BaseException) -> IntegrityError:
    """A fault of the program or of a plugin; never dressed up as an error of the user's."""
    if isinstance(fault, IntegrityError):
        return fault
    error = IntegrityError(f"{type(fault).__name__}: {fault}")
    error.__cause__ = fault
    return error
