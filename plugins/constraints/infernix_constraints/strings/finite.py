"""Automata of finite languages, from states and steps of any kind to the canonical form."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

import numpy as np

from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.limits import check_raw_size, check_size

StateT = TypeVar("StateT", bound=Hashable)


class Rows:
    """Numbered states over an alphabet of a few characters. State 0 is dead.

    There are at most ``MAX_RAW_STATES``.

    Attributes:
        targets: Per state, the state after each character of the alphabet.
        final: Per state, whether a text may end in it.
    """

    def __init__(self, width: int) -> None:
        self.targets: list[tuple[int, ...]] = [(0,) * width]
        self.final = [False]
        self._unions: dict[tuple[int, ...], int] = {}

    def explore(
        self,
        start: StateT,
        step: Callable[[StateT], tuple[Sequence[StateT | None], bool]],
        known: dict[StateT, int] | None = None,
    ) -> int:
        """Adds what can be reached from a start, and returns the start's number.

        Args:
            start: The first state.
            step: The states after each character, None where no text goes on like that, and whether a text
                may end here.
            known: Numbers of states that were explored before, with steps that agree on them; grows.

        Raises:
            TooManyStates: There are more than ``MAX_RAW_STATES``.
        """
        index = {} if known is None else known
        if start in index:
            return index[start]
        first = index[start] = len(self.targets)
        order = [start]
        for state in order:  # grows while it is read
            row, final = step(state)
            numbers = []
            for target in row:
                if target is None:
                    numbers.append(0)
                    continue
                number = index.get(target)
                if number is None:
                    number = index[target] = first + len(order)
                    order.append(target)
                numbers.append(number)
            self.add(tuple(numbers), final)
        return first

    def union(self, starts: Iterable[int]) -> int:
        """Adds the texts of several states as those of one, and returns its number.

        Raises:
            TooManyStates: That makes more than ``MAX_RAW_STATES``.
        """
        begin = tuple(start for start in starts if start)
        if len(begin) < 2:
            return begin[0] if begin else 0
        index = self._unions
        if begin in index:
            return index[begin]
        first = index[begin] = len(self.targets)
        order = [begin]
        for states in order:  # grows while it is read
            row = []
            for targets in zip(*[self.targets[state] for state in states], strict=True):
                live = tuple(filter(None, targets))
                if len(live) < 2:  # that state is there already
                    row.append(live[0] if live else 0)
                    continue
                number = index.get(live)
                if number is None:
                    number = index[live] = first + len(order)
                    order.append(live)
                row.append(number)
            self.add(tuple(row), any(self.final[state] for state in states))
        return first

    def add(self, targets: tuple[int, ...], final: bool) -> int:
        """Adds one state and returns its number.

        Raises:
            TooManyStates: It is one too many.
        """
        self.targets.append(targets)
        self.final.append(final)
        check_raw_size(len(self.final), 1)
        return len(self.final) - 1


def finite_automaton(rows: Rows, start: int, alphabet: str) -> StringAutomaton:
    """The canonical automaton of a finite language.

    Args:
        rows: States that never come back to one another.
        start: The first.
        alphabet: The characters of the rows, ascending.

    Raises:
        TooManyStates: It has more than ``MAX_STATES``.
    """
    targets, final, first = _merged(rows, start)
    check_size(len(targets), 1)
    order = [0, first] if first else [0]
    position = {state: place for place, state in enumerate(order)}
    for state in order:  # grows while it is read
        for target in targets[state]:
            if target not in position:
                position[target] = len(order)
                order.append(target)
    table = np.array(
        [[position[target] for target in targets[state]] for state in order], dtype=np.int32
    )
    nowhere = np.zeros(len(order), dtype=np.int32)
    columns = {0: nowhere}
    for place, character in enumerate(alphabet):
        columns[ord(character)] = table[:, place]
        columns.setdefault(ord(character) + 1, nowhere)
    boundaries: list[int] = []
    kept: list[np.ndarray[tuple[int, ...], np.dtype[np.int32]]] = []
    for boundary in sorted(columns):
        column = columns[boundary]
        if not kept or not np.array_equal(kept[-1], column):
            boundaries.append(boundary)
            kept.append(column)
    canonical = np.ascontiguousarray(np.stack(kept, axis=1))
    accepting = np.array([final[state] for state in order])
    canonical.flags.writeable = accepting.flags.writeable = False
    return StringAutomaton(tuple(boundaries), canonical, accepting, 1 if first else 0)


def _merged(rows: Rows, start: int) -> tuple[list[tuple[int, ...]], list[bool], int]:
    """Merges states with equal futures, last states first, and drops those without one."""
    targets = rows.targets
    merged: list[int | None] = [None] * len(targets)
    blocks: dict[tuple[bool, tuple[int, ...]], int] = {(False, targets[0]): 0}
    merged[0] = 0
    pending = [start]
    while pending:
        state = pending[-1]
        if merged[state] is None:
            waiting = [target for target in set(targets[state]) if merged[target] is None]
            if waiting:
                pending += waiting
                continue
            row = tuple([merged[target] or 0 for target in targets[state]])
            merged[state] = blocks.setdefault((rows.final[state], row), len(blocks))
        pending.pop()
    return [row for _, row in blocks], [final for final, _ in blocks], merged[start] or 0
