"""Texts as tokens, without a tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary


def spelt(
    text: bytes, vocabulary: Vocabulary, choose: Callable[[Sequence[int]], int] = max
) -> list[int]:
    """TEXT tokens whose bytes are ``text``.

    Args:
        text: What they spell.
        vocabulary: Has tokens for all of it; of tokens with equal bytes the last is taken.
        choose: The length of the next token, from those that fit, ascending.
    """
    known = {
        raw: token
        for token, (raw, kind) in enumerate(
            zip(vocabulary.token_bytes, vocabulary.classes, strict=True)
        )
        if kind is TokenClass.TEXT
    }
    longest = max(map(len, known))
    tokens, at = [], 0
    while at < len(text):
        sizes = range(1, min(longest, len(text) - at) + 1)
        size = choose([size for size in sizes if text[at : at + size] in known])
        tokens.append(known[text[at : at + size]])
        at += size
    return tokens
