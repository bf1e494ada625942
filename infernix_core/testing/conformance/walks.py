"""What the mask provider suite walks over: languages, texts, and the state of a matcher as a value."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

import numpy as np
from attrs import frozen

from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.language import (
    Label,
    Language,
    Literal,
    Repeat,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.mask_provider import GrammarMatcher, MaskRow
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary

CLOSE = "</think>"
SEPARATOR = b"\n\n"


@frozen
class ContentCase:
    """A constraint, texts that are whole texts of it, and texts that are not."""

    constraint: OutputConstraint
    members: tuple[str, ...]
    strangers: tuple[str, ...]


CHOICE = ContentCase(
    Choice(["red", "reddish", "green", "€uro \U0001f600", ""]),
    ("red", "reddish", "green", "€uro \U0001f600", ""),
    ("re", "Red", "red ", "greenred", "€"),
)

#: One case for each further kind of constraint, within what every provider of it should know.
CASES: Mapping[str, ContentCase] = {
    "regex": ContentCase(
        Regex("[a-c]{2,3}(é|€)?x*"), ("ab", "abcé", "cc€xx"), ("a", "abcd", "abéé", "ab ")
    ),
    "grammar": ContentCase(
        Grammar('root ::= "(" root ")" | [0-9]{1,2} "é"?'),
        ("1", "12é", "((7))"),
        ("123", "(1", "(1))", "é"),
    ),
    "json_object": ContentCase(
        JsonObject(),
        ('{"a": [1, true, null, "é"]}', "{}", ' {"a":{"b":-1.5e3}}\n'),
        ("[1]", '{"a" 1}', '{"a": 1,}', "{} {}"),
    ),
    "json_schema": ContentCase(
        JsonSchema.of(
            {
                "type": "object",
                "properties": {"line": {"type": "integer", "minimum": 1, "maximum": 99}},
                "required": ["line"],
                "additionalProperties": False,
            }
        ),
        ('{"line": 42}', '{"line":1}'),
        ('{"line": 0}', '{"line": 100}', '{"line": "1"}', "{}"),
    ),
}


def languages(vocabulary: Vocabulary, content: Language) -> dict[str, Language]:
    """The content as it is, and within every other node of the algebra."""
    close = vocabulary.framing[CLOSE]
    thinking = sequence(
        Repeat(TextExcept({close})), Token(close), Literal(SEPARATOR), Label("content", content)
    )
    return {
        "bare": content,
        "labelled": Label("content", content),
        "after thinking": thinking,
        "union": Union(
            [
                sequence(Literal(b"{{"), Label("content", content)),
                sequence(Token(close), Label("other", Literal(b"!")), Repeat(Literal(b"-"), 1, 3)),
            ]
        ),
        "between": sequence(Repeat(Literal(b"ab"), 0, 2), Label("content", content), Literal(b";")),
    }


def fill(matcher: GrammarMatcher, vocabulary: Vocabulary, before: int = 0) -> MaskRow:
    """A mask, written over a row that is full of ``before``."""
    row: MaskRow = np.full(vocabulary.words, before, dtype=np.int32)
    assert matcher.fill(row) == bool(row.any()), "fill says whether any token is legal"
    return row


def legal(row: MaskRow) -> list[int]:
    """The tokens of a mask, ascending; also those beyond the vocabulary, if a bit is set there."""
    bits = np.unpackbits(row.view(np.uint8), bitorder="little")
    return [int(token) for token in np.flatnonzero(bits)]


@frozen
class Snapshot:
    """Everything of a matcher that can be seen."""

    tokens: tuple[int, ...]
    may_end: bool
    terminated: bool
    labels: tuple[str, ...]

    @classmethod
    def of(cls, matcher: GrammarMatcher, vocabulary: Vocabulary) -> Snapshot:
        """Looks at a matcher. A terminated one has no mask."""
        tokens = () if matcher.terminated else tuple(legal(fill(matcher, vocabulary)))
        return cls(
            tokens, matcher.may_end and not matcher.terminated, matcher.terminated, matcher.labels()
        )


def walk(
    matcher: GrammarMatcher, vocabulary: Vocabulary, rng: random.Random, steps: int
) -> Iterator[int]:
    """Accepts random legal tokens until an end token or ``steps``; yields each after it was accepted.

    Framing and end tokens are preferred now and then, since text would hide them.
    """
    for _ in range(0 if matcher.terminated else steps):
        tokens = legal(fill(matcher, vocabulary))
        if not tokens:
            return
        special = [t for t in tokens if vocabulary.classes[t] is not TokenClass.TEXT]
        token = rng.choice(special if special and rng.random() < 0.25 else tokens)
        assert matcher.accept(token), f"accept refuses token {token}, which fill allowed"
        yield token
        if matcher.terminated:
            return
