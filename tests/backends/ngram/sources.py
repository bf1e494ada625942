"""Bound backends without a model: copying reads histories alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infernix_core.interfaces.speculative import BoundBackend, DraftRow, DraftSetup
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_ngram.backend import NgramBackend

#: 1000 tokens of text, and one of every other class.
TEXT = 1000
SPECIAL = (FRAMING, END, FORBIDDEN) = (TEXT, TEXT + 1, TEXT + 2)
VOCABULARY = Vocabulary(
    token_bytes=(*[b"x"] * TEXT, b"", b"", b""),
    classes=(*[TokenClass.TEXT] * TEXT, TokenClass.FRAMING, TokenClass.END, TokenClass.FORBIDDEN),
)
NOTHING: Any = None


def bound(
    min_match: int = 12, *, drafts: int | None = None, lanes: int = 1, capacity: int = 4096
) -> BoundBackend:
    setup = DraftSetup(lanes=lanes, drafts=drafts, capacity=capacity, min_match=min_match)
    return NgramBackend().bind(NOTHING, VOCABULARY, setup)


def row(history: Sequence[int], prompt_length: int, *, lane: int = 0, limit: int = 15) -> DraftRow:
    return DraftRow(
        lane=lane, history=history, prompt_length=prompt_length, limit=limit, temperature=1, seed=0
    )


def asked(backend: BoundBackend, rows: Sequence[DraftRow]) -> list[list[int]]:
    """The drafts of each row; the round is dropped."""
    proposal = backend.propose(rows, NOTHING)
    backend.abort()
    assert proposal.distribution is None
    return [proposal.ids[n, :extent].tolist() for n, extent in enumerate(proposal.extents)]


def drafts(
    backend: BoundBackend, history: Sequence[int], prompt_length: int, limit: int = 15
) -> list[int]:
    """The drafts of the first lane."""
    return asked(backend, [row(history, prompt_length, limit=limit)])[0]


def fresh(
    prompt: Sequence[int], output: Sequence[int], *, limit: int = 15, **options: Any
) -> list[int]:
    """The drafts of a new backend that learns of everything at once."""
    return drafts(bound(**options), [*prompt, *output], len(prompt), limit)
