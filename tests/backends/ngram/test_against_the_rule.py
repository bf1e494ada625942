"""Every proposal is the rule's, on random histories, however the history came about."""

from __future__ import annotations

import random

import pytest

from infernix_core.interfaces.speculative import BoundBackend
from infernix_ngram import index
from tests.backends.ngram.plain import Rule, random_history
from tests.backends.ngram.sources import NOTHING, SPECIAL, asked, bound, drafts, row

MATCHES = (4, 5, 7, 8, 9, 12, 15, 16, 24, 40, 64)


def some_case(rng: random.Random) -> tuple[Rule, list[int], int]:
    """The rule, a history and the length of its prompt."""
    rule = Rule(SPECIAL, rng.choice(MATCHES), rng.randint(1, 15))
    history = random_history(rng, SPECIAL, rng.choice([20, 60, 120, 250]))
    return rule, history, rng.randint(1, len(history) - 1)


def check(seeds: range) -> None:
    found = 0
    for seed in seeds:
        rng = random.Random(seed)
        rule, history, prompt_length = some_case(rng)
        backend = bound(rule.min_match, drafts=rule.most)
        places = [*range(prompt_length + 1, len(history) + 1)]
        for end in sorted(rng.sample(places, min(len(places), 6))):
            limit = rng.randint(0, rule.most)
            expected = rule.drafts(history[:end], prompt_length, limit)
            assert drafts(backend, history[:end], prompt_length, limit) == expected, seed
            found += bool(expected)
    assert found > len(seeds) / 2


def test_proposals_are_the_rules() -> None:
    check(range(400))


@pytest.mark.heavy
def test_proposals_are_the_rules_at_length() -> None:
    check(range(1000, 20_000))


def test_random_histories_reach_everything() -> None:
    """Levels, cut copies, ties and more than four occurrences, or the comparison would say little."""
    levels: dict[int, int] = {0: 0, 1: 0, 2: 0}
    crowded = False
    for seed in range(150):
        rule, history, prompt_length = some_case(random.Random(seed))
        levels[rule.level(history, prompt_length)] += 1
        windows = [tuple(history[n : n + 4]) for n in range(len(history) - 4)]
        crowded = crowded or windows.count(tuple(history[-4:])) > 4
    assert min(levels.values()) > 3
    assert crowded


def tell(rng: random.Random, backend: BoundBackend, lane: int, executed: list[int]) -> None:
    """Tells the beginning of a sequence in chunks, or only some of it: nothing depends on it."""
    told = rng.choice([0, len(executed) // 2, len(executed)])
    start = 0
    while start < told:
        count = rng.randint(1, 17)
        backend.prefilled(lane, executed[start : start + count], start, {}, NOTHING)
        start += count


@pytest.mark.parametrize("seed", range(40))
def test_rounds_chunks_lanes_and_replays_change_nothing(seed: int) -> None:
    """Three lanes in rounds of some of them: limits, counts, aborts, rebuilds and appended texts at random."""
    rng = random.Random(seed)
    rule = Rule(SPECIAL, rng.choice(MATCHES[:6]), rng.randint(1, 15))
    backend = bound(rule.min_match, drafts=rule.most, lanes=3)
    texts: list[list[int]] = [[], [], []]
    prompts = [0, 0, 0]
    # One list per lane, which grows as the engine's does.
    histories: list[list[int]] = [[], [], []]

    def start(lane: int) -> None:
        """With a text that was appended before the first round, maybe."""
        texts[lane] = random_history(rng, SPECIAL, 150)
        prompts[lane] = rng.randint(1, 120)
        histories[lane] = texts[lane][: prompts[lane] + rng.choice([1, 1, 20])]
        tell(rng, backend, lane, histories[lane][:-1])

    for lane in range(3):
        start(lane)
    for _ in range(30):
        lanes = rng.sample(range(3), rng.randint(1, 3))
        rows = [
            row(histories[lane], prompts[lane], lane=lane, limit=rng.randint(0, rule.most))
            for lane in lanes
        ]
        expected = [rule.drafts(each.history, each.prompt_length, each.limit) for each in rows]
        assert asked(backend, rows) == expected
        if rng.random() < 0.3:
            continue
        proposal = backend.propose(rows, NOTHING)
        counts = [rng.randint(0, extent + 1) for extent in proposal.extents]
        backend.prepare_commit(counts, {}, NOTHING)
        backend.commit()
        for lane, count in zip(lanes, counts, strict=True):
            # What comes is not what was drafted; the history says it.
            histories[lane] += texts[lane][len(histories[lane]) :][:count]
        lane = rng.choice(lanes)
        if rng.random() < 0.2:
            anchor = len(histories[lane]) - 1
            histories[lane] += texts[lane][len(histories[lane]) :][:3]
            backend.prefilled(lane, histories[lane][anchor:-1], anchor, {}, NOTHING)
        if rng.random() < 0.1:
            backend.rebuild(lane, tuple(histories[lane]), {}, NOTHING)
        if rng.random() < 0.05:
            backend.release(lane)
            start(lane)


def test_tokens_are_compared_whatever_the_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all windows in one bucket, looked through to its end, the proposals are the same."""
    monkeypatch.setattr(index, "_SPREAD", 0)
    monkeypatch.setattr(index, "_ENTRIES", 10**9)
    check(range(700, 800))


def test_a_crowded_bucket_loses_copies_and_invents_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hostile prompts may fill one bucket; only so much of it is looked at."""
    monkeypatch.setattr(index, "_SPREAD", 0)
    found = 0
    for seed in range(20):
        history = random_history(random.Random(seed), [5], 400)
        for end in range(300, 400, 9):
            copy = drafts(bound(8), history[:end], 250)
            found += bool(copy)
            text = "".join(map(str, history[:end]))
            assert not copy or text[-8:] + "".join(map(str, copy)) in text
    assert found
