"""The canonical minimal automaton of a deterministic one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.limits import check_size


def nothing() -> StringAutomaton:
    """The empty set of strings."""
    return _automaton((0,), np.zeros((1, 1), np.int32), np.zeros(1, np.bool_), 0)


def canonical(
    boundaries: Sequence[int],
    columns: NDArray[np.int32],
    table: NDArray[np.int32],
    accepting: NDArray[np.bool_],
    start: int,
) -> StringAutomaton:
    """The automaton of the language of a deterministic table.

    Args:
        boundaries: First code point of each interval, ascending; the first is 0.
        columns: int [intervals], the table's column for each.
        table: int32 [states, columns]. State 0 goes to itself alone. Surrogates lead to states from which
            nothing is accepted.
        accepting: bool [states]; state 0 does not accept.
        start: The state to start in.

    Raises:
        TooManyStates: The result has more than ``MAX_STATES``.
    """
    used, inverse = distinct_columns(table)
    table, columns = table[:, used], inverse[columns]
    kept = live_states(table, accepting, start)
    if not kept.size:
        return nothing()
    place = np.zeros(len(table), np.int32)
    place[kept] = np.arange(1, kept.size + 1)
    live = np.zeros((kept.size + 1, table.shape[1]), np.int32)
    live[1:] = place[table[kept]]
    labels = np.zeros(kept.size + 1, np.int32)
    labels[1:] = 1 + accepting[kept]
    blocks = equivalence(live, labels)
    member = np.zeros(blocks.max() + 1, np.int64)
    member[blocks[::-1]] = np.arange(len(blocks))[::-1]
    small = blocks[live[member]].astype(np.int32)
    check_size(len(small), 1)
    # The numbering compares intervals in ascending order, so columns must come in the order of their first one.
    order = list(dict.fromkeys(columns.tolist()))
    rank = np.zeros(table.shape[1], np.int32)
    rank[order] = np.arange(len(order))
    numbered, states = _breadth_first(small[:, order], int(blocks[place[start]]), int(blocks[0]))
    final = labels[member[states]] == 2
    # Columns that only differed in dead or equivalent states are the same now.
    used, inverse = distinct_columns(numbered)
    final_columns = inverse[rank[columns]]
    first = [0]
    for at in range(1, len(boundaries)):
        if final_columns[at] != final_columns[at - 1]:
            first.append(at)
    check_size(len(numbered), len(first))
    result = numbered[:, np.array(used)[final_columns[first]]]
    return _automaton(tuple(int(boundaries[at]) for at in first), result, final, 1)


def _automaton(
    boundaries: tuple[int, ...],
    table: NDArray[np.int32],
    accepting: NDArray[np.bool_],
    start: int,
) -> StringAutomaton:
    table = np.ascontiguousarray(table, np.int32)
    table.setflags(write=False)
    accepting.setflags(write=False)
    return StringAutomaton(boundaries, table, accepting, start)


def distinct_columns(table: NDArray[np.int32]) -> tuple[list[int], NDArray[np.int32]]:
    """The first of each set of equal columns, and for every column which of those it equals."""
    transposed = np.ascontiguousarray(table.T)
    numbers: dict[bytes, int] = {}
    used: list[int] = []
    inverse = np.zeros(len(transposed), np.int32)
    for at, column in enumerate(transposed):
        number = inverse[at] = numbers.setdefault(column.tobytes(), len(used))
        if number == len(used):
            used.append(at)
    return used, inverse


def _edges(table: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The distinct pairs of a state and a successor other than 0, sorted by the state."""
    count = len(table)
    codes = (np.arange(count, dtype=np.int64)[:, None] * count + table).ravel()
    codes = np.unique(codes[table.ravel() != 0])
    return codes // count, codes % count


def _neighbours(keys: NDArray[np.int64], values: NDArray[np.int64], count: int) -> list[list[int]]:
    order = np.argsort(keys, kind="stable")
    limits = np.searchsorted(keys[order], np.arange(count + 1)).tolist()
    flat = values[order].tolist()
    return [flat[low:high] for low, high in pairwise(limits)]


def _reach(neighbours: list[list[int]], starts: list[int]) -> NDArray[np.bool_]:
    seen = bytearray(len(neighbours))
    stack = list(starts)
    for state in stack:
        seen[state] = 1
    while stack:
        for other in neighbours[stack.pop()]:
            if not seen[other]:
                seen[other] = 1
                stack.append(other)
    return np.frombuffer(seen, np.uint8).astype(np.bool_)


def live_states(
    table: NDArray[np.int32], accepting: NDArray[np.bool_], start: int
) -> NDArray[np.int64]:
    """The states that lie on a way from the start to an accepting state, ascending."""
    sources, targets = _edges(table)
    forward = _reach(_neighbours(sources, targets, len(table)), [start])
    backward = _reach(_neighbours(targets, sources, len(table)), np.flatnonzero(accepting).tolist())
    live = forward & backward
    live[0] = False
    return np.flatnonzero(live)


def equivalence(table: NDArray[np.int32], labels: NDArray[np.int32]) -> NDArray[np.int32]:
    """The coarsest partition that keeps labels apart and is stable under the table.

    Partition refinement after Hopcroft (1971): where a block splits, its greatest part keeps the number,
    so a state changes its number O(log states) times, and only then are its predecessors looked at again.

    Args:
        table: int32 [states, columns]. State 0 goes to itself alone.
        labels: int32 [states]; no other state has the label of state 0.

    Returns:
        int32 [states], a number per state, from 0.
    """
    count, width = len(table), table.shape[1] * 4
    blocks = np.unique(labels, return_inverse=True)[1].reshape(-1).astype(np.int32)
    members: list[set[int]] = [set() for _ in range(int(blocks.max()) + 1)]
    for state, number in enumerate(blocks.tolist()):
        members[number].add(state)
    sources, targets = _edges(table)
    before = _neighbours(targets, sources, count)
    dirty = list(range(1, count))
    while dirty:
        signatures = blocks[table[dirty]].tobytes()
        parts: dict[int, dict[bytes, list[int]]] = {}
        for at, (state, number) in enumerate(zip(dirty, blocks[dirty].tolist(), strict=True)):
            signature = signatures[at * width : (at + 1) * width]
            parts.setdefault(number, {}).setdefault(signature, []).append(state)
        moved: list[int] = []
        for number, by_signature in parts.items():
            groups: list[list[int] | set[int]] = list(by_signature.values())
            total = len(members[number])
            if len(groups) == 1 and len(groups[0]) == total:
                continue
            touched = sum(map(len, groups))
            if touched < total:
                # States whose successors kept their blocks still agree with one another, and with no other.
                greatest = max(map(len, groups))
                if total - touched < greatest:
                    rest = set(members[number])
                    for group in groups:
                        rest.difference_update(group)
                    groups.append(rest)
                    groups.remove(max(groups, key=len))
            else:
                groups.remove(max(groups, key=len))
            for group in groups:
                members[number].difference_update(group)
                blocks[list(group)] = len(members)
                members.append(set(group))
                moved.extend(group)
        dirty = list({source for state in moved for source in before[state]})
    return blocks


def _breadth_first(
    table: NDArray[np.int32], start: int, dead: int
) -> tuple[NDArray[np.int32], list[int]]:
    """Renumbers: dead 0, start 1, then by first appearance. Returns the table and the old states in order."""
    rows = table.tolist()
    order = [dead, start]
    seen = {dead, start}
    at = 1
    while at < len(order):
        for state in dict.fromkeys(rows[order[at]]):
            if state not in seen:
                seen.add(state)
                order.append(state)
        at += 1
    numbers = np.zeros(len(table), np.int32)
    numbers[order] = np.arange(len(order))
    return numbers[table[order]], order
