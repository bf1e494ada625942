"""Keeps classes out of what xgrammar looks ahead to behind a call."""

from __future__ import annotations

from infernix_xgrammar.flat import OneOf
from infernix_xgrammar.lowered import Counted, Go, Loop, Lowered, Option


def shield_calls(lowered: Lowered) -> None:
    """Puts what follows a call into a rule of its own wherever it holds a class.

    Where a called rule is always followed by the same sequence, xgrammar decides by it which tokens may run past the
    rule's end. It compares the ends of a class's ranges there by their lowest eight bits, so that a mask both admits
    and leaves out the wrong tokens. It does not look into rules.
    """
    shields: dict[Option, int] = {}
    for number in range(len(lowered.rules)):
        lowered.rules[number] = [
            _shielded(option, lowered, shields) for option in lowered.rules[number]
        ]


def _shielded(option: Option, lowered: Lowered, shields: dict[Option, int]) -> Option:
    # From the end, so that what is moved is shielded already.
    at = len(option) - 1
    holds_class = False
    while at >= 0:
        atom = option[at]
        if isinstance(atom, Go):
            if holds_class:
                rest = option[at + 1 :]
                if rest not in shields:
                    lowered.rules.append([rest])
                    shields[rest] = len(lowered.rules) - 1
                option = (*option[: at + 1], Go(shields[rest]))
            holds_class = False
        elif isinstance(atom, OneOf | Loop | Counted):
            holds_class = True
        at -= 1
    return option
