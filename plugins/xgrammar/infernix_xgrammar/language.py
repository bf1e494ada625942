"""From the output language to one flat grammar."""

from __future__ import annotations

from attrs import define, field

from infernix_constraints.content import content_grammar
from infernix_core.errors import IntegrityError
from infernix_core.interfaces import language as algebra
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_xgrammar.flat import (
    Atom,
    Call,
    Characters,
    FlatGrammar,
    Labelled,
    Repeated,
    TokenDomain,
    TokenOf,
    TokenOutside,
)


def flatten(language: algebra.Language, tokens: TokenDomain) -> FlatGrammar:
    """The whole tree as rules over characters and token terminals. No content of it is JSON.

    Raises:
        ConstraintError: A constraint in it is not valid or not supported.
    """
    return _Flattening(tokens).run(language)


@define
class _Place:
    """Where a node stands.

    Attributes:
        rule: The rule that its text becomes.
        certain: Its beginning, once reached, has no other reading.
        first: Nothing stands before it.
    """

    rule: int
    certain: bool
    first: bool


@define
class _Flattening:
    tokens: TokenDomain
    flat: FlatGrammar = field(factory=FlatGrammar)
    contents: dict[OutputConstraint, int] = field(factory=dict)
    work: list[tuple[algebra.Language, _Place]] = field(factory=list)

    def run(self, language: algebra.Language) -> FlatGrammar:
        self.flat.root = self.flat.new_rule()
        self.work.append((language, _Place(self.flat.root, certain=True, first=True)))
        while self.work:
            node, place = self.work.pop()
            self.flat.rules[place.rule].options = self.options(node, place)
        return self.flat

    def options(self, node: algebra.Language, place: _Place) -> list[tuple[Atom, ...]]:
        match node:
            case algebra.Union(alternatives=alternatives):
                return [
                    tuple(self.atoms(option, certain=False, first=False)) for option in alternatives
                ]
            case algebra.Sequence(parts=parts):
                atoms: list[Atom] = []
                certain, first = place.certain, place.first
                for part in parts:
                    atoms += self.atoms(part, certain=certain, first=first)
                    certain = isinstance(part, algebra.Token | algebra.TextExcept) or self._is_text(
                        part
                    )
                    first = False
                return [tuple(atoms)]
        return [tuple(self.atoms(node, certain=place.certain, first=place.first))]

    def atoms(self, node: algebra.Language, *, certain: bool, first: bool) -> list[Atom]:
        match node:
            case algebra.Token(id=token):
                return [TokenOf(frozenset((token,)))]
            case algebra.TextExcept(ids=ids):
                return [TokenOutside(ids)]
            case algebra.Literal(bytes=raw):
                return [Characters(raw.decode())] if raw else []
            case algebra.Content(constraint=constraint):
                return [Call(self._content(constraint))]
            case algebra.Repeat(part=part, minimum=minimum, maximum=maximum):
                if maximum == 0:
                    return []
                unit = self._later(part, certain=False, first=False)
                return [Repeated(Call(unit), minimum, maximum)]
            case algebra.Separated(part=part, separator=separator):
                more = algebra.Repeat(algebra.Sequence((separator, part)))
                whole = algebra.Sequence((part, more))
                return [Call(self._later(whole, certain=certain, first=first))]
            case algebra.Label(name=name, part=part):
                if certain and first:
                    self.flat.initial_labels.append(name)
                    return self.atoms(part, certain=certain, first=first)
                self.flat.labels.append(name)
                label = len(self.flat.labels) - 1
                inner = self._later(part, certain=certain, first=False)
                return [Labelled(label, inner, certain)]
            case algebra.Sequence() | algebra.Union():
                return [Call(self._later(node, certain=certain, first=first))]
        raise IntegrityError(f"unknown language node {type(node).__name__}")

    def _later(self, node: algebra.Language, *, certain: bool, first: bool) -> int:
        rule = self.flat.new_rule()
        self.work.append((node, _Place(rule, certain=certain, first=first)))
        return rule

    def _content(self, constraint: OutputConstraint) -> int:
        if constraint not in self.contents:
            self.contents[constraint] = self.flat.add(content_grammar(constraint), self.tokens)
        return self.contents[constraint]

    @staticmethod
    def _is_text(node: algebra.Language) -> bool:
        return isinstance(node, algebra.Literal) and bool(node.bytes)
