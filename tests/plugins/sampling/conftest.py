"""An independent oracle of the sampling law, and builders of small rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from infernix_core.interfaces.sampling import (
    MaskState,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_sampling.sampler import TorchSampler

DEAD = "dead end"
BROKEN = "non-finite"


def oracle_law(logits, config, *, counts=None, before=(), allowed=None, generable=None):
    """The law of SamplerPlan.run for one column, in plain Python floats: {token: p}, DEAD or BROKEN."""
    size = len(logits)
    legal = [
        token
        for token in range(size)
        if (generable is None or generable[token]) and (allowed is None or allowed[token])
    ]
    if not legal:
        return DEAD
    score = {}
    for token in legal:
        seen = (int(counts[token]) if counts is not None else 0) + list(before).count(token)
        value = float(logits[token])
        if seen:
            value -= config.presence_penalty + config.frequency_penalty * seen
        score[token] = value
    if any(math.isnan(value) or value == math.inf for value in score.values()):
        return BROKEN
    order = sorted((t for t in legal if score[t] > -math.inf), key=lambda t: (-score[t], t))
    if not order:
        return BROKEN
    if config.temperature == 0:
        return {order[0]: 1.0}
    if config.top_k:
        order = order[: config.top_k]
    top = score[order[0]]
    weight = {t: math.exp((score[t] - top) / config.temperature) for t in order}
    order = [t for t in order if weight[t] >= config.min_p]
    total = math.fsum(weight[t] for t in order)
    kept, mass = [], 0.0
    for token in order:
        if config.top_p < 1 and mass >= config.top_p * total:
            break
        kept.append(token)
        mass += weight[token]
    return {t: weight[t] / mass for t in kept if weight[t] > 0}


def oracle_kept_mass(logits, allowed, generable=None, *, config=None, counts=None, before=()):
    """Softmax mass of the allowed among the generable tokens, by penalised logits at temperature 1."""
    score = {}
    for token in range(len(logits)):
        if generable is None or generable[token]:
            seen = (int(counts[token]) if counts is not None else 0) + list(before).count(token)
            score[token] = float(logits[token])
            if seen and config is not None:
                score[token] -= config.presence_penalty + config.frequency_penalty * seen
    top = max(score.values())
    weight = {token: math.exp(value - top) for token, value in score.items()}
    return math.fsum(weight[t] for t in weight if allowed[t]) / math.fsum(weight.values())


def pack(allowed, tail=0):
    """int32 words of a bool vector; ``tail`` sets the bits beyond it too."""
    words = []
    for start in range(0, len(allowed), 32):
        word = 0
        for bit in range(32):
            token = start + bit
            if token < len(allowed):
                word |= int(bool(allowed[token])) << bit
            else:
                word |= tail << bit
        words.append(word - 2**32 if word >= 2**31 else word)
    return words


def look_ahead(drafts, allowed_after):
    """Masks and states of columns 0 … len(drafts), as the mask service fills them.

    Args:
        allowed_after: From a tuple of hypothetical drafts to a bool vector, or ``None``: unconstrained.
    """
    states, masks = [], []
    alive = True
    for column in range(len(drafts) + 1):
        allowed = allowed_after(tuple(drafts[:column])) if alive else None
        if not alive:
            states.append(MaskState.UNREACHABLE)
        elif allowed is None:
            states.append(MaskState.UNCONSTRAINED)
        elif not any(allowed):
            states.append(MaskState.DEAD_END)
            alive = False
        else:
            states.append(MaskState.READY)
            if column < len(drafts) and not allowed[drafts[column]]:
                alive = False
        masks.append(allowed)
    return states, masks


def build_round(
    logits,
    configs,
    *,
    drafts=None,
    allowed_after=None,
    distribution=None,
    positions=None,
    counts=None,
    tail=0,
    kept_mass=False,
):
    """A round from Python lists.

    Args:
        logits: float array [B, W, L].
        drafts: One list per row; [] everywhere when ``None``.
        allowed_after: Per row ``None`` or a function for :func:`look_ahead`.
        kept_mass: Whether each row's is asked for, or one answer for all.
    """
    logits = torch.as_tensor(np.asarray(logits), dtype=torch.float32)
    rows, width, _ = logits.shape
    drafts = drafts if drafts is not None else [[] for _ in range(rows)]
    allowed_after = allowed_after if allowed_after is not None else [None] * rows
    table = torch.full((rows, width - 1), -7, dtype=torch.int64)
    states, packed = [], {}
    for row, chain in enumerate(drafts):
        table[row, : len(chain)] = torch.tensor(chain, dtype=torch.int64)
        function = allowed_after[row]
        state, masks = look_ahead(chain, function if function is not None else lambda _: None)
        states.append(tuple(state + [MaskState.UNREACHABLE] * (width - len(state))))
        for column, allowed in enumerate(masks):
            if state[column] is MaskState.READY:
                packed[row, column] = pack(allowed, tail)
    masks = None
    if packed:
        words = len(next(iter(packed.values())))
        # Columns that must not be read hold rubbish.
        masks = torch.full((rows, width, words), 0x5A5A5A5A, dtype=torch.int32)
        for place, value in packed.items():
            masks[place] = torch.tensor(value, dtype=torch.int64).to(torch.int32)
    return SamplingRound(
        logits=logits,
        drafts=table,
        extents=tuple(len(chain) for chain in drafts),
        distribution=distribution,
        masks=masks,
        states=tuple(states),
        configs=tuple(configs),
        positions=tuple(positions) if positions is not None else (0,) * rows,
        counts=counts,
        kept_mass=(kept_mass,) * rows if isinstance(kept_mass, bool) else tuple(kept_mass),
    )


def build_plan(
    size, *, rows=8, width=5, padding=0, generable=None, end_ids=(), deterministic=False
):
    """A plan over ``size`` tokens."""
    usable = torch.ones(size, dtype=torch.bool)
    if generable is not None:
        usable = torch.as_tensor(generable, dtype=torch.bool)
    return TorchSampler().plan(
        SamplerSpec(
            rows=rows,
            width=width,
            vocabulary_size=size,
            logits_width=size + padding,
            generable=usable,
            end_ids=frozenset(end_ids),
            deterministic=deterministic,
        )
    )


def tabulated(entry):
    """{token: p} of one entry of ``distributions``."""
    if entry is None:
        return None
    ids, probabilities = entry
    return dict(zip(ids.tolist(), probabilities.tolist(), strict=True))


class Toolbox:
    """What the tests of this folder share."""

    DEAD = DEAD
    BROKEN = BROKEN
    law = staticmethod(oracle_law)
    kept_mass = staticmethod(oracle_kept_mass)
    pack = staticmethod(pack)
    round = staticmethod(build_round)
    plan = staticmethod(build_plan)
    table = staticmethod(tabulated)

    @staticmethod
    def config(**options):
        return SamplingConfig(**options)

    @staticmethod
    def chi_square(observed, expected, alpha=1e-4):
        """Whether counts {outcome: n} agree with probabilities {outcome: p}; impossible outcomes fail."""
        from scipy.stats import chi2

        assert set(observed) <= {key for key, p in expected.items() if p > 0}
        total = sum(observed.values())
        cells = [(observed.get(key, 0), p * total) for key, p in expected.items() if p > 0]
        # Cells that expect little are pooled, so that the statistic keeps its distribution.
        small = [cell for cell in cells if cell[1] < 5]
        cells = [cell for cell in cells if cell[1] >= 5]
        if sum(cell[1] for cell in small) >= 5:
            cells.append((sum(cell[0] for cell in small), sum(cell[1] for cell in small)))
        statistic = sum((seen - wanted) ** 2 / wanted for seen, wanted in cells)
        limit = chi2.ppf(1 - alpha, max(1, len(cells) - 1))
        assert statistic < limit, (
            f"chi-square {statistic:.1f}, at most {limit:.1f} of {len(cells)} cells; "
            f"drawn {observed}, expected of {total} draws {expected}"
        )


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny tensors: threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def box():
    return Toolbox
