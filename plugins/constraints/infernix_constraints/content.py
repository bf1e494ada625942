"""From a content constraint to its grammar."""

from __future__ import annotations

from infernix_constraints.choice import choice_grammar
from infernix_constraints.gbnf import parse_gbnf
from infernix_constraints.grammar import Grammar
from infernix_constraints.regex import regex_grammar
from infernix_core.errors import ConstraintError
from infernix_core.interfaces import constraints


def content_grammar(constraint: constraints.OutputConstraint) -> Grammar:
    """The grammar of every kind but JSON, whose reduced form each provider reads its own way.

    Raises:
        ConstraintError: The constraint is not valid, or of a kind that has no grammar here.
    """
    match constraint:
        case constraints.Grammar(source=source):
            return parse_gbnf(source)
        case constraints.Regex(pattern=pattern):
            return regex_grammar(pattern)
        case constraints.Choice(literals=literals):
            return choice_grammar(literals)
    raise ConstraintError(f"constraint kind {type(constraint).__name__} has no grammar")
