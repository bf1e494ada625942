"""Work that may take long: who does it, in what order, and who gives up while waiting for it."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from attrs import define, field, frozen

from infernix_core.errors import DeadlineExceeded, RequestCancelled

#: Seconds between two looks at whether somebody who waits still wants to.
LOOK = 0.05


def never() -> bool:
    """What a request is asked that nobody can cancel before it is queued."""
    return False


@frozen(eq=False)
class Patience:
    """How long the preparation of one request may go on.

    Attributes:
        cancelled: Whether nobody wants the request any more. Asked on several threads.
        deadline: On the monotonic clock.
    """

    cancelled: Callable[[], bool] = never
    deadline: float | None = None

    def check(self) -> None:
        """Called between steps.

        Raises:
            RequestCancelled: Nobody wants the request any more.
            DeadlineExceeded: Its pending deadline has passed.
        """
        if self.cancelled():
            raise RequestCancelled("the request was cancelled while it was prepared")
        if self.deadline is not None and time.monotonic() >= self.deadline:
            raise DeadlineExceeded("the pending deadline passed during preparation")


def wait_for(event: threading.Event, check: Callable[[], None]) -> None:
    """Waits for an event, unless ``check``, which is called now and then, raises."""
    while not event.wait(LOOK):
        check()


@define(eq=False)
class Gate:
    """Lets a few through at once, the others in the order in which they came."""

    _free: int
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _waiting: deque[threading.Event] = field(factory=deque, init=False)

    @contextmanager
    def passed(self, check: Callable[[], None]) -> Iterator[None]:
        """Holds a place while the block runs; ``check`` may raise while it waits for one and when it has it."""
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                mine.set()
            else:
                self._waiting.append(mine)
        try:
            wait_for(mine, check)
            check()
            yield
        finally:
            with self._lock:
                if not mine.is_set():
                    self._waiting.remove(mine)
                elif self._waiting:
                    self._waiting.popleft().set()
                else:
                    self._free += 1
