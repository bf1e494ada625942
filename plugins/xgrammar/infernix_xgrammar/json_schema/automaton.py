"""Deterministic automata over characters, and their rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping

from attrs import frozen
from infernix_constraints.grammar import (
    CharacterClass,
    Expression,
    Reference,
    Text,
)

from infernix_xgrammar.json_schema.expressions import concat, either


@frozen
class Automaton:
    """A minimal automaton of a language that is not empty. State 0 is the start.

    Attributes:
        edges: Per state, the next state of each character that can follow.
        accepting: Per state, whether the text may end there.
    """

    edges: tuple[Mapping[str, int], ...]
    accepting: tuple[bool, ...]


def explore(
    start: Hashable,
    step: Callable[[Hashable, str], Hashable | None],
    accepts: Callable[[Hashable], bool],
    alphabet: Iterable[str],
) -> Automaton:
    """The minimal automaton of a state machine that is given as functions.

    Args:
        start: The first state.
        step: The state after one more character, or None when no text goes on like that.
        accepts: Whether a text may end in a state.
        alphabet: The characters that may occur.
    """
    alphabet = tuple(alphabet)
    index: dict[Hashable, int] = {start: 0}
    order = [start]
    edges: list[dict[str, int]] = []
    for state in order:  # grows while it is read
        row = {}
        for character in alphabet:
            target = step(state, character)
            if target is not None:
                if target not in index:
                    index[target] = len(order)
                    order.append(target)
                row[character] = index[target]
        edges.append(row)
    return _minimal(edges, [accepts(state) for state in order])


def _minimal(edges: list[dict[str, int]], accepting: list[bool]) -> Automaton:
    """Drops states without a future and merges states with equal ones (Moore's refinement)."""
    users: list[list[int]] = [[] for _ in edges]
    for state, row in enumerate(edges):
        for target in row.values():
            users[target].append(state)
    alive = set()
    pending = [state for state, final in enumerate(accepting) if final]
    while pending:
        state = pending.pop()
        if state not in alive:
            alive.add(state)
            pending += users[state]
    rows = [
        {character: target for character, target in row.items() if target in alive} for row in edges
    ]
    block = [int(final) for final in accepting]
    count = 0
    while True:
        signatures: dict[tuple[object, ...], int] = {}
        block = [
            signatures.setdefault(
                (
                    block[state],
                    *((character, block[target]) for character, target in row.items()),
                ),
                len(signatures),
            )
            for state, row in enumerate(rows)
        ]
        if len(signatures) == count:
            break
        count = len(signatures)
    order: dict[int, int] = {block[0]: 0}
    first = [0]
    result = []
    for state in first:  # grows while it is read
        row = {}
        for character, target in rows[state].items():
            if block[target] not in order:
                order[block[target]] = len(first)
                first.append(target)
            row[character] = order[block[target]]
        result.append(row)
    return Automaton(tuple(result), tuple(accepting[state] for state in first))


def rules(automaton: Automaton, name: str) -> dict[str, Expression]:
    """Right-linear rules, one per state; the start's is called ``name``."""
    names = [name, *(f"{name}_{state}" for state in range(1, len(automaton.edges)))]
    result: dict[str, Expression] = {}
    for state, row in enumerate(automaton.edges):
        if not row and state:
            continue  # written into the edges that lead here
        by_target: dict[int, list[tuple[int, int]]] = {}
        for character, target in row.items():
            by_target.setdefault(target, []).append((ord(character), ord(character)))
        options: list[Expression] = []
        for target, ranges in by_target.items():
            label: Expression = CharacterClass.of(ranges)
            if automaton.edges[target]:
                label = concat(label, Reference(names[target]))
            options.append(label)
        if automaton.accepting[state]:
            options.append(Text(""))
        result[names[state]] = options[0] if len(options) == 1 else either(options)
    return result
