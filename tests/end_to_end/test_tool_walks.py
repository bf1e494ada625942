"""Policies, strictness, number of calls, JSON output, thinking and drafts together: random models, every pair of values.

The frontend, its template and its tokens are the demo model's; its logits are the exact toy's, so that drafts must
not change a token.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from attrs import define

from infernix_core.engine.masks import fill_columns, is_legal
from infernix_core.engine.request import GenerationEnd, RequestOptions
from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import (
    LoadOptions,
    PreparedPrompt,
    PromptInput,
    StartPhase,
)
from infernix_core.interfaces.sampling import MaskState, SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.interfaces.tools import read_tools
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.toy import ToyTarget
from infernix_demo_model.hooks import checkpoint_path
from infernix_json_masks.provider import JsonMaskProvider
from infernix_qwen3_5.frontend import Qwen3_5Frontend, Qwen3_5Model
from infernix_qwen3_5.language import output_language
from infernix_qwen3_5.output import output_decoder
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.tool_outputs import (
    COIN,
    POLICIES,
    assert_allowed,
    assert_streamed,
    choice_of,
    pairwise,
    tools,
)
from tests.plugins.qwen_vocabulary import THINK_END, TOOL, TOOL_END, qwen_vocabulary

#: Policy, strict, parallel, JSON output, thinking, drafts.
CELLS = pairwise((list(POLICIES), *[(False, True)] * 5))
SEEDS = range(6)

#: Texts on the way through a call, whose tokens a random model must like to get anywhere.
LEADING = "\n<function=\n<parameter=\n</parameter>\n</function>\n"


@cache
def demo() -> Qwen3_5Model:
    return Qwen3_5Frontend().load(checkpoint_path(), LoadOptions())


@define(eq=False)
class Toyed:
    """The demo's frontend over the toy's logits; a ``LoadedModel``."""

    target: ToyTarget
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


def options(
    policy: str, seed: int, *, parallel: bool, json_output: bool, thinks: bool
) -> RequestOptions:
    return RequestOptions(
        constraint=JsonSchema.of(COIN, compact=True) if json_output else None,
        tool_choice=choice_of(policy, parallel=parallel),
        thinking_budget=9 if thinks and seed in (1, 3) else None,
        sampling=SamplingOptions(seed=seed, temperature=1.0),
        max_tokens=(150, 60)[seed % 3 == 2],
    )


def drafts(row: DraftRow) -> Sequence[int]:
    """What often comes, and now and then anything."""
    rng = random.Random(f"{row.seed} {len(row.history)}")
    ids = demo().tokenizer.encode(LEADING)
    start = rng.randrange(len(ids))
    return [*ids[start : start + 3], rng.randrange(2000), row.history[-1]][: row.limit]


@pytest.mark.parametrize(
    ("policy", "strict", "parallel", "json_output", "thinks", "drafted"), CELLS
)
def test_random_models_keep_to_the_policy(
    toy_engine: Any,
    policy: str,
    strict: bool,
    parallel: bool,
    json_output: bool,
    thinks: bool,
    drafted: bool,
) -> None:
    asked = [
        options(policy, seed, parallel=parallel, json_output=json_output, thinks=thinks)
        for seed in SEEDS
    ]

    def run(backend: ScriptedBackend | None) -> list[Any]:
        engine = toy_engine(toyed(), backend=backend, lanes=4)
        prepared = engine.prepare(prompt(strict=strict, thinks=thinks))
        handles = [engine.submit(prepared, each) for each in asked]
        results = []
        for handle in handles:
            handle.wait(WAIT)
            events = list(handle)
            assert_streamed(events)
            assert isinstance(events[-1], GenerationEnd)
            results.append(events[-1].result)
        return results

    results = run(ScriptedBackend(drafts) if drafted else None)
    for result, each in zip(results, asked, strict=True):
        assert_allowed(result, each.tool_choice, strict=strict, json_output=json_output)
    if drafted:
        ordinary = run(None)
        assert [each.token_ids for each in results] == [each.token_ids for each in ordinary]
        assert [each.tool_calls for each in results] == [each.tool_calls for each in ordinary]


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("thinks", [False, True])
def test_no_policy_changes_the_prompt(toy_engine: Any, strict: bool, thinks: bool) -> None:
    engine = toy_engine(toyed())
    sizes = set()
    prepared = engine.prepare(prompt(strict=strict, thinks=thinks))
    for policy in POLICIES:
        for parallel in (False, True):
            for json_output in (False, True):
                again = engine.prepare(prompt(strict=strict, thinks=thinks))
                assert again.token_ids == prepared.token_ids
                asked = options(
                    policy, 2, parallel=parallel, json_output=json_output, thinks=thinks
                )
                sizes.add(engine.submit(again, asked).wait(WAIT).usage.prompt_tokens)
    assert sizes == {len(prepared.token_ids)}


@cache
def real() -> Any:
    return JsonMaskProvider().bind(qwen_vocabulary())


@pytest.mark.parametrize(
    ("policy", "strict", "parallel", "json_output", "thinks", "drafted"), CELLS
)
def test_random_walks_over_the_real_vocabulary(
    policy: str, strict: bool, parallel: bool, json_output: bool, thinks: bool, drafted: bool
) -> None:
    """Tokens drawn from the masks alone, with lookahead along random drafts: what is read keeps to the policy."""
    vocabulary = qwen_vocabulary()
    asked = options(policy, 0, parallel=parallel, json_output=json_output, thinks=thinks)
    declared = read_tools(tools(strict=strict))
    phase = StartPhase.REASONING if thinks else StartPhase.CONTENT
    language = output_language(vocabulary, phase, declared, asked.output)
    if language is None:
        return
    prepared = PreparedPrompt((1,), phase, PromptInput(text="x"), declared)
    decoder = output_decoder(vocabulary, prepared, asked.output)
    compiled = real().compile(language)
    single = {vocabulary.token_bytes[token]: token for token in range(256)}
    assert len(single) == 256
    for seed in range(3):
        rng, matcher, state, tokens = random.Random(seed), compiled.start(), decoder.start(), []
        columns = np.zeros((4, vocabulary.words), dtype=np.int32)
        while len(tokens) < 160:
            planned = rng.choices(range(vocabulary.size), k=3) if drafted else []
            if drafted and rng.random() < 0.5:
                planned[0] = rng.choice([TOOL, TOOL_END, THINK_END, 198, 271])
            states = fill_columns(matcher, planned, columns)
            assert states[0] is MaskState.READY
            accepted = 0
            while accepted < len(planned) and is_legal(columns[accepted], planned[accepted]):
                accepted += 1
            for token in planned[:accepted]:
                assert matcher.accept(token)
                if matcher.terminated:
                    break
                state, _ = decoder.step(state, token)
                tokens.append(token)
            if matcher.terminated:
                break
            assert matcher.fill(columns[0])
            bits = np.unpackbits(columns[0].view(np.uint8), bitorder="little")
            legal = np.flatnonzero(bits)
            framing = [t for t in (TOOL, TOOL_END, THINK_END, *vocabulary.end_ids) if bits[t]]
            ends = [t for t in range(300, 1000) if bits[t] and b"\n" in vocabulary.token_bytes[t]]
            if framing and rng.random() < 0.3:
                token = rng.choice(framing)
            elif rng.random() < 0.5:
                token = _towards_the_end(bits, single) or int(rng.choice(legal))
            else:
                token = rng.choice(ends) if ends and rng.random() < 0.2 else int(rng.choice(legal))
            assert matcher.accept(token)
            if matcher.terminated:
                break
            state, _ = decoder.step(state, token)
            tokens.append(token)
        decoder.finish(state)
        if matcher.terminated:
            check_reading(
                vocabulary, decoder, tokens, asked, strict=strict, json_output=json_output
            )


def _towards_the_end(bits: Any, single: dict[bytes, int]) -> int | None:
    """A byte that leads through the marks of a call, if one is legal."""
    for text in (b"\n", b"<", b"/", b">", b"=", b'"', b"}", b"]"):
        if bits[single[text]]:
            return single[text]
    return None


def check_reading(
    vocabulary: Any,
    decoder: Any,
    tokens: Sequence[int],
    asked: RequestOptions,
    *,
    strict: bool,
    json_output: bool,
) -> None:
    """Reads the whole output once more, and judges it as a result."""
    from infernix_core.engine.request import (
        FinishReason,
        GenerationResult,
        Timings,
        ToolCall,
        Usage,
    )
    from infernix_core.interfaces.frontend import (
        Channel,
        Segment,
        ToolCallDelta,
        ToolCallStart,
    )

    state, names, arguments, texts = decoder.start(), [], [], dict.fromkeys(Channel, "")
    pieces = []
    for token in tokens:
        state, more = decoder.step(state, token)
        pieces += more
    for piece in (*pieces, *decoder.finish(state)):
        match piece:
            case Segment(channel, text):
                texts[channel] += text
            case ToolCallStart(_, name):
                names.append(name)
                arguments.append("")
            case ToolCallDelta(index, text):
                arguments[index] += text
    result = GenerationResult(
        text=texts[Channel.CONTENT],
        reasoning=texts[Channel.REASONING],
        finish_reason=FinishReason.STOP,
        token_ids=tuple(tokens),
        seed=0,
        usage=Usage(1),
        timings=Timings(),
        tool_calls=tuple(map(ToolCall, names, arguments)),
    )
    assert_allowed(result, asked.tool_choice, strict=strict, json_output=json_output)
