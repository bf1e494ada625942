"""Short forms for building grammar expressions."""

from __future__ import annotations

from collections.abc import Iterable

from infernix_constraints.grammar import Alternatives, Expression, Sequence


def concat(*parts: Expression) -> Expression:
    """One part after the other."""
    return parts[0] if len(parts) == 1 else Sequence(parts)


def either(options: Iterable[Expression]) -> Expression:
    """Any one of the options."""
    choice = tuple(options)
    return choice[0] if len(choice) == 1 else Alternatives(choice)
