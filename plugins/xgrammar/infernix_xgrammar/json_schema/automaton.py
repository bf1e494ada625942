"""Deterministic automata over characters, and their rules."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

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
    """A minimal automaton of a finite language that is not empty. State 0 is the start.

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
    alphabet: str,
) -> Automaton:
    """The minimal automaton of a state machine that is given as functions and never comes back to a state.

    Args:
        start: The first state.
        step: The state after one more character, or None when no text goes on like that.
        accepts: Whether a text may end in a state.
        alphabet: The characters that may occur.
    """
    index: dict[Hashable, int] = {start: 0}
    order = [start]
    edges: list[dict[str, int]] = []
    for state in order:  # grows while it is read
        row = {}
        for character in alphabet:
            target = step(state, character)
            if target is not None:
                known = index.get(target)
                if known is None:
                    known = index[target] = len(order)
                    order.append(target)
                row[character] = known
        edges.append(row)
    return _minimal(edges, [accepts(state) for state in order])


def _minimal(edges: list[dict[str, int]], accepting: list[bool]) -> Automaton:
    """Merges states with equal futures, last states first, and drops those without one."""
    users: list[list[int]] = [[] for _ in edges]
    waiting = [0] * len(edges)
    for state, row in enumerate(edges):
        targets = set(row.values())
        waiting[state] = len(targets)
        for target in targets:
            users[target].append(state)
    blocks: dict[tuple[object, ...], int] = {}
    rows: list[dict[str, int]] = []
    block: list[int | None] = [None] * len(edges)
    pending = [state for state, count in enumerate(waiting) if not count]
    while pending:
        state = pending.pop()
        row = {}
        for character, target in edges[state].items():
            after = block[target]
            if after is not None:
                row[character] = after
        if row or accepting[state]:
            signature = accepting[state], *row.items()
            block[state] = blocks.setdefault(signature, len(blocks))
            if len(rows) < len(blocks):
                rows.append(row)
        for user in users[state]:
            waiting[user] -= 1
            if not waiting[user]:
                pending.append(user)
    final = [bool(signature[0]) for signature in blocks]
    first = block[0]
    assert first is not None
    position = {first: 0}
    kept = [first]
    result = []
    for state in kept:  # grows while it is read
        for target in rows[state].values():
            if target not in position:
                position[target] = len(kept)
                kept.append(target)
        result.append({character: position[target] for character, target in rows[state].items()})
    return Automaton(tuple(result), tuple(final[state] for state in kept))


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
