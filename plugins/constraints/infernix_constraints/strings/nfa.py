"""Patterns as nondeterministic automata, with conditions on empty edges for anchors and lookaround."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from attrs import define, field, frozen

from infernix_constraints.grammar import (
    Alternatives,
    CharacterClass,
    Expression,
    Repetition,
    Sequence,
    Text,
)
from infernix_constraints.strings.characters import ANY, Ranges
from infernix_constraints.strings.limits import Budget, TooManyStates
from infernix_constraints.strings.syntax import Assertion, Look

#: Nodes of all the automata of a pattern, the copies of repeated parts included.
MAX_NODES: Final = 1 << 17

#: Nodes of every automaton: the end of a match that the string must end with, and one that anything may follow.
FINAL: Final = 0
TAIL: Final = 1

_Build: TypeAlias = "Iterator[_Build]"


@define
class Labels:
    """The sets of characters that the automata of one pattern use, numbered."""

    sets: list[Ranges] = field(factory=list)
    numbers: dict[Ranges, int] = field(factory=dict)

    def number(self, ranges: Ranges) -> int:
        """The number of a set."""
        found = self.numbers.setdefault(ranges, len(self.sets))
        if found == len(self.sets):
            self.sets.append(ranges)
        return found


@frozen
class Rank:
    """A place in an optional copy of a repeated part. What an earlier copy's place accepts includes a later one's.

    Attributes:
        place: The same for the corresponding nodes of all copies.
        copy: Number of the copy.
        copies: How many there are.
    """

    place: tuple[int, int]
    copy: int
    copies: int


@define
class Nfa:
    """Nodes with at most one edge that reads a character, and empty edges.

    Attributes:
        labels: Shared by the automata of a pattern.
        reads: The label of each node's edge and where it leads, or None.
        empty: Targets of each node's empty edges.
        waits: Nodes with one empty edge that has a condition, and its target; they have no other edge.
        ranks: Of nodes in optional copies.
        start: The node to begin with.
    """

    labels: Labels
    budget: Budget
    reads: list[tuple[int, int] | None] = field(factory=list)
    empty: list[tuple[int, ...]] = field(factory=list)
    waits: dict[int, tuple[Assertion | Look, int]] = field(factory=dict)
    ranks: dict[int, Rank] = field(factory=dict)
    start: int = 0
    _closures: dict[int, frozenset[int]] = field(factory=dict)
    _chains: int = 0

    def __attrs_post_init__(self) -> None:
        self.node()
        self.node()
        self.reads[TAIL] = (self.labels.number(ANY), TAIL)
        self.start = self.node()

    def node(self) -> int:
        """A new node."""
        if len(self.reads) >= MAX_NODES:
            raise TooManyStates("its repetitions have too many copies")
        self.reads.append(None)
        self.empty.append(())
        return len(self.reads) - 1

    def join(self, source: int, target: int) -> None:
        """Adds an empty edge."""
        self.empty[source] += (target,)

    def loop(self) -> int:
        """A node that reads anything and stays."""
        node = self.node()
        self.reads[node] = (self.labels.number(ANY), node)
        return node

    def add(self, expression: Expression, start: int, end: int) -> None:
        """Adds what an expression matches between two nodes; nothing reads from ``start`` yet."""
        stack = [self._add(expression, start, end)]
        while stack:
            inner = next(stack[-1], None)
            if inner is None:
                stack.pop()
            else:
                stack.append(inner)

    def _add(self, expression: Expression, start: int, end: int) -> _Build:
        if isinstance(expression, Text):
            self._text(expression.text, start, end)
        elif isinstance(expression, CharacterClass):
            self.reads[start] = (self.labels.number(expression.ranges), end)
        elif isinstance(expression, Sequence):
            for part in expression.parts[:-1]:
                middle = self.node()
                yield self._add(part, start, middle)
                start = middle
            if expression.parts:
                yield self._add(expression.parts[-1], start, end)
            else:
                self.join(start, end)
        elif isinstance(expression, Alternatives):
            for option in expression.options:
                first = self.node()
                self.join(start, first)
                yield self._add(option, first, end)
        elif isinstance(expression, Assertion | Look):
            waiting = self.node()
            self.join(start, waiting)
            self.waits[waiting] = (expression, end)
        elif isinstance(expression, Repetition):
            yield self._repetition(expression, start, end)
        else:
            raise TypeError(f"{type(expression).__name__} in a pattern")

    def _text(self, text: str, start: int, end: int) -> None:
        if not text:
            self.join(start, end)
        for at, character in enumerate(text):
            target = end if at == len(text) - 1 else self.node()
            self.reads[start] = (self.labels.number(((ord(character),) * 2,)), target)
            start = target

    def _repetition(self, repetition: Repetition, start: int, end: int) -> _Build:
        minimum, maximum, part = repetition.minimum, repetition.maximum, repetition.part
        for _ in range(minimum - 1 if maximum is None else minimum):
            middle = self.node()
            yield self._add(part, start, middle)
            start = middle
        if maximum is None:
            first, last = self.node(), self.node()
            self.join(start, first)
            if minimum == 0:
                self.join(start, end)
            yield self._add(part, first, last)
            self.join(last, first)
            self.join(last, end)
            return
        optional = maximum - minimum
        if not optional:
            self.join(start, end)
        self._chains += 1
        chain = self._chains
        current = self.node()
        self.join(start, current)
        for copy in range(optional):
            low = len(self.reads)
            following = end if copy == optional - 1 else self.node()
            self.join(current, end)
            yield self._add(part, current, following)
            # Nodes of a copy are allocated in the same order in each; the last one lacks ``following``.
            shift = low - (copy == optional - 1)
            self._rank(current, Rank((chain, 0), copy, optional))
            for node in range(low + (copy != optional - 1), len(self.reads)):
                self._rank(node, Rank((chain, node - shift), copy, optional))
            current = following

    def _rank(self, node: int, rank: Rank) -> None:
        known = self.ranks.get(node)
        if known is None or known.copies < rank.copies:
            self.ranks[node] = rank

    def closure(self, node: int) -> frozenset[int]:
        """The nodes that matter among those that empty edges lead to: with an edge, a condition, or an end."""
        known = self._closures.get(node)
        if known is not None:
            return known
        seen, stack = {node}, [node]
        while stack:
            for other in self.empty[stack.pop()]:
                if other not in seen:
                    seen.add(other)
                    stack.append(other)
        self.budget.spend(len(seen))
        result = frozenset(
            one for one in seen if self.reads[one] is not None or one in self.waits or one == FINAL
        )
        self._closures[node] = result
        return result
