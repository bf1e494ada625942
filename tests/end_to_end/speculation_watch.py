"""Engines whose matchers, drafts and samples are watched from outside, over models that say a script per prompt."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from attrs import define, field, frozen
from torch import Tensor

from infernix_core.engine.masks import is_legal
from infernix_core.engine.request import FinishReason, GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.frontend import OutputRequest, PromptInput
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.model import ForwardBatch, StateViews
from infernix_core.interfaces.sampling import MaskState, SampledRow, SamplingOptions, SamplingRound
from infernix_core.interfaces.speculative import DraftRow, DraftSetup, Proposal
from infernix_core.testing.drafters import ScriptedBackend, ScriptedDrafter
from infernix_core.testing.scripted_model import CERTAIN
from infernix_core.testing.spelling import spelt
from infernix_core.testing.table_target import TableTarget
from infernix_core.testing.toy import ToyModel, toy_vocabulary
from infernix_sampling.hooks import infernix_samplers
from infernix_xgrammar.provider import XGrammarMaskProvider
from tests.end_to_end.conftest import WAIT

WORDS = [
    b"{{",
    b'{"',
    b'":',
    b"}\n",
    b"}}",
    b"22",
    b"\n\n",
    b"\n\n{",
    b"\n\n{{",
    b"```json\n",
    b"```",
]
VOCABULARY = toy_vocabulary(WORDS)
CLOSE = VOCABULARY.framing["</think>"]
ENDS = sorted(VOCABULARY.end_ids)
MOST = 48
"""Tokens of an output, unless a case says otherwise."""


def tokens(text: str, *, whole: bool = True) -> tuple[int, ...]:
    """A text as tokens, in as few as possible, or byte by byte."""
    return tuple(spelt(text.encode(), VOCABULARY, max if whole else min))


@define(eq=False)
class Scripts(TableTarget):
    """Says script k after the prompt that is token k, and END after it; implements ``TargetModel``.

    The script's token is certain where it is legal; elsewhere all legal ones are alike. A prefix's integer is how many
    tokens were executed, so one that is lost or executed twice shifts the rest.
    """

    scripts: Sequence[Sequence[int]]
    length: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.length = max(map(len, self.scripts)) + 2 * MOST
        said = torch.full((len(self.scripts), self.length), ENDS[0])
        for index, script in enumerate(self.scripts):
            said[index, : len(script)] = torch.tensor(script, dtype=torch.int64)
        self.table = torch.zeros((said.numel(), self.logits_width))
        self.table[torch.arange(said.numel()), said.flatten()] = CERTAIN

    def absorb(self, digest: int, token: int) -> int:
        """See ``TableTarget``."""
        return digest + 1 if digest else 1 + token * self.length

    def rows(
        self, digests: Sequence[int], batch: ForwardBatch, row: int, views: StateViews
    ) -> Tensor:
        """See ``TableTarget``."""
        return torch.tensor(digests) - 1


@frozen
class Case:
    """One request to a model of :class:`Scripts`.

    Attributes:
        said: What the model wants to say.
        constraint: What it may say.
        drafted: The drafts at each position of the output; by default what is said from there on.
        thinks: Whether it begins inside its reasoning.
        chat: Whether the prompt is a message; else it is continued without framing.
        options: Fields of ``RequestOptions``.
        sampling: Fields of ``SamplingOptions``.
    """

    said: tuple[int, ...]
    constraint: OutputConstraint | None = None
    drafted: Callable[[int], Sequence[int]] | None = field(default=None, kw_only=True)
    thinks: bool = field(default=False, kw_only=True)
    chat: bool = field(default=False, kw_only=True)
    options: Mapping[str, Any] = field(factory=dict, kw_only=True)
    sampling: Mapping[str, Any] = field(factory=dict, kw_only=True)

    def drafts(self, position: int) -> Sequence[int]:
        """What is drafted at a position of the output."""
        return self.said[position:] if self.drafted is None else self.drafted(position)

    def prompt(self, index: int) -> PromptInput:
        """The prompt that asks for the script of this number."""
        if not self.thinks and not self.chat:
            return PromptInput(token_ids=[index])
        message = {"role": "user", "content": chr(index)}
        return PromptInput(messages=[message], enable_thinking=self.thinks)


def model_of(cases: Sequence[Case]) -> ToyModel:
    """A model with the scripts of these cases."""
    assert len(cases) <= 128, "a prompt is one byte of a text"
    return ToyModel(Scripts(VOCABULARY, [case.said for case in cases]))


@define(eq=False)
class WatchedMatcher:
    """Passes everything on, and notes the tokens that it holds.

    Attributes:
        path: The tokens that were accepted and not rolled back.
    """

    inner: Any
    watch: Watch
    path: list[int] = field(factory=list)

    def fill(self, row: Any) -> bool:
        if self.inner.terminated:
            self.watch.faults.append(f"a mask is filled behind the end of {self.path}")
        if self.watch.slow(self.path):
            time.sleep(self.watch.pause)
        return bool(self.inner.fill(row))

    def accept(self, token: int) -> bool:
        if self.inner.terminated:
            self.watch.faults.append(f"{token} is fed behind the end of {self.path}")
        if type(token) is not int:
            self.watch.faults.append(f"a {type(token).__name__} is fed")
        if not self.inner.accept(token):
            self.watch.faults.append(f"{token} is fed unchecked behind {self.path}")
            return False
        self.path.append(token)
        return True

    def mark(self) -> Any:
        return self.inner.mark(), len(self.path)

    def rollback(self, mark: Any) -> None:
        self.inner.rollback(mark[0])
        del self.path[mark[1] :]

    @property
    def ready(self) -> bool:
        return bool(self.inner.ready) and not self.watch.slow(self.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@frozen
class Verified:
    """One row of a round of drafts: what was proposed, and what was sampled with which masks."""

    prompt: tuple[int, ...]
    output: tuple[int, ...]
    proposed: tuple[int, ...]
    verified: tuple[int, ...]
    states: tuple[MaskState, ...]
    masks: np.ndarray = field(eq=False)
    result: SampledRow


@define(eq=False)
class Watch:
    """Sees everything that an engine does with its matchers and drafts. Is its provider, sampler and backend.

    Attributes:
        script: The drafts of a row.
        slow: Whether the mask behind these tokens takes ``pause`` seconds.
        matchers: Every matcher that was started.
        faults: What a matcher must never be asked.
        rounds: The rows of every round of drafts.
        dropped: Rounds whose drafts were dropped.
    """

    script: Callable[[DraftRow], Sequence[int]]
    slow: Callable[[Sequence[int]], bool] = lambda path: False
    pause: float = 0.0
    matchers: list[WatchedMatcher] = field(factory=list)
    faults: list[str] = field(factory=list)
    rounds: list[Verified] = field(factory=list)
    dropped: int = 0
    _provider: Any = field(factory=XGrammarMaskProvider)
    _sampler: Any = field(factory=lambda: next(iter(infernix_samplers())).create())
    _open: tuple[Sequence[DraftRow], Proposal] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Of an engine that is watched."""
        return {
            "mask_provider": lambda: _Passing(self._provider, bind=self._bound),
            "sampler": _Passing(self._sampler, plan=self._planned),
            "backend": _WatchedBackend(lambda row: list(self.script(row)), self),
        }

    def _bound(self, vocabulary: Any) -> Any:
        bound = self._provider.bind(vocabulary)

        def compiled(*arguments: Any) -> Any:
            grammar = bound.compile(*arguments)
            return _Passing(grammar, start=lambda *given: self._started(grammar.start(*given)))

        return _Passing(bound, compile=compiled)

    def _started(self, inner: Any) -> WatchedMatcher:
        self.matchers.append(WatchedMatcher(inner, self))
        return self.matchers[-1]

    def _planned(self, spec: Any) -> Any:
        plan = self._sampler.plan(spec)

        def run(round: SamplingRound) -> tuple[SampledRow, ...]:
            rows = tuple(plan.run(round))
            self._sampled(round, rows)
            return rows

        return _Passing(plan, run=run)

    def proposed(self, rows: Sequence[DraftRow], proposal: Proposal) -> None:
        self._open = ([*rows], proposal)

    def aborted(self) -> None:
        self._open = None
        self.dropped += 1

    def _sampled(self, round: SamplingRound, results: Sequence[SampledRow]) -> None:
        if self._open is None:
            return
        (rows, proposal), self._open = self._open, None
        for index, row in enumerate(rows):
            extent = round.extents[index]
            masks = np.zeros((0, 0)) if round.masks is None else round.masks[index].numpy().copy()
            self.rounds.append(
                Verified(
                    prompt=tuple(row.history[: row.prompt_length]),
                    output=tuple(row.history[row.prompt_length :]),
                    proposed=tuple(proposal.ids[index, : proposal.extents[index]].tolist()),
                    verified=tuple(round.drafts[index, :extent].tolist()),
                    states=tuple(round.states[index]),
                    masks=masks,
                    result=results[index],
                )
            )


class _Passing:
    """An object with some of its methods replaced."""

    def __init__(self, inner: Any, **replaced: Any) -> None:
        self.__dict__.update(replaced)
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@define(eq=False)
class _WatchedBackend(ScriptedBackend):
    watch: Watch

    def bind(self, target: Any, vocabulary: Any, setup: DraftSetup) -> _WatchedDrafter:
        assert setup.drafts is not None
        return _WatchedDrafter(self.script, setup.drafts, watch=self.watch)


@define(eq=False)
class _WatchedDrafter(ScriptedDrafter):
    watch: Watch = field(kw_only=True)

    def propose(self, rows: Sequence[DraftRow], views: StateViews) -> Proposal:
        proposal = super().propose(rows, views)
        self.watch.proposed(rows, proposal)
        return proposal

    def abort(self) -> None:
        super().abort()
        self.watch.aborted()


def run(
    make: Any, model: ToyModel, cases: Sequence[Case], **options: Any
) -> list[GenerationResult]:
    """All cases at once in one engine; case k is asked by the prompt of its number."""
    engine = make(model, queue_limit=len(cases), **options)
    handles = [
        engine.submit(
            engine.prepare(case.prompt(index)),
            RequestOptions(
                constraint=case.constraint,
                sampling=SamplingOptions(**{"seed": index, **case.sampling}),
                **{"max_tokens": MOST, **case.options},
            ),
        )
        for index, case in enumerate(cases)
    ]
    return [handle.wait(WAIT) for handle in handles]


@cache
def _compiled(language: Language) -> Any:
    return _provider().compile(language)


@cache
def _provider() -> Any:
    return XGrammarMaskProvider().bind(VOCABULARY)


def fresh(case: Case, index: int, output: Sequence[int]) -> Any:
    """A matcher that nobody has rolled back, behind these tokens of a case's output; they are asserted to be legal."""
    model = model_of([case])
    prompt = model.prepare(case.prompt(index))
    language = model.language(prompt, OutputRequest(case.constraint))
    assert language is not None
    matcher = _compiled(language).start()
    for place, token in enumerate(output):
        # A matcher is not part of what is asserted: its repr is the whole grammar.
        legal = matcher.accept(token)
        assert legal, (index, place, token)
    return matcher


_ORDINARY: dict[Any, list[GenerationResult]] = {}


def ordinary(
    make: Any, cases: Sequence[Case], model: ToyModel | None = None, **options: Any
) -> list[GenerationResult]:
    """What ordinary decoding says to each case, one at a time; computed once.

    Args:
        make: Makes engines.
        cases: What is asked.
        model: Another one than that of the cases' scripts. It stays alive.
        options: Of the engine.
    """
    asked = tuple(
        (case.said, case.constraint, case.thinks, case.chat, str(case.options), str(case.sampling))
        for case in cases
    )
    key = model, asked, str(options)
    if key not in _ORDINARY:
        _ORDINARY[key] = run(make, model or model_of(cases), cases, lanes=1, **options)
    return _ORDINARY[key]


def compare(
    make: Any,
    cases: Sequence[Case],
    lanes: int,
    drafts: int,
    *,
    model: ToyModel | None = None,
    watch: Watch | None = None,
    **options: Any,
) -> tuple[list[GenerationResult], Watch]:
    """Runs cases with drafts, and asserts what holds of every such run.

    Its outputs are those of ordinary decoding, one request at a time. They belong to their languages by a fresh matcher.
    Each matcher ends up holding its output's tokens, each of them once, and was never asked behind an end or given a
    token that its own mask forbids.
    """
    expected = ordinary(make, cases, model, **options)
    if watch is None:
        watch = Watch(
            lambda row: cases[row.history[0]].drafts(len(row.history) - row.prompt_length)
        )
    model = model or model_of(cases)
    results = run(make, model, cases, lanes=lanes, draft_tokens=drafts, **watch.options, **options)
    for index, (case, result, plain) in enumerate(zip(cases, results, expected, strict=True)):
        assert result.error is None, (index, result.error)
        assert result.token_ids == plain.token_ids, index
        assert (result.text, result.reasoning) == (plain.text, plain.reasoning), index
        assert (result.finish_reason, result.stop) == (plain.finish_reason, plain.stop), index
        if case.constraint is not None:
            matcher = fresh(case, index, result.token_ids)
            if matcher.terminated:
                assert result.finish_reason is FinishReason.STOP
    for row in watch.rounds:
        most = cases[row.prompt[0]].options.get("max_tokens", MOST)
        room = min(most, options.get("max_context", most + 1) - len(row.prompt)) - len(row.output)
        assert len(row.verified) < room, "a draft for which there is no room"
    assert not watch.faults
    held = Counter(tuple(matcher.path) for matcher in watch.matchers if matcher.path)
    assert held == Counter(
        result.token_ids
        for case, result in zip(cases, results, strict=True)
        if case.constraint is not None
    )
    return results, watch


def check_masks(watch: Watch, cases: Sequence[Case], *, parts: bool = False) -> Counter[str]:
    """Every mask and state of every round, against a fresh matcher fed the very drafts that were verified.

    Args:
        watch: What was seen.
        cases: What was asked.
        parts: Columns may be given up that could be reached: their masks were made for other drafts.

    Returns:
        How often what was seen.
    """
    seen: Counter[str] = Counter()
    for row in watch.rounds:
        index = row.prompt[0]
        assert row.verified == row.proposed
        if cases[index].constraint is None:
            assert set(row.states) == {MaskState.UNCONSTRAINED}
            seen["unconstrained"] += 1
            continue
        matcher, reached = fresh(cases[index], index, row.output), True
        legal = 0
        for column, state in enumerate(row.states):
            if not reached:
                assert state is MaskState.UNREACHABLE
                seen["unreachable"] += 1
                continue
            wanted = np.zeros(VOCABULARY.words, dtype=np.int32)
            alive = matcher.fill(wanted)
            assert alive
            if parts and column and state is MaskState.UNREACHABLE:
                # The row ends before it, with the drafts up to there or an earlier correction.
                assert len(row.result.tokens) <= column
                reached = False
                seen["given up"] += 1
                continue
            assert state is MaskState.READY
            assert np.array_equal(row.masks[column], wanted), (index, column)
            seen["bonus" if column == len(row.verified) else "ready"] += 1
            if column < len(row.result.tokens):
                assert is_legal(wanted, row.result.tokens[column])
            if column < len(row.verified):
                reached = is_legal(wanted, row.verified[column])
                legal += reached
                reached = reached and matcher.accept(row.verified[column])
                reached = reached and not matcher.terminated
        assert row.result.accepted <= legal
        assert len(row.result.tokens) <= legal + 1
    return seen
