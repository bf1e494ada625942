"""Ctrl-C. While libraries are imported and a model is loaded, an exception may be lost in foreign code."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

from infernix_core.cli import exit_codes

MESSAGE = b"infernix: interrupted\n"


def exit_at_once() -> None:
    """From now on an interrupt ends the process where it is, with one line and the exit code 130."""
    _handle(_exit)


def raise_exception() -> None:
    """From now on an interrupt raises KeyboardInterrupt, so that a running request can be cancelled."""
    _handle(signal.default_int_handler)


def _handle(handler: signal._HANDLER) -> None:
    # Only the main thread may; elsewhere the program is a guest and leaves signals alone. A process that was
    # started to ignore interrupts goes on ignoring them.
    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    ):
        signal.signal(signal.SIGINT, handler)


def _exit(number: int, frame: FrameType | None) -> None:
    os.write(2, MESSAGE)
    os._exit(exit_codes.INTERRUPTED)
