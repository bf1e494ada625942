"""Greedy columns by the shortcut, against the same columns by the passes over the vocabulary."""

from __future__ import annotations

import pytest
import torch

SIZES = (5, 32, 65, 200)


def both(box, plan, round):
    """The outcome with the shortcut and without it, and the columns that the shortcut judged."""
    quick = plan.run(round)
    taken = list(plan._greedy.verdicts(round, [c for row in plan._columns(round) for c in row]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(plan._greedy), "verdicts", lambda *_: iter(()))
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
