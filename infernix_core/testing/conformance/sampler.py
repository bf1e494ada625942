"""The contract of samplers as tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
from attrs import evolve

from infernix_core.engine.state import LaneState
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.sampling import (
    MaskState,
    PendingRowFailure,
    SampledRow,
    Sampler,
    SamplerPlan,
    SamplingConfig,
)
from infernix_core.random import Purpose, uniform
from infernix_core.testing.conformance import rounds
from infernix_core.testing.conformance.rounds import (
    ENDS,
    NEVER,
    ORDINARY,
    SIZE,
    Row,
    follows,
    kept_mass,
    logits,
    sampling_round,
    spec,
)

ROWS, WIDTH = 64, 4
LEGAL = frozenset(range(0, SIZE, 3)) | {5}  # holds a token that is never generable
CONFIGS = {
    "plain": SamplingConfig(),
    "cool": SamplingConfig(temperature=0.6),
    "top-k": SamplingConfig(top_k=4),
    "top-p": SamplingConfig(top_p=0.7),
    "min-p": SamplingConfig(min_p=0.2, temperature=1.4),
    "penalties": SamplingConfig(presence_penalty=1.5, frequency_penalty=0.25),
    "all": SamplingConfig(
        temperature=0.8,
        top_k=9,
        top_p=0.9,
        min_p=0.05,
        presence_penalty=0.5,
        frequency_penalty=-0.5,
    ),
}
COUNTS = {0: 3, 3: 1, 6: 2, 20: 1}
Q = {3: 0.5, 6: 0.3, 9: 0.2}

Law = Callable[[Row, int], dict[int, float] | PendingRowFailure]


class SamplerSuite:
    """Inherit it as ``Test…`` and give ``sampler``.

    Fixtures:
        sampler: A ``Sampler``. The suite plans it for the CPU.
        law: The distribution of a row's column after the drafts before it, or its failure, as a function of
            (row, column). By default the interface's own, :func:`infernix_core.testing.conformance.law`; a sampler with
            a further law gives its own, made of that.

    Attributes:
        draws: Draws of each statistical test.
    """

    draws = 1_024

    @pytest.fixture
    def sampler(self) -> Sampler:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'sampler'")

    @pytest.fixture
    def law(self) -> Law:
        """The interface's law."""
        return rounds.law

    @pytest.fixture(autouse=True)
    def _one_thread(self) -> Iterator[None]:
        """Rounds this small gain nothing from more."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    @pytest.fixture
    def plan(self, sampler: Sampler) -> SamplerPlan:
        """A plan of the suite's sizes."""
        return sampler.plan(spec(ROWS, WIDTH))

    def test_greedy_takes_the_largest_and_of_equal_ones_the_smaller_id(
        self, plan: SamplerPlan, law: Law
    ) -> None:
        """Temperature 0 uses no draw."""
        for seed in range(20):
            row = Row(logits(seed), SamplingConfig(temperature=0, seed=seed), legal=(LEGAL,))
            tie = Row(
                [[0.0] * (SIZE + 3)], SamplingConfig(temperature=0, seed=seed), legal=(LEGAL,)
            )
            one, other = plan.run(sampling_round([row, tie]))
            assert one.tokens == tuple(law(row, 0))  # type: ignore[arg-type]
            assert other.tokens == tuple(law(tie, 0))  # type: ignore[arg-type]

    def test_a_draw_is_a_function_of_its_key(self, sampler: Sampler) -> None:
        """The batch, the row and the buffers do not enter; seed and position do."""
        plan = sampler.plan(spec(ROWS, WIDTH, deterministic=True))
        rows = [
            Row(
                logits(seed),
                SamplingConfig(seed=seed),
                position=seed % 5,
                legal=(LEGAL,) if seed % 2 else None,
            )
            for seed in range(24)
        ]
        together = plan.run(sampling_round(rows))
        assert plan.run(sampling_round(rows)) == together
        assert plan.run(sampling_round(rows[::-1])) == together[::-1]
        assert tuple(plan.run(sampling_round([row]))[0] for row in rows) == together
        same = Row(logits(0))
        seeds = {result.tokens for result in _many(plan, same, 64)}
        places = [evolve(same, position=position) for position in range(64)]
        positions = {result.tokens for result in plan.run(sampling_round(places))}
        assert len(seeds) > 1
        assert len(positions) > 1

    def test_a_greedy_row_among_sampled_ones(self, plan: SamplerPlan, law: Law) -> None:
        """Its drafts are one-hot, and q is not read."""
        greedy = Row(logits(3, 2), SamplingConfig(temperature=0), drafts=(0,))
        best = tuple(law(greedy, 0))  # type: ignore[arg-type]
        sampled = Row(logits(4, 2), drafts=(3,), q=(Q,))
        result = plan.run(sampling_round([evolve(greedy, drafts=best), sampled]))[0]
        assert result.accepted == 1
        assert result.tokens[:1] == best

    def test_nothing_follows_an_end_token(self, plan: SamplerPlan) -> None:
        """Drafted or drawn."""
        end = min(ENDS)
        table = logits(5, 3)
        for column in table:
            column[end] = 900.0
        greedy = SamplingConfig(temperature=0)
        drafted = Row(table, greedy, drafts=(end, 0))
        ended = plan.run(sampling_round([drafted, Row(table, greedy, drafts=(0, 0))]))
        assert [(row.tokens, row.accepted) for row in ended] == [((end,), 1), ((end,), 0)]

    @pytest.mark.parametrize("value", [math.nan, math.inf])
    def test_non_finite_logits_fail_their_row_alone(self, plan: SamplerPlan, value: float) -> None:
        """At a legal token of a reached column; anywhere else they are of no consequence."""
        bad = logits(6, 2)
        bad[0][3] = value
        empty = [[-math.inf] * (SIZE + 3)]
        fine = Row(logits(7, 1), SamplingConfig(seed=1))
        rows = [
            Row(bad[:1]),
            Row(bad[:1], legal=(LEGAL - {3},)),
            Row(empty),
            fine,
            Row(
                [logits(8)[0], bad[0]],
                SamplingConfig(temperature=0),
                drafts=(0,),
                legal=(LEGAL - {0}, LEGAL),
            ),
        ]
        results = plan.run(sampling_round(rows))
        failed = PendingRowFailure.NON_FINITE_LOGITS
        assert [row.failure for row in results] == [failed, None, failed, None, None]
        assert [bool(row.tokens) for row in results] == [False, True, False, True, True]
        assert results[3].tokens == plan.run(sampling_round([fine]))[0].tokens

    def test_dead_ends_fail_a_row_only_where_they_are_reached(
        self, plan: SamplerPlan, law: Law
    ) -> None:
        """The whole row yields nothing then, not even the drafts before."""
        greedy = SamplingConfig(temperature=0)
        table = logits(9, 2)
        best = next(iter(law(Row(table, greedy), 0)))  # type: ignore[arg-type]
        other = next(token for token in ORDINARY if token != best)
        everything = frozenset(range(SIZE))
        rows = [
            Row(table[:1], greedy, legal=(frozenset(),)),
            Row(table[:1], greedy, legal=(NEVER,), states=(MaskState.READY,)),
            Row(table, greedy, drafts=(best,), legal=(everything, frozenset())),
            Row(table, greedy, drafts=(other,), legal=(everything, frozenset())),
        ]
        results = plan.run(sampling_round(rows))
        dead = PendingRowFailure.DEAD_END
        assert [row.failure for row in results] == [dead, dead, dead, None]
        assert [row.tokens for row in results] == [(), (), (), (best,)]
        assert [row.accepted for row in results] == [0, 0, 0, 0]

    def test_kept_mass(self, plan: SamplerPlan) -> None:
        """One number per token: the untruncated, untempered mass of the legal ones among the generable."""
        config = SamplingConfig(temperature=0.5, top_k=2, presence_penalty=1.0, seed=3)
        row = Row(logits(10), config, legal=(LEGAL,), counts=COUNTS, kept_mass=True)
        free = evolve(row, legal=None)
        constrained, unconstrained = plan.run(sampling_round([row, free]))
        assert constrained.kept_mass == pytest.approx((kept_mass(row),), rel=1e-4)
        assert unconstrained.kept_mass == (1.0,)

    def test_kept_mass_at_every_draft_that_stands(self, plan: SamplerPlan, law: Law) -> None:
        """Penalties at the hypothetical prefix, each column's own mask; one number for each token."""
        config = SamplingConfig(temperature=0, presence_penalty=1.0, frequency_penalty=0.5)
        legal = (LEGAL, frozenset(range(1, SIZE, 2)), frozenset(range(SIZE)))
        row = Row(logits(12, 3), config, legal=legal, counts=COUNTS, kept_mass=True)
        for column in range(2):
            row = evolve(row, drafts=(*row.drafts, *law(row, column)))  # type: ignore[misc]
        (result,) = plan.run(sampling_round([row]))
        assert result.accepted == 2
        expected = tuple(kept_mass(row, column) for column in range(3))
        assert result.kept_mass == pytest.approx(expected, rel=1e-4)

    def test_kept_mass_only_where_it_is_asked_for(self, plan: SamplerPlan) -> None:
        """And asking changes no token, neither of the row nor of its neighbours."""
        for config in (SamplingConfig(temperature=0), *CONFIGS.values()):
            rows = [
                Row(
                    logits(seed, 2),
                    evolve(config, seed=seed),
                    drafts=(3,),
                    legal=(LEGAL, LEGAL) if seed % 3 else None,
                    counts=COUNTS,
                )
                for seed in range(12)
            ]
            silent = plan.run(sampling_round(rows))
            assert all(result.kept_mass == () for result in silent)
            assert plan.run(evolve(sampling_round(rows), kept_mass=())) == silent
            asking = [evolve(row, kept_mass=seed % 2 == 0) for seed, row in enumerate(rows)]
            for row, before, after in zip(
                asking, silent, plan.run(sampling_round(asking)), strict=True
            ):
                assert len(after.kept_mass) == (len(after.tokens) if row.kept_mass else 0)
                assert evolve(after, kept_mass=()) == before

    def test_a_round_is_not_modified(self, plan: SamplerPlan) -> None:
        """Neither logits nor masks nor counts."""
        rows = [
            Row(logits(seed), CONFIGS["all"], legal=(LEGAL,), counts=COUNTS) for seed in range(3)
        ]
        used, kept = sampling_round(rows), sampling_round(rows)
        plan.run(used)
        for name in ("logits", "masks", "counts", "drafts"):
            assert torch.equal(getattr(used, name), getattr(kept, name)), name

    def test_contradictory_rounds_are_integrity_errors(self, plan: SamplerPlan) -> None:
        """They are faults of the engine or the drafter, and no row's failure."""
        masked = sampling_round([Row(logits(0), legal=(LEGAL,))])
        counted = sampling_round([Row(logits(0), CONFIGS["penalties"])])
        impossible = sampling_round([Row(logits(0, 2), drafts=(20,), q=(Q,))])
        for round in (
            evolve(masked, masks=None),
            evolve(counted, counts=None),
            impossible,
        ):
            with pytest.raises(IntegrityError):
                plan.run(round)

    def test_counts_hold_the_committed_tokens_of_each_lane(self, plan: SamplerPlan) -> None:
        """And nothing is left of an earlier sequence when a lane is cleared."""
        state = LaneState(
            tuple(plan.states()), lanes=3, capacity=4, width=WIDTH, device=torch.device("cpu")
        )
        plan.commit([2, 0], [[1, 1, 7], [3]], state)
        plan.commit([2], [[1]], state)
        plan.commit([1, 0], [[], []], state)
        counts = plan.counts([0, 1, 2], state)
        assert (counts.dtype, tuple(counts.shape)) == (torch.int32, (3, SIZE))
        nonzero = {(int(n), int(t)): int(counts[n, t]) for n, t in counts.nonzero()}
        assert nonzero == {(0, 3): 1, (2, 1): 3, (2, 7): 1}
        state.clear(2)
        assert not plan.counts([2], state).any()

    @pytest.mark.parametrize("constrained", [False, True])
    @pytest.mark.parametrize("name", CONFIGS)
    def test_draws_follow_the_law(
        self, plan: SamplerPlan, law: Law, name: str, constrained: bool
    ) -> None:
        """Penalties, mask, top-k, temperature, min-p and top-p in their order; support exactly, mass statistically."""
        row = Row(logits(1), CONFIGS[name], legal=(LEGAL,) if constrained else None, counts=COUNTS)
        expected = law(row, 0)
        assert isinstance(expected, dict)
        follows(Counter(result.tokens[0] for result in _many(plan, row, self.draws)), expected)

    @pytest.mark.parametrize("name", [*CONFIGS, "greedy"])
    def test_one_hot_drafts_give_the_tokens_of_ordinary_decoding(
        self, plan: SamplerPlan, name: str
    ) -> None:
        """Whatever is drafted: right, wrong, illegal, an end token, or a token that is never generable."""
        config = CONFIGS.get(name, SamplingConfig(temperature=0))
        accepted = 0
        for case in range(24):
            config = evolve(config, seed=case)
            legal = tuple(LEGAL if case % 3 else frozenset(range(SIZE)) for _ in range(WIDTH))
            base = Row(
                logits(case, WIDTH), config, legal=legal if case % 2 else None, counts=COUNTS
            )
            row = evolve(base, drafts=self._drafts(plan, base, case))
            expected = self._ordinary(plan, row)
            result = plan.run(sampling_round([row]))[0]
            assert result.tokens == expected, (case, row.drafts)
            assert result.failure is None
            assert result.accepted == len(expected) - (
                len(expected) > len(row.drafts) or expected[-1] != row.drafts[len(expected) - 1]
            )
            accepted += result.accepted
        assert accepted > 24

    @pytest.mark.parametrize("constrained", [False, True])
    @pytest.mark.parametrize("name", ["plain", "top-p", "all"])
    def test_sampled_drafts_keep_the_law(
        self, plan: SamplerPlan, law: Law, name: str, constrained: bool
    ) -> None:
        """The first token follows p, whatever q is; so does the bonus after an accepted draft."""
        legal = (LEGAL - {6}, LEGAL) if constrained else None  # a candidate of q is illegal
        base = Row(logits(2, 2), CONFIGS[name], legal=legal, counts=COUNTS, q=(Q,))

        def drafted(row: Row) -> Row:
            return evolve(row, drafts=(_draw(Q, row.config.seed, row.position),))

        first, bonus = Counter[int](), Counter[int]()
        for result in _many(plan, base, self.draws, drafted):
            first[result.tokens[0]] += 1
            if result.accepted and result.tokens[0] == 3:
                bonus[result.tokens[1]] += 1
        expected = law(base, 0)
        assert isinstance(expected, dict)
        follows(first, expected)
        after = law(evolve(base, drafts=(3,)), 1)
        assert isinstance(after, dict)
        if 3 in expected:
            follows(bonus, after)

    def _ordinary(self, plan: SamplerPlan, row: Row) -> tuple[int, ...]:
        """What one-token rounds say, as far as they agree with the drafts."""
        tokens: list[int] = []
        for column, values in enumerate(row.logits):
            counts = Counter(row.counts)
            counts.update(tokens)
            single = evolve(
                row,
                logits=[values],
                drafts=(),
                position=row.position + column,
                legal=None if row.legal is None else row.legal[column : column + 1],
                counts=counts,
            )
            (token,) = plan.run(sampling_round([single]))[0].tokens
            tokens.append(token)
            if token in ENDS or column == len(row.drafts) or token != row.drafts[column]:
                break
        return tuple(tokens)

    def _drafts(self, plan: SamplerPlan, row: Row, case: int) -> tuple[int, ...]:
        """Right for a while, then something else."""
        drafts: list[int] = []
        for _ in range(WIDTH - 1):
            right = self._ordinary(plan, evolve(row, drafts=tuple(drafts)))
            drafts.append(right[-1] if len(right) > len(drafts) else 0)
        for column in range(case % WIDTH, WIDTH - 1):
            drafts[column] = (case * 7 + column * 5) % SIZE
        return tuple(drafts)


def _many(
    plan: SamplerPlan, row: Row, count: int, change: Callable[[Row], Row] | None = None
) -> Sequence[SampledRow]:
    """The row under many seeds."""
    results: list[SampledRow] = []
    for start in range(0, count, ROWS):
        rows = [
            evolve(row, config=evolve(row.config, seed=seed)) for seed in range(start, start + ROWS)
        ]
        results += plan.run(
            sampling_round([change(r) for r in rows] if change is not None else rows)
        )
    assert all(result.failure is None for result in results)
    return results


def _draw(q: dict[int, float], seed: int, position: int) -> int:
    """A drafter's own draw."""
    u = uniform(seed, position, Purpose.DRAFT)
    for token, probability in q.items():
        u -= probability
        if u < 0:
            return token
    return next(reversed(q))
