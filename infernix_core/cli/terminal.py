"""What a person sees of one request: the answer as it comes, a status line, and the report.

Imports the engine's types, and with them torch; commands import this module when they run.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from infernix_core.engine.request import (
    GenerationEnd,
    GenerationHandle,
    GenerationResult,
    TextDelta,
)
from infernix_core.interfaces.frontend import Channel


def stream_answer(handle: GenerationHandle, status: StatusLine, *, quiet: bool) -> GenerationResult:
    """Prints deltas as they come: content to stdout, reasoning to stderr."""
    reasoning = False
    written = ""
    for event in handle:
        if isinstance(event, TextDelta):
            status.clear()
            if event.channel is Channel.REASONING:
                if not quiet:
                    print(event.text, end="", file=sys.stderr, flush=True)
                    reasoning = True
                continue
            if reasoning:
                print(file=sys.stderr, flush=True)
                reasoning = False
            # Bytes, so that neither the locale nor newline translation changes the answer.
            sys.stdout.buffer.write(event.text.encode())
            sys.stdout.buffer.flush()
            written = event.text
        elif isinstance(event, GenerationEnd):
            status.clear()
            if reasoning:
                print(file=sys.stderr, flush=True)
            elif quiet and sys.stdout.isatty() and not written.endswith("\n"):
                print(flush=True)
            return event.result
    raise AssertionError("a handle's last event is its end")


def same_file(one: TextIO, other: TextIO) -> bool:
    """Whether two streams lead to one terminal, file or pipe."""
    try:
        return os.path.sameopenfile(one.fileno(), other.fileno())
    except (OSError, ValueError):
        return False


def report_lines(result: GenerationResult) -> list[str]:
    """The report of one result, for people."""
    usage, timings = result.usage, result.timings
    rate = (usage.completion_tokens - 1) / timings.decode if timings.decode > 0 else 0.0
    lines = [
        f"finish: {result.finish_reason.value}"
        + (f" at {result.stop!r}" if result.stop is not None else "")
        + f"; seed {result.seed}",
        f"prompt: {usage.prompt_tokens} tokens in {timings.prefill:.3f} s; output: "
        f"{usage.completion_tokens} tokens in {timings.decode:.3f} s ({rate:.1f} tokens/s)",
    ]
    if usage.drafted_tokens:
        share = usage.accepted_tokens / usage.drafted_tokens
        lines.append(
            f"drafts: {usage.accepted_tokens} of {usage.drafted_tokens} accepted ({share:.0%}) "
            f"in {usage.rounds} rounds"
        )
    report = result.constraint
    if report is not None:
        kept = ""
        if report.kept_mass is not None:
            kept = (
                f"; kept mass mean {report.kept_mass:.3f}, least {report.kept_mass_minimum:.3g}, "
                f"below 0.1 at {report.kept_mass_below_tenth} of {usage.completion_tokens} tokens"
            )
        lines.append(
            f"constraint: {report.kind}, {'complete' if report.complete else 'incomplete'}, "
            f"{'terminated' if report.terminated else 'not terminated'}; grammar {report.cache} in "
            f"{report.preparation_cpu_seconds:.3f} CPU s; masks {report.positions} in "
            f"{report.mask_cpu_seconds:.3f} CPU s{kept}"
        )
        lines += [f"note: {note}" for note in report.notes]
    return lines


class StatusLine:
    """A transient line on a terminal; nothing when stderr is redirected.

    It is cleared once, before the first output: clearing a line that holds the answer would erase it.
    """

    def __init__(self) -> None:
        self._shown = False

    def show(self, text: str) -> None:
        """Replaces the line."""
        if sys.stderr.isatty():
            print(f"\r\x1b[2K{text}", end="", file=sys.stderr, flush=True)
            self._shown = True

    def clear(self) -> None:
        """Removes the line, if there is one."""
        if self._shown:
            print("\r\x1b[2K", end="", file=sys.stderr, flush=True)
            self._shown = False
