"""Two samplers that share no line of code agree: the default one, and the plain one of infernix_core.testing.

Both draw by the inverse of the CDF over ascending ids from one number per (seed, position, purpose), so that not
only their laws but their tokens are the same, but where that number falls within rounding of a step of the CDF.
"""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
import torch

from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import PendingRowFailure, SamplerSpec
from infernix_core.interfaces.speculative import DraftDistribution
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy_engine import toy_engine
from infernix_sampling.sampler import TorchSampler
from tests.core.conftest import ask

SIZES = (3, 32, 90, 400)


def random_config(box, generator):
    pick = generator.choice
    return box.config(
        temperature=float(pick([0, 0.4, 1, 1, 1.7])),
        top_k=int(pick([0, 0, 1, 6, 50])),
        top_p=float(pick([1, 1, 0.9, 0.4])),
        min_p=float(pick([0, 0, 0.05, 0.5])),
        presence_penalty=float(pick([0, 0, 1.5, -0.5])),
        frequency_penalty=float(pick([0, 0, 0.375])),
        seed=int(generator.integers(2**63)),
    )


def random_distribution(generator, scores, drafts):
    """A sparse q per draft position, mostly over likely tokens, and drafts from it, in place.

    Some rows stay one-hot.
    """
    rows, width, size = scores.shape
    count = min(size, 5)
    order = np.argsort(-scores[:, : width - 1], axis=-1)
    unlikely = generator.random((rows, width - 1)) < 0.3
    order[unlikely] = generator.permuted(order[unlikely], axis=-1)
    ids = order[..., :count]
    q = generator.dirichlet(np.ones(count), size=(rows, width - 1)) * 0.9 + 0.1 / count
    sampled = generator.random(rows) < 0.7
    for row, chain in enumerate(drafts):
        for column in range(len(chain)):
            if sampled[row]:
                chain[column] = int(generator.choice(ids[row, column], p=q[row, column]))
    return DraftDistribution(
        torch.tensor(ids), torch.tensor(q, dtype=torch.float32), tuple(sampled.tolist())
    )


def random_round(box, generator, size):
    rows, width = int(generator.integers(1, 5)), int(generator.integers(1, 6))
    generable = generator.random(size) < 0.9
    generable[generator.integers(size)] = True
    logits = np.round(generator.normal(size=(rows, width, size)) * 8 * generator.choice([1, 4])) / 8
    if generator.random() < 0.2:
        logits[generator.random(logits.shape) < 0.02] = generator.choice([np.nan, np.inf, -np.inf])
    scores = np.where(generable, np.nan_to_num(logits), -np.inf)
    lengths = generator.integers(0, width, size=rows)
    drafts = [generator.integers(0, size, size=length).tolist() for length in lengths]
    for row, chain in enumerate(drafts):  # often the likeliest
        for column in range(len(chain)):
            if generator.random() < 0.7:
                chain[column] = int(scores[row, column].argmax())
    distribution = None
    if width > 1 and generator.random() < 0.5:
        distribution = random_distribution(generator, scores, drafts)
    constrained = generator.random(rows) < 0.7
    masks = {}

    def allowed_after(row):
        def after(prefix):
            if (row, prefix) not in masks:
                density = generator.choice([0.0, 0.1, 0.7, 0.95], p=[0.05, 0.15, 0.4, 0.4])
                masks[row, prefix] = generator.random(size) < density
                if density and len(prefix) < len(drafts[row]) and generator.random() < 0.8:
                    masks[row, prefix][drafts[row][len(prefix)]] = True
            return masks[row, prefix]

        return after if constrained[row] else None

    round = box.round(
        logits,
        [random_config(box, generator) for _ in range(rows)],
        drafts=drafts,
        allowed_after=[allowed_after(row) for row in range(rows)],
        distribution=distribution,
        positions=generator.integers(0, 1000, size=rows).tolist(),
        counts=torch.tensor(generator.poisson(0.3, size=(rows, size)), dtype=torch.int32),
        tail=1,
        kept_mass=(generator.random(rows) < 0.5).tolist(),
    )
    spec = SamplerSpec(
        rows=rows,
        width=width,
        vocabulary_size=size,
        logits_width=size,
        generable=torch.as_tensor(generable),
        end_ids=frozenset(generator.integers(0, size, size=1).tolist()),
    )
    return spec, round


@pytest.mark.parametrize("size", SIZES)
def test_random_rounds(box, size):
    generator = np.random.default_rng(size)
    seen = Counter()
    for case in range(500):
        spec, round = random_round(box, generator, size)
        fast = TorchSampler().plan(spec).run(round)
        plain = PlainSampler().plan(spec).run(round)
        for row, (one, other) in enumerate(zip(fast, plain, strict=True)):
            where = (case, row, round.configs[row])
            assert (one.tokens, one.accepted) == (other.tokens, other.accepted), where
            assert one.failure is other.failure, where
            assert one.kept_mass == pytest.approx(other.kept_mass, rel=1e-4, abs=1e-7), where
            seen[one.failure] += 1
            seen["measured"] += 0 < min(one.kept_mass, default=1) < 1
            if round.extents[row] and one.failure is None:
                q = round.distribution is not None and round.distribution.sampled[row]
                seen["q" if q else "one-hot", one.accepted > 0] += 1
    # The comparison is about something.
    assert seen[None] > 600
    for kind in (
        *PendingRowFailure,
        "measured",
        *itertools.product(["q", "one-hot"], [False, True]),
    ):
        assert seen[kind] > 5, (kind, seen)


def repeat(row):
    return [row.history[-1], row.history[0], row.history[len(row.history) // 2]]


def sampled():
    def law(row, drafts):
        return [97, 98, 99], [0.5, 0.25, 0.25]

    return SampledBackend(law, lambda row, position, weights: (len(row.history) + position) % 3)


@pytest.mark.parametrize(
    "backend", [None, ScriptedBackend(repeat), sampled()], ids=["-", "hot", "q"]
)
def test_whole_engines_give_the_same_texts(backend):
    """Through the engine: penalty counts, drafts, masks and statistics."""
    texts = []
    for sampler in (PlainSampler(), TorchSampler()):
        with toy_engine(sampler=sampler, backend=backend, lanes=3) as engine:
            handles = [
                ask(
                    engine,
                    PromptInput(text=f"abc {seed % 3}"),
                    seed=seed,
                    max_tokens=16,
                    constraint=Choice(["abcabcabc", "cab", "bca"]) if seed % 2 else None,
                    constraint_stats=seed % 2 > 0,
                    **({"presence_penalty": 0.5, "frequency_penalty": 0.25} if seed % 3 else {}),
                    **({"top_p": 0.9} if seed % 4 else {"top_k": 12}),
                )
                for seed in range(8)
            ]
            texts.append([handle.wait(120).raise_for_error() for handle in handles])
    for one, other in zip(*texts, strict=True):
        assert one.token_ids == other.token_ids
        assert one.usage == other.usage
        if one.constraint is not None:
            assert one.constraint.kept_mass == pytest.approx(other.constraint.kept_mass, rel=1e-4)
