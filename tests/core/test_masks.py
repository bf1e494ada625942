"""Lookahead: what each column's mask means, and that nothing of it remains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from infernix_core.engine.masks import NotReady, fill_columns, is_legal
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.sampling import MaskState
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.plain_provider import PlainMatcher, PlainProvider

READY, DEAD_END, UNREACHABLE = MaskState.READY, MaskState.DEAD_END, MaskState.UNREACHABLE
TOKENS = (b"a", b"b", b"ab", b"x", b"")
A, B, AB, X, END = range(5)
VOCABULARY = Vocabulary(TOKENS, (*(TokenClass.TEXT,) * 4, TokenClass.END))


def matcher(*texts: str) -> PlainMatcher:
    return PlainProvider(VOCABULARY).compile(Content(Choice(texts))).start()


def legal(row: np.ndarray) -> set[int]:
    return {token for token in range(len(TOKENS)) if is_legal(row, token)}


@pytest.mark.parametrize(
    ("texts", "drafts", "states", "masks"),
    [
        (("abx",), [], [READY], [{A, AB}]),
        (("abx",), [A, B], [READY] * 3, [{A, AB}, {B}, {X}]),
        (("abx",), [AB, X], [READY] * 3, [{A, AB}, {X}, {END}]),
        (("abx",), [B, A], [READY, UNREACHABLE, UNREACHABLE], [{A, AB}]),
        (("abx",), [A, X, B], [READY, READY, UNREACHABLE, UNREACHABLE], [{A, AB}, {B}]),
        (("ab?", "ax"), [A, B, X], [READY, READY, DEAD_END, UNREACHABLE], [{A, AB}, {B, X}]),
        (("a",), [A, END, A], [READY, READY, UNREACHABLE, UNREACHABLE], [{A}, {END}]),
        (("a", "ab"), [A, END], [READY, READY, UNREACHABLE], [{A, AB}, {B, END}]),
        (("?",), [], [DEAD_END], []),
        (("?",), [A], [DEAD_END, UNREACHABLE], []),
        (("",), [END], [READY, UNREACHABLE], [{END}]),
        (("a",), [99], [READY, UNREACHABLE], [{A}]),
    ],
)
def test_the_meaning_of_every_column(
    texts: tuple[str, ...], drafts: list[int], states: list[MaskState], masks: list[set[int]]
) -> None:
    m = matcher(*texts)
    before = m.mark()
    columns = np.full((len(drafts) + 1, 1), -1, dtype=np.int32)
    assert list(fill_columns(m, drafts, columns)) == states
    assert [legal(row) for row in columns[: len(masks)]] == masks
    assert m.mark() == before
    for row, state in zip(columns, states, strict=True):
        if state is UNREACHABLE:
            assert row.tolist() == [-1]


def test_every_draft_chain_against_fresh_matchers() -> None:
    texts = ("ab", "abab", "ax", "x")
    for drafts in itertools.product(range(len(TOKENS)), repeat=3):
        columns = np.zeros((4, 1), dtype=np.int32)
        states = fill_columns(matcher(*texts), drafts, columns)
        for column in range(4):
            fresh = matcher(*texts)
            alive = all(not fresh.terminated and fresh.accept(draft) for draft in drafts[:column])
            if not alive or fresh.terminated:
                assert states[column] is UNREACHABLE
            else:
                row = np.zeros(1, dtype=np.int32)
                any_legal = fresh.fill(row)
                assert states[column] is (READY if any_legal else DEAD_END)
                assert (row == columns[column]).all()


def test_a_matcher_that_raises_is_rolled_back() -> None:
    class Broken(PlainMatcher):
        def accept(self, token: int) -> bool:
            if token == B:
                return False
            return super().accept(token)

    m = Broken(VOCABULARY, matcher("abx").items)
    before = m.mark()
    with pytest.raises(IntegrityError):
        fill_columns(m, [A, B, X], np.zeros((4, 1), dtype=np.int32))
    assert m.mark() == before


@pytest.mark.parametrize("ready", range(5))
def test_masks_that_are_no_look_up_are_left(ready: int) -> None:
    """Those before are filled, nothing behind them, and the matcher is back at its mark."""

    class Partly(PlainMatcher):
        filled = 0

        @property
        def ready(self) -> bool:
            return self.filled < ready

        def fill(self, row) -> bool:
            self.filled += 1
            return super().fill(row)

    m = Partly(VOCABULARY, matcher("abx").items)
    before, columns = m.mark(), np.zeros((4, 1), dtype=np.int32)
    if ready < 4:
        with pytest.raises(NotReady):
            fill_columns(m, [A, B, X], columns, looking_up=True)
        assert m.filled == ready
    else:
        states = fill_columns(m, [A, B, X], columns, looking_up=True)
        other = np.zeros_like(columns)
        assert states == fill_columns(matcher("abx"), [A, B, X], other)
        assert (columns == other).all()
    assert m.mark() == before


def test_bits_of_high_words_and_the_sign_bit() -> None:
    row = np.array([0, -(2**31), 1], dtype=np.int32)
    assert [t for t in range(-5, 200) if is_legal(row, t)] == [63, 64]
