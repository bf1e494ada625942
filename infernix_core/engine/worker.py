"""The worker: one thread, the only mutator of requests, lanes and model state."""

from __future__ import annotations

import logging
import threading
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence

from infernix_core.engine.mask_jobs import MaskThreads
from infernix_core.engine.outcomes import PreviewFault, outcome_of
from infernix_core.engine.program import Program
from infernix_core.engine.request import FinishReason, GenerationStart
from infernix_core.engine.resident import MaskPending, Request, Stage, integrity_error
from infernix_core.engine.round_masks import RoundMasks, RowFault
from infernix_core.engine.rounds import DecodeRow, PendingBatch, RoundFault
from infernix_core.engine.scheduler import (
    CloseUnit,
    DecodeUnit,
    FirstTokenUnit,
    PrefillUnit,
    Scheduler,
    Unit,
)
from infernix_core.engine.session import Preview
from infernix_core.errors import (
    ConstraintTooSlow,
    DeadlineExceeded,
    EngineUnavailable,
    InfernixError,
)
from infernix_core.interfaces.speculative import DraftPolicy

_log = logging.getLogger(__name__)

#: Callers pass this on to strangers, so the fault's own words are in the log and the error's cause alone.
STOPPED = "the engine has stopped after an internal fault, which its log tells"


class Worker:
    """Runs units until closed.

    Args:
        program: Model state and units.
        scheduler: Chooses units.
        policy: Chooses draft widths.
        finished: Called, on the worker's thread, for each request that has ended.
        mask_timeout: Seconds that one mask may take; ``None`` waits for ever.
    """

    def __init__(
        self,
        program: Program,
        scheduler: Scheduler,
        policy: DraftPolicy,
        finished: Callable[[Request], None],
        *,
        mask_timeout: float | None = None,
    ) -> None:
        self._program = program
        self._scheduler = scheduler
        self._policy = policy
        self._finished = finished
        self._mask_threads = MaskThreads(self.wake, mask_timeout)
        self._wake = threading.Condition()
        self._waiting: deque[Request] = deque()
        self._residents: list[Request] = []
        self._free = list(range(program.lanes))
        self._failure: InfernixError | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="infernix-worker", daemon=True)
        self._thread.start()

    def submit(self, request: Request) -> None:
        """Queues a prepared request.

        Raises:
            EngineUnavailable: The worker is closed or has failed.
        """
        with self._wake:
            self.require_available()
            request.queued = time.monotonic()
            self._waiting.append(request)
            self._wake.notify()

    def require_available(self) -> None:
        """Raises EngineUnavailable when no work is accepted any more."""
        if self._failure is not None:
            raise EngineUnavailable(STOPPED) from self._failure
        if self._closing:
            raise EngineUnavailable("the engine is closed")

    def wake(self) -> None:
        """Lets the worker look for cancelled requests."""
        with self._wake:
            self._wake.notify()

    def close(self, timeout: float | None = None) -> bool:
        """Cancels everything and joins the thread, for so many seconds at most. Idempotent.

        Returns:
            Whether the thread has ended.
        """
        with self._wake:
            self._closing = True
            self._wake.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while self._wait():
                self._step()
        except BaseException as error:
            _log.exception("the engine stops")
            with self._wake:
                self._failure = integrity_error(error)
        finally:
            self._mask_threads.close()
            self._end_all()

    def _step(self) -> None:
        """Admits and runs one unit. A fault that can be laid at a request's door ends that request alone."""
        self._admit()
        self._resume()
        unit = self._scheduler.next(self._residents)
        if unit is None:
            return
        try:
            self._execute(unit)
        except MaskPending as pending:
            # Nothing of the unit was committed: the other rows run again, to the same tokens.
            pending.request.mask_job = pending.pending
            pending.request.stage = Stage.MASK
        except RowFault as fault:
            _log.exception("a request's matcher failed")
            self._end(fault.request, FinishReason.ERROR, error=fault)
        except RoundFault as fault:
            _log.exception("a drafter failed")
            for request in unit.requests:
                self._end(request, FinishReason.ERROR, error=fault)

    def _wait(self) -> bool:
        """Sleeps until there is work; False when closing. Drops waiting requests that are over."""
        with self._wake:
            while not self._closing:
                now = time.monotonic()
                for request in [r for r in self._waiting if self._over(r, now)]:
                    self._waiting.remove(request)
                    self._end_waiting(request, now)
                if (self._waiting and self._free) or any(
                    self._wants_a_look(request, now) for request in self._residents
                ):
                    return True
                self._wake.wait(self._next_timeout(now))
            return False

    @staticmethod
    def _wants_a_look(request: Request, now: float) -> bool:
        """Whether a resident request can go on or is to end; one whose masks are being made waits."""
        if request.mask_job is None:
            return True
        job = request.mask_job.job
        return job.done or job.overdue(now) or request.cancelled.is_set()

    def _next_timeout(self, now: float) -> float | None:
        """Seconds until the first mask has taken, or the first request has waited, too long."""
        deadlines = [request.deadline for request in self._waiting]
        deadlines += [one.mask_job.job.deadline for one in self._residents if one.mask_job]
        ends = [deadline for deadline in deadlines if deadline is not None]
        return max(min(ends) - now, 0.0) if ends else None

    def _resume(self) -> None:
        """Takes the masks that took long, and ends the requests whose masks take too long."""
        now = time.monotonic()
        for request in [each for each in self._residents if each.stage is Stage.MASK]:
            assert request.mask_job is not None
            if request.cancelled.is_set():
                self._end(request, FinishReason.CANCELLED)
            elif request.mask_job.job.done or request.mask_job.job.overdue(now):
                self._resume_with_masks(request)

    def _resume_with_masks(self, request: Request) -> None:
        """Lets a request go on with its masks, or with those before the one that takes too long."""
        assert request.mask_job is not None
        try:
            if request.mask_job.job.done:
                request.take_masks()
            elif not request.leave_masks():
                error = ConstraintTooSlow(
                    f"one mask of the constraint takes more than {self._mask_threads.timeout} s",
                    hint="a simpler constraint; repetitions inside repetitions are the usual cause",
                )
                self._end(request, FinishReason.ERROR, error=error)
                return
        except Exception as fault:
            _log.exception("a request's matcher failed")
            self._end(request, FinishReason.ERROR, error=RowFault(request, fault))
            return
        request.stage = Stage.FIRST if request.hidden is not None else Stage.DECODE

    @staticmethod
    def _over(request: Request, now: float) -> bool:
        late = request.deadline is not None and now >= request.deadline
        return late or request.cancelled.is_set()

    def _end_waiting(self, request: Request, now: float) -> None:
        self._finished(request)
        if request.cancelled.is_set():
            request.finish(FinishReason.CANCELLED)
        else:
            waited = now - request.submitted
            error = DeadlineExceeded(f"no lane was free within {waited:.1f} s")
            request.finish(FinishReason.ERROR, error=error)

    def _admit(self) -> None:
        while self._free:
            with self._wake:
                if not self._waiting:
                    return
                request = self._waiting.popleft()
            request.lane = self._free.pop(0)
            request.admitted = time.monotonic()
            request.stage = Stage.PREFILL
            self._residents.append(request)
            self._program.admit(request.lane)
            request.handle.publish(GenerationStart(request.prompt_length))

    def _execute(self, unit: Unit) -> None:
        match unit:
            case PrefillUnit(request, start, stop):
                if request.cancelled.is_set():
                    self._end(request, FinishReason.CANCELLED)
                    return
                ids = request.prompt.token_ids[start:stop]
                try:
                    hidden = self._program.prefill(request.lane, ids, start)
                except Exception as fault:
                    # Nothing but this lane was touched.
                    _log.exception("a prompt cannot be executed")
                    self._end(request, FinishReason.ERROR, error=integrity_error(fault))
                    return
                request.prefilled = stop
                if stop == request.prompt_length:
                    if request.session.close_due:
                        # The close comes before the first token, which is then no longer chosen from this hidden.
                        request.stage = Stage.CLOSE
                    else:
                        request.hidden, request.stage = hidden, Stage.FIRST
            case FirstTokenUnit(request):
                row = self._row(request, 0)
                assert request.hidden is not None
                pending = self._program.first(
                    row, request.hidden, RoundMasks((request,), self._mask_threads)
                )
                self._settle((request,), pending)
            case CloseUnit(request):
                self._close(request)
            case DecodeUnit(ready):
                # By lane, so that the state of a full batch is one piece of memory.
                requests = sorted(ready, key=lambda request: request.lane)
                limits = [self._draft_limit(request) for request in requests]
                statistics = [request.statistics for request in requests]
                widths = self._policy.plan(limits, statistics)
                rows = [
                    self._row(request, max(0, min(width, limit)))
                    for request, width, limit in zip(requests, widths, limits, strict=True)
                ]
                pending = self._program.decode(rows, RoundMasks(requests, self._mask_threads))
                self._settle(requests, pending)

    def _close(self, request: Request) -> None:
        """Executes a piece of the text that closes a request's reasoning; with the last one it becomes output.

        Nothing but the request's own lane is touched, so whatever fails ends it alone.
        """
        if request.cancelled.is_set():
            self._end(request, FinishReason.CANCELLED)
            return
        try:
            closing = request.closing = request.closing or request.begin_close()
            done = request.appended
            if piece := closing.ids[done : done + self._program.width]:
                self._program.append(request.lane, piece, closing.start + done)
                request.appended += len(piece)
            if request.appended < len(closing.ids):
                return
            self._program.count(request.lane, request.config, closing.tokens)
        except Exception as fault:
            _log.exception("a request's reasoning cannot be closed")
            self._end(request, FinishReason.ERROR, error=integrity_error(fault))
            return
        request.closing, request.appended = None, 0
        request.commit(closing.tokens)
        self._publish(request, closing.preview)

    def _row(self, request: Request, drafts: int) -> DecodeRow:
        return DecodeRow(
            lane=request.lane,
            history=request.history,
            prompt_length=request.prompt_length,
            config=request.config,
            constrained=request.session.matcher is not None,
            draft_limit=drafts,
            kept_mass=request.options.constraint_stats,
        )

    def _draft_limit(self, request: Request) -> int:
        """Drafts that could still become output: one token of the room is the correction or the bonus."""
        limit = min(request.session.room - 1, self._program.width - 1)
        if request.options.draft_limit is not None:
            limit = min(limit, request.options.draft_limit)
        return max(limit, 0)

    def _settle(self, requests: Sequence[Request], pending: PendingBatch) -> None:
        """Previews every row, commits all of them or none, then confirms and publishes."""
        try:
            outcomes = [
                outcome_of(request, row, self._program.sampler)
                for request, row in zip(requests, pending.sampled, strict=True)
            ]
        except PreviewFault as fault:
            # Nothing of the round is kept: the other rows run again, to the same tokens.
            for request in requests:
                request.session.discard()
            self._program.abort(pending)
            self._end(fault.request, FinishReason.ERROR, error=fault.error)
            return
        try:
            self._program.commit(pending, [outcome.count for outcome in outcomes])
        except BaseException:
            for request in requests:
                request.session.discard()
            raise
        for index, (request, outcome) in enumerate(zip(requests, outcomes, strict=True)):
            if outcome.preview is None:
                continue
            row = pending.sampled[index]
            request.commit(row.tokens[: outcome.count])
            request.observe(
                drafted=pending.extents[index],
                accepted=min(row.accepted, outcome.count),
                draft_seconds=pending.draft_seconds,
                kept_mass=row.kept_mass[: outcome.count],
            )
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome.cancelled:
                self._end(request, FinishReason.CANCELLED)
            elif outcome.error is not None:
                self._end(request, FinishReason.ERROR, error=outcome.error)
            elif outcome.preview is not None:
                self._publish(request, outcome.preview)

    def _publish(self, request: Request, preview: Preview) -> None:
        """What was committed is told, and ends the request where it ends the output."""
        request.publish(preview.pieces)
        if preview.finish is not None:
            self._end(request, preview.finish, stop=preview.stop)

    def _end(
        self,
        request: Request,
        reason: FinishReason,
        *,
        stop: str | int | None = None,
        error: InfernixError | None = None,
    ) -> None:
        """Ends a resident request and frees its lane."""
        if reason in (FinishReason.CANCELLED, FinishReason.ERROR):
            request.publish(request.session.close())
        self._residents.remove(request)
        insort(self._free, request.lane)
        # First the slot, then the news: who reads the end may submit at once. The news comes whatever
        # a drafter makes of the release.
        try:
            self._program.release(request.lane)
        finally:
            self._finished(request)
            request.finish(reason, stop=stop, error=error)

    def _end_all(self) -> None:
        """Ends every request when the worker stops, cleanly or not."""
        with self._wake:
            self._closing = True
            requests = [*self._residents, *self._waiting]
            self._residents.clear()
            self._waiting.clear()
            failure = self._failure
        for request in requests:
            self._finished(request)
            if failure is None:
                request.finish(FinishReason.CANCELLED)
            else:
                error = EngineUnavailable(STOPPED)
                error.__cause__ = failure
                request.finish(FinishReason.ERROR, error=error)
