"""Set operations on languages of strings."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import Final, TypeVar

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from infernix_constraints.grammar import SURROGATES
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.limits import TooManyParts, TooManyStates, check_raw_size
from infernix_constraints.strings.minimal import canonical, distinct_columns, equivalence, nothing

#: Pairs of a product that are looked at together.
_AT_ONCE: Final = 4096
#: Cells of a partition's common table, once per part: a few seconds' work.
_MAX_PARTED_CELLS: Final = 1 << 21

_State = TypeVar("_State", bound=Hashable)


@cache
def everything() -> StringAutomaton:
    """Every string of Unicode scalar values."""
    return canonical(
        (0, SURROGATES[0], SURROGATES[1] + 1),
        np.array([0, 1, 0], np.int32),
        np.array([[0, 0], [1, 0]], np.int32),
        np.array([False, True]),
        1,
    )


def from_function(
    boundaries: Sequence[int],
    start: _State,
    step: Callable[[_State, int], _State | None],
    accepts: Callable[[_State], bool],
) -> StringAutomaton:
    """The language of a deterministic automaton that is given as functions.

    Args:
        boundaries: First code point of each class, ascending; the first is 0. Surrogates need not be apart.
        start: The state to start in.
        step: The state after a character, given as the first of its class; None when nothing follows.
        accepts: Whether a string may end in a state.

    Raises:
        TooManyStates: It is too large.
    """
    points = sorted({*boundaries, SURROGATES[0], SURROGATES[1] + 1})
    places = np.searchsorted(np.array(boundaries), points, side="right") - 1
    numbers: dict[_State, int] = {start: 1}
    order = [start]
    rows: list[list[int]] = []
    while len(rows) < len(order):
        row = []
        for character in boundaries:
            after = step(order[len(rows)], character)
            if after is None:
                row.append(0)
                continue
            number = numbers.setdefault(after, len(order) + 1)
            if number > len(order):
                order.append(after)
                check_raw_size(number, len(boundaries))
            row.append(number)
        rows.append(row)
    width = len(boundaries)
    table = np.zeros((len(rows) + 1, width + 1), np.int32)
    table[1:, :width] = rows
    columns = np.where(np.array(points) == SURROGATES[0], width, places).astype(np.int32)
    return canonical(
        points, columns, table, np.array([False, *(accepts(state) for state in order)]), 1
    )


@frozen
class _Product:
    """Reachable pairs of states of two machines; pair 0 is dead.

    Attributes:
        left: int [pairs], the state of the first machine.
        right: int [pairs], of the second.
    """

    boundaries: tuple[int, ...]
    columns: NDArray[np.int32]
    table: NDArray[np.int32]
    left: NDArray[np.int64]
    right: NDArray[np.int64]


@frozen
class _Machine:
    """A deterministic table with intervals that share columns; as in :func:`canonical`."""

    boundaries: tuple[int, ...]
    columns: NDArray[np.int32]
    table: NDArray[np.int32]
    start: int

    @classmethod
    def of(cls, automaton: StringAutomaton) -> _Machine:
        used, columns = distinct_columns(automaton.table)
        return cls(automaton.boundaries, columns, automaton.table[:, used], automaton.start)


def _product(
    first: _Machine,
    second: _Machine,
    dies: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
) -> _Product:
    boundaries = tuple(sorted({*first.boundaries, *second.boundaries}))
    lefts = first.columns[np.searchsorted(first.boundaries, boundaries, side="right") - 1]
    rights = second.columns[np.searchsorted(second.boundaries, boundaries, side="right") - 1]
    pairs, columns = np.unique(
        lefts.astype(np.int64) * second.table.shape[1] + rights, return_inverse=True
    )
    lefts, rights = pairs // second.table.shape[1], pairs % second.table.shape[1]
    count = len(second.table)
    numbers = {0: 0}
    order = [0]
    start = first.start * count + second.start
    if not dies(np.array([first.start]), np.array([second.start]))[0]:
        numbers[start] = 1
        order.append(start)
    rows: list[NDArray[np.int32]] = [np.zeros((1, len(pairs)), np.int32)]
    done = 1
    while done < len(order):
        todo = np.array(order[done : done + _AT_ONCE], np.int64)
        done += len(todo)
        left = first.table[todo[:, None] // count, lefts].astype(np.int64)
        right = second.table[todo[:, None] % count, rights].astype(np.int64)
        codes = np.where(dies(left, right), 0, left * count + right)
        row = np.empty(codes.size, np.int32)
        for at, code in enumerate(codes.ravel().tolist()):
            number = numbers.setdefault(code, len(order))
            if number == len(order):
                order.append(code)
            row[at] = number
        check_raw_size(len(order), len(pairs))
        rows.append(row.reshape(codes.shape))
    states = np.array(order, np.int64)
    return _Product(
        boundaries,
        columns.reshape(-1).astype(np.int32),
        np.concatenate(rows),
        states // count,
        states % count,
    )


def _combine(
    first: StringAutomaton,
    second: StringAutomaton,
    dies: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]],
    accepts: Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]],
) -> StringAutomaton:
    pairs = _product(_Machine.of(first), _Machine.of(second), dies)
    if len(pairs.table) == 1:
        return nothing()
    accepting = accepts(first.accepting[pairs.left], second.accepting[pairs.right])
    return canonical(pairs.boundaries, pairs.columns, pairs.table, accepting, 1)


def intersection(*automata: StringAutomaton) -> StringAutomaton:
    """The strings that are in all of them; without any, every string.

    Raises:
        TooManyStates: The result, or one on the way to it, is too large.
    """
    result = everything()
    for automaton in sorted(automata, key=lambda one: one.states):
        if result == everything():
            result = automaton
        elif automaton != everything():
            result = _combine(
                result, automaton, lambda a, b: (a == 0) | (b == 0), lambda a, b: a & b
            )
    return result


def union(*automata: StringAutomaton) -> StringAutomaton:
    """The strings that are in any of them.

    Raises:
        TooManyStates: As for :func:`intersection`.
    """
    result = nothing()
    for automaton in sorted(automata, key=lambda one: one.states):
        if result.empty:
            result = automaton
        elif not automaton.empty:
            result = _combine(
                result, automaton, lambda a, b: (a == 0) & (b == 0), lambda a, b: a | b
            )
    return result


def difference(first: StringAutomaton, second: StringAutomaton) -> StringAutomaton:
    """The strings of the first that are not in the second.

    Raises:
        TooManyStates: As for :func:`intersection`.
    """
    return _combine(first, second, lambda a, b: a == 0, lambda a, b: a & ~b)


def complement(automaton: StringAutomaton) -> StringAutomaton:
    """The strings that are not in it.

    Raises:
        TooManyStates: As for :func:`intersection`.
    """
    return difference(everything(), automaton)


def _places(boundaries: tuple[int, ...], points: list[int]) -> dict[int, int]:
    """The class of each of these code points."""
    return dict(
        zip(points, (np.searchsorted(boundaries, points, "right") - 1).tolist(), strict=True)
    )


def concatenation(first: StringAutomaton, second: StringAutomaton) -> StringAutomaton:
    """The strings of the first, each followed by one of the second.

    Raises:
        TooManyStates: As for :func:`intersection`.
    """
    if first.empty or second.empty:
        return nothing()
    boundaries = sorted({*first.boundaries, *second.boundaries})
    lefts = _places(first.boundaries, boundaries)
    rights = _places(second.boundaries, boundaries)

    def entered(state: int, others: frozenset[int]) -> tuple[int, frozenset[int]]:
        return state, others | {second.start} if first.accepting[state] else others

    def step(
        state: tuple[int, frozenset[int]], character: int
    ) -> tuple[int, frozenset[int]] | None:
        one = int(first.table[state[0], lefts[character]])
        others = {int(second.table[other, rights[character]]) for other in state[1]} - {0}
        return entered(one, frozenset(others)) if one or others else None

    return from_function(
        boundaries,
        entered(first.start, frozenset()),
        step,
        lambda state: any(second.accepting[other] for other in state[1]),
    )


def partition(
    automata: Sequence[StringAutomaton], limit: int | None = None
) -> tuple[tuple[frozenset[int], StringAutomaton], ...]:
    """Every string by which of the languages it is in.

    Args:
        automata: The languages.
        limit: Parts that there may be; None is any number.

    Returns:
        The sets of indices that occur, the empty one included, each with its strings; disjoint, and all
        strings together. Sorted by the indices.

    Raises:
        TooManyParts: There are more than ``limit``.
        TooManyStates: The common automaton is too large, by itself or for so many parts.
    """
    machine, labels = _Machine.of(everything()), [frozenset[int]()]
    label_of = np.array([-1, 0])
    for index, automaton in enumerate(automata):
        pairs = _product(machine, _Machine.of(automaton), lambda a, b: a == 0)
        codes = np.where(
            pairs.left == 0, -1, label_of[pairs.left] * 2 + automaton.accepting[pairs.right]
        )
        present, inverse = np.unique(codes, return_inverse=True)
        # Further languages split these parts and merge none.
        if limit is not None and len(present) - 1 > limit:
            raise TooManyParts(f"the languages have more than {limit} parts")
        blocks = equivalence(pairs.table, inverse.reshape(-1).astype(np.int32))
        # State 0 stays first: blocks are numbered by label before they split, and 0 has the least one alone.
        member = np.zeros(int(blocks.max()) + 1, np.int64)
        member[blocks[::-1]] = np.arange(len(blocks))[::-1]
        machine = _Machine(
            pairs.boundaries,
            pairs.columns,
            blocks[pairs.table[member]],
            int(blocks[1]),
        )
        labels = [
            labels[code >> 1] | ({index} if code & 1 else frozenset())
            for code in present[1:].tolist()
        ]
        label_of = inverse.reshape(-1)[member] - 1
    if len(labels) * machine.table.size > _MAX_PARTED_CELLS:
        raise TooManyStates(f"its parts have more than {_MAX_PARTED_CELLS} transitions")
    languages = [
        (
            label,
            canonical(
                machine.boundaries,
                machine.columns,
                machine.table,
                label_of == number,
                machine.start,
            ),
        )
        for number, label in enumerate(labels)
    ]
    return tuple(sorted(languages, key=lambda pair: sorted(pair[0])))
