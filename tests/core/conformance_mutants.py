"""Implementations with one fault each. Every class here must fail; test_conformance_mutants.py sees to it."""

from __future__ import annotations

import pytest
import torch
from attrs import define, evolve

from infernix_core.interfaces.sampling import MaskState
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_core.testing.conformance import (
    FrontendSuite,
    MaskProviderSuite,
    SamplerSuite,
    SpeculativeBackendSuite,
)
from infernix_core.testing.drafters import (
    DEFAULT_WIDTH,
    SampledBackend,
    SampledDrafter,
    ScriptedBackend,
    ScriptedDrafter,
)
from infernix_core.testing.plain_provider import PlainGrammar, PlainMatcher, PlainProvider
from infernix_core.testing.toy import ToyDecoder, ToyModel, ToyTarget
from infernix_sampling.sampler import TorchSampler, TorchSamplerPlan
from tests.core.toy_head import HeadedTarget, ToyHead


class Provider(MaskProviderSuite):
    matcher = PlainMatcher
    ignores_prefix = False

    @pytest.fixture
    def provider(self):
        suite = self

        class Grammar(PlainGrammar):
            def start(self, prefix=()):
                plain = super().start(() if suite.ignores_prefix else prefix)
                return suite.matcher(plain.vocabulary, plain.items, plain.masks)

        class Mutant(PlainProvider):
            def bind(self, vocabulary):
                return Mutant(vocabulary)

            def compile(self, language, check=None):
                grammar = super().compile(language)
                return Grammar(grammar.vocabulary, grammar.language)

        return Mutant()


class Matcher(PlainMatcher):
    def set(self, row, token, value=True):
        bit = 1 << (token & 31)
        word = (int(row[token >> 5]) | bit) if value else (int(row[token >> 5]) & ~bit)
        word &= 0xFFFFFFFF
        row[token >> 5] = word - (1 << 32) if word >> 31 else word


class TestBitBeyondTheVocabulary(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            legal = super().fill(row)
            if legal:
                self.set(row, self.vocabulary.size)
            return legal


class TestWordsLeftAsTheyWere(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            before = row.copy()
            legal = super().fill(row)
            row |= before & -(row == 0).astype(row.dtype)
            return legal


class TestEndAlwaysLegal(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            super().fill(row)
            for token in self.vocabulary.end_ids:
                self.set(row, token)
            return True


class TestForbiddenLegal(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            legal = super().fill(row)
            for token in self.vocabulary.ids(TokenClass.FORBIDDEN):
                self.set(row, token, legal)
            return legal


class TestTokenSpanningPartsIsMissing(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            super().fill(row)
            for token, raw in enumerate(self.vocabulary.token_bytes):
                if len(raw) > 1:
                    self.set(row, token, False)
            return bool(row.any())


class TestSaysNothingIsLegalButFills(Provider):
    class matcher(Matcher):  # noqa: N801
        def fill(self, row):
            super().fill(row)
            return True


class TestRefusalMoves(Provider):
    class matcher(Matcher):  # noqa: N801
        def accept(self, token):
            before, accepted = self.items, super().accept(token)
            if not accepted:
                self.items = frozenset(list(before)[:1])
            return accepted


class TestTerminationSurvivesRollback(Provider):
    class matcher(Matcher):  # noqa: N801
        def rollback(self, mark):
            self.items = mark[0]


class TestRollbackForgetsOneToken(Provider):
    class matcher(Matcher):  # noqa: N801
        def rollback(self, mark):
            super().rollback(self.last if hasattr(self, "last") else mark)

        def accept(self, token):
            self.last = self.mark()
            return super().accept(token)


class TestLabelsSurviveRollback(Provider):
    class matcher(Matcher):  # noqa: N801
        def labels(self):
            self.kept = tuple(dict.fromkeys((*getattr(self, "kept", ()), *super().labels())))
            return self.kept


class TestPrefixIgnored(Provider):
    ignores_prefix = True


class Sampler(SamplerSuite):
    plan_class = TorchSamplerPlan
    draws = 384

    @pytest.fixture
    def sampler(self):
        suite = self

        class Mutant(TorchSampler):
            def plan(self, spec):
                return suite.plan_class(spec)

        return Mutant()


class TestIgnoresMasks(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            free = tuple(tuple(MaskState.UNCONSTRAINED for _ in row) for row in round.states)
            return super().run(evolve(round, states=free))


class TestIgnoresTopP(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            configs = tuple(evolve(config, top_p=1.0) for config in round.configs)
            return super().run(evolve(round, configs=configs))


class TestPenaltiesOfDraftsForgotten(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            rows = super().run(round)
            return tuple(
                evolve(row, tokens=row.tokens[:1], accepted=min(row.accepted, 1))
                if config.penalised
                else row
                for row, config in zip(rows, round.configs, strict=True)
            )


class TestSeedDependsOnTheRow(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            configs = tuple(evolve(c, seed=c.seed + n) for n, c in enumerate(round.configs))
            return super().run(evolve(round, configs=configs))


class TestPositionIgnored(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            return super().run(evolve(round, positions=(0,) * len(round.positions)))


class TestSampledDraftsTakenForCertain(Sampler):
    """A certain draft is kept with p(draft), so a draft of q's gets p(draft) q(draft): not the law's share."""

    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            rows = super().run(round)
            return tuple(
                evolve(row, tokens=(int(round.drafts[n, 0]), *row.tokens[1:]))
                if round.extents[n] and row.tokens and row.accepted == 0
                else row
                for n, row in enumerate(rows)
            )


class TestKeptMassAlwaysOne(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            return tuple(
                evolve(row, kept_mass=(1.0,) * len(row.kept_mass)) for row in super().run(round)
            )


class TestKeptMassUnasked(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            return super().run(evolve(round, kept_mass=(True,) * len(round.extents)))


class TestKeptMassOfTheFirstTokenOnly(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            return tuple(evolve(row, kept_mass=row.kept_mass[:1]) for row in super().run(round))


class TestKeptMassWithoutPenalties(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            plain = [
                evolve(config, presence_penalty=0.0, frequency_penalty=0.0)
                for config in round.configs
            ]
            bare = super().run(evolve(round, configs=tuple(plain)))
            return tuple(
                evolve(row, kept_mass=other.kept_mass[: len(row.kept_mass)])
                for row, other in zip(super().run(round), bare, strict=True)
            )


class TestKeptMassAfterTruncation(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            free = tuple(tuple(MaskState.UNCONSTRAINED for _ in row) for row in round.states)
            laws = self.distributions(evolve(round, states=free))
            kept = self.distributions(round)
            return tuple(
                evolve(
                    row,
                    kept_mass=tuple(
                        float(law[1][torch.isin(law[0], legal[0])].sum())
                        for law, legal, _ in zip(laws[n], kept[n], row.kept_mass, strict=False)
                    ),
                )
                for n, row in enumerate(super().run(round))
            )


class TestAskingForKeptMassChangesTheToken(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            configs = tuple(
                evolve(config, seed=config.seed + asked)
                for config, asked in zip(round.configs, round.kept_mass or (0,) * 64, strict=False)
            )
            return super().run(evolve(round, configs=configs))


class TestOneFailureFailsAll(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def run(self, round):
            rows = super().run(round)
            failed = next((row for row in rows if row.failure is not None), None)
            return rows if failed is None else (failed,) * len(rows)


class TestCountsEachTokenOnce(Sampler):
    class plan_class(TorchSamplerPlan):  # noqa: N801
        def commit(self, lanes, tokens, views):
            super().commit(lanes, [list(dict.fromkeys(row)) for row in tokens], views)


class Frontend(FrontendSuite):
    target = ToyTarget
    decoder = ToyDecoder

    @pytest.fixture
    def model(self):
        suite = self

        class Mutant(ToyModel):
            def decoder(self, prompt, request, raw_members=()):
                plain = super().decoder(prompt, request)
                return suite.decoder(plain.vocabulary, plain.thinks)

        model = ToyModel.make([b"re", b"\n\n"])
        return Mutant(self.target(model.vocabulary))

    @pytest.fixture
    def tolerance(self):
        return 0.0


class TestFoldsEveryColumn(Frontend):
    class target(ToyTarget):  # noqa: N801
        def fold(self, lanes, counts, views):
            super().fold(lanes, [6 if count else 0 for count in counts], views)


class TestFoldsNothingWrongly(Frontend):
    class target(ToyTarget):  # noqa: N801
        def fold(self, lanes, counts, views):
            super().fold(lanes, [max(count, 1) for count in counts], views)


class TestVerifyWritesSlots(Frontend):
    class target(ToyTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            output = super().forward(batch, views, features)
            views.write_slot("toy.digest", batch.lanes, output.hidden[:, 0, 0])
            return output


class TestChunksForgetTheirStart(Frontend):
    class target(ToyTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            if batch.kind.value == "prefill" and batch.starts[0]:
                views.write_slot("toy.digest", batch.lanes, torch.zeros(1, dtype=torch.int64))
            return super().forward(batch, views, features)


class TestDecoderDropsACutCharacter(Frontend):
    class decoder(ToyDecoder):  # noqa: N801
        def finish(self, state):
            return ()


class TestDecoderPublishesTheSeparator(Frontend):
    class decoder(ToyDecoder):  # noqa: N801
        def step(self, state, token):
            after, segments = super().step(state, token)
            return evolve(after, skip=b""), segments


class TestDecoderKeepsStateInItself(Frontend):
    @define
    class decoder(ToyDecoder):  # noqa: N801
        def step(self, state, token):
            state = getattr(self, "kept", state)
            after, segments = super().step(state, token)
            object.__setattr__(self, "kept", after)
            return after, segments


class TestClosesWithoutTheSeparator(FrontendSuite):
    caught_by = "test_the_early_close_ends_the_reasoning"

    @pytest.fixture
    def model(self):
        class Mutant(ToyModel):
            def early_close(self, prompt):
                return super().early_close(prompt)[:-2]

        return Mutant.make()


class TestFinalIsNotHidden(Frontend):
    caught_by = "test_features_are_as_wide_as_declared"

    class target(HeadedTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            output = super().forward(batch, views, features)
            named = {name: value + (name == "final") for name, value in output.features.items()}
            return evolve(output, features=named)


class TestGivesEveryFeature(Frontend):
    caught_by = "test_features_are_as_wide_as_declared"

    class target(HeadedTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            return super().forward(batch, views, tuple(self.features) if features else ())


class TestFeatureOfAnotherWidth(Frontend):
    caught_by = "test_features_are_as_wide_as_declared"

    class target(HeadedTarget):  # noqa: N801
        @property
        def features(self):
            return {"final": 1, "block:0": 3}


class TestFeaturesOfPromptsAlone(Frontend):
    caught_by = "test_features_are_those_of_the_prompt"

    class target(HeadedTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            output = super().forward(batch, views, features)
            if batch.kind.value == "verify" and "block:0" in features:
                output.features["block:0"].zero_()
            return output


class TestFeaturesOfTheChunk(Frontend):
    caught_by = "test_features_are_those_of_the_prompt"

    class target(HeadedTarget):  # noqa: N801
        def forward(self, batch, views, features=()):
            output = super().forward(batch, views, features)
            if batch.kind.value == "prefill" and "block:0" in features:
                output.features["block:0"].sub_(output.features["block:0"][:, :1])
            return output


class Headed(Frontend):
    head = ToyHead

    def target(self, vocabulary):
        target = HeadedTarget(vocabulary)
        target.head = self.head
        return target


class TestHeadStoresNothing(Headed):
    caught_by = "test_a_draft_head_stores_what_it_would_keep"

    class head(ToyHead):  # noqa: N801
        def store(self, batch, hidden, views):
            """Leaves the cells empty."""


class TestHeadStoresOtherCells(Headed):
    caught_by = "test_a_draft_head_stores_what_it_would_keep"

    class head(ToyHead):  # noqa: N801
        def store(self, batch, hidden, views):
            super().store(batch, hidden + 1, views)


class TestHeadStoresItsPadding(Headed):
    caught_by = "test_a_draft_head_stores_what_it_would_keep"

    class head(ToyHead):  # noqa: N801
        def store(self, batch, hidden, views):
            widths = (batch.ids.shape[1],) * len(batch.lanes)
            super().store(evolve(batch, widths=widths), hidden, views)


class TestHeadReadsThePadding(Headed):
    caught_by = "test_a_draft_head_gives_each_rows_last_cell"

    class head(ToyHead):  # noqa: N801
        def forward(self, batch, hidden, views):
            return (super().forward(batch, hidden, views) + hidden.sum((1, 2))[:, None]) % 509


class TestHeadGivesEveryCell(Headed):
    caught_by = "test_a_draft_head_gives_each_rows_last_cell"

    class head(ToyHead):  # noqa: N801
        def forward(self, batch, hidden, views):
            output, width = super().forward(batch, hidden, views), batch.ids.shape[1]
            return output if width == 1 else output[:, None].expand(-1, width, -1)


class TestHeadKeepsTheDrafted(Headed):
    caught_by = "test_a_draft_head_overwrites_what_was_drafted"

    class head(ToyHead):  # noqa: N801
        def keep(self, batch, hidden, views):
            for row, (lane, start) in enumerate(zip(batch.lanes, batch.starts, strict=True)):
                width = batch.widths[row]
                cells = 31 * batch.ids[row, :width] + hidden[row, :width, 0]
                kept = views.read_pages("toy.cells", lane, start + width)[start:]
                views.write_pages("toy.cells", lane, start, torch.where(kept == 0, cells, kept))


class TestHeadWhoseCellsDependOnTheirOrder(Headed):
    caught_by = "test_a_draft_head_stores_what_it_would_keep"

    class head(ToyHead):  # noqa: N801
        def keep(self, batch, hidden, views):
            self.calls = getattr(self, "calls", 0) + 1
            super().keep(batch, hidden + self.calls, views)


class Backend(SpeculativeBackendSuite):
    drafter = ScriptedDrafter

    @staticmethod
    def width(setup):
        return setup.drafts or DEFAULT_WIDTH

    @pytest.fixture
    def backend(self):
        suite = self

        class Mutant(ScriptedBackend):
            def bind(self, target, vocabulary, setup):
                return suite.drafter(self.script, suite.width(setup))

        return Mutant(lambda row: [row.history[-1]] * 4)


class TestDraftsBeyondTheLimit(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def _draft(self, rows):
            return super()._draft([evolve(row, limit=4) for row in rows])


class TestAbortLeavesTheRoundOpen(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def abort(self):
            self._prepared = None


class TestCommitsBeforeItIsAsked(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def propose(self, rows, views):
            proposal = super().propose(rows, views)
            lanes = [row.lane for row in rows]
            views.write_slot(
                "scripted.executed", lanes, views.read_slot("scripted.executed", lanes) + 1
            )
            return proposal


class TestCountsRejectedColumns(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def prepare_commit(self, counts, features, views):
            super().prepare_commit([features["final"].shape[1]] * len(counts), features, views)


class TestReadsRejectedFeatures(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def prepare_commit(self, counts, features, views):
            super().prepare_commit(counts, features, views)
            self.seen = int(features["final"].sum())

        def _draft(self, rows):
            proposal = super()._draft(rows)
            return evolve(proposal, ids=proposal.ids + getattr(self, "seen", 0) % 7)


class TestHearsOfThePromptAlone(Backend):
    caught_by = "test_tokens_that_nobody_drafted_are_history"

    class drafter(ScriptedDrafter):  # noqa: N801
        def prefilled(self, lane, ids, start, features, views):
            if start % 4 == 0:
                super().prefilled(lane, ids, start, features, views)


class TestRebuildsNothing(Backend):
    class drafter(ScriptedDrafter):  # noqa: N801
        def rebuild(self, lane, history, features, views):
            """Leaves the lane empty."""


class TestNoWidthOfItsOwn(Backend):
    caught_by = "test_the_width_is_what_was_asked_for"

    @staticmethod
    def width(setup):
        return setup.drafts or 0


class TestAlwaysAsWide(Backend):
    caught_by = "test_the_width_is_what_was_asked_for"

    @staticmethod
    def width(setup):
        return DEFAULT_WIDTH


class TestBuffersForItsDraftsAlone(Backend):
    caught_by = "test_copies_in_place_of_drafts"

    class drafter(ScriptedDrafter):  # noqa: N801
        def prepare_commit(self, counts, features, views):
            super().prepare_commit(
                [min(count, self.width + 1) for count in counts], features, views
            )


class TestRowsWithoutDraftsStay(Backend):
    caught_by = "test_copies_in_place_of_drafts"

    class drafter(ScriptedDrafter):  # noqa: N801
        def prepare_commit(self, counts, features, views):
            taking = [
                count * (row.limit > 0) for count, row in zip(counts, self._open, strict=True)
            ]
            super().prepare_commit(taking, features, views)


class Drawing(SpeculativeBackendSuite):
    caught_by = "test_drawn_drafts_do_not_depend_on_other_rows"
    drafter = SampledDrafter

    @pytest.fixture
    def backend(self):
        suite = self

        class Mutant(SampledBackend):
            def bind(self, target, vocabulary, setup):
                return suite.drafter(lambda row: (), 4, law=self.law, draw=self.draw)

        return Mutant(lambda row, drafts: ([97, 98], [0.5, 0.5]), lambda row, position, q: 0)


class TestLawOfTheCompany(Drawing):
    class drafter(SampledDrafter):  # noqa: N801
        def _draft(self, rows):
            proposal = super()._draft(rows)
            rounding = torch.tensor([1, -1]) * 1e-7 * len(rows)
            q = evolve(
                proposal.distribution, probabilities=proposal.distribution.probabilities + rounding
            )
            return evolve(proposal, distribution=q)


class TestDrawOfTheCompany(Drawing):
    class drafter(SampledDrafter):  # noqa: N801
        def _draft(self, rows):
            proposal = super()._draft(rows)
            return evolve(proposal, ids=proposal.ids + (len(rows) > 1))


class TestCommitOfTheCompany(Drawing):
    class drafter(SampledDrafter):  # noqa: N801
        def prepare_commit(self, counts, features, views):
            super().prepare_commit(counts, features, views)
            self.company = len(counts)

        def _draft(self, rows):
            proposal = super()._draft(rows)
            return evolve(proposal, ids=97 + (proposal.ids + getattr(self, "company", 0)) % 2)
