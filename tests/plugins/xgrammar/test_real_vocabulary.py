"""Properties that only a real vocabulary shows: split characters, concurrency, and the speed of later visits."""

import hashlib
import statistics
import threading
import time

import numpy as np
import pytest

from infernix_core.interfaces.constraints import Choice, Grammar, JsonObject, Regex
from infernix_core.interfaces.language import (
    Content,
    Label,
    Literal,
    Repeat,
    TextExcept,
    Token,
    sequence,
)
from infernix_xgrammar.provider import XGrammarMaskProvider
from tests.plugins.xgrammar.test_masks import JSON_OBJECT

THINK_END, IM_END = 248069, 248046


def test_characters_split_over_tokens(qwen, qwen_bound, legal):
    compiled = qwen_bound.compile(Content(Choice(["😀", "😁"])))
    single = {raw: token for token, raw in enumerate(qwen.token_bytes) if len(raw) == 1}
    matcher = compiled.start()
    for byte in "😀".encode()[:3]:
        assert single[bytes([byte])] in legal(matcher)
        assert matcher.accept(single[bytes([byte])])
        assert not matcher.may_end
    assert legal(matcher) == {single[b"\x80"], single[b"\x81"]}
    assert matcher.accept(single[b"\x81"])
    assert legal(matcher) == {IM_END, 248044}


def test_thinking_then_an_object(qwen_bound, encode, legal):
    language = sequence(
        Repeat(TextExcept({THINK_END})),
        Token(THINK_END),
        Literal(b"\n\n"),
        Label("content", Content(JsonObject())),
    )
    matcher = qwen_bound.compile(language).start()
    for token in encode("The user wants JSON. </think>\n\n{ is how it begins.\n"):
        assert matcher.accept(token)  # the spelled tag is reasoning
    assert matcher.labels() == ()
    assert IM_END not in legal(matcher)
    assert matcher.accept(THINK_END)
    assert not matcher.accept(encode("{")[0])
    for token in encode('\n\n{"ok": true}'):
        assert matcher.accept(token)
    assert matcher.labels() == ("content",)
    assert IM_END in legal(matcher)


WALKS = [
    (Grammar(JSON_OBJECT), '{"name": "Ada Lovelace",\n  "tags": ["a", "b\\u0001"], "n": -12.5e3}'),
    (Grammar(JSON_OBJECT), ' {\n "x" : [1, 2, {"y": null}] }'),
    (Regex(r'"([^"\\]|\\.){0,40}"'), '"hello \\n world"'),
    (Regex(".{1,2000}"), "日本語 and some more text"),
]


def walk(compiled, words, tokens):
    """Digests of the masks along a text, and the time of each fill."""
    matcher, row = compiled.start(), np.zeros(words, dtype=np.int32)
    digests, times = [], []
    for token in [*tokens, None]:
        started = time.perf_counter()
        matcher.fill(row)
        times.append(time.perf_counter() - started)
        digests.append(hashlib.md5(row.tobytes()).hexdigest())
        if token is not None:
            assert matcher.accept(token)
    return digests, times


def test_threads_share_a_grammar_that_is_still_being_built(qwen, encode):
    """Masks are built when a state is first visited; here many threads visit new states together."""
    cases = [(constraint, encode(text)) for constraint, text in WALKS]
    alone = XGrammarMaskProvider().bind(qwen)
    expected = [walk(alone.compile(Content(c)), qwen.words, ids)[0] for c, ids in cases]
    for _ in range(2):
        bound = XGrammarMaskProvider().bind(qwen)
        compiled = {c: bound.compile(Content(c)) for c, _ in cases}
        found: list = [None] * 8
        barrier = threading.Barrier(8)

        def run(index, barrier=barrier, compiled=compiled, found=found):
            constraint, ids = cases[index % 4]
            barrier.wait()
            found[index] = walk(compiled[constraint], qwen.words, ids)[0]

        threads = [threading.Thread(target=run, args=(index,)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == expected * 2


@pytest.mark.parametrize(
    ("constraint", "text"),
    [
        *WALKS,
        (Regex("(a|b){0,16}"), "abbaabba"),
        (Regex("x{0,1000}"), "x" * 200),
        (Regex("[a-z]{1,8}(/[a-z]{1,8}){0,2}\\.java"), "src/main/foo.java"),
    ],
    ids=["object", "blanks", "escapes", "counted", "group", "end", "path"],
)
def test_visited_states_are_fast(constraint, text, qwen, qwen_bound, encode):
    """Without the lowering these shapes cost 2 ms to 250 ms a token, visited or not."""
    compiled = qwen_bound.compile(Content(constraint))
    times = []
    for _ in range(6):
        times = walk(compiled, qwen.words, encode(text))[1]
    assert statistics.median(times) < 1e-3
