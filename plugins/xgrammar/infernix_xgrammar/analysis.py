"""What the lowering needs to know about a flat grammar: which rules produce anything, may be empty, recurse, grow."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from infernix_xgrammar.flat import (
    Atom,
    Call,
    Characters,
    FlatGrammar,
    Labelled,
    OneOf,
    Repeated,
    TokenOf,
    TokenOutside,
    called,
)

#: Sizes saturate here; anything as large is never copied.
SIZE_CAP = 1 << 30


def trim(grammar: FlatGrammar) -> bool:
    """Removes every option that no finite text can complete, so that a legal token is never a dead end.

    Returns:
        Whether the root produces anything.
    """
    productive = _least_rules(grammar, _is_productive)
    for number, rule in enumerate(grammar.rules):
        if not productive[number]:
            rule.options = []
            continue
        kept = []
        for option in rule.options:
            if all(_is_productive(atom, productive) for atom in option):
                kept.append(tuple(atom for atom in option if not _is_void(atom, productive)))
        rule.options = kept
    return productive[grammar.root]


def _is_productive(atom: Atom, known: list[bool]) -> bool:
    match atom:
        case Characters() | TokenOutside():
            return True
        case OneOf(ranges=ranges):
            return bool(ranges)
        case TokenOf(ids=ids):
            return bool(ids)
        case Repeated(minimum=0):
            return True
        case Repeated(unit=OneOf(ranges=ranges)):
            return bool(ranges)
    rule = called(atom)
    return rule is not None and known[rule]


def _is_void(atom: Atom, productive: list[bool]) -> bool:
    """A repetition of nothing, which is there zero times."""
    if not isinstance(atom, Repeated):
        return False
    if isinstance(atom.unit, OneOf):
        return not atom.unit.ranges
    return not productive[atom.unit.rule]


def _is_nullable(atom: Atom, known: list[bool]) -> bool:
    if isinstance(atom, Repeated) and atom.minimum == 0:
        return True
    rule = called(atom)
    return rule is not None and known[rule]


def _least_rules(grammar: FlatGrammar, holds: Callable[[Atom, list[bool]], bool]) -> list[bool]:
    """The least set of rules closed under: some option whose atoms all hold."""
    users: list[set[int]] = [set() for _ in grammar.rules]
    for number, rule in enumerate(grammar.rules):
        for option in rule.options:
            for atom in option:
                used = called(atom)
                if used is not None:
                    users[used].add(number)
    known = [False] * len(grammar.rules)
    work = list(range(len(grammar.rules)))
    while work:
        number = work.pop()
        if known[number]:
            continue
        options = grammar.rules[number].options
        if any(all(holds(atom, known) for atom in option) for option in options):
            known[number] = True
            work.extend(users[number])
    return known


@define
class Analysis:
    """Facts about a trimmed grammar, by rule number.

    Attributes:
        nullable: The rule matches the empty string.
        recursive: The rule can reach itself.
        is_called: The rule is never written out where it is used, because it recurses and has a name.
        size: Atoms of the rule with everything it uses written out, saturating.
        counted_tail: The rule may end inside a counted repetition, whose end a caller had better see.
    """

    nullable: list[bool]
    recursive: list[bool] = field(factory=list)
    is_called: list[bool] = field(factory=list)
    size: list[int] = field(factory=list)
    counted_tail: list[bool] = field(factory=list)

    @classmethod
    def of(cls, grammar: FlatGrammar) -> Analysis:
        """Analyses a grammar that was trimmed."""
        analysis = cls(_least_rules(grammar, _is_nullable))
        uses = [
            [
                used
                for option in rule.options
                for atom in option
                if (used := called(atom)) is not None
            ]
            for rule in grammar.rules
        ]
        _, analysis.recursive = _components(uses)
        analysis.is_called = [
            recursive and not rule.group
            for recursive, rule in zip(analysis.recursive, grammar.rules, strict=True)
        ]
        # Every cycle passes a rule that is called, so without those calls nothing recurses.
        order, _ = _components(
            [[used for used in each if not analysis.is_called[used]] for each in uses]
        )
        analysis.size = [0] * len(grammar.rules)
        analysis.counted_tail = [False] * len(grammar.rules)
        for number in order:
            options = grammar.rules[number].options
            analysis.counted_tail[number] = any(
                analysis._ends_counted(option) for option in options
            )
            total = sum(analysis.atom_size(atom) + 1 for option in options for atom in option)
            analysis.size[number] = min(total + 1, SIZE_CAP)
        return analysis

    def atom_size(self, atom: Atom) -> int:
        """Atoms that stand for this one when it is written out."""
        if isinstance(atom, Call | Labelled):
            return 1 if self.is_called[atom.rule] else self.size[atom.rule]
        if isinstance(atom, Repeated):
            unit = self.atom_size(atom.unit)
            times = max(atom.minimum, 1) if atom.maximum is None else atom.maximum
            return min(unit * times, SIZE_CAP)
        return 1

    def is_nullable(self, atom: Atom) -> bool:
        """Whether the atom matches the empty string."""
        return _is_nullable(atom, self.nullable)

    def _ends_counted(self, option: tuple[Atom, ...]) -> bool:
        for atom in reversed(option):
            if isinstance(atom, Repeated) and (atom.minimum > 1 or (atom.maximum or 0) > 1):
                return True
            rule = called(atom)
            if rule is not None and self.counted_tail[rule]:
                return True
            if not self.is_nullable(atom):
                return False
        return False


def _components(uses: list[list[int]]) -> tuple[list[int], list[bool]]:
    """Rules in an order where used rules come first, and which of them recurse (Tarjan, without a call stack)."""
    count = len(uses)
    index, low = [-1] * count, [0] * count
    on_stack, recursive = [False] * count, [False] * count
    stack: list[int] = []
    order: list[int] = []
    counter = 0
    for start in range(count):
        if index[start] >= 0:
            continue
        calls = [(start, 0)]
        while calls:
            node, position = calls.pop()
            if position == 0:
                index[node] = low[node] = counter
                counter += 1
                stack.append(node)
                on_stack[node] = True
            elif on_stack[uses[node][position - 1]]:
                low[node] = min(low[node], low[uses[node][position - 1]])
            descended = False
            while position < len(uses[node]):
                child = uses[node][position]
                position += 1
                if index[child] < 0:
                    calls += [(node, position), (child, 0)]
                    descended = True
                    break
                if on_stack[child]:
                    low[node] = min(low[node], index[child])
                    recursive[node] |= child == node
            if descended or low[node] != index[node]:
                continue
            component: list[int] = []
            while not component or component[-1] != node:
                component.append(stack.pop())
                on_stack[component[-1]] = False
            for member in component:
                recursive[member] |= len(component) > 1
            order.extend(component)
    return order, recursive
