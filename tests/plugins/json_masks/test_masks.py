"""Every bit of the masks against the machine alone, fed each token's bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from infernix_constraints.json_schema import StringShape
from infernix_constraints.strings.pattern import from_pattern
from infernix_json_masks.automata import Bounds, text_automaton
from tests.plugins.json_masks.schemas import GRAPHS, SCHEMAS
from tests.plugins.json_masks.stepping import (
    accepts,
    check_mask,
    finish,
    grammar_of,
    next_byte,
    random_text,
)

ALL = {**SCHEMAS, **GRAPHS}


def grammar(masks, name):
    return grammar_of(masks, ALL[name])


def walk(compiled, rng, steps):
    """Compares the mask at every step of a walk by tokens, and now and then after bytes."""
    vocabulary = compiled.index.vocabulary
    matcher, seen = compiled.start(), bytearray()
    for _ in range(steps):
        mask = check_mask(matcher, bytes(seen))
        text = [token for token in mask if vocabulary.token_bytes[token]]
        if not text:
            return
        if rng.random() < 0.5:
            byte = next_byte(matcher, rng, seen, closing=rng.random() < 0.4)
            raw = b"" if byte is None else bytes([byte])
            assert matcher.accept_text(raw)
        else:
            # Short tokens and long ones alike.
            token = max(
                rng.sample(sorted(text), min(rng.choice([1, 1, 8]), len(text))),
                key=lambda t: len(vocabulary.token_bytes[t]),
            )
            raw = vocabulary.token_bytes[token]
            assert matcher.accept(token)
        seen += raw


@pytest.mark.parametrize("name", ALL)
def test_every_bit(masks, name):
    compiled = grammar(masks, name)
    for seed in range(3):
        walk(compiled, random.Random(f"{name} {seed}"), 14)


@pytest.mark.heavy
@pytest.mark.parametrize("name", ALL)
def test_every_bit_of_longer_walks(masks, name):
    compiled = grammar(masks, name)
    for seed in range(3, 40):
        walk(compiled, random.Random(f"{name} {seed}"), 40)


@pytest.mark.parametrize("name", ALL)
def test_bits_along_whole_texts(masks, name):
    """Along texts of the language, at cuts inside of characters and escapes too."""
    compiled, rng = grammar(masks, name), random.Random(name)
    for _ in range(3):
        text = random_text(compiled, rng, 300)
        if text is None:
            continue
        assert accepts(compiled, text)
        for cut in sorted(rng.sample(range(len(text) + 1), min(6, len(text) + 1))):
            check_mask(compiled.start([text[:cut]]), text[:cut])


@pytest.mark.parametrize("name", ALL)
def test_no_dead_ends(byte_masks, name):
    compiled, rng = grammar(byte_masks, name), random.Random(name)
    texts = [random_text(compiled, rng) for _ in range(25)]
    assert sum(text is not None for text in texts) > 12, texts


@pytest.mark.parametrize(
    "name", ["records", "anything", "unique", "others by pattern", "counted few names"]
)
def test_what_was_forgotten_is_found_out_again(masks, monkeypatch, name):
    """A machine, summaries and lists that are dropped all the time change no mask."""
    monkeypatch.setattr("infernix_json_masks.machine.MAX_CONFIGURATIONS", 40)
    monkeypatch.setattr("infernix_json_masks.masks.MAX_SUMMARY_BYTES", 5_000)
    monkeypatch.setattr("infernix_json_masks.masks.MAX_SHARED_BYTES", 20_000)
    monkeypatch.setattr("infernix_json_masks.matcher.MAX_GRAMMAR_BYTES", 60_000)
    monkeypatch.setattr("infernix_json_masks.vocabulary.MAX_LISTS", 3)
    compiled = grammar(masks, name)
    for seed in range(3):
        walk(compiled, random.Random(f"{name} {seed}"), 8)


@pytest.mark.parametrize("name", ["anything", "3 to 40 characters", "optional members", "list"])
def test_at_most_32_blanks(masks, name):
    compiled, rng = grammar(masks, name), random.Random(name)
    text = b""
    while len(text) < 2 or text in (b"{}", b"[]", b'""'):
        text = (random_text(compiled, rng) or b"").strip()
    for blanks in (b" " * 31, b" " * 32, b"\n" * 30 + b"\t", b" \r\n\t" * 8):
        check_mask(compiled.start([blanks]), blanks)
        check_mask(compiled.start([text, blanks]), text + blanks)
        assert accepts(compiled, blanks + text + blanks)
    for blanks in (b" " * 33, b" \r\n\t" * 8 + b"\n"):
        assert not accepts(compiled, blanks + text)
        assert not accepts(compiled, text + blanks)


@pytest.mark.parametrize(
    ("pattern", "minimum", "maximum"),
    [
        ("^(ab|cde)+$", 0, 7),
        ("^(ab|cde)+$", 5, 5),
        ("^(ab|cde)+$", 4, None),
        ("^a(bb)*$", 2, 6),
        ("^(a|bcd|efghij)$", 3, 6),
        ("b", 0, 3),
        ("^(a{9}|b)$", 0, 5),
    ],
)
def test_viable_states_against_all_texts(pattern, minimum, maximum):
    """Bounds of the length with an automaton, against the automaton's own strings up to a length."""
    source = from_pattern(pattern)
    bounds = Bounds(text_automaton(source), minimum, maximum)
    shape = StringShape(minimum, maximum, source)
    longest = shape.maximum if shape.maximum is not None else minimum + source.states
    # Least and greatest counts of further characters, per state, by plain breadth-first search.
    for state in range(source.states):
        ends = []
        layer = {state}
        for more in range(longest + source.states + 1):
            ends += [more] if any(source.accepting[each] for each in layer) else []
            layer = {int(target) for each in layer for target in np.unique(source.table[each])} - {
                0
            }
        for used in range(longest + 1):
            possible = any(
                minimum <= used + more and (maximum is None or used + more <= maximum)
                for more in ends
            )
            assert bounds.admits(state, used) == possible, (state, used)


def test_ends_are_found_from_everywhere(byte_masks):
    """Marks along a walk: from each one on, a text comes to its end, and the way back is exact."""
    rng = random.Random(3)
    for name in ("records", "tree", "counted both", "contains", "pattern and both lengths"):
        matcher, marks, seen = grammar(byte_masks, name).start(), [], bytearray()
        for _ in range(40):
            marks.append((matcher.mark(), bytes(seen)))
            byte = next_byte(matcher, rng, seen, closing=rng.random() < 0.5)
            if byte is None:
                break
            assert matcher.accept_text(bytes([byte]))
            seen.append(byte)
        rng.shuffle(marks)
        for mark, before in marks:
            matcher.rollback(mark)
            assert matcher.mark() == mark
            rest = finish(matcher, rng)
            assert rest is None or accepts(grammar(byte_masks, name), before + rest)
