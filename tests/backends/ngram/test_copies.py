"""What is copied, case by case. Tokens are numbers; a prompt and an output are two lists."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from infernix_core.errors import IntegrityError, InvalidOption
from infernix_core.interfaces.speculative import DraftSetup
from infernix_ngram.backend import NgramBackend
from infernix_ngram.index import WindowIndex
from tests.backends.ngram.sources import (
    END,
    FRAMING,
    NOTHING,
    SPECIAL,
    VOCABULARY,
    asked,
    bound,
    drafts,
    fresh,
    row,
)

#: Tokens that stand once in any text here.
OTHERS = range(500, 1000)


def chunk(name: int, size: int) -> list[int]:
    """Tokens of a chunk's own, below 500."""
    return list(range(100 * name, 100 * name + size))


@pytest.mark.parametrize("min_match", range(4, 65))
def test_a_match_is_exactly_as_long_as_asked_for(min_match: int) -> None:
    source = chunk(0, min_match)
    prompt = [501, *source, *chunk(2, 20)]
    assert fresh(prompt, source, min_match=min_match) == chunk(2, 15)
    # One less, because the output is shorter or what stands before differs.
    assert fresh(prompt, source[1:], min_match=min_match) == []
    assert fresh(prompt, [502, *source[1:]], min_match=min_match) == []


@pytest.mark.parametrize("limit", range(16))
def test_a_limit_cuts_the_copy(limit: int) -> None:
    prompt = [*chunk(0, 12), *chunk(2, 20)]
    assert fresh(prompt, chunk(0, 12), limit=limit) == chunk(2, limit)
    assert fresh(prompt, chunk(0, 12), drafts=5) == chunk(2, 5)


def test_a_smaller_limit_cuts_the_same_copy() -> None:
    """The older one is longer, the newer one would do for two tokens; the choice does not depend on the limit."""
    prompt = [*chunk(0, 12), *chunk(2, 20), END, *chunk(0, 12), 600, 601, END]
    assert fresh(prompt, chunk(0, 12), drafts=15, limit=2) == chunk(2, 2)


def test_the_longest_match_wins_and_then_the_longer_copy_and_then_the_newest() -> None:
    tail = chunk(0, 20)
    best = [*tail, *chunk(2, 15), END]
    shorter = [600, *tail[4:], *chunk(3, 15), END]
    cut = [*tail, *chunk(4, 3), END]
    assert fresh([*best, *shorter], tail) == chunk(2, 15)
    assert fresh([*shorter, *best], tail) == chunk(2, 15)
    assert fresh([*best, *cut], tail) == chunk(2, 15)
    assert fresh([*cut, *best], tail) == chunk(2, 15)
    newer = [*tail, *chunk(3, 15), END]
    assert fresh([*best, *newer], tail) == chunk(3, 15)


def test_a_match_of_more_than_64_tokens_counts_as_64() -> None:
    tail = [n % 97 for n in range(80)]
    long = [*tail, *chunk(2, 15), END]
    enough = [600, *tail[-64:], *chunk(3, 15), END]
    assert fresh([*long, *enough], tail) == chunk(3, 15)
    assert fresh([*long, 600, *tail[-63:], *chunk(3, 15), END], tail) == chunk(2, 15)


@pytest.mark.parametrize("special", SPECIAL)
def test_special_tokens_bound_windows_and_copies(special: int) -> None:
    prompt = [*chunk(0, 12), *chunk(2, 3), special, *chunk(3, 20)]
    assert fresh(prompt, chunk(0, 12)) == chunk(2, 3)
    # No match goes over one, though it is the same here and there, nor starts at one.
    across = [*chunk(0, 6), special, *chunk(1, 6), *chunk(2, 20)]
    assert fresh(across, across[:13], min_match=6) == chunk(2, 15)
    assert fresh(across, across[:13], min_match=7) == []
    assert fresh([*chunk(0, 12), special, *chunk(2, 9)], [*chunk(0, 12), special]) == []
    # An occurrence that a boundary follows gives no copy, so another one may.
    nothing = [*chunk(0, 13), special]
    assert fresh([501, *chunk(0, 13)[1:], 7, *nothing], chunk(0, 13)) == [7, *nothing[:-1]]


def test_the_prompts_ends_are_boundaries() -> None:
    # The copy stops where the prompt does.
    assert fresh([*chunk(0, 12), 7, 8], [9, *chunk(0, 12)]) == [7, 8]
    # A match needs its tokens in the output, whatever the prompt ends with.
    assert fresh([*chunk(0, 12), 7, 8, *chunk(0, 11)], chunk(0, 12)[11:]) == []
    assert fresh([*chunk(0, 12), 7, *chunk(0, 12)], []) == []


def test_the_output_is_copied_too_up_to_what_is_there() -> None:
    loop = chunk(0, 12)
    assert fresh([7], [*loop, *loop]) == loop
    # Where a loop was long enough for equal matches, older turns of it give more, four at most.
    assert fresh([7], [1, 2] * 40) == [1, 2] * 4
    assert fresh([7], [*loop * 7]) == loop
    assert fresh([7], [*loop * 8]) == (loop * 2)[:15]


def test_only_the_newest_four_occurrences_of_a_window_are_looked_at() -> None:
    tail = chunk(0, 20)
    best = [*tail, *chunk(2, 15), END]
    worse = [[600 + n, *tail[1:], 700 + n, END] for n in range(4)]
    flat = [token for piece in worse for token in piece]
    assert fresh([*best, *flat], tail) == [703]
    assert fresh([*best, *flat[22:]], tail) == chunk(2, 15)
    assert fresh([*flat, *best], tail) == chunk(2, 15)


def test_nothing_is_known_of_the_future() -> None:
    """A list that holds more later, sequences that differ later: drafts are those of what there was."""
    history = [*chunk(0, 12), *chunk(2, 20), *chunk(0, 12)]
    whole = bound(lanes=2)
    for future in ([300], [301], chunk(2, 9)):
        backend = bound()
        backend.prefilled(0, history[:32], 0, {}, NOTHING)
        for end in range(33, len(history) + 1):
            assert drafts(backend, history[:end], 32) == drafts(bound(), history[:end], 32)
        growing = list(history)
        there = row(growing, 32, lane=1)
        assert asked(whole, [there]) == [chunk(2, 15)]
        growing += future
        assert asked(whole, [there]) == [drafts(bound(), growing, 32)]
        whole.release(1)


def output_of(*pieces: tuple[int, int]) -> tuple[list[int], list[int]]:
    """A prompt of four sources, and an output that begins with each of ``pieces``: a source, and how far it is kept to.

    A source is 40 tokens to be found by and 20 to be copied.
    """
    sources = {name: [name * 100 + n for n in range(60)] for name in range(4)}
    prompt = [token for source in sources.values() for token in (*source, END)]
    others = iter(OTHERS)
    output = []
    for name, right in pieces:
        output += [next(others), *sources[name][:12], *sources[name][12 : 12 + right]]
    return prompt, output


class TestBackOff:
    """Copies have 15 tokens and need 12, 24 or 36 equal ones."""

    def after(self, pieces: Sequence[tuple[int, int]], tail: int) -> list[int]:
        """What is drafted after a part of source 3."""
        prompt, output = output_of(*pieces)
        return fresh(prompt, [*output, 999, *range(300, 300 + tail)])

    def test_bad_copies_raise_the_match_that_is_needed_and_good_ones_lower_it(self) -> None:
        def needed(*pieces: tuple[int, int]) -> int:
            # Found one by one, since a copy that is under way at the tail tells the level as well.
            return next(n for n in range(1, 61) if self.after(pieces, n))

        assert needed() == 12
        # The first number is the source, the second how many copied tokens were right.
        assert needed((0, 0)) == 24
        assert needed((0, 3)) == 24
        assert needed((0, 4)) == 12
        assert needed((0, 0), (1, 11)) == 24  # its 23 tokens are no match any more
        assert needed((0, 0), (1, 12)) == 36  # imagined from the 24th token on, and wrong at once
        assert needed((0, 0), (1, 15)) == 36
        assert needed((0, 0), (1, 16)) == 12
        assert needed((0, 0), (1, 12), (2, 23)) == 36
        assert needed((0, 0), (1, 12), (2, 24)) == 36
        assert needed((0, 0), (1, 12), (2, 28)) == 24

    def test_a_copy_is_over_with_the_token_behind_it(self) -> None:
        """As a round is whose drafts were all right: the next copy is imagined after that token."""

        def needed(right: int) -> int:
            return next(n for n in range(1, 61) if self.after([(0, right)], n))

        assert needed(15) == 12
        assert needed(16) == 24  # the next one is wrong at once
        assert needed(19) == 24
        assert needed(20) == 12

    def test_the_match_that_is_needed_is_at_most_64(self) -> None:
        source = [n % 449 for n in range(120)]
        output = [*source[:40], END, *source[:64], END]
        prompt = [*source, END]
        assert fresh(prompt, [*output, *source[:63]], min_match=40) == []
        assert fresh(prompt, [*output, *source[:64]], min_match=40) == source[64:79]

    def test_short_copies_that_were_right_to_the_end_are_good(self) -> None:
        """Three tokens and a boundary: right ones lower the level, though they are fewer than four."""
        prompt = [*chunk(0, 60), END, *chunk(1, 24), 7, 8, 9, END, *chunk(2, 12), 8, END]
        bad = [600, *chunk(0, 12)]
        assert fresh(prompt, [*bad, 601, *chunk(2, 12)]) == []
        good = [602, *chunk(1, 24), 7, 8, 9]
        assert fresh(prompt, [*bad, *good, 601, *chunk(2, 12)]) == [8]

    def test_rounds_play_no_part(self) -> None:
        """Who was never asked, or for nothing, knows as much as who was asked at every token."""
        prompt, output = output_of((0, 0), (1, 12), (2, 28))
        output += [999, *range(300, 324)]
        every, none = bound(), bound()
        for end in range(1, len(output) + 1):
            drafts(every, [*prompt, *output[:end]], len(prompt))
            drafts(none, [*prompt, *output[:end]], len(prompt), 0)
        expected = fresh(prompt, output)
        assert expected == list(range(324, 339))
        for backend in (every, none):
            assert drafts(backend, [*prompt, *output], len(prompt)) == expected


def test_an_index_built_at_once_is_one_built_token_by_token() -> None:
    """The same bytes, whatever the pieces, and they need no more memory as they grow."""
    rng = random.Random(0)
    special = bytes(token in SPECIAL for token in range(VOCABULARY.size))
    tokens = rng.choices([1, 2, 3, 4, FRAMING], weights=[9, 9, 9, 9, 1], k=900)
    one_by_one = WindowIndex(1000, special, 4)
    size = one_by_one.memory_size
    for token in tokens:
        one_by_one.append(token)
    for _ in range(10):
        pieces = WindowIndex(1000, special, 4)
        pieces.extend(rng.choices(range(1000), k=100))
        pieces.clear()
        while len(pieces) < len(tokens):
            rest = tokens[len(pieces) :]
            if rng.random() < 0.5:
                pieces.extend(rest[: rng.randint(0, 70)])
            else:
                pieces.append(rest[0])
        for required in (4, 8, 16, 20):
            assert pieces.copy(required, 15) == one_by_one.copy(required, 15)
        for more in rng.choices([1, 2, 3, 4], k=60):
            pieces.append(more)
            one_by_one.append(more)
            assert pieces.copy(6, 15) == one_by_one.copy(6, 15)
        one_by_one.clear()
        one_by_one.extend(tokens)
        assert pieces.memory_size == one_by_one.memory_size == size


def test_more_tokens_than_buckets() -> None:
    """Buckets are at most 2^20; a longer history is found in all the same, at its beginning and at its end."""
    size = (1 << 20) + 3000
    rng = random.Random(1)
    prompt = rng.choices(range(900), k=size)
    backend = bound(capacity=size + 100)
    backend.prefilled(0, prompt, 0, {}, NOTHING)
    for start in (0, size // 2, size - 40):
        output = [950, *prompt[start : start + 16]]
        assert drafts(backend, [*prompt, *output], size) == prompt[start + 16 : start + 31]
        backend.rebuild(0, prompt, {}, NOTHING)


def test_a_look_compares_few_occurrences(monkeypatch: pytest.MonkeyPatch) -> None:
    """One token over and over, the same record over and over: a token costs at most four comparisons a width."""
    compared = 0
    match = WindowIndex._match

    def counted(self: WindowIndex, end: int, tail: int) -> int:
        nonlocal compared
        compared += 1
        return match(self, end, tail)

    monkeypatch.setattr(WindowIndex, "_match", counted)
    for loop in ([1], chunk(0, 7), chunk(0, 40)):
        backend = bound(4)
        history = (loop * 4000)[:4000]
        for end in range(3900, 4001):
            compared = 0
            drafts(backend, history[:end], 3899)
            # One look for the imagined copy, or one for the proposal where an imagined one is under way.
            assert compared <= 3 * 4


def test_a_sequence_that_is_longer_than_its_lane_is_a_fault() -> None:
    backend = bound(capacity=50)
    assert drafts(backend, chunk(0, 50), 20) == []
    with pytest.raises(IntegrityError, match="51 tokens in a sequence of at most 50 positions"):
        drafts(backend, chunk(0, 51), 20)


def setup(**options: object) -> DraftSetup:
    return DraftSetup(**{"lanes": 2, "drafts": None, "capacity": 100} | options)


def test_the_width() -> None:
    assert NgramBackend().bind(NOTHING, VOCABULARY, setup()).width == 15
    for drafts_ in range(1, 16):
        assert NgramBackend().bind(NOTHING, VOCABULARY, setup(drafts=drafts_)).width == drafts_


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drafts": 16}, "draft_tokens: 16 tokens cannot be copied at once (1 to 15)"),
        ({"drafts": 0}, "draft_tokens: 0 tokens cannot be copied at once (1 to 15)"),
        ({"min_match": 3}, "ngram_min_match: a match of 3 tokens cannot be asked for (4 to 64)"),
        ({"min_match": 65}, "ngram_min_match: a match of 65 tokens cannot be asked for (4 to 64)"),
        (
            {"drafter": "there"},
            "drafter: copies need no drafter, and there is given (leave it out)",
        ),
    ],
)
def test_what_cannot_be_bound(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidOption) as refusal:
        NgramBackend().bind(NOTHING, VOCABULARY, setup(**options))
    assert str(refusal.value) == message


def test_it_keeps_no_state_in_the_program_and_reads_no_feature() -> None:
    backend = bound()
    assert (tuple(backend.states()), tuple(backend.features())) == ((), ())
