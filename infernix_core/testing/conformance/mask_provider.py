"""The contract of mask providers as tests."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable

import pytest

from infernix_core.errors import ConstraintDeadEnd, ConstraintError
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.mask_provider import (
    BoundMaskProvider,
    GrammarMatcher,
    MaskProvider,
)
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.conformance import walks
from infernix_core.testing.conformance.walks import ContentCase, Snapshot, fill, legal, walk
from infernix_core.testing.spelling import spelt
from infernix_core.testing.toy import toy_vocabulary

FRAMES = ("bare", "labelled", "after thinking", "union", "between")
SEEDS = range(3)
#: Tokens of a random walk.
STEPS = 12


class MaskProviderSuite:
    """Inherit it as ``Test…`` and give ``provider``.

    Fixtures:
        provider: A ``MaskProvider``; a new one for each test or one for all.
        contents: Constraint cases that the provider must know; by default choices alone. ``walks.CASES``
            has one for each further kind.
        invalid: Constraints that it must refuse; by default none.
        vocabulary: One whose first 256 tokens are the single bytes, with END, FORBIDDEN and the framing token
            ``</think>``. Every token is tried at every step, so it should be small.
    """

    @pytest.fixture
    def provider(self) -> MaskProvider:
        """To be given by the subclass."""
        raise NotImplementedError("give the fixture 'provider'")

    @pytest.fixture
    def contents(self) -> Iterable[ContentCase]:
        """Constraint cases to try."""
        return (walks.CHOICE,)

    @pytest.fixture
    def invalid(self) -> Iterable[OutputConstraint]:
        """Constraints to be refused."""
        return ()

    @pytest.fixture
    def vocabulary(self) -> Vocabulary:
        """A small vocabulary whose size is no multiple of 32."""
        return toy_vocabulary([b"re", b"ed", b"ab", b"\n\n", b'{"', b'":', "€".encode()[:2], b"d;"])

    @pytest.fixture
    def bound(self, provider: MaskProvider, vocabulary: Vocabulary) -> BoundMaskProvider:
        """The provider on the vocabulary."""
        return provider.bind(vocabulary)

    @pytest.mark.parametrize("frame", FRAMES)
    def test_fill_and_accept_agree_on_every_token(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
        frame: str,
    ) -> None:
        """Along random walks, ``accept`` takes exactly the tokens of the mask, and a refusal changes nothing."""
        for case in contents:
            for matcher, _ in self._walks(bound, vocabulary, case, frame, seeds=(0,)):
                before = Snapshot.of(matcher, vocabulary)
                for token in range(vocabulary.size):
                    mark = matcher.mark()
                    accepted = matcher.accept(token)
                    assert accepted == (token in before.tokens), (token, case.constraint)
                    if accepted:
                        matcher.rollback(mark)
                assert Snapshot.of(matcher, vocabulary) == before

    @pytest.mark.parametrize("frame", FRAMES)
    def test_masks_are_whole_and_know_the_classes(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
        frame: str,
    ) -> None:
        """Every word is written, the tail is zero, END is legal where the language may end, FORBIDDEN never."""
        forbidden = set(vocabulary.ids(TokenClass.FORBIDDEN))
        for case in contents:
            for matcher, _ in self._walks(bound, vocabulary, case, frame):
                row = fill(matcher, vocabulary)
                assert (row == fill(matcher, vocabulary, before=-1)).all(), (
                    "a word was left as it was"
                )
                tokens = set(legal(row))
                assert max(tokens, default=0) < vocabulary.size, (
                    "a bit is set beyond the vocabulary"
                )
                assert not tokens & forbidden
                ends = set(vocabulary.end_ids) if matcher.may_end else set()
                assert tokens & vocabulary.end_ids == ends

    @pytest.mark.parametrize("frame", FRAMES)
    def test_marks_nest_and_restore_everything(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
        frame: str,
    ) -> None:
        """Rolling back restores masks, labels and termination, also over several marks at once."""
        for case in contents:
            for seed in SEEDS:
                rng = random.Random(seed)
                matcher = bound.compile(self._language(vocabulary, case, frame)).start()
                marks = [(matcher.mark(), Snapshot.of(matcher, vocabulary))]
                for _ in range(4):
                    for _ in walk(matcher, vocabulary, rng, rng.randint(1, 5)):
                        marks.append((matcher.mark(), Snapshot.of(matcher, vocabulary)))
                    del marks[rng.randint(1, len(marks)) :]
                    mark, seen = marks[-1]
                    matcher.rollback(mark)
                    assert Snapshot.of(matcher, vocabulary) == seen
                    marks[-1] = (matcher.mark(), seen)

    def test_an_end_token_terminates_until_it_is_rolled_back(
        self, bound: BoundMaskProvider, vocabulary: Vocabulary
    ) -> None:
        """Each end token does; before and after, the language may end."""
        for end in vocabulary.end_ids:
            matcher = bound.compile(Label("content", Literal(b"a"))).start()
            assert not matcher.accept(end)
            assert matcher.accept(ord("a"))
            before, mark = Snapshot.of(matcher, vocabulary), matcher.mark()
            assert before.may_end
            assert matcher.accept(end)
            assert matcher.terminated
            assert matcher.labels() == before.labels
            matcher.rollback(mark)
            assert Snapshot.of(matcher, vocabulary) == before

    def test_texts_of_the_language_and_others(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
    ) -> None:
        """Members may end, however they are spelled; strangers are refused or unfinished."""
        rng = random.Random(1)
        for case in contents:
            compiled = bound.compile(Content(case.constraint))
            for text in (*case.members, *case.strangers):
                for _ in range(3):
                    matcher = compiled.start()
                    tokens = spelt(text.encode(), vocabulary, rng.choice)
                    whole = all(matcher.accept(token) for token in tokens) and matcher.may_end
                    assert whole == (text in case.members), (text, case.constraint)

    def test_a_prefix_is_the_same_as_its_tokens(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
    ) -> None:
        """``start`` takes ids, and bytes of literals and contents cut anywhere, a character included.

        A part outside of the language is a dead end.
        """
        close = vocabulary.framing[walks.CLOSE]
        for case in contents:
            language = self._language(vocabulary, case, "after thinking")
            compiled = bound.compile(language)
            for text in case.members:
                raw = text.encode()
                stepped = compiled.start()
                for token in (ord("h"), ord("m"), close, 10, 10, *raw):
                    assert stepped.accept(token)
                seen = Snapshot.of(stepped, vocabulary)
                for cut in range(len(raw) + 1):
                    parts: list[bytes | int] = [
                        ord("h"),
                        ord("m"),
                        close,
                        b"\n\n" + raw[:cut],
                        raw[cut:],
                    ]
                    assert Snapshot.of(compiled.start(parts), vocabulary) == seen
            outside: list[list[bytes | int]] = [
                [close, b"\nx"],
                [close, close],
                [close, b"\n\n", b"\xff"],
            ]
            for wrong in outside:
                with pytest.raises(ConstraintDeadEnd):
                    compiled.start(wrong)

    def test_framing_is_matched_by_its_id_alone(
        self, bound: BoundMaskProvider, vocabulary: Vocabulary
    ) -> None:
        """The spelling of a control token is text and closes nothing."""
        close = vocabulary.framing[walks.CLOSE]
        language = walks.languages(vocabulary, Literal(b"a"))["after thinking"]
        matcher = bound.compile(language).start()
        for value in walks.CLOSE.encode():
            assert matcher.accept(value)
        assert matcher.labels() == ()
        assert matcher.accept(ord("x")), "the thinking is still open"
        assert matcher.accept(close)
        assert not matcher.accept(ord("x"))
        assert matcher.accept(10)
        assert matcher.accept(10)
        assert not matcher.accept(close)
        assert matcher.accept(ord("a"))
        assert matcher.labels() == ("content",)

    def test_labels_are_reported_in_order_and_once(
        self, bound: BoundMaskProvider, vocabulary: Vocabulary
    ) -> None:
        """A label counts from the moment its part is begun for certain."""
        close = vocabulary.framing[walks.CLOSE]
        language = sequence(
            Label("first", Literal(b"a")), Token(close), Label("second", Literal(b"b"))
        )
        matcher = bound.compile(language).start()
        for token in (ord("a"), close, ord("b")):
            assert matcher.accept(token)
        assert matcher.labels() == ("first", "second")

    def test_matchers_of_one_grammar_are_independent(
        self, bound: BoundMaskProvider, vocabulary: Vocabulary
    ) -> None:
        """What one accepts, another does not notice."""
        compiled = bound.compile(Union([Literal(b"abc"), Literal(b"b")]))
        one, other = compiled.start(), compiled.start()
        before = Snapshot.of(other, vocabulary)
        assert one.accept(ord("a"))
        assert Snapshot.of(other, vocabulary) == before
        assert other.accept(ord("b"))
        assert legal(fill(one, vocabulary)) == [ord("b")]

    def test_a_vocabulary_that_cannot_spell_the_text_has_dead_ends(
        self, provider: MaskProvider
    ) -> None:
        """There the mask is empty, ``fill`` says so, and the language may not end."""
        kinds = (TokenClass.TEXT, TokenClass.TEXT, TokenClass.END)
        vocabulary = Vocabulary((b"a", b"b", b""), kinds)
        bound = provider.bind(vocabulary)
        matcher = bound.compile(Literal(b"ab?")).start()
        while legal(fill(matcher, vocabulary)):
            assert matcher.accept(legal(fill(matcher, vocabulary))[0])
        assert not matcher.may_end

    def test_threads_compile_and_walk_at_once(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
    ) -> None:
        """Bound providers and compiled grammars are shared by threads; matchers are not."""
        cases = [self._language(vocabulary, case, "after thinking") for case in contents]

        def route(language: Language, seed: int) -> list[int]:
            return list(
                walk(bound.compile(language).start(), vocabulary, random.Random(seed), STEPS)
            )

        jobs = [(language, seed) for language in cases for seed in range(4)]
        expected = [route(*job) for job in jobs]
        results: dict[int, list[int]] = {}

        def work(index: int) -> None:
            results[index] = route(*jobs[index])

        threads = [threading.Thread(target=work, args=(index,)) for index in range(len(jobs))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [results.get(index) for index in range(len(jobs))] == expected

    def test_explanations_and_sizes(
        self,
        provider: MaskProvider,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        contents: Iterable[ContentCase],
    ) -> None:
        """A language can be explained without a vocabulary; what is held has a size, notes are lines; warming
        up changes nothing.
        """
        bound.warm_up()
        for case in contents:
            assert provider.explain(Content(case.constraint)).strip()
            compiled = bound.compile(self._language(vocabulary, case, "labelled"))
            assert compiled.memory_size >= 0
            assert all(isinstance(note, str) and "\n" not in note for note in compiled.notes)
            assert isinstance(compiled.start().ready, bool)
            assert compiled.start().memory_size >= 0

    def test_what_is_invalid_is_refused(
        self,
        provider: MaskProvider,
        bound: BoundMaskProvider,
        invalid: Iterable[OutputConstraint],
    ) -> None:
        """By ``compile`` and by ``explain``, and with the constraint's own class of error."""
        for constraint in invalid:
            with pytest.raises(ConstraintError) as compiled:
                bound.compile(Content(constraint))
            with pytest.raises(ConstraintError) as explained:
                provider.explain(Content(constraint))
            assert type(compiled.value) is type(explained.value)

    @staticmethod
    def _language(vocabulary: Vocabulary, case: ContentCase, frame: str) -> Language:
        return walks.languages(vocabulary, Content(case.constraint))[frame]

    def _walks(
        self,
        bound: BoundMaskProvider,
        vocabulary: Vocabulary,
        case: ContentCase,
        frame: str,
        seeds: Iterable[int] = SEEDS,
    ) -> Iterable[tuple[GrammarMatcher, int]]:
        """Matchers at every step of random walks, not terminated, and the number of the step."""
        compiled = bound.compile(self._language(vocabulary, case, frame))
        for seed in seeds:
            matcher = compiled.start()
            yield matcher, 0
            for step, _ in enumerate(
                walk(matcher, vocabulary, random.Random(seed), STEPS), start=1
            ):
                if not matcher.terminated:
                    yield matcher, step
