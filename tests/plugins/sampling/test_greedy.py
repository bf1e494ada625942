"""Greedy columns by the shortcut, against the same columns by the passes over the vocabulary."""

from __future__ import annotations

import pytest
import torch
from attrs import evolve

SIZES = (5, 32, 65, 200)


def both(box, plan, round):
    """The outcome with the shortcut and without it, and the columns that the shortcut judged."""
    quick = plan.run(round)
    taken = list(plan._greedy.verdicts(round, [c for row in plan._columns(round) for c in row]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan._greedy), "verdicts", lambda *_: iter(()))
        patch.setattr(type(plan._greedy), "single", lambda *_: None)
        slow = plan.run(round)
    return quick, slow, taken


def logits_of(generator, kind: str, shape: tuple[int, ...]) -> torch.Tensor:
    values = torch.randn(shape, generator=generator)
    if kind == "ties":
        return values.round()
    if kind == "zeros":
        return torch.where(values > 0, 0.0, -0.0)
    if kind == "broken":
        choice = torch.randint(0, 12, shape, generator=generator)
        values[choice == 0] = torch.nan
        values[choice == 1] = torch.inf
        values[choice == 2] = -torch.inf
    return values


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["plain", "ties", "zeros", "broken"])
def test_the_shortcut_chooses_what_the_passes_choose(box, kind: str, size: int) -> None:
    generator = torch.Generator().manual_seed(size)
    generable = (torch.rand(size, generator=generator) < 0.8).tolist()
    generable[size // 2] = True
    plan = box.plan(size, generable=generable, rows=3, width=3)
    for trial in range(30):
        drafts = torch.randint(0, size, (3, 2), generator=generator)
        masks = torch.rand((3, size), generator=generator) < (0.9, 0.5, 0.1)[trial % 3]
        masks |= ~masks.any(-1, keepdim=True)
        legal = masks.tolist()
        round = box.round(
            logits_of(generator, kind, (3, 3, size)),
            [box.config(temperature=0)] * 3,
            drafts=drafts.tolist(),
            allowed_after=[
                lambda prefix, legal=legal: legal[len(prefix)],
                None,
                lambda prefix, legal=legal: legal[2 - len(prefix)],
            ],
        )
        quick, slow, taken = both(box, plan, round)
        assert quick == slow
        if kind != "broken":
            assert taken


@pytest.mark.parametrize("kind", ["plain", "ties", "zeros", "broken"])
@pytest.mark.parametrize("size", SIZES)
def test_a_round_without_drafts(box, kind: str, size: int) -> None:
    """Whole rounds go the short way, unless a row fails or its law asks for more than the largest logit."""
    generator = torch.Generator().manual_seed(size)
    plan = box.plan(size, rows=3, end_ids=frozenset({1}))
    went = 0
    for trial in range(30):
        masks = torch.rand((2, size), generator=generator) < (0.9, 0.5, 0.0)[trial % 3]
        masks[0, trial % size] = True
        legal = masks.tolist()
        round = box.round(
            logits_of(generator, kind, (3, 1, size)),
            [box.config(temperature=0)] * 3,
            allowed_after=[
                lambda _, legal=legal: legal[0],
                None,
                lambda _, legal=legal: legal[1],
            ],
        )
        quick, slow, _ = both(box, plan, round)
        assert quick == slow
        single = plan._greedy.single(round)
        assert single in (None, slow)
        went += single is not None
        if any(row.failure is not None for row in slow):
            assert single is None
        config = round.configs[0]
        penalised = (evolve(config, presence_penalty=0.5), *round.configs[1:])
        drawn = (*round.configs[:2], evolve(config, temperature=0.5))
        for other in (
            evolve(round, configs=penalised),
            evolve(round, configs=drawn),
            evolve(round, kept_mass=(False, True, False)),
            evolve(round, extents=(0, 0, 1)),
        ):
            assert plan._greedy.single(other) is None
    assert went or kind == "broken"


def test_other_rows_are_left_to_the_passes(box) -> None:
    plan = box.plan(40, rows=2)
    round = box.round(
        torch.randn(2, 1, 40), [box.config(temperature=0), box.config(temperature=1.0)]
    )
    _, _, taken = both(box, plan, round)
    assert [verdict.column.row for verdict in taken] == [0]


def test_a_mask_of_all_words_is_read_bit_by_bit(box) -> None:
    """Every single legal token is found, wherever its bit lies."""
    plan = box.plan(70)
    logits = torch.arange(70, 0, -1, dtype=torch.float32)[None, None]
    for token in range(70):
        allowed = [other == token for other in range(70)]
        round = box.round(
            logits, [box.config(temperature=0)], allowed_after=[lambda _, allowed=allowed: allowed]
        )
        (row,) = plan.run(round)
        assert row.tokens == (token,)
