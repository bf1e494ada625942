"""What a person sees of one request: the answer as it comes, a status line, and the report.

Imports the engine's types, and with them torch; commands import this module when they run.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TextIO

from infernix_core.engine.request import (
    GenerationEnd,
    GenerationHandle,
    GenerationResult,
    TextDelta,
)
from infernix_core.interfaces.frontend import (
    Channel,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)


class Answer:
    """Prints an answer as it comes: content and calls to stdout, reasoning to stderr.

    Each call is a line of its own, a JSON object with its name and its arguments. A call that the output's end cuts
    off is an unfinished line.
    """

    def __init__(self, status: StatusLine, *, quiet: bool) -> None:
        self._status = status
        self._quiet = quiet
        self._reasoning = False
        self._last = ""

    def print(self, handle: GenerationHandle) -> GenerationResult:
        """Prints all of it. What comes to a terminal next begins a line."""
        for event in handle:
            match event:
                case TextDelta(Channel.REASONING, text):
                    self._think(text)
                case TextDelta(_, text):
                    self._write(text)
                case ToolCallStart(_, name):
                    start = "" if self._last in ("", "\n") else "\n"
                    name = json.dumps(name, ensure_ascii=False)
                    self._write(f'{start}{{"name": {name}, "arguments": ')
                case ToolCallDelta(_, arguments):
                    # As written by the model; between the parts of JSON a blank means what a line break means.
                    self._write(arguments.replace("\n", " ").replace("\r", " "))
                case ToolCallEnd():
                    self._write("}\n")
                case GenerationEnd(result):
                    self._end()
                    return result
        raise AssertionError("a handle's last event is its end")

    def _think(self, text: str) -> None:
        self._status.clear()
        if not self._quiet:
            print(text, end="", file=sys.stderr, flush=True)
            self._reasoning = True

    def _write(self, text: str) -> None:
        self._status.clear()
        self._end_reasoning()
        # Bytes, so that neither the locale nor newline translation changes the answer.
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        self._last = text[-1:]

    def _end(self) -> None:
        self._status.clear()
        self._end_reasoning()
        if self._last == "\n":
            return
        if self._quiet and sys.stdout.isatty():
            print(flush=True)
        elif not self._quiet and same_file(sys.stdout, sys.stderr):
            # The report would otherwise stand on the answer's last line.
            print(file=sys.stderr, flush=True)

    def _end_reasoning(self) -> None:
        if self._reasoning:
            print(file=sys.stderr, flush=True)
            self._reasoning = False


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
    if result.tool_calls:
        whole = sum(call.arguments_json is not None for call in result.tool_calls)
        cut = "; the last one was cut off" if whole < len(result.tool_calls) else ""
        lines.append(f"calls: {whole} complete{cut}")
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
