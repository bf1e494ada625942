"""The program, run in the test's process."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen


@frozen
class Outcome:
    """What a command gave."""

    code: int
    out: str
    err: str


Infernix = Callable[..., Outcome]


def assert_one_line(result: Outcome, expected: str) -> None:
    """The command said in one line what is wrong."""
    assert result.out == ""
    lines = [line for line in result.err.split("\n") if line]
    assert len(lines) == 1, result.err
    assert "error: " in lines[0]
    assert expected in lines[0], lines[0]
