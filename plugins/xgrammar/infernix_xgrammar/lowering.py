"""From a flat grammar to rules that xgrammar matches exactly and fast.

xgrammar keeps a mask per automaton state. Inside one rule it is a table lookup; a token that runs past the rule's end
has to be parsed, about a microsecond each, and a bounded repetition of anything but one plain class does that for
every token at every step. So rules are written with what follows *inside*: a continuation is handed down, and groups,
bounded repetitions and small rules become right-linear chains that end in it. Only recursion remains as real calls,
and the whole language ends in a character that no text contains.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TypeAlias

from attrs import define, field

from infernix_xgrammar import flat
from infernix_xgrammar.analysis import Analysis, trim
from infernix_xgrammar.flat import Call, Characters, FlatGrammar, OneOf, Repeated
from infernix_xgrammar.lowered import (
    Atom,
    Counted,
    End,
    Enter,
    Go,
    Loop,
    Lowered,
    Mark,
    Option,
)

#: Atoms that one grammar's chains may have; beyond it xgrammar counts by itself, exactly but slowly.
CHAIN_BUDGET = 60_000
#: Rules up to this size are copied to where they are used.
INLINE_SIZE = 16
#: Rules that end inside a counted repetition are copied up to this size.
INLINE_COUNTED_SIZE = 4_096
#: Continuations that a counted class is copied in front of, at most.
MAX_COPIES = 4
#: A class with at least this many characters is wide: many tokens of any vocabulary consist of it.
WIDE = 200

#: Steps of the lowering, run by :func:`_drive`: they yield steps to get their result.
_Steps: TypeAlias = "Generator[_Steps, list[Option], list[Option]]"


def lower(grammar: FlatGrammar) -> Lowered | None:
    """Lowers a grammar, which is trimmed on the way.

    Returns:
        The rules, or None when nothing matches.
    """
    if not trim(grammar):
        return None
    return _Lowering(grammar, Analysis.of(grammar), CHAIN_BUDGET).run()


@define
class _Lowering:
    grammar: FlatGrammar
    analysis: Analysis
    budget: int
    lowered: Lowered = field(factory=Lowered)
    shared: dict[tuple[Option, ...], int] = field(factory=dict)
    called: dict[int, int] = field(factory=dict)
    inlined: dict[tuple[int, Option], Option] = field(factory=dict)
    work: list[int] = field(factory=list)
    spare: int | None = None
    spare_used: bool = False

    def run(self) -> Lowered:
        self.spare = _spare_character(self.grammar)
        self.lowered.rules.append([])
        self.lowered.rules[0] = _drive(self.rule(self.grammar.root, (End(),)))
        while self.work:
            number = self.work.pop()
            self.lowered.rules[self.called[number]] = _drive(self.rule(number, ()))
        if self.spare_used and self.spare is not None:
            self.lowered.end = bytes([self.spare])
        return self.lowered

    # The steps below yield steps to get their result, so that the depth of a grammar's nesting is kept in _drive's
    # list and not on Python's stack.

    def rule(self, number: int, tail: Option) -> _Steps:
        """The options of a rule with ``tail`` after each."""
        options = self.grammar.rules[number].options
        if len(options) > 1:
            tail = self.short(tail)
        result: list[Option] = []
        for option in options:
            result += yield self.option(option, tail)
        return result

    def option(self, atoms: flat.Option, tail: Option) -> _Steps:
        options: list[Option] = [tail]
        for atom in reversed(self.fused(atoms)):
            options = yield self.atom(atom, self.joined(options))
        return options

    def fused(self, atoms: flat.Option) -> list[flat.Atom]:
        """Neighbouring repetitions of one class as one: apart, every split between them is a reading."""
        result: list[flat.Atom] = []
        for atom in atoms:
            here = self.counts(atom)
            last = self.counts(result[-1]) if result else None
            if here is None or last is None or here.unit != last.unit:
                result.append(atom)
            elif isinstance(atom, Repeated) or isinstance(result[-1], Repeated):
                most = None
                if here.maximum is not None and last.maximum is not None:
                    most = here.maximum + last.maximum
                result[-1] = Repeated(here.unit, here.minimum + last.minimum, most)
            else:
                result.append(atom)
        return result

    def counts(self, atom: flat.Atom) -> Repeated | None:
        """A class, once or repeated, as a repetition; ``None`` for anything else."""
        if isinstance(atom, OneOf):
            return Repeated(atom, 1, 1)
        if not isinstance(atom, Repeated):
            return None
        if isinstance(atom.unit, OneOf):
            return atom
        options = self.grammar.rules[atom.unit.rule].options
        if self.grammar.rules[atom.unit.rule].group and len(options) == 1 == len(options[0]):
            only = options[0][0]
            if isinstance(only, OneOf):
                return Repeated(only, atom.minimum, atom.maximum)
            if isinstance(only, Characters) and len(only.text) == 1:
                code = ord(only.text)
                return Repeated(OneOf(((code, code),)), atom.minimum, atom.maximum)
        return None

    def atom(self, atom: flat.Atom, tail: Option) -> _Steps:
        match atom:
            case Characters(text=text):
                if tail and isinstance(tail[0], Characters):
                    return [(Characters(text + tail[0].text), *tail[1:])]
                return [(atom, *tail)]
            case Call(rule=number):
                return (yield self.use(number, tail))
            case Repeated():
                return (yield self.repeated(atom, tail))
            case flat.Labelled(label=label, rule=number, certain=certain):
                options = yield self.rule(number, tail)
                if certain:
                    return [(Mark(label), *self.joined(options))]
                return [(Enter(label), *option) for option in options]
            case _:
                return [(atom, *tail)]

    def use(self, number: int, tail: Option) -> _Steps:
        """A rule where it is used: copied in front of the tail, or called."""
        if not self.is_inlined(number, tail):
            return [(Go(self.call(number)), *tail)]
        if self.grammar.rules[number].group:
            return (yield self.rule(number, tail))
        tail = self.short(tail)
        if (number, tail) not in self.inlined:
            self.budget -= self.analysis.size[number]
            options = yield self.rule(number, tail)
            self.inlined[number, tail] = self.joined(options)
        return [self.inlined[number, tail]]

    def is_inlined(self, number: int, tail: Option) -> bool:
        if self.grammar.rules[number].group:
            return True
        if self.analysis.is_called[number]:
            return False
        size = self.analysis.size[number]
        if size <= INLINE_SIZE:
            return True
        if not tail or not self.analysis.counted_tail[number]:
            return False
        return size <= min(INLINE_COUNTED_SIZE, self.budget)

    def call(self, number: int) -> int:
        """The lowered rule that matches a rule alone."""
        if number not in self.called:
            self.called[number] = self.new_rule([])
            self.work.append(number)
        return self.called[number]

    def repeated(self, atom: Repeated, tail: Option) -> _Steps:
        atom = self.merged(atom)
        unit, minimum, maximum = atom.unit, atom.minimum, atom.maximum
        if maximum is not None and maximum > 1 and isinstance(unit, OneOf):
            counted = self.counted(unit, minimum, maximum, tail)
            if counted is not None:
                return counted
        fixed = minimum if maximum is None else maximum
        size = self.analysis.atom_size(unit)
        if fixed > 1 and size * fixed > self.budget:
            return (yield self.uncounted(unit, minimum, maximum, tail))
        if fixed > 1:
            self.budget -= size * fixed
        if maximum is None:
            if isinstance(unit, Call) and self.analysis.nullable[unit.rule]:
                minimum = 0  # as many as wanted are there already
            if minimum == 0 or isinstance(unit, OneOf):
                options = yield self.loop(unit, tail)
            else:
                # The loop's own round is one of the copies, so that nested loops do not multiply.
                options = yield self.rounds(unit, tail)
                minimum -= 1
            for _ in range(minimum):
                options = yield self.atom(unit, self.joined(options))
            return options
        leave = self.short(tail)
        options = [leave]
        for done in range(maximum - 1, -1, -1):
            options = yield self.atom(unit, self.joined(options))
            if done >= minimum and leave not in options:
                options = [*options, leave]
        return options

    def merged(self, atom: Repeated) -> Repeated:
        """A repetition of a repetition as one, where the counts leave no gap; nesting would multiply readings."""
        while isinstance(atom.unit, Call):
            rule = self.grammar.rules[atom.unit.rule]
            inner = rule.options[0][0] if len(rule.options) == 1 == len(rule.options[0]) else None
            if not rule.group or not isinstance(inner, Repeated):
                break
            most = None
            if inner.maximum is not None:
                # The counts of k and of k + 1 rounds adjoin; the first pair of rounds decides for all.
                adjoin = inner.minimum * (atom.minimum + 1) <= inner.maximum * atom.minimum + 1
                if not adjoin and atom.maximum != atom.minimum:
                    break
                most = None if atom.maximum is None else inner.maximum * atom.maximum
            elif atom.minimum == 0 and inner.minimum > 1:
                break
            atom = Repeated(inner.unit, inner.minimum * atom.minimum, most)
        return atom

    def loop(self, unit: OneOf | Call, tail: Option) -> _Steps:
        if isinstance(unit, OneOf):
            return [(Loop(unit), *tail)]
        again = self.new_rule([])
        options = yield self.atom(unit, (Go(again),))
        # A unit that may be empty leads straight back, which says nothing.
        self.lowered.rules[again] = [option for option in options if option != (Go(again),)]
        self.lowered.rules[again].append(tail)
        return [(Go(again),)]

    def rounds(self, unit: OneOf | Call, tail: Option) -> _Steps:
        """One round of a unit that is never empty, or more."""
        again = self.new_rule([])
        after = self.joined([(Go(again),), self.short(tail)])
        self.lowered.rules[again] = yield self.atom(unit, after)
        return [(Go(again),)]

    def counted(self, unit: OneOf, minimum: int, maximum: int, tail: Option) -> list[Option] | None:
        """Xgrammar's own counting, which is fast where a literal ends it that the class cannot begin with."""
        if not tail or (maximum <= 8 and _width(unit) < WIDE):
            return None
        heads = [tail]
        if len(tail) == 1 and isinstance(tail[0], Go):
            heads = self.lowered.rules[tail[0].rule]
        if not 0 < len(heads) <= MAX_COPIES or not all(self.ends(unit, head) for head in heads):
            return None
        return [(Counted(unit, minimum, maximum), *head) for head in heads]

    def ends(self, unit: OneOf, head: Option) -> bool:
        """Whether an option begins with a literal that ends a counted class."""
        if not head:
            return False
        first = head[0]
        if isinstance(first, Characters):
            value = ord(first.text[0])
            return value < 0x80 and not any(low <= value <= high for low, high in unit.ranges)
        if isinstance(first, End) and self.spare is not None:
            self.spare_used = True
            return True
        return False

    def uncounted(
        self, unit: OneOf | Call, minimum: int, maximum: int | None, tail: Option
    ) -> _Steps:
        """Too long a chain: squares of the unit instead.

        xgrammar's own counting is no way out: it crashes where a counted rule recurses, and its masks leave out
        tokens where a counted class is followed by anything but a literal that ends it.
        """
        if isinstance(unit, OneOf):
            target, nullable = self.share([(unit,)]), False
        elif self.grammar.rules[unit.rule].group:
            target = self.share((yield self.rule(unit.rule, ())))
            nullable = self.analysis.nullable[unit.rule]
        else:
            target, nullable = self.call(unit.rule), self.analysis.nullable[unit.rule]
        least = 0 if nullable else minimum
        if maximum is None:
            again = self.new_rule([])
            self.lowered.rules[again] = [(Go(target), Go(again)), tail]
            more: Option = (Go(again),)
        else:
            more = (*self.at_most(target, maximum - least), *tail)
        return [(*self.exactly(target, least), *more)]

    def exactly(self, rule: int, times: int) -> Option:
        """A rule so many times, from squares."""
        atoms: list[Atom] = []
        while times:
            if times % 2:
                atoms.append(Go(rule))
            times //= 2
            rule = self.share([(Go(rule), Go(rule))])
        return tuple(atoms)

    def at_most(self, rule: int, times: int) -> Option:
        """A rule up to so many times, from squares: pairs first, so that few readings compete."""
        atoms: list[Atom] = []
        while times:
            rest = 2 - times % 2
            optional: list[Option] = [(Go(rule),), ()]
            if rest == 2:
                optional = [(Go(rule), Go(self.share(optional))), ()]
            atoms.append(Go(self.share(optional)))
            times = (times - rest) // 2
            rule = self.share([(Go(rule), Go(rule))])
        return tuple(reversed(atoms))

    def joined(self, options: list[Option]) -> Option:
        """One continuation that stands for all of these."""
        return options[0] if len(options) == 1 else (Go(self.share(options)),)

    def short(self, tail: Option) -> Option:
        """A continuation that is cheap to repeat."""
        return tail if len(tail) <= 1 else (Go(self.share([tail])),)

    def share(self, options: Sequence[Option]) -> int:
        key = tuple(options)
        if key not in self.shared:
            self.shared[key] = self.new_rule(list(key))
        return self.shared[key]

    def new_rule(self, options: list[Option]) -> int:
        self.lowered.rules.append(options)
        return len(self.lowered.rules) - 1


def _drive(steps: _Steps) -> list[Option]:
    """Runs a generator that yields the generators it needs."""
    stack = [steps]
    result: list[Option] | None = None
    while stack:
        try:
            started = next(stack[-1]) if result is None else stack[-1].send(result)
            stack.append(started)
            result = None
        except StopIteration as done:
            stack.pop()
            result = done.value
    assert result is not None
    return result


def _width(unit: OneOf) -> int:
    return sum(high - low + 1 for low, high in unit.ranges)


def _spare_character(grammar: FlatGrammar) -> int | None:
    """An ASCII control character that no text of the grammar contains, where no token is taken by its id."""
    used: set[int] = set()
    for rule in grammar.rules:
        for option in rule.options:
            for atom in option:
                if isinstance(atom, flat.TokenOf | flat.TokenOutside):
                    return None
                if isinstance(atom, Characters):
                    used.update(ord(sign) for sign in atom.text if sign < " ")
                unit = atom.unit if isinstance(atom, Repeated) else atom
                if isinstance(unit, OneOf):
                    used.update(
                        value
                        for low, high in unit.ranges
                        for value in range(low, min(high, 0x1F) + 1)
                    )
    return next((value for value in range(0x20) if value not in used), None)
