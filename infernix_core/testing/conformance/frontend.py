"""The contract of model frontends as tests, on a loaded model."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from attrs import define, field
from torch import Tensor

from infernix_core.engine.sampling_defaults import check_options
from infernix_core.errors import InvalidPrompt
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import (
    Channel,
    LoadedModel,
    OutputDecoder,
    OutputRequest,
    PromptInput,
    Segment,
    StartPhase,
)
from infernix_core.interfaces.language import Content, TextExcept, Token, walk
from infernix_core.interfaces.model import DraftHead, ForwardBatch, StateKind
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass
from infernix_core.testing.conformance.target import Runner, rubbish
from infernix_core.testing.conformance.walks import legal
from infernix_core.testing.plain_provider import PlainProvider

TEXT = 'Grüße, 你好 🙂!\n\n  A second line: {"a": [1, 2]}\n'
CHOICE = Choice(["red", "größer 🙂", '{"a": 1}\n\n'])
FREE, SHAPED = OutputRequest(), OutputRequest(CHOICE)

#: The name of a checkpoint's own draft layer, and the feature that it takes.
HEAD, FINAL = "mtp", "final"


@define(eq=False)
class HeadRig:
    """A draft head over a prompt of its target's, whose cells may lie in any lane.

    Attributes:
        tokens: Of the cells: cell t takes the prompt's token at t + 1.
        hidden: [cells, H], the target's.
    """

    head: DraftHead
    runner: Runner
    ids: Sequence[int]
    tokens: list[int] = field(init=False)
    hidden: Tensor = field(init=False)

    def __attrs_post_init__(self) -> None:
        (_, output), *_ = self.runner.prefill(0, self.ids, None, (FINAL,))
        self.tokens = list(self.ids[1:])
        self.hidden = output.features[FINAL][0, :-1]

    def forward(self, *rows: tuple[int, int, int]) -> Tensor:
        """Runs cells: a lane, the first and the end for each row."""
        output = self.head.forward(*self._cells(rows), self.runner.state)
        assert output.shape == (len(rows), self.hidden.shape[-1])
        return output

    def store(self, *rows: tuple[int, int, int], wrong: bool = False) -> None:
        """Stores such cells; ``wrong`` ones have other tokens and hiddens."""
        batch, hidden = self._cells(rows)
        if wrong:
            batch.ids.copy_(batch.ids.flip(1))
            hidden = hidden.flip(1) * 2
        self.head.store(batch, hidden, self.runner.state)

    def _cells(self, rows: Sequence[tuple[int, int, int]]) -> tuple[ForwardBatch, Tensor]:
        batch = self.runner.batch(
            [lane for lane, _, _ in rows],
            [first for _, first, _ in rows],
            [self.tokens[first:end] for _, first, end in rows],
        )
        hidden = self.hidden.new_full(
            (*batch.ids.shape, self.hidden.shape[-1]), rubbish(self.hidden)
        )
        for row, (_, first, end) in enumerate(rows):
            hidden[row, : end - first] = self.hidden[first:end]
        return batch, hidden


class FrontendSuite:
    """Inherit it as ``Test…`` and give ``model``.

    Fixtures:
        model: A ``LoadedModel``, as ``ModelFrontend.load`` gives it. A module-scoped fixture beside the class may
            load it once for all tests.
            Its vocabulary should be small: some tests try every token.
        prompts: Prompts that it can prepare; by default a text, tokens, and a message with and without
            thinking.
        tolerance: Greatest difference between logits that ought to be equal; 0 for an exact model.
    """

    @pytest.fixture
    def model(self) -> LoadedModel:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'model'")

    @pytest.fixture
    def prompts(self) -> Sequence[PromptInput]:
        """Prompts of every kind."""
        messages = [{"role": "user", "content": "Which colour?"}]
        return (
            PromptInput(text="once upon"),
            PromptInput(token_ids=[3, 1, 2]),
            PromptInput(messages=messages, enable_thinking=False),
            PromptInput(messages=messages, enable_thinking=True),
        )

    @pytest.fixture
    def tolerance(self) -> float:
        """For a model in float32."""
        return 1e-3

    @pytest.fixture(autouse=True)
    def _quiet(self) -> Iterator[None]:
        """One thread and no gradients, as the engine's worker has none."""
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        with torch.inference_mode():
            yield
        torch.set_num_threads(before)

    @pytest.fixture
    def runner(self, model: LoadedModel) -> Runner:
        """The target over fresh state."""
        return Runner(model.target, capacity=4 * model.target.grid + 64)

    @pytest.fixture
    def ids(self, model: LoadedModel) -> list[int]:
        """Text tokens, more than three grids of them."""
        text = model.vocabulary.ids(TokenClass.TEXT)
        return random.Random(0).choices(text, k=3 * model.target.grid + 40)

    # The prompt, the language and the decoder.

    def test_the_vocabulary_fits_the_model(self, model: LoadedModel) -> None:
        """Every token has a logit, an output can end, and framing tokens are of their class."""
        vocabulary = model.vocabulary
        assert model.target.logits_width >= vocabulary.size
        assert vocabulary.end_ids
        for token in vocabulary.framing.values():
            assert vocabulary.classes[token] is TokenClass.FRAMING
        assert model.name
        assert model.context_length > 1

    def test_prompts_are_tokens_of_the_vocabulary(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """At least one, the same every time; text and tokens are continued without any framing."""
        for prompt in prompts:
            prepared = model.prepare(prompt)
            assert prepared.token_ids
            assert all(0 <= token < model.vocabulary.size for token in prepared.token_ids)
            assert model.prepare(prompt).token_ids == prepared.token_ids
            assert (prepared.phase is StartPhase.RAW) == (prompt.messages is None)
            if prompt.token_ids is not None:
                assert prepared.token_ids == tuple(prompt.token_ids)
            check_options(model.sampling_defaults(prepared))
            assert isinstance(model.sampling_defaults(prepared), SamplingOptions)

    def test_an_empty_prompt_is_invalid(self, model: LoadedModel) -> None:
        """There would be nothing to continue."""
        with pytest.raises(InvalidPrompt):
            model.prepare(PromptInput(token_ids=[]))

    @pytest.mark.parametrize(
        "prompt",
        [
            PromptInput(text="a \ud800"),
            PromptInput(messages=[{"role": "user", "content": "a \ud800"}]),
        ],
        ids=["text", "messages"],
    )
    def test_what_no_encoding_expresses_is_invalid(
        self, model: LoadedModel, prompt: PromptInput
    ) -> None:
        """JSON can spell a lone surrogate; it is the caller's mistake, not a fault."""
        with pytest.raises(InvalidPrompt):
            model.prepare(prompt)

    def test_raw_text_becomes_text_tokens_that_spell_it(self, model: LoadedModel) -> None:
        """Also where it spells a control token."""
        spelled = "".join(name + " " for name in model.vocabulary.framing)
        for text in (TEXT, spelled + "x"):
            prepared = model.prepare(PromptInput(text=text))
            kinds = {model.vocabulary.classes[token] for token in prepared.token_ids}
            assert kinds == {TokenClass.TEXT}
            assert self._published(model.decoder(prepared, FREE), prepared.token_ids)[1] == text

    def test_languages_hold_the_constraint_and_legal_tokens(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """No END, no FORBIDDEN; raw continuation is the content alone."""
        for prompt in prompts:
            prepared = model.prepare(prompt)
            language = model.language(prepared, SHAPED)
            assert language == model.language(prepared, SHAPED), "equal requests share a grammar"
            assert language is not None
            assert model.language(prepared, FREE) is None, "nothing constrains it"
            assert model.prefix(prepared, SHAPED) == (), "nothing is continued"
            nodes = list(walk(language))
            assert Content(CHOICE) in nodes
            if prepared.phase is StartPhase.RAW:
                assert language == Content(CHOICE)
            named = {node.id for node in nodes if isinstance(node, Token)}
            named |= {token for node in nodes if isinstance(node, TextExcept) for token in node.ids}
            for token in named:
                assert model.vocabulary.classes[token] in (TokenClass.TEXT, TokenClass.FRAMING)

    def test_the_decoder_publishes_the_languages_content(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """Random outputs of the language, to their end: the content is one of the choices."""
        vocabulary = model.vocabulary
        bound = PlainProvider().bind(vocabulary)
        for prompt in prompts:
            prepared = model.prepare(prompt)
            language = model.language(prepared, SHAPED)
            assert language is not None
            compiled = bound.compile(language)
            for seed in range(4):
                rng, matcher, tokens = random.Random(seed), compiled.start(), list[int]()
                while not matcher.terminated:
                    row = np.zeros(vocabulary.words, dtype=np.int32)
                    assert matcher.fill(row)
                    possible = legal(row)
                    framing = [t for t in possible if vocabulary.classes[t] is TokenClass.FRAMING]
                    closes = len(tokens) > 8 and framing
                    token = rng.choice(framing if closes else possible)
                    assert matcher.accept(token)
                    tokens.append(token)
                reasoning, content = self._published(model.decoder(prepared, FREE), tokens[:-1])
                assert content in CHOICE.literals
                if prepared.phase is not StartPhase.REASONING:
                    assert not reasoning

    def test_the_early_close_ends_the_reasoning(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """At once and after some of it: all of it is reasoning or framing, and any content may follow."""
        bound = PlainProvider().bind(model.vocabulary)
        text = model.vocabulary.ids(TokenClass.TEXT)
        for prompt in prompts:
            prepared = model.prepare(prompt)
            control = model.early_close(prepared)
            assert control == model.early_close(prepared)
            if prepared.phase is not StartPhase.REASONING or not control:
                continue
            language = model.language(prepared, SHAPED)
            assert language is not None
            for length in (0, 1, 7):
                head = random.Random(length).choices(text, k=length)
                decoder, matcher = model.decoder(prepared, SHAPED), bound.compile(language).start()
                state, content = decoder.start(), ""
                for index, token in enumerate([*head, *control]):
                    assert matcher.accept(token)
                    if index <= length:
                        assert decoder.reasoning(state)
                    state, pieces = decoder.step(state, token)
                    content += "".join(
                        piece.text
                        for piece in pieces
                        if isinstance(piece, Segment) and piece.channel is Channel.CONTENT
                    )
                assert not decoder.reasoning(state)
                assert not content
                row = np.zeros(model.vocabulary.words, dtype=np.int32)
                assert matcher.fill(row)
                expected = np.zeros_like(row)
                assert bound.compile(Content(CHOICE)).start().fill(expected)
                assert (row == expected).all(), "the answer begins here"

    def test_decoder_states_are_values(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """A step changes no earlier state, so that a preview can be dropped."""
        special = [*model.vocabulary.framing.values()]
        text = model.vocabulary.ids(TokenClass.TEXT)
        for prompt in prompts:
            decoder = model.decoder(model.prepare(prompt), FREE)
            rng, state = random.Random(2), decoder.start()
            taken = []
            for _ in range(60):
                token = rng.choice(special if special and rng.random() < 0.1 else text)
                after, segments = decoder.step(state, token)
                assert all(isinstance(each, Segment) and each.text for each in segments)
                taken.append((state, token, segments, decoder.finish(state)))
                state = after
            for state, token, segments, held in taken:
                assert decoder.step(state, token)[1] == segments
                assert decoder.finish(state) == held

    def test_streaming_equals_the_whole(
        self, model: LoadedModel, prompts: Sequence[PromptInput]
    ) -> None:
        """Content arrives in order and complete; a cut character becomes one U+FFFD at the end."""
        raw = TEXT.encode()
        single = {
            model.vocabulary.token_bytes[token]: token
            for token in model.vocabulary.ids(TokenClass.TEXT)
        }
        if any(bytes([value]) not in single for value in raw):
            pytest.skip("the vocabulary has no single bytes")
        for prompt in prompts:
            prepared = model.prepare(prompt)
            if prepared.phase is StartPhase.REASONING:
                continue
            decoder = model.decoder(prepared, FREE)
            for end in range(len(raw) + 1):
                tokens = [single[bytes([value])] for value in raw[:end]]
                whole = raw[:end].decode(errors="replace")
                assert self._published(decoder, tokens) == ("", whole)

    # The mathematics.

    def test_prefill_in_chunks(self, runner: Runner, ids: list[int], tolerance: float) -> None:
        """Chunks that start on the grid give what one pass gives."""
        grid = runner.target.grid
        for length in (1, grid, grid + 1, 3 * grid + 7):
            whole = runner.last(0, ids[:length])
            assert whole.dtype == torch.float32
            assert whole.shape == (runner.target.logits_width,)
            for chunk in (grid, 2 * grid):
                close(runner.last(1, ids[:length], chunk), whole, tolerance)

    def test_verify_and_fold_equal_the_prompt(
        self, runner: Runner, ids: list[int], tolerance: float
    ) -> None:
        """Token by token, and in blocks of which a part is accepted, in a batch of different rows."""
        start = runner.target.grid + 3
        runner.prefill(2, ids[:start])
        runner.prefill(0, ids[:5])
        at = [start, 5]
        for counts in ((1, 1), (3, 0), (0, 4), (2, 5), (5, 1), (1, 2)):
            wrong = [(token + 1) % len(ids) for token in ids[:2]]
            columns = [
                [*ids[p : p + max(n, 1)], *wrong][:6] for p, n in zip(at, counts, strict=True)
            ]
            actual = runner.logits(runner.verify([2, 0], at, columns).hidden)
            runner.fold([2, 0], counts)
            for row, count in enumerate(counts):
                for column in range(max(count, 1)):
                    expected = runner.last(1, ids[: at[row] + column + 1])
                    close(actual[row, column], expected, tolerance)
            at = [p + n for p, n in zip(at, counts, strict=True)]

    def test_a_verify_reads_slots_and_a_fold_of_nothing_leaves_them(
        self, runner: Runner, ids: list[int]
    ) -> None:
        """To the last bit, while another row of the batch moves on."""
        for lane in (0, 1):
            runner.prefill(lane, ids[:7])
        before = runner.slots(0), runner.slots(1)
        runner.verify([0, 1], [7, 7], [ids[7:11], ids[7:9]])
        for lane in (0, 1):
            for name, value in runner.slots(lane).items():
                assert torch.equal(value, before[lane][name]), name
        runner.fold([0, 1], [0, 2])
        for name, value in runner.slots(0).items():
            assert torch.equal(value, before[0][name]), name

    def test_a_fold_is_the_verified_trajectory(self, runner: Runner, ids: list[int]) -> None:
        """One wide verify leaves the state that the same columns leave one at a time."""
        for lane in (0, 1):
            runner.prefill(lane, ids[:9])
        runner.verify([0], [9], [ids[9:14]])
        runner.fold([0], [5])
        for position in range(9, 14):
            runner.verify([1], [position], [[ids[position]]])
            runner.fold([1], [1])
        for name, value in runner.slots(1).items():
            torch.testing.assert_close(runner.slots(0)[name], value, rtol=1e-4, atol=1e-4)

    def test_a_lane_keeps_nothing_of_an_earlier_sequence(
        self, runner: Runner, ids: list[int]
    ) -> None:
        """Cleared slots and overwritten pages are as good as new."""
        fresh = runner.last(0, ids[:6])
        runner.prefill(1, ids[::-1][: 2 * runner.target.grid])
        close(runner.last(1, ids[:6]), fresh, 0.0)

    def test_what_a_model_cannot_give(self, model: LoadedModel, runner: Runner) -> None:
        """An unknown feature is an error; an unknown draft head is a reason."""
        with pytest.raises(ValueError, match="no such feature"):
            runner.prefill(0, [1], features=("no such feature",))
        assert isinstance(model.target.draft_head("no such head"), str)

    def test_features_are_as_wide_as_declared(
        self, model: LoadedModel, runner: Runner, ids: list[int], tolerance: float
    ) -> None:
        """From both kinds of steps: those that were asked for and no others, which changes nothing else."""
        widths = model.target.features
        grid, rows = model.target.grid, [ids[9:14], ids[3:5]]
        for names in (tuple(widths), *((name,) for name in widths)):
            runner.prefill(1, ids[:3])
            (_, plain), *_ = runner.prefill(0, ids[: grid + 1])
            (_, prompt), *_ = runner.prefill(0, ids[: grid + 1], None, names)
            without = runner.verify([1, 0], [3, grid + 1], rows)
            verified = runner.verify([1, 0], [3, grid + 1], rows, names)
            assert not plain.features
            assert not without.features
            for output, bare, lead in (
                (prompt, plain, (1, grid + 1)),
                (verified, without, (2, 5)),
            ):
                shapes = {name: tuple(value.shape) for name, value in output.features.items()}
                assert shapes == {name: (*lead, widths[name]) for name in names}
                for row, width in enumerate([grid + 1] if output is prompt else [5, 2]):
                    valid = output.hidden[row, :width]
                    close(valid, bare.hidden[row, :width], tolerance)
                    if FINAL in names:
                        assert torch.equal(output.features[FINAL][row, :width], valid), FINAL

    def test_features_are_those_of_the_prompt(
        self, model: LoadedModel, runner: Runner, ids: list[int], tolerance: float
    ) -> None:
        """In one pass, in chunks, and in verified columns beside another row, of which a part is accepted."""
        names, grid = tuple(model.target.features), model.target.grid
        at, end = grid + 3, grid + 11
        (_, whole), *_ = runner.prefill(0, ids[:end], None, names)
        chunks = [output for _, output in runner.prefill(1, ids[:end], grid, names)]
        for name in names:
            parts = torch.cat([output.features[name] for output in chunks], dim=1)
            close(parts, whole.features[name], tolerance)
        runner.prefill(0, ids[:5])
        runner.prefill(2, ids[:at])
        for count in (3, 1, 4):
            columns = [ids[at : at + count] + ids[:1], ids[5:7]]
            verified = runner.verify([2, 0], [at, 5], columns, names)
            runner.fold([2, 0], [count, 0])
            for name in names:
                expected = whole.features[name][0]
                close(verified.features[name][0, :count], expected[at : at + count], tolerance)
                close(verified.features[name][1, :2], expected[5:7], tolerance)
            at += count

    # A draft layer of the checkpoint's.

    @pytest.fixture
    def cells(self, model: LoadedModel, ids: list[int]) -> HeadRig:
        """Nine cells of the draft layer, where the model has one."""
        head = model.target.draft_head(HEAD)
        if isinstance(head, str):
            assert head
            pytest.skip(f"there is no draft layer: {head}")
        assert FINAL in model.target.features
        return HeadRig(head, Runner(model.target, extra=tuple(head.states())), ids[:10])

    @pytest.fixture
    def predicted(self, cells: HeadRig) -> list[Tensor]:
        """What each cell predicts, run one by one."""
        return [cells.forward((0, cell, cell + 1))[0] for cell in range(9)]

    def test_a_draft_head_gives_what_the_output_takes(
        self, cells: HeadRig, predicted: list[Tensor]
    ) -> None:
        """For any cell, and its state is one record per position."""
        logits = cells.runner.logits(torch.stack(predicted))
        assert logits.shape == (9, cells.runner.target.logits_width)
        assert logits.isfinite().all()
        assert len({tuple(row.tolist()) for row in predicted}) > 1, "it sees what it is given"
        assert {spec.kind for spec in cells.head.states()} <= {StateKind.PAGED}

    def test_a_draft_head_gives_each_rows_last_cell(
        self, cells: HeadRig, predicted: list[Tensor], tolerance: float
    ) -> None:
        """In rows of different widths, whatever stands beyond them, and no cell behind is touched."""
        close(cells.forward((1, 0, 9))[0], predicted[8], tolerance)
        cells.forward((2, 0, 4))
        for rows in (((2, 4, 7), (1, 3, 4), (0, 2, 7)), ((1, 2, 3), (0, 0, 6)), ((2, 3, 7),)):
            actual = cells.forward(*rows)
            for row, (_, _, end) in enumerate(rows):
                close(actual[row], predicted[end - 1], tolerance)
        for lane in (0, 1):
            close(cells.forward((lane, 8, 9))[0], predicted[8], tolerance)

    def test_a_draft_head_stores_what_it_would_keep(
        self, cells: HeadRig, predicted: list[Tensor], tolerance: float
    ) -> None:
        """Stored at once, in another order, in part, side by side: what later cells predict is the same."""
        cells.store((1, 0, 8))
        close(cells.forward((1, 8, 9))[0], predicted[8], tolerance)
        close(cells.forward((1, 3, 4))[0], predicted[3], tolerance)
        # Rows of different widths; a row's padding lies over cells that are there already.
        cells.store((2, 5, 8))
        cells.store((2, 0, 2), (1, 0, 8))
        cells.store((2, 3, 5))
        cells.store((2, 2, 3))
        close(cells.forward((2, 8, 9))[0], predicted[8], tolerance)
        # Some stored, some run.
        cells.runner.prefill(1, cells.ids)
        cells.store((1, 0, 3))
        close(cells.forward((1, 3, 6))[0], predicted[5], tolerance)
        cells.store((1, 6, 7))
        close(cells.forward((1, 7, 9))[0], predicted[8], tolerance)

    def test_a_draft_head_overwrites_what_was_drafted(
        self, cells: HeadRig, predicted: list[Tensor], tolerance: float
    ) -> None:
        """Cells of other tokens, such as rejected drafts, leave nothing behind, be it stored over or run over."""
        for lane in (1, 2):
            cells.store((lane, 0, 2))
            cells.store((lane, 2, 9), wrong=True)
            close(cells.forward((lane, 1, 2))[0], predicted[1], tolerance)
        cells.store((1, 2, 8))
        close(cells.forward((1, 8, 9))[0], predicted[8], tolerance)
        close(cells.forward((2, 2, 9))[0], predicted[8], tolerance)

    def test_embeddings_have_the_width_of_hidden(self, runner: Runner) -> None:
        """One per id."""
        hidden = runner.prefill(0, [1, 2])[0][1].hidden
        embedded = runner.target.embed(torch.tensor([[1, 2]], device=runner.target.device))
        assert embedded.shape == hidden.shape

    @staticmethod
    def _published(decoder: OutputDecoder, tokens: Sequence[int]) -> tuple[str, str]:
        """Reasoning and content of an output."""
        texts = dict.fromkeys(Channel, "")
        state = decoder.start()
        for token in tokens:
            state, segments = decoder.step(state, token)
            for segment in segments:
                assert isinstance(segment, Segment)
                texts[segment.channel] += segment.text
        for segment in decoder.finish(state):
            assert isinstance(segment, Segment)
            texts[segment.channel] += segment.text
        return texts[Channel.REASONING], texts[Channel.CONTENT]


def close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    """Equal within the tolerance; what is infinite or NaN is so in both."""
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance, equal_nan=True)
