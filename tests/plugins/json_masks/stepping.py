"""The machine alone, byte by byte: what masks are compared with, and texts found by walking along masks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from infernix_constraints.json_schema import ReducedSchema
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.language import Content, Language
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_json_masks.framing import compile_language
from infernix_json_masks.matcher import JsonGrammar, JsonMatcher
from infernix_json_masks.plans import Plans
from infernix_json_masks.provider import JsonMasks

#: Chosen more often where a walk should come to its end.
CLOSERS = frozenset(b'"]}')
#: Rarely chosen then: what leads on and on.
OPENERS = frozenset(b" \t\n\r{[\\.eE,") | frozenset(range(0x80, 0x100))


class _Given:
    """Makes the plans of a schema that is reduced already."""

    def __init__(self, schema: ReducedSchema) -> None:
        self.schema = schema

    def content(self, _node):
        return Plans(self.schema)


def grammar_of(masks: JsonMasks, schema) -> JsonGrammar:
    """The grammar of a schema's document, of a reduced schema or of a whole language."""
    if isinstance(schema, ReducedSchema):
        point = compile_language(Content(JsonSchema("{}")), _Given(schema))
        return JsonGrammar(masks.index, point, 0)
    if isinstance(schema, Language):
        return masks.compile(schema)
    return masks.compile(Content(JsonSchema.of(schema)))


def accepts(grammar: JsonGrammar, text: str | bytes) -> bool:
    """Whether a text is a whole one of the language."""
    matcher = grammar.start()
    raw = text.encode() if isinstance(text, str) else text
    return matcher.accept_text(raw) and matcher.may_end


def legal(matcher: JsonMatcher) -> set[int]:
    """The tokens of a matcher's mask, written over what was in the row before."""
    row = np.full(matcher.grammar.index.vocabulary.words, 0x5A5A5A5A, dtype=np.int32)
    some = matcher.fill(row)
    ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
    assert some == bool(ids)
    return set(ids)


def stepped(matcher: JsonMatcher, tokens: Sequence[int] | None = None) -> set[int]:
    """The text and END tokens that are legal by stepping byte by byte, of all or of some."""
    vocabulary, machine = matcher.grammar.index.vocabulary, matcher.grammar.machine
    configuration, _ = matcher.mark()
    found = set()
    for token in range(vocabulary.size) if tokens is None else tokens:
        kind = vocabulary.classes[token]
        if kind is TokenClass.TEXT:
            if machine.run(configuration, vocabulary.token_bytes[token]) is not None:
                found.add(token)
        elif kind is TokenClass.END and matcher.may_end:
            found.add(token)
    return found


def check_mask(matcher: JsonMatcher, seen: bytes | str, tokens: Sequence[int] | None = None):
    """Compares every bit of the mask, or those of some tokens. For states without framing tokens."""
    mask, expected = legal(matcher), stepped(matcher, tokens)
    if tokens is not None:
        mask &= set(tokens)
    if mask != expected:
        words = matcher.grammar.index.vocabulary.token_bytes
        few = [(words[token], token in mask) for token in sorted(mask ^ expected)[:8]]
        raise AssertionError(f"behind {seen!r}, token and whether the mask has it: {few}")
    return mask


def finish(matcher: JsonMatcher, rng: random.Random, limit: int = 2000) -> bytes | None:
    """Bytes that lead to the end, chosen along the masks of single bytes; None when there are too many.

    A dead end fails.
    """
    text = bytearray()
    while not matcher.may_end or (len(text) < 3 and rng.random() < 0.3):
        byte = next_byte(matcher, rng, text, closing=rng.random() < 0.9)
        if byte is None:
            break
        assert matcher.accept_text(bytes([byte]))
        text.append(byte)
        if len(text) > limit:
            return None
    return bytes(text)


def next_byte(matcher: JsonMatcher, rng: random.Random, seen, closing: bool) -> int | None:
    """A legal byte; None at an end behind which nothing comes. The first 256 tokens are the bytes."""
    following = [token for token in legal(matcher) if token < 256]
    assert following or matcher.may_end, f"a dead end behind {bytes(seen)!r}"
    if not following:
        return None
    in_string = {*b"]}"} <= set(following)
    closers = [byte for byte in following if byte in (b'"' if in_string else CLOSERS)]
    if closing and closers:
        return rng.choice(closers)
    quiet = [byte for byte in following if byte not in OPENERS]
    if not closing or not quiet:
        return rng.choice(sorted(following))
    # What leads somewhere of its own is as likely as what all others lead to.
    configuration, _ = matcher.mark()
    ways: dict[int, list[int]] = {}
    for byte in sorted(quiet):
        ways.setdefault(id(matcher.grammar.machine.step(configuration, byte)), []).append(byte)
    return rng.choice(rng.choice(list(ways.values())))


def random_text(grammar: JsonGrammar, rng: random.Random, limit: int = 600) -> bytes | None:
    """A whole text of the language by a random walk along the masks; None when it grew too long."""
    matcher, text = grammar.start(), bytearray()
    wander = rng.choice([0, 5, 20, 60])
    while len(text) < wander and not (matcher.may_end and rng.random() < 0.3):
        byte = next_byte(matcher, rng, text, closing=rng.random() < 0.3)
        if byte is None:
            break
        assert matcher.accept_text(bytes([byte]))
        text.append(byte)
    rest = finish(matcher, rng, limit)
    return None if rest is None else bytes(text) + rest
