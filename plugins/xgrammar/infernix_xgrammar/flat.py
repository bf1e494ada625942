"""A grammar without nesting: numbered rules whose options are sequences of atoms.

Groups become rules of their own, so every later pass walks lists instead of trees and no input's depth can reach
Python's stack.
"""

from __future__ import annotations

from collections.abc import Sequence as Sequence_

from attrs import define, field, frozen

from infernix_constraints.grammar import (
    Alternatives,
    CharacterClass,
    Expression,
    Grammar,
    Reference,
    Repetition,
    Sequence,
    Text,
    TokenIn,
    TokenNotIn,
)
from infernix_core.errors import InvalidGrammar
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary


@frozen
class Characters:
    """Exactly this text, not empty."""

    text: str


@frozen
class OneOf:
    """One character of the class's ranges."""

    ranges: tuple[tuple[int, int], ...]


@frozen
class TokenOf:
    """One token of these ids."""

    ids: frozenset[int]


@frozen
class TokenOutside:
    """One token of class TEXT or FRAMING that is not of these ids."""

    ids: frozenset[int]


@frozen
class Call:
    """Another rule, by its number."""

    rule: int


@frozen
class Repeated:
    """A class or a rule from ``minimum`` to ``maximum`` times; ``None`` is unbounded."""

    unit: OneOf | Call
    minimum: int
    maximum: int | None


@frozen
class Labelled:
    """A rule whose beginning is reported.

    Attributes:
        certain: What stands before it leaves no other reading, so reaching it is enough; otherwise it is
            reported with its first byte or token.
    """

    label: int
    rule: int
    certain: bool


Atom = Characters | OneOf | TokenOf | TokenOutside | Call | Repeated | Labelled
Option = tuple[Atom, ...]


@frozen
class TokenDomain:
    """What token terminals of a user's grammar may name.

    Attributes:
        classes: The class of each id; empty when no vocabulary is known and nothing can be checked.
        framing: Ids of framing tokens, which are no visible content.
    """

    classes: Sequence_[TokenClass] = ()
    framing: frozenset[int] = frozenset()

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> TokenDomain:
        """The token domain of a vocabulary."""
        return cls(vocabulary.classes, frozenset(vocabulary.ids(TokenClass.FRAMING)))

    def check(self, terminal: TokenIn | TokenNotIn) -> None:
        """Refuses ids that are not TEXT.

        Raises:
            InvalidGrammar: With the terminal's location.
        """
        for token in sorted(terminal.ids) if self.classes else ():
            if token >= len(self.classes):
                raise InvalidGrammar(
                    f"token {token} is outside of the vocabulary",
                    location=terminal.location,
                    hint=f"ids are 0 to {len(self.classes) - 1}",
                )
            if self.classes[token] is not TokenClass.TEXT:
                raise InvalidGrammar(
                    f"token {token} is a control token of the model, not text",
                    location=terminal.location,
                    hint="a grammar may name ordinary text tokens only",
                )


@define
class Rule:
    """One rule.

    Attributes:
        options: Its alternatives; none match nothing.
        group: It has exactly one use and no name in the source.
    """

    group: bool
    options: list[Option] = field(factory=list)


@define
class FlatGrammar:
    """Rules by number; ``root`` is where matching starts.

    Attributes:
        labels: Label names by number.
        initial_labels: Labels that hold from the very beginning.
    """

    rules: list[Rule] = field(factory=list)
    root: int = -1
    labels: list[str] = field(factory=list)
    initial_labels: list[str] = field(factory=list)

    def new_rule(self, *, group: bool = True) -> int:
        """Adds an empty rule and returns its number."""
        self.rules.append(Rule(group))
        return len(self.rules) - 1

    def add(self, grammar: Grammar, tokens: TokenDomain) -> int:
        """Adds a grammar's rules and returns its entry's number.

        Raises:
            InvalidGrammar: A token terminal names a token that is not TEXT.
        """
        numbers = {name: self.new_rule(group=False) for name in grammar.rules}
        work = [(numbers[name], body) for name, body in grammar.rules.items()]
        while work:
            number, body = work.pop()
            options = body.options if isinstance(body, Alternatives) else (body,)
            for option in options:
                parts = option.parts if isinstance(option, Sequence) else (option,)
                atoms = [self._atom(part, numbers, work, tokens) for part in parts]
                self.rules[number].options.append(tuple(atom for atom in atoms if atom is not None))
        root = numbers[grammar.root]
        uses = (called(atom) for rule in self.rules for option in rule.options for atom in option)
        self.rules[root].group = root not in uses
        return root

    def _atom(
        self,
        part: Expression,
        numbers: dict[str, int],
        work: list[tuple[int, Expression]],
        tokens: TokenDomain,
    ) -> Atom | None:
        if isinstance(part, Text):
            return Characters(part.text) if part.text else None
        if isinstance(part, CharacterClass):
            return OneOf(part.ranges)
        if isinstance(part, Reference):
            return Call(numbers[part.name])
        if isinstance(part, TokenIn | TokenNotIn):
            tokens.check(part)
            if isinstance(part, TokenIn):
                return TokenOf(part.ids)
            return TokenOutside(part.ids | tokens.framing)
        if isinstance(part, Repetition):
            if part.maximum == 0:
                return None
            inner = part.part
            if isinstance(inner, CharacterClass):
                return Repeated(OneOf(inner.ranges), part.minimum, part.maximum)
            if isinstance(inner, Reference):
                return Repeated(Call(numbers[inner.name]), part.minimum, part.maximum)
            unit = self.new_rule()
            work.append((unit, inner))
            return Repeated(Call(unit), part.minimum, part.maximum)
        group = self.new_rule()
        work.append((group, part))
        return Call(group)


def called(atom: Atom) -> int | None:
    """The rule that an atom uses, if any."""
    if isinstance(atom, Call | Labelled):
        return atom.rule
    if isinstance(atom, Repeated) and isinstance(atom.unit, Call):
        return atom.unit.rule
    return None
