"""A sampler's mistakes are the sampler's: they are found where its rows come in, and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch
from attrs import evolve

from infernix_core.engine.request import RequestOptions
from infernix_core.engine.sampled_rows import RowCheck
from infernix_core.errors import EngineUnavailable, IntegrityError
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import (
    MaskState,
    PendingRowFailure,
    SampledRow,
    SamplerPlan,
    SamplerSpec,
    SamplingRound,
)
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy_engine import toy_engine

#: Ids 0 … 65: text, but for one that ends and one that is never generable.
END, NEVER = 64, 65
VOCABULARY = Vocabulary(
    token_bytes=(*(bytes([65 + token]) for token in range(64)), b"", b""),
    classes=(*[TokenClass.TEXT] * 64, TokenClass.END, TokenClass.FORBIDDEN),
)
READY, FREE, DEAD, BEYOND = (
    MaskState.READY,
    MaskState.UNCONSTRAINED,
    MaskState.DEAD_END,
    MaskState.UNREACHABLE,
)


def check(rows: object, states: Sequence[Sequence[MaskState]], legal: Sequence[int] = ()) -> object:
    """One round whose every column allows these; the drafts are 7 and 8."""
    masks = np.zeros((len(states), 3, VOCABULARY.words), dtype=np.int32)
    words = masks.view(np.uint32)
    for token in legal:
        words[:, :, token // 32] |= np.uint32(1 << token % 32)
    drafts = torch.tensor([[7, 8]] * len(states))
    return RowCheck("sampler 'mine'", VOCABULARY)(rows, states, drafts, masks)


@pytest.mark.parametrize(
    ("row", "states"),
    [
        (SampledRow((31,), 0), [READY]),
        (SampledRow((5,), 0), [FREE]),
        (SampledRow((7, 8, 9), 2), [FREE, FREE, FREE]),
        (SampledRow((7, END), 1), [FREE, FREE, FREE]),
        (SampledRow((7,), 1), [FREE, BEYOND, BEYOND]),
        (SampledRow((), 0, PendingRowFailure.DEAD_END), [DEAD]),
    ],
)
def test_what_keeps_to_the_contract_passes(row: SampledRow, states: list[MaskState]) -> None:
    assert check([row], [states], legal=[31]) == (row,)


@pytest.mark.parametrize(
    ("row", "states", "says"),
    [
        (None, [FREE], "it is a NoneType, not a SampledRow"),
        (SampledRow((), 0), [FREE], "0 tokens and the failure None"),
        (SampledRow((1,), 0, PendingRowFailure.DEAD_END), [FREE], "1 tokens and the failure"),
        (SampledRow((7, 8), 1), [FREE], "2 tokens of 1 columns"),
        (SampledRow((7, 8), 0), [FREE, FREE], "0 drafts accepted, and 2 tokens"),
        (SampledRow((7,), 1), [FREE], "1 drafts accepted, and 1 tokens"),
        (SampledRow((9, 1), 1), [FREE, FREE], r"accepts the drafts \[7\] as \[9\]"),
        (SampledRow((66,), 0), [FREE], "token 66 is not in the vocabulary of 66"),
        (SampledRow((-1,), 0), [FREE], "token -1 is not in the vocabulary"),
        (SampledRow((torch.tensor(1),), 0), [FREE], "a token is a Tensor, not an int"),
        (SampledRow((NEVER,), 0), [FREE], "token 65 is never generable"),
        (SampledRow((5,), 0), [READY], "token 5 is illegal in column 0"),
        (SampledRow((5,), 0), [DEAD], "token 5 in column 0, which is DEAD_END"),
        (SampledRow((7, 8), 1), [FREE, BEYOND], "token 8 in column 1, which is UNREACHABLE"),
        (SampledRow((END, 8), 1), [FREE, FREE], "tokens follow the end token 64"),
    ],
)
def test_what_breaks_it_is_named(row: SampledRow, states: list[MaskState], says: str) -> None:
    with pytest.raises(IntegrityError, match=f"^sampler 'mine', row 0: .*{says}"):
        check([row], [states], legal=[31])


@pytest.mark.parametrize("rows", [[], [SampledRow((1,), 0)] * 3, None])
def test_as_many_rows_as_requests(rows: object) -> None:
    with pytest.raises(IntegrityError, match=r"^sampler 'mine' gives \d rows of 2"):
        check(rows, [[FREE], [FREE]])


Change = Callable[[SampledRow], SampledRow]


class Changing:
    """The plain sampler, whose rows are changed; sampler and plan in one."""

    def __init__(self, change: Change) -> None:
        self.change = change

    def plan(self, spec: SamplerSpec) -> SamplerPlan:
        plan = PlainSampler().plan(spec)
        self.states, self.commit, self.counts, self.inner = (
            plan.states,
            plan.commit,
            plan.counts,
            plan,
        )
        return self

    def run(self, round: SamplingRound) -> tuple[SampledRow, ...]:
        return tuple(self.change(row) for row in self.inner.run(round))


def test_an_engine_stops_with_the_samplers_name() -> None:
    sampler = Changing(lambda row: evolve(row, tokens=(10_000,)))
    with toy_engine(sampler=sampler) as engine:
        prompt = engine.prepare(PromptInput(text="x"))
        result = engine.submit(prompt, RequestOptions(max_tokens=3)).wait()
        with pytest.raises(EngineUnavailable) as caught:
            result.raise_for_error()
    assert "sampler Changing, row 0: token 10000 is not in" in str(caught.value.__cause__)


def test_missing_kept_mass_ends_the_request_that_asks_alone() -> None:
    sampler = Changing(lambda row: evolve(row, kept_mass=()))
    with toy_engine(sampler=sampler, lanes=2) as engine:
        prompt = engine.prepare(PromptInput(text="x"))
        choice = Choice(["red"])
        asking, other = (
            engine.submit(prompt, RequestOptions(constraint=choice, constraint_stats=asked))
            for asked in (True, False)
        )
        with pytest.raises(IntegrityError, match="sampler Changing gives 0 kept masses for 1 tok"):
            asking.wait().raise_for_error()
        assert other.wait().raise_for_error().text == "red"
        assert engine.available
