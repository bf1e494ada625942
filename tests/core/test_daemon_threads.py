"""Threads that hold up no exit."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from infernix_core.engine.daemon_threads import DaemonThreads


def test_work_is_done_on_as_many_threads_as_are_needed_at_most() -> None:
    threads = DaemonThreads(3, "t")
    barrier, names = threading.Barrier(3), set()

    def work(number: int) -> int:
        barrier.wait(10)
        names.add(threading.current_thread().name)
        return number

    futures = [threads.submit(work, number) for number in range(9)]
    assert [future.result(10) for future in futures] == list(range(9))
    assert len(names) == 3
    threads.shutdown()
    with pytest.raises(RuntimeError):
        threads.submit(work, 1)


def test_errors_come_out_and_the_thread_goes_on() -> None:
    threads = DaemonThreads(1, "t")
    with pytest.raises(ZeroDivisionError):
        threads.submit(lambda: 1 / 0).result(10)
    assert threads.submit(threading.current_thread).result(10).name == "t-1"


def test_what_nobody_has_begun_is_cancelled_and_what_runs_is_not_waited_for() -> None:
    threads, go, begun = DaemonThreads(1, "t"), threading.Event(), threading.Event()

    def work() -> str:
        begun.set()
        assert go.wait(10)
        return "done"

    first, second = threads.submit(work), threads.submit(work)
    assert begun.wait(10)
    assert threads.busy
    threads.shutdown()
    assert second.cancelled()
    go.set()
    assert first.result(10) == "done"


def test_the_process_ends_while_they_work() -> None:
    program = (
        "import time; from infernix_core.engine.daemon_threads import DaemonThreads; "
        "DaemonThreads(1, 't').submit(time.sleep, 600); time.sleep(0.1); print('end')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, b"end\n")
