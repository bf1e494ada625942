"""Regular expressions: an ECMAScript flavour without anything that is not regular, read into the grammar IR.

The syntax is that of ECMAScript patterns; brackets and braces that mean nothing must be escaped. Greedy and lazy
repetitions describe the same language, and groups capture nothing. ``^`` and ``$`` stand only at the ends of the
expression or of a top-level alternative.
"""

from __future__ import annotations

from infernix_constraints.grammar import Grammar
from infernix_constraints.regex_parser import Pattern, PatternParser
from infernix_core.errors import InvalidRegex, Location

#: Characters of an expression.
MAX_SOURCE = 1 << 16


def parse_pattern(source: str) -> Pattern:
    """Reads an expression.

    Raises:
        InvalidRegex: It is not well formed or not admitted; the location is a character offset.
    """
    check_length(source)
    return PatternParser(source).pattern()


def check_length(source: str) -> None:
    """Refuses an expression of more than ``MAX_SOURCE`` characters.

    Raises:
        InvalidRegex: It is longer.
    """
    if len(source) > MAX_SOURCE:
        raise InvalidRegex(
            f"the expression has {len(source)} characters",
            location=Location(offset=MAX_SOURCE),
            hint=f"at most {MAX_SOURCE}",
        )


def regex_grammar(source: str) -> Grammar:
    """The grammar of the texts that an expression matches from end to end.

    Raises:
        InvalidRegex: As :func:`parse_pattern`.
    """
    return Grammar(rules={"root": parse_pattern(source).whole()}, root="root")
