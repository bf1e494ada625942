"""The contract of speculative backends as tests, with the suite in the engine's part."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

import pytest
import torch
from attrs import define, field
from torch import Tensor
from torch.nn.functional import pad

from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import RequestOptions
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import LoadedModel, PromptInput
from infernix_core.interfaces.sampling import Sampler, SamplingOptions
from infernix_core.interfaces.speculative import (
    BoundBackend,
    DraftRow,
    DraftSetup,
    Proposal,
    SpeculativeBackend,
)
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_core.testing.conformance.target import Runner, rubbish
from infernix_core.testing.plain_provider import PlainProvider
from infernix_core.testing.plain_sampler import PlainSampler
from infernix_core.testing.toy import ToyModel

LANES, WIDTH, COPIES, CAPACITY = 3, 4, 9, 512


@define(eq=False)
class Rig:
    """One bound backend beside its target, moved on as the engine does.

    Attributes:
        poison: Overwrite the features of columns that do not become history.
        drafts: What the setup asks for.
        copies: Most tokens of a copy that a row executes in place of drafts.
        deterministic: Bind so that a row's drafts do not depend on others. The target then runs each row alone, so
            that neither do its features.
    """

    backend: SpeculativeBackend
    model: LoadedModel
    poison: bool = False
    drafts: int | None = WIDTH
    copies: int = 0
    deterministic: bool = False
    bound: BoundBackend = field(init=False)
    runner: Runner = field(init=False)
    histories: dict[int, list[int]] = field(factory=dict)
    prompts: dict[int, int] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        target = self.model.target
        setup = DraftSetup(
            lanes=LANES,
            drafts=self.drafts,
            capacity=CAPACITY,
            deterministic=self.deterministic,
            copies=self.copies,
        )
        self.bound = self.backend.bind(target, self.model.vocabulary, setup)
        self.runner = Runner(
            target,
            LANES,
            capacity=CAPACITY,
            width=max(self.bound.width, WIDTH, self.copies) + 1,
            extra=tuple(self.bound.states()),
        )

    def start(self, lane: int, prompt: Sequence[int], first: int) -> None:
        """A new sequence: its prompt in two chunks, and the token after it."""
        grid, features = self.model.target.grid, tuple(self.bound.features())
        chunk = -(-max(len(prompt) // 2, 1) // grid) * grid
        for start, output in self.runner.prefill(lane, prompt, chunk, features):
            part = prompt[start : start + chunk]
            one = {name: value[0] for name, value in output.features.items()}
            self.bound.prefilled(lane, part, start, one, self.runner.state)
        self.histories[lane] = [*prompt, first]
        self.prompts[lane] = len(prompt)

    def append(self, lane: int, tokens: Sequence[int]) -> None:
        """Tokens that nobody drafted, the last of them the new anchor; executed in parts no wider than a round."""
        history = self.histories[lane]
        start, features = len(history) - 1, tuple(self.bound.features())
        executed = [history[-1], *tokens[:-1]]
        for at in range(0, len(executed), WIDTH + 1):
            part = executed[at : at + WIDTH + 1]
            output = self.runner.verify([lane], [start + at], [part], features)
            self.runner.fold([lane], [len(part)])
            one = {name: value[0] for name, value in output.features.items()}
            self.bound.prefilled(lane, part, start + at, one, self.runner.state)
        history += tokens

    def rebuild(self, lane: int, history: Sequence[int], prompt_length: int) -> None:
        """A sequence whose drafter state comes from its history alone."""
        executed = list(history[:-1])
        (_, output), *_ = self.runner.prefill(lane, executed, None, tuple(self.bound.features()))
        features = {name: value[0] for name, value in output.features.items()}
        self.bound.rebuild(lane, history, features, self.runner.state)
        self.histories[lane], self.prompts[lane] = list(history), prompt_length

    def propose(self, lanes: Sequence[int], limits: Sequence[int]) -> Proposal:
        """A proposal; the round stays open."""
        rows = [
            DraftRow(
                lane=lane,
                history=tuple(self.histories[lane]),
                prompt_length=self.prompts[lane],
                limit=limit,
                temperature=0.9,
                seed=lane,
            )
            for lane, limit in zip(lanes, limits, strict=True)
        ]
        return self.bound.propose(rows, self.runner.state)

    def settle(
        self,
        lanes: Sequence[int],
        proposal: Proposal,
        accepted: Sequence[int | None],
        after: int,
        copied: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Verifies and commits: that many drafts of each row and one more token; ``None`` takes no part.

        Args:
            lanes: Of the rows.
            proposal: Their drafts.
            accepted: How many of them.
            after: The token behind them.
            copied: By row, what is executed in place of its drafts.
        """
        columns = [
            [
                self.histories[lane][-1],
                *(copied or {}).get(row, proposal.ids[row, :extent].tolist()),
            ]
            for row, (lane, extent) in enumerate(zip(lanes, proposal.extents, strict=True))
        ]
        counts = [0 if number is None else number + 1 for number in accepted]
        if self.deterministic:
            features = self._each_alone(lanes, columns, counts)
        else:
            starts = [len(self.histories[lane]) - 1 for lane in lanes]
            names = tuple(self.bound.features())
            features = self.runner.verify(lanes, starts, columns, names).features
        if self.poison:
            for value in features.values():
                for row, count in enumerate(counts):
                    value[row, count:] = rubbish(value)
        self.bound.prepare_commit(counts, features, self.runner.state)
        if not self.deterministic:
            self.runner.fold(lanes, counts)
        self.bound.commit()
        for row, (lane, count) in enumerate(zip(lanes, counts, strict=True)):
            if count:
                self.histories[lane] += [*columns[row][1:count], after]

    def _each_alone(
        self, lanes: Sequence[int], columns: Sequence[Sequence[int]], counts: Sequence[int]
    ) -> Mapping[str, Tensor]:
        """Verifies and folds row by row; the features of all."""
        names, width = tuple(self.bound.features()), max(map(len, columns))
        parts: dict[str, list[Tensor]] = {name: [] for name in names}
        for lane, row, count in zip(lanes, columns, counts, strict=True):
            output = self.runner.verify([lane], [len(self.histories[lane]) - 1], [row], names)
            self.runner.fold([lane], [count])
            for name, value in output.features.items():
                parts[name].append(pad(value, (0, 0, 0, width - value.shape[1])))
        return {name: torch.cat(values) for name, values in parts.items()}

    def look(self, lanes: Sequence[int], limit: int = WIDTH) -> list[tuple[int, ...]]:
        """What would be drafted now; the round is dropped."""
        proposal = self.propose(lanes, [limit] * len(lanes))
        self.bound.abort()
        return drafts(proposal)


class SpeculativeBackendSuite:
    """Inherit it as ``Test…`` and give ``backend``.

    Fixtures:
        backend: A ``SpeculativeBackend``. It is bound several times, also twice at once.
        model: The model to bind to, with the features that the backend wants; by default the exact toy.
        sampler: A ``Sampler`` for the test with a whole engine; by default the plain one, which is slow where
            the model's vocabulary is large. ``None`` skips the test.
    """

    @pytest.fixture
    def backend(self) -> SpeculativeBackend:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'backend'")

    @pytest.fixture
    def model(self) -> LoadedModel:
        """An exact model."""
        return ToyModel.make()

    @pytest.fixture
    def sampler(self) -> Sampler | None:
        """An exact sampler."""
        return PlainSampler()

    @pytest.fixture(autouse=True)
    def _quiet(self) -> Iterator[None]:
        """One thread: the tensors are tiny."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        yield
        torch.set_num_threads(before)

    @pytest.fixture
    def tokens(self, model: LoadedModel) -> list[int]:
        """Few different text tokens, so that things repeat."""
        few = model.vocabulary.ids(TokenClass.TEXT)[:3]
        return random.Random(4).choices(few, k=40)

    @pytest.fixture
    def rig(self, backend: SpeculativeBackend, model: LoadedModel, tokens: list[int]) -> Rig:
        """Three sequences of different lengths."""
        return started(Rig(backend, model), tokens)

    def test_proposals_are_in_order(self, rig: Rig, tokens: list[int]) -> None:
        """Extents within limits, ids on the host and in the vocabulary, q a distribution that can draw its draft."""
        rng = random.Random(1)
        for step in range(12):
            lanes = rng.sample(range(LANES), rng.randint(1, LANES))
            limits = [rng.randint(0, WIDTH) for _ in lanes]
            proposal = rig.propose(lanes, limits)
            check(proposal, limits, rig.model.vocabulary.size)
            accepted = [rng.randint(0, extent) for extent in proposal.extents]
            rig.settle(lanes, proposal, accepted, tokens[step])

    def test_an_aborted_round_leaves_nothing(self, rig: Rig, tokens: list[int]) -> None:
        """The next proposal is the same."""
        lanes = range(LANES)
        for step in range(4):
            first = rig.look(lanes)
            assert rig.look(lanes) == first
            assert rig.look(lanes) == first
            rig.settle(lanes, rig.propose(lanes, [WIDTH] * LANES), [0, None, 0], tokens[step])

    def test_a_row_that_takes_no_part_stays_as_it_was(self, rig: Rig, tokens: list[int]) -> None:
        """While the others move on."""
        lanes = (2, 0, 1)
        before = rig.look([0])
        for step in range(3):
            proposal = rig.propose(lanes, [WIDTH] * LANES)
            rig.settle(lanes, proposal, [0, None, proposal.extents[2]], tokens[step])
        assert rig.look([0]) == before

    def test_features_of_rejected_columns_are_not_used(
        self, backend: SpeculativeBackend, model: LoadedModel, tokens: list[int]
    ) -> None:
        """Rubbish in them changes no later proposal."""
        clean = started(Rig(backend, model), tokens)
        rubbish = started(Rig(backend, model, poison=True), tokens)
        rng = random.Random(3)
        for step in range(8):
            proposals = [rig.propose(range(LANES), [WIDTH] * LANES) for rig in (clean, rubbish)]
            assert drafts(proposals[0]) == drafts(proposals[1])
            accepted = [rng.choice([None, *range(extent + 1)]) for extent in proposals[0].extents]
            for rig, proposal in zip((clean, rubbish), proposals, strict=True):
                rig.settle(range(LANES), proposal, accepted, tokens[step])

    def test_a_lane_keeps_nothing_of_an_earlier_sequence(
        self, backend: SpeculativeBackend, model: LoadedModel, rig: Rig, tokens: list[int]
    ) -> None:
        """After its release the lane is as good as new."""
        proposal = rig.propose([1], [WIDTH])
        rig.settle([1], proposal, [proposal.extents[0]], tokens[0])
        rig.bound.release(1)
        fresh = Rig(backend, model)
        for each in (rig, fresh):
            each.start(1, tokens[5:17], tokens[17])
        assert rig.look([1]) == fresh.look([1])

    def test_a_rebuilt_sequence_drafts_as_before(
        self, backend: SpeculativeBackend, model: LoadedModel, rig: Rig, tokens: list[int]
    ) -> None:
        """From the history and the features of its executed tokens, in another lane's place."""
        for step in range(3):
            proposal = rig.propose([0], [WIDTH])
            rig.settle([0], proposal, [proposal.extents[0] // 2], tokens[step])
        fresh = Rig(backend, model)
        fresh.rebuild(0, rig.histories[0], rig.prompts[0])
        assert fresh.look([0]) == rig.look([0])

    def test_tokens_that_nobody_drafted_are_history(
        self, backend: SpeculativeBackend, model: LoadedModel, rig: Rig, tokens: list[int]
    ) -> None:
        """Appended between two rounds, in parts and off the grid, and right after the prompt's first token."""
        before = rig.look([1])
        for length in (1, 2, WIDTH + 3):
            rig.append(0, tokens[:length])
            fresh = Rig(backend, model)
            fresh.rebuild(0, rig.histories[0], rig.prompts[0])
            assert rig.look([0]) == fresh.look([0])
            proposal = rig.propose([0], [WIDTH])
            rig.settle([0], proposal, [proposal.extents[0]], tokens[length])
        assert rig.look([1]) == before

    @pytest.mark.parametrize("asked", [1, WIDTH, None])
    def test_the_width_is_what_was_asked_for(
        self,
        backend: SpeculativeBackend,
        model: LoadedModel,
        tokens: list[int],
        asked: int | None,
    ) -> None:
        """Or a number of its own, and a round may draft and commit as many."""
        rig = started(Rig(backend, model, drafts=asked), tokens)
        width = rig.bound.width
        assert type(width) is int
        assert width >= 1
        assert asked is None or width == asked
        for step in range(2):
            proposal = rig.propose(range(LANES), [width] * LANES)
            check(proposal, [width] * LANES, model.vocabulary.size)
            rig.settle(range(LANES), proposal, proposal.extents, tokens[step])

    def test_copies_in_place_of_drafts(
        self, backend: SpeculativeBackend, model: LoadedModel, tokens: list[int]
    ) -> None:
        """A row of limit 0 takes part with up to ``copies`` tokens that it did not draft, beside one that drafts."""
        rig = started(Rig(backend, model, poison=True, copies=COPIES), tokens)
        lanes = (0, 2)
        for step, (length, accepted) in enumerate(
            ((COPIES, COPIES), (COPIES, 1), (1, 1), (COPIES, None), (WIDTH, WIDTH), (COPIES, 0))
        ):
            proposal = rig.propose(lanes, [0, WIDTH])
            check(proposal, [0, WIDTH], model.vocabulary.size)
            copied = {0: tokens[step : step + length]}
            rig.settle(
                lanes, proposal, [accepted, proposal.extents[1] // 2], tokens[-step - 1], copied
            )
            for lane in lanes:
                fresh = Rig(backend, model)
                fresh.rebuild(lane, rig.histories[lane], rig.prompts[lane])
                assert rig.look([lane]) == fresh.look([lane])
        # Copies for all, and a text between two of them.
        for length in (COPIES, 2):
            proposal = rig.propose(range(LANES), [0] * LANES)
            copies = {row: tokens[row : row + length] for row in range(LANES)}
            rig.settle(range(LANES), proposal, [length] * LANES, tokens[0], copies)
            rig.append(1, tokens[:3])
        for lane in range(LANES):
            fresh = Rig(backend, model)
            fresh.rebuild(lane, rig.histories[lane], rig.prompts[lane])
            assert rig.look([lane]) == fresh.look([lane])

    def test_drawn_drafts_do_not_depend_on_other_rows(
        self, backend: SpeculativeBackend, model: LoadedModel, tokens: list[int]
    ) -> None:
        """Where the setup is deterministic: a row alone draws as in company, from the same q to the last bit."""
        alone, company = (
            started(Rig(backend, model, deterministic=True), tokens) for _ in range(2)
        )
        rng = random.Random(5)
        for step in range(4):
            lanes = rng.sample(range(LANES), rng.randint(2, LANES))
            together = company.propose(lanes, [WIDTH] * len(lanes))
            accepted = [rng.randint(0, extent) for extent in together.extents]
            for row, (lane, number) in enumerate(zip(lanes, accepted, strict=True)):
                single = alone.propose([lane], [WIDTH])
                if (law := drawn(single, 0)) or drawn(together, row):
                    assert law == drawn(together, row)
                    assert drafts(single)[0] == drafts(together)[row]
                # Drafts that are certain may differ, and what is committed may not.
                own = together.ids[row, : together.extents[row]].tolist()
                alone.settle([lane], single, [number], tokens[step], {0: own})
            company.settle(lanes, together, accepted, tokens[step])

    def test_texts_are_those_of_ordinary_decoding(
        self,
        backend: SpeculativeBackend,
        model: LoadedModel,
        sampler: Sampler | None,
        rig: Rig,
    ) -> None:
        """In a whole engine: greedy ones always, drawn ones where drafts are one-hot."""
        if sampler is None:
            pytest.skip("the fixture 'sampler' gives none")
        one_hot = rig.propose([0], [WIDTH]).distribution is None
        rig.bound.abort()
        laws = [SamplingOptions(greedy=True)]
        laws += [SamplingOptions(seed=seed) for seed in range(3)] if one_hot else []
        requests = [
            RequestOptions(constraint=constraint, sampling=law, max_tokens=24)
            for law in laws
            for constraint in (None, Choice(["abcabcabcabc", "abababab", "c"]))
        ]
        texts = []
        for drafts_wanted in (0, WIDTH):
            engine = Engine(
                model,
                mask_provider=PlainProvider,
                sampler=sampler,
                backend=backend if drafts_wanted else None,
                options=EngineOptions(lanes=LANES, draft_tokens=drafts_wanted or None),
            )
            with engine:
                prompt = engine.prepare(PromptInput(text="abcabc"))
                handles = [engine.submit(prompt, request) for request in requests]
                texts.append([h.wait(60).raise_for_error().token_ids for h in handles])
        assert texts[0] == texts[1]


def started(rig: Rig, tokens: Sequence[int]) -> Rig:
    """The rig with a sequence in every lane."""
    for lane in range(LANES):
        rig.start(lane, tokens[lane : lane + 4 + 7 * lane], tokens[-1 - lane])
    return rig


def drafts(proposal: Proposal) -> list[tuple[int, ...]]:
    """The drafts of each row."""
    return [
        tuple(proposal.ids[row, :extent].tolist()) for row, extent in enumerate(proposal.extents)
    ]


def drawn(proposal: Proposal, row: int) -> list[dict[int, float]]:
    """What each draft of the row was drawn from; nothing where they are certain."""
    q = proposal.distribution
    if q is None or (q.sampled and not q.sampled[row]):
        return []
    return [
        {
            token: weight
            for token, weight in zip(
                q.ids[row, column].tolist(), q.probabilities[row, column].tolist(), strict=True
            )
            if weight > 0
        }
        for column in range(proposal.extents[row])
    ]


def check(proposal: Proposal, limits: Sequence[int], size: int) -> None:
    """What every proposal keeps."""
    assert len(proposal.extents) == len(limits)
    assert all(0 <= e <= limit for e, limit in zip(proposal.extents, limits, strict=True))
    ids = proposal.ids
    assert (ids.dtype, ids.device.type, ids.dim()) == (torch.int64, "cpu", 2)
    assert ids.shape[0] == len(limits)
    assert ids.shape[1] >= max(proposal.extents)
    assert all(0 <= token < size for row in drafts(proposal) for token in row)
    q = proposal.distribution
    if q is None:
        return
    assert q.ids.dtype == torch.int64
    assert q.ids.shape == q.probabilities.shape
    assert q.ids.shape[0] == len(limits)
    for row, tokens in enumerate(drafts(proposal)):
        for column, token in enumerate(tokens if not q.sampled or q.sampled[row] else ()):
            weights = q.probabilities[row, column].double()
            possible = q.ids[row, column][weights > 0].tolist()
            assert float(weights.sum()) == pytest.approx(1, abs=1e-5)
            assert len(set(possible)) == len(possible)
            assert token in possible, "a draft was drawn that q cannot give"
