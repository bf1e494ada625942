"""JSON Schema's ``pattern``: the strings in which an ECMAScript pattern matches somewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from infernix_constraints.grammar import Alternatives, Expression, Repetition, Sequence
from infernix_constraints.regex_parser import WORD as WORD_CHARACTERS
from infernix_constraints.strings.automaton import StringAutomaton
from infernix_constraints.strings.characters import CharacterPartition
from infernix_constraints.strings.limits import Budget
from infernix_constraints.strings.memo import remembered
from infernix_constraints.strings.minimal import canonical
from infernix_constraints.strings.nfa import FINAL, TAIL, Labels, Nfa
from infernix_constraints.strings.subsets import (
    EDGE,
    OTHER,
    WORD,
    Determinizer,
    Lookahead,
    Machine,
)
from infernix_constraints.strings.syntax import Assertion, Look, parse_search
from infernix_core.errors import InvalidRegex, Location

#: Operations spent on one pattern.
_BUDGET: Final = 2_500_000


@remembered
def from_pattern(pattern: str) -> StringAutomaton:
    """The strings in which a pattern matches somewhere, under ECMAScript's rules with the flag ``u``.

    Anchors, word boundaries and lookahead stand anywhere; lookbehind does too, without lookaround inside it
    and not inside a lookahead.

    Raises:
        InvalidRegex: It is not well formed or not admitted; the location is a character offset.
        TooManyStates: Its automaton is too large or takes too long to build.
    """
    tree = parse_search(pattern)
    looks = _looks(tree)
    labels, budget = Labels(), Budget(_BUDGET)
    automaton = _search(tree, Nfa(labels, budget))
    bodies = {look.offset: _ahead_or_behind(look, Nfa(labels, budget)) for look in looks}
    assertions = {
        one.kind
        for root in (tree, *(look.body for look in looks))
        for one in _walk(root)
        if isinstance(one, Assertion)
    }
    nfas = (automaton, *bodies.values())
    conditional = any(
        isinstance(condition, Assertion) for nfa in nfas for condition, _ in nfa.waits.values()
    )
    word = labels.number(WORD_CHARACTERS) if assertions & {"word", "not word"} else None
    partition = CharacterPartition.of(labels.sets)
    parts = range(partition.member.shape[1])
    kinds = [
        WORD if word is not None and bool(partition.member[word, part]) else OTHER for part in parts
    ]
    aheads: dict[int, Lookahead] = {}
    behinds: dict[int, Machine] = {}
    # Inner ones first: they close before what is around them.
    for look in reversed(looks):
        nfa = bodies[look.offset]
        made = Determinizer(nfa, partition, kinds, conditional, budget, aheads).machine()
        if look.behind:
            behinds[look.offset] = made
        else:
            budget.spend(made.table.size)
            aheads[look.offset] = _lookahead(made, look.negated)
    made = Determinizer(automaton, partition, kinds, conditional, budget, aheads, behinds).machine()
    return canonical(
        partition.boundaries,
        partition.columns,
        made.table,
        made.accepting[:, EDGE],
        made.starts[EDGE],
    )


def _walk(tree: Expression) -> Iterator[Expression]:
    """The expression and its parts, without the bodies of lookaround, in source order."""
    stack = [tree]
    while stack:
        one = stack.pop()
        yield one
        if isinstance(one, Sequence):
            stack.extend(reversed(one.parts))
        elif isinstance(one, Alternatives):
            stack.extend(reversed(one.options))
        elif isinstance(one, Repetition):
            stack.append(one.part)


def _looks(tree: Expression) -> list[Look]:
    """Every lookaround, outer ones before those inside them."""
    found: list[Look] = []
    todo: list[tuple[Expression, Look | None]] = [(tree, None)]
    while todo:
        root, around = todo.pop()
        for one in _walk(root):
            if isinstance(one, Look):
                if around is not None and (around.behind or one.behind):
                    raise InvalidRegex(
                        "a lookbehind inside lookaround is not supported"
                        if one.behind
                        else "lookahead inside a lookbehind is not supported",
                        location=Location(offset=one.offset),
                    )
                found.append(one)
                todo.append((one.body, one))
    return found


def _search(tree: Expression, nfa: Nfa) -> Nfa:
    """Matches anywhere; anchors at the ends of top-level alternatives decide it without conditions."""
    anywhere: int | None = None
    for branch in tree.options if isinstance(tree, Alternatives) else (tree,):
        parts = list(branch.parts) if isinstance(branch, Sequence) else [branch]
        starts = bool(parts) and parts[0] == Assertion("start")
        parts = parts[starts:]
        ends = bool(parts) and parts[-1] == Assertion("end")
        parts = parts[: len(parts) - ends]
        first = nfa.node()
        if starts:
            nfa.join(nfa.start, first)
        else:
            if anywhere is None:
                anywhere = nfa.loop()
                nfa.join(nfa.start, anywhere)
            nfa.join(anywhere, first)
        nfa.add(Sequence(parts), first, FINAL if ends else TAIL)
    return nfa


def _ahead_or_behind(look: Look, nfa: Nfa) -> Nfa:
    """What follows begins with the body, or what precedes ends with it."""
    first = nfa.node()
    if look.behind:
        before = nfa.loop()
        nfa.join(nfa.start, before)
        nfa.join(before, first)
    else:
        nfa.join(nfa.start, first)
    nfa.add(look.body, first, FINAL if look.behind else TAIL)
    return nfa


def _lookahead(machine: Machine, negated: bool) -> Lookahead:
    accepting = machine.accepting[:, EDGE] != negated
    rows = machine.table.tolist()
    return Lookahead(
        rows,
        accepting.tolist(),
        machine.starts,
        _without_way(rows, np.flatnonzero(accepting)),
        _without_way(rows, np.flatnonzero(~accepting)),
    )


def _without_way(rows: list[list[int]], targets: NDArray[np.int64]) -> frozenset[int]:
    """The states from which none of the targets is reached."""
    before: list[set[int]] = [set() for _ in rows]
    for state, row in enumerate(rows):
        for after in set(row):
            before[after].add(state)
    reached = set(targets.tolist())
    stack = list(reached)
    while stack:
        for state in before[stack.pop()] - reached:
            reached.add(state)
            stack.append(state)
    return frozenset(range(len(rows))) - reached
