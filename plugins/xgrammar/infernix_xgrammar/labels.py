"""Turns "reports a label with the first byte or token" into marks that xgrammar records."""

from __future__ import annotations

from attrs import define, field

from infernix_xgrammar.flat import Characters
from infernix_xgrammar.lowered import Counted, End, Enter, Go, Loop, Lowered, Mark, Option


def resolve_labels(lowered: Lowered) -> None:
    """Replaces every :class:`Enter` by copies of what follows, with a mark behind each possible first element."""
    _Resolution(lowered).run()


@define
class _Resolution:
    lowered: Lowered
    copies: dict[tuple[int, int], int] = field(factory=dict)
    marked: dict[int, frozenset[int]] = field(factory=dict)
    pending: list[tuple[int, int, int]] = field(factory=list)
    empty: set[int] | None = None

    def run(self) -> None:
        for number in range(len(self.lowered.rules)):
            self.lowered.rules[number] = self.resolved(number)
        # In order, since a copy may itself be copied for another label.
        for number, label, copy in self.pending:
            options = (new for old in self.resolved(number) for new in self.entered(old, label))
            self.lowered.rules[copy] = [option for option in options if option]

    def resolved(self, number: int) -> list[Option]:
        options = self.lowered.rules[number]
        while any(isinstance(atom, Enter) for option in options for atom in option):
            options = [new for option in options for new in self.innermost(option)]
        return options

    def innermost(self, option: Option) -> list[Option]:
        """Resolves the last label of an option; labels that stand in one another are resolved from within."""
        at = max((i for i, atom in enumerate(option) if isinstance(atom, Enter)), default=None)
        if at is None:
            return [option]
        enter = option[at]
        assert isinstance(enter, Enter)
        return [(*option[:at], *new) for new in self.entered(option[at + 1 :], enter.label)]

    def entered(self, option: Option, label: int) -> list[Option]:
        """The option with a mark behind its first element, in every way that it can begin."""
        mark = Mark(label)
        if not option:
            return [()]
        first, rest = option[0], option[1:]
        match first:
            case Characters(text=text):
                tail = (Characters(text[1:]), *rest) if text[1:] else rest
                return [(Characters(text[:1]), mark, *tail)]
            case Loop(unit=unit):
                return [(unit, mark, *option), *self.entered(rest, label)]
            case Counted(unit=unit, minimum=minimum, maximum=maximum):
                left = None if maximum is None else maximum - 1
                more: Option = (Counted(unit, max(minimum - 1, 0), left), *rest)
                begun: list[Option] = [(unit, mark, *(rest if left == 0 else more))]
                return begun if minimum else [*begun, *self.entered(rest, label)]
            case Go(rule=number):
                begun = [(Go(self.copy(number, label)), *rest)]
                return [*begun, *self.entered(rest, label)] if self.may_be_empty(number) else begun
            case Mark():
                return [(first, *new) for new in self.entered(rest, label)]
            case End():
                return [option]
            case _:
                return [(first, mark, *rest)]

    def copy(self, number: int, label: int) -> int:
        """A rule's copy that marks its first element; its empty match is left out."""
        marked = self.marked.get(number, frozenset())
        if label in marked:
            return number
        if (number, label) not in self.copies:
            self.lowered.rules.append([])
            self.copies[number, label] = len(self.lowered.rules) - 1
            self.marked[self.copies[number, label]] = marked | {label}
            self.pending.append((number, label, self.copies[number, label]))
        return self.copies[number, label]

    def may_be_empty(self, number: int) -> bool:
        if self.empty is None:
            self.empty = set()
            grew = True
            while grew:
                grew = False
                for rule, options in enumerate(self.lowered.rules):
                    if rule not in self.empty and any(map(self._is_empty, options)):
                        self.empty.add(rule)
                        grew = True
        return number in self.empty

    def _is_empty(self, option: Option) -> bool:
        assert self.empty is not None
        for atom in option:
            skipped = isinstance(atom, Loop | Mark | Enter)
            skipped |= isinstance(atom, Counted) and atom.minimum == 0
            skipped |= isinstance(atom, Go) and atom.rule in self.empty
            if not skipped:
                return False
        return True
