"""The law of verified texts over a toy chain: chi-square for sampled drafts, equality for one-hot ones."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch

from infernix_core import random as draws
from infernix_core.interfaces.speculative import DraftDistribution
from infernix_core.random import Purpose

SEEDS = 1500


class Chain:
    """A toy model: target logits, legal tokens and a drafter, each a function of the prefix.

    Args:
        size: V.
        candidates: Tokens with q > 0 per prefix.
        masked: Whether some prefixes forbid tokens (never all of them).
    """

    def __init__(self, case, size=4, candidates=3, masked=False):
        self.case, self.size, self.candidates, self.masked = case, size, candidates, masked
        self._memo = {}

    def _random(self, kind, prefix):
        return np.random.default_rng([self.case, kind, len(prefix), *prefix])

    def logits(self, prefix):
        return self._get("z", prefix, lambda g: (g.normal(size=self.size) * 1.3).astype(np.float32))

    def allowed(self, prefix):
        def make(generator):
            allowed = generator.random(self.size) < 0.6
            allowed[generator.integers(self.size)] = True
            return allowed

        return self._get("a", prefix, make) if self.masked else None

    def q(self, prefix):
        """Distinct ids, not in order, and fp32 probabilities."""

        def make(generator):
            ids = generator.permutation(self.size)[: self.candidates]
            return ids, generator.dirichlet(np.ones(self.candidates)).astype(np.float32)

        return self._get("q", prefix, make)

    def _get(self, kind, prefix, make):
        key = kind, prefix
        if key not in self._memo:
            self._memo[key] = make(self._random(ord(kind), prefix))
        return self._memo[key]

    def draft(self, prefix, count, seed, greedy=False):
        """Drafts after the prefix, drawn from q with the DRAFT key (or its mode)."""
        drafts = []
        for _ in range(count):
            context = prefix + tuple(drafts)
            ids, q = self.q(context)
            if greedy:
                index = int(np.argmax(q))
            else:
                u = draws.uniform(seed, len(context), Purpose.DRAFT) * float(
                    q.sum(dtype=np.float64)
                )
                index = int(np.searchsorted(np.cumsum(q.astype(np.float64)), u, side="right"))
            drafts.append(int(ids[index]))
        return drafts


def play_round(box, plan, chain, prefixes, extents, configs, *, sparse, width):
    """One round for rows of these prefixes; returns the drafts and the outcome."""
    rows = len(prefixes)
    logits = np.full((rows, width, chain.size), np.nan, dtype=np.float32)
    ids = np.zeros((rows, max(1, width - 1), chain.candidates), dtype=np.int64)
    q = np.zeros((rows, max(1, width - 1), chain.candidates), dtype=np.float32)
    drafts, functions = [], []
    counts = torch.zeros((rows, chain.size), dtype=torch.int32)
    for row, prefix in enumerate(prefixes):
        greedy = not sparse or configs[row].temperature == 0
        drafts.append(chain.draft(prefix, extents[row], configs[row].seed, greedy=greedy))
        for column in range(extents[row] + 1):
            context = prefix + tuple(drafts[row][:column])
            logits[row, column] = chain.logits(context)
            if column < extents[row]:
                ids[row, column], q[row, column] = chain.q(context)
        functions.append(
            (lambda before, prefix=prefix: chain.allowed(prefix + before)) if chain.masked else None
        )
        for token in prefix:
            counts[row, token] += 1
    distribution = None
    if sparse:
        distribution = DraftDistribution(
            ids=torch.from_numpy(ids),
            probabilities=torch.from_numpy(q),
            sampled=tuple(config.temperature > 0 for config in configs),
        )
    round = box.round(
        logits,
        configs,
        drafts=drafts,
        allowed_after=functions,
        distribution=distribution,
        positions=[len(prefix) for prefix in prefixes],
        counts=counts,
    )
    return drafts, plan.run(round)


def generate(box, chain, config_of, seeds, length, drafts, *, sparse=False, deterministic=False):
    """Texts of ``length`` tokens, one per seed, by rounds of at most ``drafts`` drafts."""
    width = drafts + 1
    block = 256
    plan = box.plan(chain.size, rows=block, width=width, deterministic=deterministic)
    texts = []
    for start in range(0, len(seeds), block):
        own = [config_of(seed) for seed in seeds[start : start + block]]
        prefixes = [()] * len(own)
        while any(len(prefix) < length for prefix in prefixes):
            live = [n for n, prefix in enumerate(prefixes) if len(prefix) < length]
            extents = [min(drafts, length - len(prefixes[n]) - 1) for n in live]
            _, rows = play_round(
                box,
                plan,
                chain,
                [prefixes[n] for n in live],
                extents,
                [own[n] for n in live],
                sparse=sparse,
                width=width,
            )
            for n, row in zip(live, rows, strict=True):
                assert row.failure is None
                assert row.accepted in (len(row.tokens), len(row.tokens) - 1)
                prefixes[n] += row.tokens
        texts += prefixes
    return texts


def exact_law(box, chain, config, length):
    """p of every text of that length."""
    law = {(): 1.0}
    for _ in range(length):
        grown = {}
        for prefix, mass in law.items():
            step = box.law(
                chain.logits(prefix), config, before=prefix, allowed=chain.allowed(prefix)
            )
            for token, p in step.items():
                grown[(*prefix, token)] = mass * p
        law = grown
    return law


OPTIONS = [
    {},
    {"temperature": 0.7, "top_k": 3},
    {"temperature": 1.3, "top_p": 0.85},
    {"min_p": 0.25, "presence_penalty": 0.6, "frequency_penalty": 0.4},
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_ordinary_sampling_has_the_law(box, options, masked):
    chain = Chain(1, masked=masked)
    texts = generate(box, chain, lambda seed: box.config(seed=seed, **options), range(SEEDS), 2, 0)
    box.chi_square(Counter(texts), exact_law(box, chain, box.config(**options), 2))


@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize(("case", "options"), list(enumerate(OPTIONS)))
def test_sparse_q_has_the_law(box, case, options, drafts):
    masked = bool((case + drafts) % 2)
    chain = Chain(2, masked=masked)
    texts = generate(
        box,
        chain,
        lambda seed: box.config(seed=seed, **options),
        range(SEEDS),
        drafts + 1,
        drafts,
        sparse=True,
    )
    box.chi_square(Counter(texts), exact_law(box, chain, box.config(**options), drafts + 1))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_sample_and_match_has_the_law(box, drafts, masked):
    chain = Chain(3, masked=masked)
    texts = generate(
        box, chain, lambda seed: box.config(seed=seed), range(SEEDS), drafts + 1, drafts
    )
    box.chi_square(Counter(texts), exact_law(box, chain, box.config(), drafts + 1))


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("options", [*OPTIONS, {"temperature": 0}])
def test_one_hot_drafts_change_no_token(box, options, masked):
    def texts(drafts):
        chain = Chain(4, size=6, masked=masked)
        return generate(
            box,
            chain,
            lambda seed: box.config(seed=seed, **options),
            range(12),
            10,
            drafts,
            deterministic=True,
        )

    ordinary = texts(0)
    assert texts(1) == texts(2) == texts(4) == ordinary


def test_greedy_targets_match_drafts_with_a_recorded_q(box):
    chain = Chain(5, size=6, masked=True)

    def texts(drafts):
        return generate(
            box,
            chain,
            lambda seed: box.config(temperature=0, seed=seed),
            range(3),
            12,
            drafts,
            sparse=drafts > 0,
        )

    assert texts(0) == texts(1) == texts(3)
