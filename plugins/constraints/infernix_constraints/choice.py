"""A finite set of strings as a grammar."""

from __future__ import annotations

from collections.abc import Iterable

from infernix_constraints.grammar import SURROGATES, Alternatives, Grammar, Text
from infernix_core.errors import InvalidChoice

#: Characters of all choices together.
MAX_CHARACTERS = 1 << 21


def choice_grammar(literals: Iterable[str]) -> Grammar:
    """Exactly these strings: case, blanks and Unicode as they stand; the empty string is one of them.

    Raises:
        InvalidChoice: There is none, or one holds a surrogate, which no text can spell.
    """
    distinct = sorted(set(literals))
    characters = sum(map(len, distinct))
    if characters > MAX_CHARACTERS:
        raise InvalidChoice(
            f"the choices have {characters} characters in all", hint=f"at most {MAX_CHARACTERS}"
        )
    if not distinct:
        raise InvalidChoice("the list of choices is empty", hint="give at least one string")
    for literal in distinct:
        for offset, character in enumerate(literal):
            if SURROGATES[0] <= ord(character) <= SURROGATES[1]:
                raise InvalidChoice(
                    f"choice {literal!a} holds a surrogate at offset {offset}",
                    hint="write the character itself",
                )
    return Grammar(
        rules={"root": Alternatives([Text(literal) for literal in distinct])}, root="root"
    )
