"""Subset construction: nondeterministic automata with anchors and lookaround, made deterministic.

A state is what is known after a prefix. A thread is a node together with its obligations: lookaheads that
the rest of the string still has to satisfy, each as a state of its own deterministic automaton. Lookbehinds
run beside the threads from the start of the string. Conditions of anchors and word boundaries are decided
when the next character, or the end, is known.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from infernix_constraints.strings.characters import CharacterPartition
from infernix_constraints.strings.limits import Budget, check_raw_size
from infernix_constraints.strings.nfa import FINAL, TAIL, Nfa
from infernix_constraints.strings.syntax import Assertion, Look

#: What stands before or after a position: an end of the string, a word character, or another one.
EDGE: Final = 0
WORD: Final = 1
OTHER: Final = 2


@frozen
class Machine:
    """A deterministic table over the parts of a partition.

    Attributes:
        table: int32 [states, parts]; state 0 goes to itself alone.
        accepting: bool [states, 3], by what follows: ``EDGE``, ``WORD`` or ``OTHER``.
        starts: The state to start in, by what precedes.
    """

    table: NDArray[np.int32]
    accepting: NDArray[np.bool_]
    starts: tuple[int, int, int]


@define
class Lookahead:
    """A lookahead's automaton over the rest of the string.

    Attributes:
        fails: States from which nothing is accepted.
        holds: States from which everything is.
    """

    rows: list[list[int]]
    accepting: list[bool]
    starts: tuple[int, int, int]
    fails: frozenset[int]
    holds: frozenset[int]


class _State(NamedTuple):
    """A deterministic state.

    Attributes:
        before: What precedes.
        behind: State of each lookbehind.
        threads: Sorted thread numbers; see :meth:`Determinizer.thread`.
    """

    before: int
    behind: tuple[int, ...]
    threads: tuple[int, ...]


@define
class Determinizer:
    """Makes one automaton deterministic.

    Attributes:
        partition: The parts, of which every label is a union.
        kinds: ``WORD`` or ``OTHER`` for each part.
        conditional: Anchors or word boundaries occur, so what precedes is part of a state.
        aheads: Automata of lookaheads, by their place in the source.
        behinds: Those of lookbehinds.
    """

    nfa: Nfa
    partition: CharacterPartition
    kinds: list[int]
    conditional: bool
    budget: Budget
    aheads: dict[int, Lookahead] = field(factory=dict)
    behinds: dict[int, Machine] = field(factory=dict)
    _obligations: list[frozenset[tuple[int, int]]] = field(factory=lambda: [frozenset()])
    _numbers: dict[frozenset[tuple[int, int]], int] = field(factory=lambda: {frozenset(): 0})
    _advanced: dict[tuple[int, int], int | None] = field(factory=dict)
    _cells: dict[tuple[int, ...], list[tuple[list[int], list[int]]]] = field(factory=dict)

    def machine(self) -> Machine:
        """The deterministic automaton.

        Raises:
            TooManyStates: It is too large, or takes too long.
        """
        nfa = self.nfa
        behind = tuple(machine.starts[EDGE] for machine in self.behinds.values())
        befores = (EDGE, WORD, OTHER) if self.conditional else (OTHER,) * 3
        starts = [_State(before, behind, self.kept(nfa.closure(nfa.start))) for before in befores]
        numbers: dict[_State, int] = {}
        order: list[_State] = []
        for state in starts:
            if numbers.setdefault(state, len(order) + 1) > len(order):
                order.append(state)
        parts = self.partition.member.shape[1]
        kinds = sorted({WORD, OTHER} & set(self.kinds))
        rows = [np.zeros(parts, np.int32)]
        accepting = [[False] * 3]
        while len(rows) <= len(order):
            state = order[len(rows) - 1]
            self.budget.spend(10)
            rows.append(np.zeros(parts, np.int32))
            # Without conditions what follows makes no difference, and what is written down for the end counts.
            resolved = [self.resolved(state, EDGE)] * 3
            if self.conditional:
                resolved[WORD:] = [self.resolved(state, kind) for kind in (WORD, OTHER)]
                accepting.append([self.accepts(threads) for threads in resolved])
            else:
                accepting.append([self.accepts(resolved[EDGE])] * 3)
            for kind in kinds:
                before = kind if self.conditional else OTHER
                for cell, threads in self.moves(resolved[kind], kind):
                    kept = self.kept(threads)
                    if not kept:
                        continue
                    after = _State(before, self.looked(state.behind, cell[0]), kept)
                    number = numbers.setdefault(after, len(order) + 1)
                    if number > len(order):
                        order.append(after)
                        self.budget.spend(len(kept))
                        check_raw_size(number, parts)
                    if len(cell) == 1:
                        rows[-1][cell[0]] = number
                    else:
                        rows[-1][cell] = number
        return Machine(
            np.array(rows, np.int32),
            np.array(accepting),
            (numbers[starts[0]], numbers[starts[1]], numbers[starts[2]]),
        )

    def looked(self, behind: tuple[int, ...], part: int) -> tuple[int, ...]:
        """The states of the lookbehinds after a character."""
        if not behind:
            return behind
        machines = self.behinds.values()
        return tuple(int(one.table[at, part]) for one, at in zip(machines, behind, strict=True))

    def thread(self, node: int, obligations: int) -> int:
        """The number of a thread: a node and the number of its set of obligations."""
        return obligations * len(self.nfa.reads) + node

    def kept(self, threads: frozenset[int] | set[int]) -> tuple[int, ...]:
        """The threads that add something to the others, sorted."""
        if TAIL in threads:
            return (TAIL,)
        nodes, ranks = len(self.nfa.reads), self.nfa.ranks
        if len(threads) > 1 and max(threads) >= nodes:
            threads = self.least_obliged(threads)
        if ranks and len(threads) > 1:
            best: dict[tuple[tuple[int, int], int], tuple[int, int]] = {}
            result = []
            for thread in threads:
                rank = ranks.get(thread % nodes)
                if rank is None:
                    result.append(thread)
                    continue
                key = rank.place, thread // nodes
                if key not in best or rank.copy < best[key][0]:
                    best[key] = rank.copy, thread
            return tuple(sorted([*result, *(thread for _, thread in best.values())]))
        return tuple(sorted(threads))

    def least_obliged(self, threads: frozenset[int] | set[int]) -> set[int]:
        """The threads of which none at the same node has some of the obligations only."""
        nodes = len(self.nfa.reads)
        by_node: dict[int, list[int]] = {}
        for thread in threads:
            by_node.setdefault(thread % nodes, []).append(thread // nodes)
        kept: set[int] = set()
        for node, numbers in by_node.items():
            self.budget.spend(len(numbers) ** 2)
            sets = [self._obligations[number] for number in numbers]
            kept.update(
                self.thread(node, number)
                for number, obligations in zip(numbers, sets, strict=True)
                if not any(other < obligations for other in sets)
            )
        return kept

    def resolved(self, state: _State, following: int) -> tuple[int, ...]:
        """The threads after the conditions that hold before what follows; waiting ones are left out."""
        nfa, nodes = self.nfa, len(self.nfa.reads)
        if not nfa.waits:
            return state.threads
        seen = set(state.threads)
        stack = [thread for thread in state.threads if thread % nodes in nfa.waits]
        if not stack:
            return state.threads
        while stack:
            thread = stack.pop()
            obligations = thread // nodes
            condition, target = nfa.waits[thread % nodes]
            if isinstance(condition, Look) and not condition.behind:
                ahead = self.aheads[condition.offset]
                begun = ahead.starts[state.before]
                more = self.obliged(self._obligations[obligations] | {(condition.offset, begun)})
                if more is None:
                    continue
                obligations = more
            elif not self.holds(condition, state, following):
                continue
            for node in nfa.closure(target):
                number = self.thread(node, obligations)
                if number not in seen:
                    seen.add(number)
                    if node in nfa.waits:
                        stack.append(number)
        self.budget.spend(len(seen))
        return tuple(thread for thread in seen if thread % nodes not in nfa.waits)

    def holds(self, condition: Assertion | Look, state: _State, following: int) -> bool:
        """Whether a condition holds between a state and what follows."""
        if isinstance(condition, Look):
            place = list(self.behinds).index(condition.offset)
            machine = self.behinds[condition.offset]
            return bool(machine.accepting[state.behind[place], following]) != condition.negated
        if condition.kind == "start":
            return state.before == EDGE
        if condition.kind == "end":
            return following == EDGE
        boundary = (state.before == WORD) != (following == WORD)
        return boundary == (condition.kind == "word")

    def obliged(self, pairs: frozenset[tuple[int, int]] | set[tuple[int, int]]) -> int | None:
        """The number of a set of obligations without those that are met; None when one cannot be."""
        kept = set()
        for offset, state in pairs:
            ahead = self.aheads[offset]
            if state in ahead.fails:
                return None
            if state not in ahead.holds:
                kept.add((offset, state))
        key = frozenset(kept)
        number = self._numbers.setdefault(key, len(self._obligations))
        if number == len(self._obligations):
            self._obligations.append(key)
        self.budget.spend(4 * len(pairs))
        return number

    def advanced(self, obligations: int, part: int) -> int | None:
        """The obligations after a character of a part."""
        if not obligations:
            return 0
        key = obligations, part
        if key not in self._advanced:
            self._advanced[key] = self.obliged(
                {
                    (o, self.aheads[o].rows[state][part])
                    for o, state in self._obligations[obligations]
                }
            )
        return self._advanced[key]

    def accepts(self, threads: tuple[int, ...]) -> bool:
        """Whether the string may end with these threads."""
        nodes = len(self.nfa.reads)
        if not threads or max(threads) < nodes:
            return FINAL in threads or TAIL in threads
        return any(
            thread % nodes in (FINAL, TAIL)
            and all(self.aheads[o].accepting[s] for o, s in self._obligations[thread // nodes])
            for thread in threads
        )

    def moves(
        self, threads: tuple[int, ...], kind: int
    ) -> list[tuple[list[int], frozenset[int] | set[int]]]:
        """The threads after a character: for parts of one kind that all lead to the same ones."""
        nfa, nodes = self.nfa, len(self.nfa.reads)
        plain = not threads or max(threads) < nodes
        by_label: dict[int, list[tuple[int, int]]] = {}
        for thread in threads:
            edge = nfa.reads[thread % nodes]
            if edge is not None:
                by_label.setdefault(edge[0], []).append((edge[1], thread // nodes))
        if not by_label:
            return []
        result: list[tuple[list[int], frozenset[int] | set[int]]] = []
        fine = bool(self.behinds) or not plain
        cells = self.cells(tuple(sorted(by_label)), kind, fine)
        self.budget.spend(len(cells) * (1 + len(threads) // 4))
        for cell, labels in cells:
            targets = [target for label in labels for target in by_label[label]]
            if plain:
                result.append((cell, set().union(*[nfa.closure(node) for node, _ in targets])))
                continue
            after: set[int] = set()
            for target, obligations in targets:
                more = self.advanced(obligations, cell[0])
                if more is not None:
                    after.update(self.thread(node, more) for node in nfa.closure(target))
            self.budget.spend(len(targets))
            result.append((cell, after))
        return result

    def cells(
        self, labels: tuple[int, ...], kind: int, fine: bool
    ) -> list[tuple[list[int], list[int]]]:
        """The parts of one kind that some label has: together where the same ones do, unless ``fine``."""
        key = (kind, fine, *labels)
        if key not in self._cells:
            member = self.partition.member[list(labels)]
            cells: dict[tuple[int, ...], list[int]] = {}
            for part in np.flatnonzero(member.any(axis=0)).tolist():
                if self.kinds[part] == kind:
                    having = np.flatnonzero(member[:, part]).tolist()
                    cells.setdefault((*having, -part - 1) if fine else tuple(having), []).append(
                        part
                    )
            self.budget.spend(member.size // 8)
            self._cells[key] = [
                (parts, [labels[at] for at in having if at >= 0]) for having, parts in cells.items()
            ]
        return self._cells[key]
