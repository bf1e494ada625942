"""Threads that hold up no exit of the process, for work that nothing can interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Task = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads(Executor):
    """An executor like ``ThreadPoolExecutor``, whose threads the interpreter does not wait for.

    Args:
        most: Most threads; one is started when all others are busy.
        name: Of the threads.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._lock = threading.Lock()
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._threads = 0
        self._open = 0
        self._running = 0
        self._closed = False

    @property
    def busy(self) -> bool:
        """Whether anything runs."""
        return self._running > 0

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """See ``Executor``."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads are closed")
            self._tasks.put((future, lambda: fn(*args, **kwargs)))
            self._open += 1
            if self._threads < min(self._open, self._most):
                self._threads += 1
                threading.Thread(
                    target=self._work, name=f"{self._name}-{self._threads}", daemon=True
                ).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = True) -> None:
        """Lets the threads go when they are done. What nobody has begun is cancelled; waits for nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            while not self._tasks.empty():
                if (task := self._tasks.get()) is not None:
                    task[0].cancel()
            for _ in range(self._threads):
                self._tasks.put(None)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, call = task
            with self._lock:
                self._running += 1
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(call())
                except BaseException as error:
                    future.set_exception(error)
            # An idle thread keeps nothing of its last task alive.
            del task, future, call
            with self._lock:
                self._running -= 1
                self._open -= 1
