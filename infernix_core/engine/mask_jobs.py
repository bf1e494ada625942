"""Masks that may take long, off the worker's thread: nobody else waits for them.

What a grammar makes of a vocabulary cannot be bounded beforehand, and a native library cannot be interrupted. So
the worker waits for a mask for a moment only. One that takes longer goes on by itself, and its request joins the
rounds again when it is done.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

from attrs import define, field

from infernix_core.interfaces.sampling import MaskState

#: Seconds that a round waits for one row's masks. Ordinary ones take microseconds.
PATIENCE = 0.05

States = tuple[MaskState, ...]


@define(eq=False)
class MaskJob:
    """One row's masks in the making.

    Attributes:
        fill: Makes them, telling of each that is written; returns the columns' states.
        timeout: Seconds that one of them may take; ``None`` for ever.
        deadline: When the present one takes too long, on the monotonic clock; ``None`` never.
        filled: States of the columns whose masks are written.
        states: Once it is done, unless it failed.
        fault: Why it failed.
        cpu_seconds: What it took of its thread, once it is done.
    """

    fill: Callable[[Callable[[MaskState], None]], States]
    timeout: float | None = None
    deadline: float | None = field(default=None, init=False)
    filled: list[MaskState] = field(factory=list, init=False)
    states: States | None = None
    fault: Exception | None = None
    cpu_seconds: float = 0.0
    _over: threading.Lock = field(factory=threading.Lock, init=False)
    _handover: threading.Lock = field(factory=threading.Lock, init=False)
    _late: Callable[[], None] | None = field(default=None, init=False)
    _done: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._over.acquire()
        self._renew()

    def _renew(self) -> None:
        if self.timeout is not None:
            self.deadline = time.monotonic() + self.timeout

    def _one(self, state: MaskState) -> None:
        self.filled.append(state)
        self._renew()

    def run(self) -> None:
        """On the mask thread."""
        before = time.thread_time()
        try:
            self.states = self.fill(self._one)
        except Exception as fault:
            self.fault = fault
        self.cpu_seconds = time.thread_time() - before
        with self._handover:
            self._done = True
            late = self._late
        self._over.release()
        if late is not None:
            late()

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._done

    def overdue(self, now: float) -> bool:
        """Whether one of its masks takes, or has taken, too long."""
        return self.deadline is not None and now >= self.deadline

    def wait(self, seconds: float) -> bool:
        """Whether it ends within so many seconds."""
        return self._over.acquire(timeout=seconds)

    def leave(self, late: Callable[[], None]) -> bool:
        """Goes on without waiting: ``late`` is called when it ends. False when it has ended just now."""
        with self._handover:
            if self._done:
                return False
            self._late = late
            return True


@define(eq=False)
class MaskThreads:
    """A thread that makes masks, and a new one whenever it is kept busy by one that takes long.

    Args:
        late: Called when a job ends that was not waited for.
        timeout: Seconds that one mask may take; ``None`` waits for ever.
    """

    late: Callable[[], None]
    timeout: float | None = None
    _jobs: queue.SimpleQueue[MaskJob | None] | None = field(default=None, init=False)

    def run(self, fill: Callable[[Callable[[MaskState], None]], States]) -> MaskJob:
        """Runs a job and waits for it a moment; it may not be done yet, and ``late`` tells when it is.

        Only the worker's thread calls this.
        """
        if self._jobs is None:
            self._jobs = queue.SimpleQueue()
            threading.Thread(
                target=_serve, args=(self._jobs,), name="infernix-masks", daemon=True
            ).start()
        job = MaskJob(fill, self.timeout)
        self._jobs.put(job)
        if not job.wait(PATIENCE) and job.leave(self.late):
            # That thread ends with this job; the next one gets its own.
            self._jobs.put(None)
            self._jobs = None
        return job

    def close(self) -> None:
        """Lets the thread end."""
        if self._jobs is not None:
            self._jobs.put(None)
            self._jobs = None


def _serve(jobs: queue.SimpleQueue[MaskJob | None]) -> None:
    while (job := jobs.get()) is not None:
        job.run()
        del job  # an idle thread keeps nothing of its last one alive: its request, its matcher
