"""Text that may end, or that turns into a fixed continuation at a token: against the plain provider."""

from __future__ import annotations

import random

import numpy as np

from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.language import Content, Label, free_until
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.toy import toy_vocabulary
from infernix_xgrammar.provider import XGrammarMaskProvider


def test_masks_equal_the_plain_providers_on_random_walks() -> None:
    vocabulary = toy_vocabulary([b"ab", b"bc", b"\n\n"])
    opener = vocabulary.framing["</think>"]
    language = free_until(opener, Label("call", Content(Choice(["ab", "abc", "\nb"]))))
    plain = PlainProvider().bind(vocabulary).compile(language)
    real = XGrammarMaskProvider().bind(vocabulary).compile(language)
    reached = set()
    for seed in range(40):
        rng = random.Random(seed)
        one, other = plain.start(), real.start()
        rows = np.zeros((2, vocabulary.words), dtype=np.int32)
        for _ in range(8):
            assert one.fill(rows[0]) == other.fill(rows[1])
            assert (rows[0] == rows[1]).all()
            assert one.may_end == other.may_end
            legal = [t for t in range(vocabulary.size) if rows[0][t >> 5] >> (t & 31) & 1]
            token = opener if opener in legal and rng.random() < 0.3 else rng.choice(legal)
            assert one.accept(token)
            assert other.accept(token)
            if one.terminated:
                break
            reached.update(other.labels())
    assert reached == {"call"}
