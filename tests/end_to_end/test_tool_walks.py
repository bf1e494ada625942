"""Policies, strictness, number of calls, JSON output, thinking and drafts together: random models, every pair of values.

Outputs follow scripts of calls, and of what policies forbid, wherever masks and chance let them; see
``tests.end_to_end.tool_scripts``.

In the engine, the frontend, its template and its tokens are the demo model's; its logits are an exact toy's, so that drafts
must not change a token.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import astuple, define, evolve, field, frozen

from infernix_core.engine.masks import fill_columns, is_legal
from infernix_core.engine.request import (
    FinishReason,
    GenerationEnd,
    GenerationResult,
    RequestOptions,
    Timings,
    ToolCall,
    Usage,
)
from infernix_core.interfaces.frontend import (
    Channel,
    LoadOptions,
    PreparedPrompt,
    PromptInput,
    Segment,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.sampling import MaskState, SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.table_target import TableTarget
from infernix_core.testing.toy import ToyTarget
from infernix_demo_model.hooks import checkpoint_path
from infernix_json_masks.provider import JsonMaskProvider
from infernix_qwen3_5.frontend import Qwen3_5Frontend, Qwen3_5Model
from infernix_qwen3_5.language import output_language
from infernix_qwen3_5.output import output_decoder
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.tool_outputs import (
    POLICIES,
    assert_allowed,
    assert_streamed,
    tools,
)
from tests.end_to_end.tool_scripts import (
    Cell,
    Script,
    SteeredTarget,
    asking,
    forbidden,
    met,
    scripts,
)
from tests.plugins.qwen_vocabulary import qwen_vocabulary

BOOLS = (False, True)
EVERY = [Cell(*values) for values in itertools.product(POLICIES, *[BOOLS] * 5)]
#: Every policy with every strictness and number of calls, and among them every two values of different columns.
CELLS = [
    Cell(
        policy,
        strict,
        parallel,
        json_output=bool((strict + parallel + index + 1) % 2),
        thinks=bool((strict + index // 2) % 2),
        drafted=bool((parallel + index // 3) % 2),
    )
    for index, policy in enumerate(POLICIES)
    for strict in BOOLS
    for parallel in BOOLS
]
#: The one without any constraint, and with drafts.
FREE = Cell("automatic", strict=False, parallel=True, json_output=False, thinks=False, drafted=True)

#: Texts on the way through a call, whose tokens a random model must like to get anywhere.
LEADING = "\n<function=\n<parameter=\n</parameter>\n</function>\n"

MOST = 160


@cache
def demo() -> Qwen3_5Model:
    return Qwen3_5Frontend().load(checkpoint_path(), LoadOptions())


@define(eq=False)
class Toyed:
    """The demo's frontend over an exact target's logits; a ``LoadedModel``."""

    target: TableTarget
    context_length: int = 4096

    def __getattr__(self, name: str) -> Any:
        return getattr(demo(), name)


def toyed() -> Toyed:
    framing = demo().vocabulary.framing
    bias = dict.fromkeys(demo().tokenizer.encode(LEADING), 5.0)
    bias |= {framing["</think>"]: 7.0, framing["<tool_call>"]: 6.0, framing["</tool_call>"]: 6.0}
    bias |= dict.fromkeys(demo().vocabulary.end_ids, 4.0)
    return Toyed(ToyTarget(demo().vocabulary, bias=bias))


def prompt(*, strict: bool, thinks: bool) -> PromptInput:
    return PromptInput(
        messages=[{"role": "user", "content": "Look up the weather."}],
        tools=tools(strict=strict),
        enable_thinking=thinks,
    )


def options(cell: Cell, **fields: Any) -> RequestOptions:
    return RequestOptions(
        constraint=cell.request.constraint, tool_choice=cell.request.tools, **fields
    )


@frozen
class Case:
    """One output to be made: whose script, and how faithfully it is followed."""

    script: int
    options: RequestOptions
    exact: bool = True
    """No chance leads away from the script while it is legal."""


def cases(cell: Cell, said: dict[str, Script]) -> list[Case]:
    """Each script exactly and with chance, one cut in its call, and one whose thoughts are cut."""
    found = []
    for index, name in enumerate(said):
        exact = SamplingOptions(greedy=True, presence_penalty=0.0)
        found.append(Case(index, options(cell, sampling=exact, max_tokens=MOST)))
        chance = SamplingOptions(
            seed=index, temperature=1.7, top_p=1.0, top_k=0, presence_penalty=0.0
        )
        found.append(Case(index, options(cell, sampling=chance, max_tokens=MOST), exact=False))
        if name == "one":
            cut = len(said[name].kinds) - 3
            found.append(Case(index, options(cell, sampling=exact, max_tokens=cut)))
        if name == "long":
            budget = options(cell, sampling=exact, max_tokens=MOST, thinking_budget=9)
            found.append(Case(index, budget, exact=False))
    return found


@define
class Drafter:
    """Drafts what a script says next, be it legal or not.

    Attributes:
        refused: Places of scripts whose tokens are illegal, by script. Each will come as a draft: no round's drafts end
            right before it, where the engine draws a token without one.
        offered: Scripts, and places in them, whose tokens were drafted.
    """

    said: Sequence[Script]
    refused: dict[int, int]
    offered: set[tuple[int, int]] = field(factory=set)

    def __call__(self, row: DraftRow) -> Sequence[int]:
        index = list(row.history[: row.prompt_length]).count(asking(demo().vocabulary)) - 1
        script, place = self.said[index], 0
        for token in row.history[row.prompt_length :]:
            place = script.after(place, token)
        ahead = script.ahead(place, row.limit + 1)
        if ahead[-1] == self.refused.get(index):
            ahead.pop()
        self.offered |= {(index, there) for there in ahead[:-1]}
        return [script.next(there) for there in ahead[:-1]]


@pytest.mark.parametrize("cell", [*CELLS, FREE], ids=str)
def test_models_that_would_break_the_policy_keep_to_it(toy_engine: Any, cell: Cell) -> None:
    vocabulary = demo().vocabulary
    named = scripts(cell, vocabulary)
    said = list(named.values())
    asked = cases(cell, named)

    def run(drafter: Drafter | None = None) -> list[GenerationResult]:
        backend = None if drafter is None else ScriptedBackend(drafter)
        engine = toy_engine(Toyed(SteeredTarget(vocabulary, said)), backend=backend, lanes=8)
        prepared = engine.prepare(prompt(strict=cell.strict, thinks=cell.thinks))
        handles = []
        for case in asked:
            chosen = (asking(vocabulary),) * (case.script + 1)
            steered = evolve(prepared, token_ids=(*prepared.token_ids, *chosen))
            handles.append(engine.submit(steered, case.options))
        results = []
        for handle in handles:
            handle.wait(WAIT)
            events = list(handle)
            assert_streamed(events)
            assert isinstance(events[-1], GenerationEnd)
            results.append(events[-1].result)
        return results

    results = run()
    found = Counter[str]()
    refused = {}
    for result, case in zip(results, asked, strict=True):
        assert_allowed(result, cell.choice, strict=cell.strict, json_output=cell.json_output)
        found.update(met(result))
        script = said[case.script]
        left = script.left(result.token_ids)
        if case.exact and left is not None:
            assert script.kind(left) == forbidden(cell, script)
            refused[case.script] = left
        elif case.exact and result.finish_reason is FinishReason.STOP:
            assert forbidden(cell, script) is None
    assert not cell.due() - set(found), found
    assert bool(refused) != cell.free
    if cell.thinks:
        assert any("Considering the limited time" in result.reasoning for result in results)
    if cell.drafted:
        drafter = Drafter(said, refused)
        again = run(drafter)
        assert [each.token_ids for each in results] == [each.token_ids for each in again]
        assert [each.tool_calls for each in results] == [each.tool_calls for each in again]
        # Before an output's first token there are no drafts.
        assert {(index, place) for index, place in refused.items() if place} <= drafter.offered


@pytest.mark.parametrize("strict", BOOLS)
@pytest.mark.parametrize("thinks", BOOLS)
def test_no_policy_changes_the_prompt(toy_engine: Any, strict: bool, thinks: bool) -> None:
    engine = toy_engine(toyed())
    sizes = set()
    prepared = engine.prepare(prompt(strict=strict, thinks=thinks))
    for cell in EVERY:
        if (cell.strict, cell.thinks, cell.drafted) != (strict, thinks, False):
            continue
        again = engine.prepare(prompt(strict=strict, thinks=thinks))
        assert again.token_ids == prepared.token_ids
        asked = options(cell, sampling=SamplingOptions(seed=2, temperature=1.0), max_tokens=4)
        sizes.add(engine.submit(again, asked).wait(WAIT).usage.prompt_tokens)
    assert sizes == {len(prepared.token_ids)}


def test_one_policy_alone_constrains_nothing() -> None:
    """And all the others are walked below."""
    for cell in EVERY:
        language = output_language(qwen_vocabulary(), cell.phase, cell.declared, cell.request)
        assert (language is None) == cell.free
    assert FREE.free
    walked = [astuple(cell) for cell in CELLS if not cell.free]
    assert {cell[:3] for cell in walked} == {astuple(cell)[:3] for cell in EVERY}
    for one, other in itertools.combinations(range(6), 2):
        pairs = {(astuple(cell)[one], astuple(cell)[other]) for cell in EVERY}
        assert {(cell[one], cell[other]) for cell in walked} == pairs


@cache
def real() -> Any:
    return JsonMaskProvider().bind(qwen_vocabulary())


@frozen
class Walk:
    """Tokens drawn from masks along a script.

    Attributes:
        left: The script's kind where a mask first refused it.
        ended: By an END, which is not among the tokens.
    """

    tokens: tuple[int, ...]
    left: str | None
    ended: bool


def walk(matcher: Any, script: Script, rng: random.Random, *, chance: float, ahead: int) -> Walk:
    """Along a script while it is legal and chance allows, otherwise anywhere legal.

    Args:
        matcher: At its start.
        script: To follow.
        rng: Decides everything else.
        chance: Of another token than the script's.
        ahead: So many tokens of the script are looked at together, as drafts are.
    """
    vocabulary = qwen_vocabulary()
    framing = [*vocabulary.framing.values(), *vocabulary.end_ids]
    row = np.zeros(vocabulary.words, dtype=np.int32)
    columns = np.zeros((ahead + 1, vocabulary.words), dtype=np.int32)
    tokens: list[int] = []
    place, left, on_script = 0, None, True
    foreseen: dict[tuple[int, ...], Any] = {}
    while len(tokens) < MOST:
        if ahead and not foreseen:
            planned = [script.next(there) for there in script.ahead(place, ahead)]
            states = fill_columns(matcher, planned, columns)
            for column, state in enumerate(states):
                if state is MaskState.READY:
                    foreseen[(*tokens, *planned[:column])] = columns[column].copy()
        assert matcher.fill(row), "a dead end"
        if ahead:
            looked = foreseen.pop(tuple(tokens), None)
            if looked is None:
                foreseen.clear()
            else:
                assert np.array_equal(row, looked)
        wanted = script.next(place)
        legal = is_legal(row, wanted)
        if on_script and not legal:
            left = script.kind(place)
        if legal and rng.random() >= chance:
            token = wanted
        else:
            marks = [mark for mark in framing if is_legal(row, mark)]
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")
            token = (
                rng.choice(marks)
                if marks and rng.random() < 0.1
                else int(rng.choice(np.flatnonzero(bits)))
            )
        on_script &= token == wanted
        assert matcher.accept(token)
        if matcher.terminated:
            return Walk(tuple(tokens), left, ended=True)
        place = script.after(place, token)
        tokens.append(token)
    return Walk(tuple(tokens), left, ended=False)


def read(decoder: Any, tokens: Sequence[int], *, ended: bool) -> GenerationResult:
    """The output of tokens as an engine's result."""
    state, pieces = decoder.start(), []
    for token in tokens:
        state, more = decoder.step(state, token)
        pieces += more
    names, arguments, whole, texts = [], [], 0, dict.fromkeys(Channel, "")
    for piece in (*pieces, *decoder.finish(state)):
        match piece:
            case Segment(channel, text):
                texts[channel] += text
            case ToolCallStart(_, name):
                names.append(name)
                arguments.append("")
            case ToolCallDelta(index, text):
                arguments[index] += text
            case ToolCallEnd():
                whole += 1
    return GenerationResult(
        text=texts[Channel.CONTENT],
        reasoning=texts[Channel.REASONING],
        finish_reason=FinishReason.STOP if ended else FinishReason.LENGTH,
        token_ids=tuple(tokens),
        seed=0,
        usage=Usage(1),
        timings=Timings(),
        tool_calls=tuple(
            ToolCall(name, text if index < whole else None)
            for index, (name, text) in enumerate(zip(names, arguments, strict=True))
        ),
    )


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_walks_over_the_real_vocabulary(cell: Cell) -> None:
    """Masks and reader alone, by whole tokens, single bytes and chance, and every beginning of some walks read."""
    vocabulary = qwen_vocabulary()
    language = output_language(vocabulary, cell.phase, cell.declared, cell.request)
    assert language is not None
    prepared = PreparedPrompt((1,), cell.phase, PromptInput(text="x"), cell.declared)
    compiled = real().compile(language)
    decoder = output_decoder(vocabulary, prepared, cell.request, compiled.raw_members)
    found = Counter[str]()
    refused = set()

    def judge(tokens: Sequence[int], *, ended: bool) -> None:
        result = read(decoder, tokens, ended=ended)
        assert_allowed(result, cell.choice, strict=cell.strict, json_output=cell.json_output)
        found.update(met(result))

    for choose, chance in ((max, 0.0), (min, 0.0), (max, 0.1)):
        for name, script in scripts(cell, vocabulary, choose).items():
            rng = random.Random(f"{name} {chance}")
            ahead = 4 if cell.drafted else 0
            walked = walk(compiled.start(), script, rng, chance=chance, ahead=ahead)
            judge(walked.tokens, ended=walked.ended)
            if not chance:
                assert walked.left == forbidden(cell, script), name
                refused.add(walked.left)
                if name == "one":
                    for cut in range(len(walked.tokens)):
                        judge(walked.tokens[:cut], ended=False)
            elif walked.left is not None:
                assert not cell.admits(walked.left), name
    assert not cell.due() - set(found), found
    assert refused - {None}, "no mask deviated from a script"
