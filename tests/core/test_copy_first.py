"""Copies in front of a drafter: the longer copy wins, never both, and the drafter's state moves on all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from attrs import define, field, frozen

from infernix_core.engine.copy_first import CopyFirst
from infernix_core.engine.engine import Engine
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.model import StateKind, StateSpec, TargetModel
from infernix_core.interfaces.speculative import (
    BoundBackend,
    DraftDistribution,
    DraftRow,
    DraftSetup,
    Proposal,
)
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.random import Purpose, uniform
from infernix_core.testing.conformance import SpeculativeBackendSuite
from infernix_core.testing.drafters import SampledBackend, SampledDrafter, ScriptedBackend
from infernix_core.testing.toy import ToyModel, ToyTarget
from tests.core.conftest import WAIT, answer, ask, chat

Make = Callable[..., Engine]


@define(eq=False)
class Part:
    """A bound backend, and a backend, that says what it is told to and notes every call.

    Attributes:
        says: Drafts of each row; cut to its limit.
        drawn: Which rows' drafts come from q.
        failing: The method that fails, once.
    """

    says: Callable[[DraftRow], Sequence[int]] = lambda row: ()
    width: int = 4
    drawn: tuple[bool, ...] | None = None
    name: str = "part"
    named: Sequence[str] = ("final",)
    failing: str = ""
    calls: list[tuple[Any, ...]] = field(factory=list)

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> Part:
        self.width = setup.drafts or self.width
        return self

    def states(self) -> Sequence[StateSpec]:
        return (StateSpec(self.name, StateKind.SLOT, (), torch.int64),)

    def features(self) -> Sequence[str]:
        return self.named

    def propose(self, rows: Sequence[DraftRow], views: object) -> Proposal:
        self._note("propose", *(row.limit for row in rows))
        drafts = [list(self.says(row))[: row.limit] for row in rows]
        ids = torch.full((len(rows), max(map(len, drafts))), -1, dtype=torch.int64)
        for index, tokens in enumerate(drafts):
            ids[index, : len(tokens)] = torch.tensor(tokens, dtype=torch.int64)
        q = None
        if self.drawn is not None:
            # Two candidates a draft: itself, and the next token.
            q = DraftDistribution(
                torch.stack((ids, ids + 1), -1), torch.full((*ids.shape, 2), 0.5), self.drawn
            )
        return Proposal(ids, tuple(map(len, drafts)), q)

    def prefilled(self, *arguments: object) -> None:
        self._note("prefilled", *arguments)

    def prepare_commit(self, *arguments: object) -> None:
        self._note("prepare_commit", *arguments)

    def commit(self) -> None:
        self._note("commit")

    def abort(self) -> None:
        self._note("abort")

    def rebuild(self, *arguments: object) -> None:
        self._note("rebuild", *arguments)

    def release(self, lane: int) -> None:
        self._note("release", lane)

    def _note(self, method: str, *arguments: object) -> None:
        self.calls.append((method, *arguments))
        if method == self.failing:
            self.failing = ""
            raise ValueError(f"no {method}")


def asked(*limits: int) -> list[DraftRow]:
    """Rows that are told apart by their lane."""
    return [
        DraftRow(lane=n, history=(1,), prompt_length=1, limit=limit, temperature=1, seed=0)
        for n, limit in enumerate(limits)
    ]


def of_lanes(*drafts: Sequence[int]) -> Callable[[DraftRow], Sequence[int]]:
    return lambda row: drafts[row.lane]


def said(proposal: Proposal) -> list[list[int]]:
    return [proposal.ids[n, :extent].tolist() for n, extent in enumerate(proposal.extents)]


NOTHING: Any = None
COPY, DRAFT = range(100, 115), range(200, 215)


def both(copies: Part, drafter: Part) -> tuple[CopyFirst, Part, Part]:
    return CopyFirst(copies, drafter), copies, drafter


def test_the_longer_copy_wins_and_ties_are_the_drafters() -> None:
    lengths = [(copy, draft) for copy in range(6) for draft in range(6)]
    for limit in range(6):
        joined, *_ = both(
            Part(of_lanes(*[COPY[:copy] for copy, _ in lengths]), width=5),
            Part(of_lanes(*[DRAFT[:draft] for _, draft in lengths]), width=5),
        )
        proposal = joined.propose(asked(*[limit] * len(lengths)), NOTHING)
        assert proposal.distribution is None
        for (copy, draft), tokens in zip(lengths, said(proposal), strict=True):
            copied, drafted = list(COPY[: min(copy, limit)]), list(DRAFT[: min(draft, limit)])
            assert tokens == (copied if len(copied) > len(drafted) else drafted)


@pytest.mark.parametrize(("copying", "drafting"), [(6, 3), (3, 6), (4, 4)])
def test_each_is_asked_for_what_it_can_do_and_may_win_with(copying: int, drafting: int) -> None:
    lengths, limits = [0, 1, 3, 4, 6], [6, 6, 6, 6, 6]
    joined, copies, drafter = both(
        Part(of_lanes(*[COPY[:n] for n in lengths]), width=copying),
        Part(lambda row: DRAFT, width=drafting),
    )
    assert joined.width == max(copying, drafting)
    for most in (limits, [2] * 5, [0] * 5, [0, 1, 2, 3, 6]):
        copies.calls.clear()
        drafter.calls.clear()
        proposal = joined.propose(asked(*most), NOTHING)
        assert copies.calls == [("propose", *[min(limit, copying) for limit in most])]
        found = [min(n, limit, copying) for n, limit in zip(lengths, most, strict=True)]
        wanted = [min(limit, drafting) for limit in most]
        assert drafter.calls == [
            ("propose", *[0 if n > w else w for n, w in zip(found, wanted, strict=True)])
        ]
        assert proposal.extents == tuple(map(max, found, wanted))


def test_drawn_rows_keep_their_q_beside_copied_ones() -> None:
    drafts = [DRAFT[:3], DRAFT[3:6], DRAFT[6:7], (), DRAFT[7:10]]
    copies = [COPY[:5], COPY[:2], COPY[:3], COPY[:4], ()]
    flags = (True, True, False, True, False)
    joined, _, drafter = both(
        Part(of_lanes(*copies), width=5), Part(of_lanes(*drafts), width=3, drawn=flags)
    )
    proposal = joined.propose(asked(*[5] * 5), NOTHING)
    expected = [COPY[:5], DRAFT[3:6], COPY[:3], COPY[:4], DRAFT[7:10]]
    assert said(proposal) == list(map(list, expected))
    q = proposal.distribution
    assert q is not None
    assert q.sampled == (False, True, False, False, False)
    assert q.ids.shape == (*proposal.ids.shape, 2)
    assert q.ids[1, :3].tolist() == [[203, 204], [204, 205], [205, 206]]
    assert q.probabilities[1, :3].tolist() == [[0.5, 0.5]] * 3
    # Copies no wider than the drafts, and all rows drawn without a flag.
    drafter.drawn = ()
    shorter = joined.propose(asked(5, 3, 0, 2, 3), NOTHING)
    assert shorter.extents == (5, 3, 0, 2, 3)
    assert shorter.distribution is not None
    assert shorter.distribution.sampled == (False, True, True, False, True)
    # Where every row is copied, or one-hot, there is no q left.
    assert joined.propose(asked(5), NOTHING).distribution is None


def test_where_nothing_is_copied_the_drafters_proposal_is_as_it_was() -> None:
    drafter = Part(lambda row: DRAFT[:2], drawn=(True,))
    proposal = CopyFirst(Part(), drafter).propose(asked(4), NOTHING)
    assert said(proposal) == [[200, 201]]
    assert proposal.distribution is not None
    assert proposal.distribution.ids.shape == (1, 2, 2)


def test_the_ids_of_a_proposal_may_be_wider_than_its_drafts() -> None:
    class Wide(Part):
        def propose(self, rows: Sequence[DraftRow], views: object) -> Proposal:
            narrow = super().propose(rows, views)
            return Proposal(torch.nn.functional.pad(narrow.ids, (0, 7), value=-5), narrow.extents)

    joined, *_ = both(
        Wide(of_lanes(COPY[:2], ()), width=4), Wide(of_lanes(DRAFT[:1], DRAFT[:1]), width=4)
    )
    assert said(joined.propose(asked(4, 4), NOTHING)) == [[100, 101], [200]]


def test_a_proposal_narrower_than_it_says_is_an_error() -> None:
    class Boasts(Part):
        def propose(self, rows: Sequence[DraftRow], views: object) -> Proposal:
            return Proposal(super().propose(rows, views).ids, (3,) * len(rows))

    joined, *_ = both(Boasts(lambda row: COPY[:1]), Part())
    with pytest.raises(RuntimeError):
        joined.propose(asked(4), NOTHING)


def test_copies_are_certain() -> None:
    joined, *_ = both(Part(lambda row: COPY, drawn=(True,)), Part())
    with pytest.raises(IntegrityError, match="copies are certain"):
        joined.propose(asked(4), NOTHING)


def test_both_are_told_everything() -> None:
    copies, drafter = Part(name="a", named=("x", "y")), Part(name="b", named=("y", "z"))
    joined = CopyFirst(copies, drafter)
    assert joined.features() == ("x", "y", "z")
    assert [spec.name for spec in joined.states()] == ["a", "b"]
    features: Mapping[str, Any] = {"x": torch.zeros(1, 1)}
    joined.prefilled(2, [5, 6], 4, features, NOTHING)
    joined.propose(asked(0), NOTHING)
    joined.prepare_commit([1], features, NOTHING)
    joined.commit()
    joined.abort()
    joined.rebuild(1, [5, 6, 7], features, NOTHING)
    joined.release(1)
    assert drafter.calls == copies.calls
    assert copies.calls == [
        ("prefilled", 2, [5, 6], 4, features, NOTHING),
        ("propose", 0),
        ("prepare_commit", [1], features, NOTHING),
        ("commit",),
        ("abort",),
        ("rebuild", 1, [5, 6, 7], features, NOTHING),
        ("release", 1),
    ]


@frozen
class Joined:
    """Two backends as one; the copier has one draft more."""

    copier: Any
    drafter: Any

    def bind(self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup) -> BoundBackend:
        return CopyFirst(
            self.copier.bind(target, vocabulary, setup),
            self.drafter.bind(target, vocabulary, setup),
        )


def some_copy(row: DraftRow) -> list[int]:
    """As many tokens as the last one says, from the history: a function of it."""
    return list(row.history[: row.history[-1] % 5])


def some_drafts(row: DraftRow) -> list[int]:
    return [row.history[0]] * (len(row.history) % 4)


class TestTwoAsOne(SpeculativeBackendSuite):
    """The drafter checks that its state moves on with every committed column, copied ones too."""

    @pytest.fixture
    def backend(self) -> Joined:
        return Joined(Part(some_copy), ScriptedBackend(some_drafts))


class TestDrawnOnesBehindCopies(SpeculativeBackendSuite):
    @pytest.fixture
    def backend(self) -> Joined:
        def law(row: DraftRow, before: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
            return [row.history[-1], 200 + len(before)], [0.25, 0.75]

        def draw(row: DraftRow, position: int, weights: Sequence[float]) -> int:
            return len(row.history) % 2

        return Joined(Part(some_copy), SampledBackend(law, draw))


CHOICES = Choice(["red", "green", "grey", "blue", "a much longer colour", ""])

REQUESTS: list[tuple[PromptInput | str, dict[str, Any]]] = [
    ("free", {"max_tokens": 24}),
    ("penalised", {"max_tokens": 24, "frequency_penalty": 0.7}),
    ("greedy", {"max_tokens": 24, "greedy": True}),
    (chat("choice"), {"constraint": CHOICES}),
    (chat("greedy choice"), {"constraint": CHOICES, "greedy": True}),
    (chat("thinking", thinking=True), {"constraint": CHOICES, "max_tokens": 40}),
    (
        chat("little thought", thinking=True),
        {"constraint": CHOICES, "max_tokens": 30, "thinking_budget": 4},
    ),
]


def coming(make: Make) -> tuple[list[Any], Callable[[DraftRow], list[int]]]:
    """Ordinary answers, and the drafter that knows them."""
    engine = make(lanes=1)
    results = [answer(engine, p, seed=n, **options) for n, (p, options) in enumerate(REQUESTS)]
    prompts = [
        engine.prepare(PromptInput(text=p) if isinstance(p, str) else p).token_ids
        for p, _ in REQUESTS
    ]
    known = dict(zip(map(tuple, prompts), results, strict=True))

    def script(row: DraftRow) -> list[int]:
        output = known[tuple(row.history[: row.prompt_length])].token_ids
        return list(output[len(row.history) - row.prompt_length :])

    return results, script


@pytest.mark.parametrize(("lanes", "copying", "drafting"), [(1, 5, 2), (7, 4, 3), (3, 7, 6)])
def test_texts_are_those_of_ordinary_decoding(
    make_engine: Make, lanes: int, copying: int, drafting: int
) -> None:
    """Right and wrong copies before right and wrong drafts; sampled ones for greedy rows."""
    expected, right = coming(make_engine)

    def wrong(row: DraftRow) -> list[int]:
        return [(token + 1) % 250 for token in right(row)]

    def some(row: DraftRow) -> list[int]:
        return right(row)[: len(row.history) % 3] + wrong(row)[: len(row.history) % 5]

    def law(row: DraftRow, before: Sequence[int]) -> tuple[Sequence[int], Sequence[float]]:
        return [97, *right(row)[len(before) : len(before) + 1]], [0.5, 0.5]

    sampled = SampledBackend(law, lambda row, position, weights: -1 if position else 0)
    scripts = [right, wrong, some]
    for copy in scripts:
        for drafter in [*map(ScriptedBackend, scripts), sampled]:
            engine = make_engine(
                lanes=lanes,
                backend=drafter,
                copier=Part(copy, named=()),
                draft_tokens=drafting,
                ngram_draft_tokens=copying,
            )
            handles = [ask(engine, p, seed=n, **more) for n, (p, more) in enumerate(REQUESTS)]
            for (_, options), handle, plain in zip(REQUESTS, handles, expected, strict=True):
                result = handle.wait(WAIT)
                assert result.error is None
                if drafter is sampled and "greedy" not in options:
                    continue
                assert result.token_ids == plain.token_ids
                assert result.finish_reason is plain.finish_reason
                if copy is drafter is right:
                    assert result.usage.accepted_tokens == result.usage.drafted_tokens > 0


@define(eq=False)
class _Hesitant(SampledDrafter):
    """Stops after a first draft that is token 0, whose value it has then drawn."""

    def _draft(self, rows: Sequence[DraftRow]) -> Proposal:
        whole = super()._draft(rows)
        extents = tuple(
            min(extent, 1) if extent and whole.ids[row, 0] == 0 else extent
            for row, extent in enumerate(whole.extents)
        )
        return Proposal(whole.ids, extents, whole.distribution)


@define(eq=False)
class Hesitant(SampledBackend):
    def bind(
        self, target: TargetModel, vocabulary: Vocabulary, setup: DraftSetup
    ) -> SampledDrafter:
        return _Hesitant(lambda row: (), setup.drafts or 3, law=self.law, draw=self.draw)


@pytest.mark.parametrize("copied", [[0, 0], [1, 0, 1, 0]])
@pytest.mark.parametrize("make_drafter", [SampledBackend, Hesitant])
def test_the_law_is_kept_beside_drawn_drafts(
    make_engine: Make, make_drafter: type[SampledBackend], copied: list[int]
) -> None:
    """Also where a drafter's number of drafts follows from what it drew: dropping some draws would bias the rest."""
    classes = (*(TokenClass.TEXT,) * 3, TokenClass.END)
    toy = ToyModel(ToyTarget(Vocabulary((b"a", b"b", b"x", b""), classes), spread=0.5))
    q = [0.5, 0.4, 0.1]

    def draw(row: DraftRow, position: int, weights: Sequence[float]) -> int:
        u = uniform(row.seed, len(row.history) + position, Purpose.DRAFT)
        return next((n for n in range(3) if (u := u - weights[n]) < 0), 2)

    engine = make_engine(
        toy,
        backend=make_drafter(lambda row, before: ([0, 1, 2], q), draw),
        copier=Part(lambda row: copied, named=()),
        draft_tokens=3,
        ngram_draft_tokens=4,
        queue_limit=1000,
    )
    texts = [first + second + third for first in "ab" for second in "ab" for third in "ab"]
    prompt = PromptInput(token_ids=[2, 1])
    handles = [ask(engine, prompt, seed=s, constraint=Choice(texts)) for s in range(300)]
    counts = Counter(handle.wait(WAIT).text for handle in handles)

    def legal(history: list[int]) -> list[float]:
        return torch.softmax(toy.target.logits_after(history)[:2].double(), 0).tolist()

    expected = {}
    for text in texts:
        history, weight = [2, 1], 300.0
        for letter in text:
            weight *= legal(history)["ab".index(letter)]
            history.append("ab".index(letter))
        expected[text] = weight
    assert counts.keys() <= expected.keys()
    statistic = sum((counts[text] - e) ** 2 / e for text, e in expected.items())
    # The 0.9999 quantile of chi-square with seven degrees of freedom.
    assert statistic < 29.9


@pytest.mark.parametrize("failing", ["propose", "prepare_commit"])
@pytest.mark.parametrize("part", ["copies", "drafter"])
def test_a_fault_of_either_ends_the_round_for_both(
    make_engine: Make, part: str, failing: str
) -> None:
    """Its requests end; nothing of the round stays open, and the lane serves the next one."""
    expected, right = coming(make_engine)
    copies = Part(lambda row: right(row)[:2], name="copies", named=())
    drafter = Part(lambda row: right(row)[:1], name="drafter")
    (copies if part == "copies" else drafter).failing = failing
    engine = make_engine(
        lanes=1, backend=drafter, copier=copies, draft_tokens=1, ngram_draft_tokens=2
    )
    prompt, options = REQUESTS[0]
    failed = answer(engine, prompt, seed=0, **options)
    assert isinstance(failed.error.error, IntegrityError)
    for each in (copies, drafter):
        rounds = [call[0] for call in each.calls if call[0] in ("propose", "commit", "abort")]
        if failing == "propose" and part == "copies" and each is drafter:
            assert rounds == ["abort"]
        else:
            assert rounds == ["propose", "abort"]
        assert each.calls[-1] == ("release", 0)
    again = answer(engine, prompt, seed=0, **options)
    assert again.token_ids == expected[0].token_ids


def test_states_of_one_name_are_refused(make_engine: Make) -> None:
    """Either would write over the other's."""
    with pytest.raises(IntegrityError, match="'part' is declared twice"):
        make_engine(backend=Part(), copier=Part(named=()), draft_tokens=1, ngram_draft_tokens=2)
