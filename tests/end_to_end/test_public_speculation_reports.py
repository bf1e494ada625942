"""What users of other engines reported about speculation under constraints, each as a test of its symptom.

The reports are in the project's collections of public issues. A name without a file is a test here, and files are beside
this folder; what is not relevant says why.

====================================  =================================================================================
vLLM #44006, #48228, #43388, #34650,  test_tokens_behind_the_end_of_thinking…, test_an_end_of_thinking_that_is_drafted…;
#31858, #36138, #44993, #46118        core/test_speculation.py: test_the_close_of_the_reasoning_at_every_offset_of_a_block
vLLM PR 53046; TRT-LLM PR 16965       test_a_legal_draft_behind_an_illegal_one…; core/test_masks.py
vLLM #46272; SGLang #24413, PR 14163  test_looking_ahead_through_thinking_and_calls…; MaskProviderSuite:
(#13106, #14029); llguidance PR 364;  test_marks_nest_and_restore_everything; calls with drafts in a whole engine:
xgrammar #389; TRT-LLM #10134         test_tool_walks.py
vLLM #53777, #53181; SGLang #9187     test_a_drafter_whose_first_draft_is_always_illegal; the fixture ``silence``
vLLM #50924                           test_rows_with_fewer_drafts…
vLLM #54437                           test_masks_are_made_for_the_very_drafts…
vLLM #42403, #49227                   test_no_end_token_leaves_an_object_open
vLLM #18902; SGLang #28180, PR 28242  test_every_sampling_option_acts… (there is no least number of tokens here); for
and 40244; vLLM #42744                drafts that are drawn from q: SamplerSuite: test_sampled_drafts_keep_the_law,
                                      plugins/sampling/test_verification_law.py: test_sparse_q_has_the_law; with every
                                      real drafter: backends/test_identity.py, backends/test_law.py
vLLM PR 47386, 54282                  test_drafts_drawn_from_q_leave_the_law…; test_sparse_q_has_the_law; core/
                                      test_speculation.py: test_sampled_drafts_keep_the_constrained_law
vLLM #39273; llama.cpp PR 20075,      test_rejected_drafts_leave_no_trace_in_recurrent_state; test_deterministic.py;
20080; ik_llama #1639                 backends/test_identity.py, also with copies; frontends/qwen3_5/test_target.py:
                                      test_verify_then_fold_a_part_then_go_on,
                                      test_states_kept_after_each_column_are_those_of_a_replay_bit_for_bit
SGLang #15050, #24283                 core/test_faults.py: test_a_broken_matcher_ends_its_request_and_no_other; what is fed
                                      is an ``int``: ``compare``
SGLang PR 15373, 21475; vLLM #42619;  test_blocks_that_reach_over_the_end_of_the_object, …_of_the_context
openvino.genai #4081; syv-ai #31
SGLang #29110, #25388                 test_the_first_token_is_fed_once, test_drafts_of_a_dropped_round…
vLLM #31876, #31955                   test_drafts_of_a_dropped_round_are_not_used_again, test_a_round_that_another_row_
                                      spoils…; core/test_slow_masks.py
TRT-LLM PR 19296                      test_a_rejected_end_token_leaves_the_grammar_open
vllm-gaudi #1199, #1200; Atlas PR 21  test_unconstrained_rows_among_constrained_ones_go_on; core/test_speculation.py:
                                      test_speculative_text_equals_ordinary_text
lattice #243                          test_a_single_wrong_draft_is_not_committed
mlx-lm #846                           test_counting_to_twenty_skips_nothing
vLLM PR 29274                         test_the_token_with_id_0; plugins/sampling/test_verification.py:
                                      test_the_bonus_is_masked_and_may_be_token_zero
a uniform of 0                        test_verification.py: test_an_illegal_draft_falls_at_every_uniform
InternLM/lmdeploy #4551; SGLang       test_a_constraint_holds_under_speculation_whatever_the_model_wants;
#17576; vLLM #11484, #15554, #10442,  test_speculation_kinds.py, test_ngram_kinds.py; backends/test_validity.py
#9423; SGLang PR 27165 and the like
TRT-LLM #7878                         drafts are never masked here; that a first illegal one ends nothing is above
TRT-LLM #18892                        there are chains here, and no trees
SGLang #20148                         the collections tell no symptom
====================================  =================================================================================
"""

from __future__ import annotations

import json
import logging
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any

import jsonschema
import numpy as np
import pytest

from infernix_core.engine import mask_jobs
from infernix_core.engine.masks import fill_columns, is_legal
from infernix_core.engine.request import FinishReason, GenerationResult, RequestOptions
from infernix_core.interfaces.constraints import Choice, JsonObject, JsonSchema, Regex
from infernix_core.interfaces.frontend import LoadOptions, OutputRequest, PromptInput, StartPhase
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Repeat,
    Separated,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.sampling import MaskState, SamplingConfig, SamplingOptions
from infernix_core.interfaces.speculative import DraftRow
from infernix_core.interfaces.tools import read_tools
from infernix_core.random import Purpose, uniform
from infernix_core.testing.conformance.walks import Snapshot
from infernix_core.testing.drafters import SampledBackend, ScriptedBackend
from infernix_core.testing.toy import ToyDecoder, ToyModel, ToyTarget
from infernix_demo_model.hooks import checkpoint_path
from infernix_json_masks.provider import JsonMaskProvider
from infernix_qwen3_5.frontend import Qwen3_5Frontend, Qwen3_5Model
from infernix_qwen3_5.language import output_language
from infernix_xgrammar.provider import XGrammarMaskProvider
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.kinds import KINDS, assert_conforms
from tests.end_to_end.speculation_watch import (
    CLOSE,
    ENDS,
    VOCABULARY,
    Case,
    Scripts,
    Watch,
    check_masks,
    compare,
    ordinary,
    run,
    tokens,
)
from tests.end_to_end.tool_outputs import POLICIES, tools
from tests.end_to_end.tool_scripts import spell

SCHEMA = {
    "type": "object",
    "properties": {"a": {"enum": [1, 22]}},
    "required": ["a"],
    "additionalProperties": False,
}
OBJECT = JsonSchema.of(SCHEMA, compact=True)
BLANKS = JsonSchema.of(SCHEMA)
TEXT = '{"a":22}'
SHAPES = pytest.mark.parametrize(("lanes", "drafts"), [*product((1, 8), (1, 3, 15))])
FEW_SHAPES = pytest.mark.parametrize(("lanes", "drafts"), [(1, 15), (8, 1), (8, 3)])


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Rejected and illegal drafts are ordinary life: nothing is logged, and no library writes lines."""
    yield
    assert [r for r in caplog.get_records("call") if r.levelno >= logging.WARNING] == []
    assert capfd.readouterr().err == ""


def is_object(text: str) -> bool:
    return jsonschema.Draft202012Validator(SCHEMA).is_valid(json.loads(text))


#: What a model says behind its reasoning: the right text, and what must not pass.
BEHIND: dict[str, tuple[int, ...]] = {
    f"{name}{' bytewise' * (not whole)}": (*control, *tokens(text, whole=whole))
    for name, control, text in [
        ("right", (), f"\n\n{TEXT}"),
        ("a brace without the separator", (), TEXT),
        ("two braces", (), f"\n\n{{{TEXT}"),
        ("a fence", (), f"\n\n```json\n{TEXT}\n```"),
        ("a fence without the separator", (), f"```json\n{TEXT}"),
        ("prose", (), f"\n\nSure: {TEXT}"),
        ("prose, then the right text", tokens("x"), f"\n\n{TEXT}"),
        ("a second close", (CLOSE,), f"\n\n{TEXT}"),
    ]
    for whole in (True, False)
}


@SHAPES
@pytest.mark.parametrize("first", [1, 4])
def test_tokens_behind_the_end_of_thinking_in_one_block_are_constrained(
    toy_engine: Any, lanes: int, drafts: int, first: int
) -> None:
    """vLLM #44006, #48228, #43388, #34650, #31858, #36138, #53046, #46118: the close was accepted in the middle of a block,
    and the rest of the block, or its bonus, passed unchecked or never reached the grammar: ``{{``, a Markdown fence, prose.

    The model wants just that, and the drafter knows it.
    """
    offsets = [1, 2, 3] if first == 1 else [4, 15, 16]
    behinds = (
        BEHIND if first == 1 else {name: BEHIND[name] for name in BEHIND if "byte" not in name}
    )
    cases = [
        Case((*tokens("h" * offset), CLOSE, *behind), OBJECT, thinks=True)
        for offset in offsets
        for behind in behinds.values()
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for result, (offset, name) in zip(results, product(offsets, behinds), strict=True):
        assert is_object(result.text)
        assert result.reasoning == "h" * offset
        assert result.finish_reason is FinishReason.STOP
        assert result.usage.accepted_tokens >= offset // (drafts + 1) * drafts
        if name.startswith("right"):
            said = offset + 1 + len(BEHIND[name])
            assert result.text == TEXT
            # One round draws the first token, and every other one takes all of its drafts.
            assert result.usage.rounds == 1 + -(-said // (drafts + 1))


@FEW_SHAPES
def test_an_end_of_thinking_that_is_drafted_too_early_or_too_late(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """vLLM #48516, #44006: where a part of a block was rejected, the engine's own idea of whether thinking had ended was that
    of the whole block, or of its beginning. The close is a rejected draft, a correction and a bonus here.
    """
    cases = []
    for offset, (name, behind) in product((1, 2, 5, 16), BEHIND.items()):
        if "bytewise" in name:
            continue
        said = (*tokens("h" * offset), CLOSE, *behind)
        early = (CLOSE, *tokens(f"\n\n{TEXT}"), ENDS[0])

        def late(position: int, said: tuple[int, ...] = said) -> Sequence[int]:
            return [token if token != CLOSE else ord("h") for token in said[position:]]

        def soon(position: int, early: tuple[int, ...] = early) -> Sequence[int]:
            return early

        def second(position: int, said: Any = said, early: Any = early) -> Sequence[int]:
            return [*said[position : position + 1], *early]

        cases += [
            Case(said, OBJECT, thinks=True, drafted=drafted) for drafted in (late, soon, second)
        ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for case, result in zip(cases, results, strict=True):
        assert result.reasoning == "h" * case.said.index(CLOSE)
        assert is_object(result.text)


@SHAPES
def test_a_legal_draft_behind_an_illegal_one_is_never_reached(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """vLLM PR 53046, TRT-LLM PR 16965: behind the first illegal draft of a block, rows were verified with masks of an
    inconsistent state, or none. Here the illegal draft comes at every place, and the model likes all that follows it.
    """
    right = tokens(TEXT, whole=False)
    wrong = [ord("x"), ord("}"), ENDS[0], CLOSE, VOCABULARY.size - 1, *tokens("{{")]
    cases = [
        Case(
            (*right[:place], token, *right[place:], *right),
            OBJECT,
            drafted=lambda position, place=place, token=token: (
                *right[:place],
                token,
                *right[place:],
                *right,
            )[position:],
        )
        for place in range(1, len(right))
        for token in wrong
        if not (token == ord("}") and place == len(right) - 1)
    ]
    results, watch = compare(toy_engine, cases, lanes, drafts)
    assert all(is_object(result.text) for result in results)
    seen = check_masks(watch, cases)
    assert seen["unreachable"] or drafts == 1


@SHAPES
@pytest.mark.parametrize("constraint", [OBJECT, Regex(r"[ab]{6}\{22")], ids=["json", "regex"])
def test_a_drafter_whose_first_draft_is_always_illegal(
    toy_engine: Any, lanes: int, drafts: int, constraint: Any
) -> None:
    """vLLM #53777, #53181: an error was logged for each such draft though the output was valid. SGLang #9187: the output
    stopped at the first token on which model and drafter disagreed. TRT-LLM #7878.
    """
    breaks = tokens("\n\n")
    cases = [
        Case(said, constraint, drafted=lambda position, wrong=wrong: wrong * 15)
        for said in (tokens(TEXT), tokens("ababab{22"), breaks * 20)
        for wrong in (breaks, (CLOSE,), (VOCABULARY.size - 1,))
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for result in results:
        assert result.finish_reason is FinishReason.STOP
        assert is_object(result.text) if constraint is OBJECT else result.text.endswith("{22")
        assert result.usage.accepted_tokens == 0
        assert result.usage.rounds == len(result.token_ids), "one token per round"


@FEW_SHAPES
def test_rows_with_fewer_drafts_than_the_widest_and_none(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """vLLM #50924: the engine died when a row had fewer drafts than the most, since masks had a row for each that there
    might have been.
    """

    def some(index: int) -> Callable[[int], Sequence[int]]:
        return lambda position: said[index % 3][position:][: (index * 5 + position) % (drafts + 1)]

    said = [tokens(TEXT), tokens('{"a":1}', whole=False), tokens("prose, as it comes\n")]
    cases = [
        Case(
            said[index % 3],
            None if index % 3 == 2 else (OBJECT, BLANKS)[index % 2],
            drafted=None if index % 5 == 0 else some(index),
            options={"draft_limit": index % 4} if index % 7 == 0 else {},
        )
        for index in range(24)
    ]
    results, watch = compare(toy_engine, cases, lanes, drafts)
    for case, result in zip(cases, results, strict=True):
        assert result.token_ids == (*case.said, ENDS[0])
    check_masks(watch, cases)
    extents = {len(row.verified) for row in watch.rounds}
    assert extents == set(range(drafts + 1)) if drafts < 15 else len(extents) > 6


class Executes(ToyTarget):
    """Notes the tokens behind the anchor of every row that it executes."""

    executed: list[tuple[int, ...]]

    def forward(self, batch: Any, views: Any, features: Any = ()) -> Any:
        if batch.kind.value == "verify":
            self.executed += [
                tuple(ids[1:width])
                for ids, width in zip(batch.ids.tolist(), batch.widths, strict=True)
            ]
        return super().forward(batch, views, features)


@cache
def executing() -> ToyModel:
    bias = {ord('"'): 3.0, ord("}"): 3.0, ord("a"): 3.0, ENDS[0]: 3.0}
    target = Executes(VOCABULARY, bias=bias)
    target.executed = []
    return ToyModel(target)


@SHAPES
def test_masks_are_made_for_the_very_drafts_that_are_verified(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """vLLM #54437: masks belonged to the drafts of an earlier hand-off, verification took newer ones. InternLM/lmdeploy
    #4551, vLLM #11484: with both switched on the constraint had no effect at all.
    """
    model = executing()
    constraints = [BLANKS, JsonObject(), Regex("[ab]{2,9}é*"), None]
    cases = [Case((), constraints[index % 4], options={"max_tokens": 16}) for index in range(12)]
    known = ordinary(toy_engine, cases, model)

    def script(row: DraftRow) -> list[int]:
        """Right for a while, then anything; sometimes an earlier round's drafts again."""
        said = len(row.history) - row.prompt_length
        rng = random.Random(said * 100 + row.history[0])
        right = list(known[row.history[0]].token_ids[said:])
        return right[: rng.randint(0, 4)] + rng.choices(range(VOCABULARY.size), k=rng.randint(0, 4))

    watch = Watch(script)
    model.target.executed.clear()
    compare(toy_engine, cases, lanes, drafts, model=model, watch=watch)
    assert model.target.executed == [row.verified for row in watch.rounds]
    seen = check_masks(watch, cases)
    assert min(seen[name] for name in ("ready", "bonus", "unconstrained")) > 4
    assert seen["unreachable"] > 5 or drafts == 1


@FEW_SHAPES
def test_a_constraint_holds_under_speculation_whatever_the_model_wants(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """InternLM/lmdeploy #4551, SGLang #17576, vLLM #11484, #15554, TRT-LLM #10134: a server that runs both either crashed
    or gave prose. Prose is wanted, and drafted, under every kind of constraint.
    """
    prose = tokens("Sure, here it is:\n\n```json\n{}\n```")
    free = [Case(prose, chat=True)]
    cases = [Case(prose, kind.constraint, chat=True) for kind in KINDS]
    thinking = [
        Case((*tokens("hm"), CLOSE, *prose), kind.constraint, thinks=True) for kind in KINDS
    ]
    results, _ = compare(toy_engine, [*free, *cases, *thinking], lanes, drafts)
    assert results[0].token_ids == (*prose, ENDS[0])
    for number, result in enumerate(results[1:]):
        kind, thinks = KINDS[number % len(KINDS)], number >= len(KINDS)
        assert_conforms(kind, result, VOCABULARY, thinking=thinks)
        assert "Sure, here" not in result.text or kind.name == "regex, any text"


@SHAPES
def test_no_end_token_leaves_an_object_open(toy_engine: Any, lanes: int, drafts: int) -> None:
    """vLLM #42403, #49227: of several end tokens the grammar knew one, and another cut the JSON off."""
    right = tokens(TEXT, whole=False)
    cases = [
        Case((*right[:place], end, *[end] * 60), OBJECT)
        for end in ENDS
        for place in range(len(right) + 1)
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for result in results:
        assert is_object(result.text)
        assert result.finish_reason is FinishReason.STOP
        assert set(ENDS) & {*result.token_ids} == {result.token_ids[-1]}
        assert {*result.token_ids[:-1]}.isdisjoint(ENDS)


ALPHABET = [*b"abcdefghij"]
LETTERS = dict.fromkeys(ALPHABET, 6.0)
OPTIONS: dict[str, dict[str, Any]] = {
    "presence 2": {"presence_penalty": 2.0},
    "presence -2": {"presence_penalty": -2.0},
    "frequency 2": {"frequency_penalty": 2.0},
    "frequency -2": {"frequency_penalty": -2.0},
    "both": {"frequency_penalty": 2.0, "presence_penalty": 1.5},
    "top-k": {"top_k": 2},
    "top-p": {"top_p": 0.4},
    "min-p": {"min_p": 0.4},
    "cold": {"temperature": 0.4},
    "hot": {"temperature": 2.0},
    "all": {"temperature": 0.8, "top_k": 5, "top_p": 0.9, "min_p": 0.1, "frequency_penalty": 1.0},
}
GREEDY = {
    f"greedy, {name}": {**OPTIONS[name], "greedy": True} for name in OPTIONS if "ence" in name
}
PATTERN = "[a-e]{24}"


@cache
def lettered() -> ToyModel:
    return ToyModel(ToyTarget(VOCABULARY, bias=LETTERS, spread=1.5))


def support(
    model: ToyModel,
    history: Sequence[int],
    prompt_length: int,
    legal: Sequence[int] | None,
    law: Any,
) -> set[int]:
    """Which tokens a law leaves after a prefix, by its definition."""
    config = SamplingConfig(**{name: value for name, value in law.items() if name != "greedy"})
    logits = model.target.logits_after(history).double()
    output = [*history[prompt_length:]]
    barred = {VOCABULARY.size - 1}
    score = {}
    for token in legal if legal is not None else set(range(VOCABULARY.size)) - barred:
        count = output.count(token)
        score[token] = float(logits[token]) - config.frequency_penalty * count
        score[token] -= config.presence_penalty * (count > 0)
    order = sorted(score, key=lambda token: (-score[token], token))
    if law.get("greedy"):
        return {order[0]}
    order = order[: config.top_k] if config.top_k else order
    weight = {t: np.exp((score[t] - score[order[0]]) / config.temperature) for t in order}
    order = [token for token in order if weight[token] >= config.min_p]
    total, kept = sum(weight[token] for token in order), []
    for token in order:
        if kept and config.top_p < 1 and sum(weight[t] for t in kept) >= config.top_p * total:
            break
        kept.append(token)
    return set(kept)


@pytest.mark.parametrize("drafter", ["right", "the text without the option"])
@FEW_SHAPES
def test_every_sampling_option_acts_on_every_row_of_a_block(
    toy_engine: Any, lanes: int, drafts: int, drafter: str
) -> None:
    """vLLM #42744: min-p and biases acted on the bonus alone. vLLM #18902, SGLang #28180 and PR 40244: penalties did not act
    at all, or counted the last token of a block alone. Atlas PR 21: one verification by the largest logit for all rows.

    One drafter knows the text without the option, which a verification that forgets the option would take.
    """
    laws = [*OPTIONS.values(), *GREEDY.values()]
    constraints = [None, Regex(PATTERN)]
    cases = [
        Case((), constraint, sampling={**law, "seed": seed}, options={"max_tokens": 24})
        for law, constraint, seed in product(laws, constraints, (5,))
    ]
    model, unlawful = lettered(), {"seed": 5}
    plain = ordinary(toy_engine, cases, model)
    bare = [Case((), case.constraint, sampling=unlawful, options=case.options) for case in cases]
    without = ordinary(toy_engine, bare, model)
    known = plain if drafter == "right" else without
    for index, (law, constraint) in enumerate(product(laws, constraints)):
        output = [*plain[index].token_ids]
        history = [index, *output]
        for place, token in enumerate(output):
            legal = None if constraint is None else ALPHABET[:5]
            if constraint is not None and place == 24:
                break
            assert token in support(model, history[: place + 1], 1, legal, law), (law, place)
    assert sum(a.token_ids != b.token_ids for a, b in zip(plain, without, strict=True)) > 24

    def script(row: DraftRow) -> Sequence[int]:
        return known[row.history[0]].token_ids[len(row.history) - row.prompt_length :]

    results, _ = compare(toy_engine, cases, lanes, drafts, model=model, watch=Watch(script))
    if drafter == "right":
        for result in results:
            assert result.usage.accepted_tokens == result.usage.drafted_tokens
            assert len(result.usage.drafts_by_position) == drafts


A, B, C, X = b"abcx"
#: What the model says of each token, and what each draft is drawn from; x is illegal.
LAWS = {
    "likely or illegal": ({A: 0.6, B: 0.3, C: 0.1}, {X: 0.5, A: 0.5}),
    "unlikely or illegal": ({A: 0.6, B: 0.3, C: 0.1}, {C: 0.5, X: 0.5}),
}
#: The 0.999 quantiles of chi-square, by degrees of freedom.
QUANTILES = {2: 13.82, 8: 26.12}
DRAWS = 500


@pytest.mark.parametrize("name", LAWS)
def test_drafts_drawn_from_q_leave_the_law_of_the_text_as_it_is(toy_engine: Any, name: str) -> None:
    """vLLM PR 47386 and 54282: a token of 60 % came out at 63 %, since the draft and its correction were drawn with the same
    noise. The same kind: cutting an illegal draft off and drawing a bonus makes 75 to 25 % of a fair coin.
    """
    p, q = LAWS[name]
    bias = {token: 30 + math.log(probability) for token, probability in p.items()} | {X: 31.0}
    model = ToyModel(ToyTarget(VOCABULARY, spread=0.0, bias=bias))
    candidates, weights = [*q], [*q.values()]

    def draw(row: DraftRow, position: int, _: Sequence[float]) -> int:
        u = uniform(row.seed, len(row.history) + position, Purpose.DRAFT)
        return min(int(np.searchsorted(np.cumsum(weights), u, side="right")), len(weights) - 1)

    backend = SampledBackend(lambda row, before: (candidates, weights), draw)
    letters = Regex(f"[{''.join(map(chr, p))}]{{4}}")
    engine = toy_engine(model, backend=backend, lanes=8, draft_tokens=3, queue_limit=DRAWS)
    prompt = engine.prepare(PromptInput(token_ids=[X]))
    handles = [
        engine.submit(
            prompt, RequestOptions(constraint=letters, sampling=SamplingOptions(seed=seed))
        )
        for seed in range(DRAWS)
    ]
    texts = [handle.wait(WAIT).raise_for_error().text for handle in handles]
    for places in [(0,), (1,), (2,), (3,), (1, 2), (2, 3)]:
        seen = Counter(tuple(ord(text[place]) for place in places) for text in texts)
        expected = {
            each: DRAWS * math.prod(p[token] for token in each)
            for each in product(p, repeat=len(places))
        }
        statistic = sum((seen[each] - wanted) ** 2 / wanted for each, wanted in expected.items())
        assert statistic < QUANTILES[len(expected) - 1], (places, seen)


#: What is drafted behind a whole object.
TAILS: dict[str, tuple[int, ...]] = {
    "an end": (ENDS[0],),
    "ends": (ENDS[0],) * 15,
    "different ends": (ENDS[1], ENDS[0]) * 8,
    "an end, then the text again": (ENDS[0], *tokens(TEXT)),
    "an end, then line feeds": (ENDS[1], *tokens("\n" * 14, whole=False)),
    "line feeds": tokens("\n" * 15, whole=False),
    "line feeds, then an end": (*tokens("\n\n"), ENDS[0], *tokens("\n" * 15)),
    "braces": tokens("}" * 15, whole=False),
    "a fence": tokens("\n```\n" * 4),
    "nothing": (),
}


@SHAPES
@pytest.mark.parametrize("constraint", [OBJECT, BLANKS, Regex(r'\{"a":(1|22)\}')])
def test_blocks_that_reach_over_the_end_of_the_object(
    toy_engine: Any, lanes: int, drafts: int, constraint: Any
) -> None:
    """SGLang PR 15373, vLLM #42619: a matcher that an end token in a block had terminated was filled or fed again. SGLang
    PR 21475, openvino.genai #4081: an exception where the text was complete in the middle of a block, with and without an
    end token drafted. The end is at every place of the block, and at the limit of the output.
    """
    cases = []
    for whole, tail, end in product((True, False), TAILS.values(), ENDS):
        said = tokens(TEXT, whole=whole)
        cases.append(Case((*said, end, *[end] * 20), constraint, drafted=_then(said, tail)))
    for spare, tail in product((0, 1, 2), list(TAILS.values())[:3]):
        said = tokens(TEXT)
        limit = {"max_tokens": len(said) + spare}
        cases.append(Case(said, constraint, drafted=_then(said, tail), options=limit))
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for case, result in zip(cases, results, strict=True):
        assert result.text == TEXT
        cut = case.options.get("max_tokens", 99) == len(tokens(TEXT))
        assert result.finish_reason is (FinishReason.LENGTH if cut else FinishReason.STOP)
        assert result.constraint is not None
        assert (result.constraint.complete, result.constraint.terminated) == (True, not cut)


def _then(said: tuple[int, ...], tail: tuple[int, ...]) -> Callable[[int], Sequence[int]]:
    return lambda position: (*said, *tail)[position:]


@FEW_SHAPES
def test_blocks_that_reach_over_the_end_of_the_context(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """openvino.genai #4081, syv-ai #31: a crash where the block was wider than what was left."""
    said = tokens(TEXT, whole=False)
    for room in (len(said) - 1, len(said), len(said) + 1, len(said) + 2):
        cases = [Case(said, OBJECT), Case(said), Case(said, OBJECT, drafted=_then(said, (10,) * 9))]
        results, _ = compare(toy_engine, cases, lanes, drafts, max_context=1 + room)
        for result in results:
            assert result.token_ids == (*said, ENDS[0])[:room]


@SHAPES
def test_a_rejected_end_token_leaves_the_grammar_open(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """TRT-LLM PR 19296: what the grammar had seen of rejected drafts, an end token among them, was not taken back. The end
    is legal, and drafted, wherever the output goes on.
    """
    said = tokens("ab" * 10, whole=False)

    def at(place: int) -> Callable[[int], Sequence[int]]:
        return lambda position: (
            *said[position : position + place],
            *([ENDS[position % 2]] * 2),
            *said[position:],
        )

    pattern = Regex("[ab]{0,30}")
    cases = [Case(said, pattern, drafted=at(place)) for place in (0, 1, 2, 6, 14)]
    thinks = [
        Case((*tokens("h"), CLOSE, *tokens("\n\n"), *said), pattern, thinks=True),
        Case((*tokens("hhh"), CLOSE, *tokens("\n\n"), *said), pattern, thinks=True, drafted=at(1)),
    ]
    results, _ = compare(toy_engine, [*cases, *thinks], lanes, drafts)
    for result in results:
        assert result.text == "ab" * 10
        assert result.finish_reason is FinishReason.STOP


@SHAPES
def test_the_first_token_is_fed_once(toy_engine: Any, lanes: int, drafts: int) -> None:
    """SGLang #29110, #25388: the first token after the prompt was given to the grammar twice. Where a repetition is illegal
    that was an error; where it is legal the count was off.
    """
    texts = ["aab", "ab", "aaaa", "b"]
    cases = [
        Case(tokens(text, whole=False), constraint, options={"max_tokens": limit})
        for text in texts
        for constraint in (Choice(texts), Regex("a{0,4}b?"))
        for limit in (1, 2, 9)
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for case, result in zip(cases, results, strict=True):
        assert result.token_ids == (*case.said, ENDS[0])[: case.options["max_tokens"]]


@pytest.mark.parametrize("slow", ["the second", "each third", "all"])
@FEW_SHAPES
def test_drafts_of_a_dropped_round_are_not_used_again(
    toy_engine: Any, monkeypatch: pytest.MonkeyPatch, lanes: int, drafts: int, slow: str
) -> None:
    """vLLM #31876, #31955: a request that was put aside and resumed met the drafts of before, which no longer fitted. Here
    a mask takes long, its round is dropped, and the request goes on by itself; SGLang #29110 is the same with its tokens.
    """
    monkeypatch.setattr(mask_jobs, "PATIENCE", 0.001)
    rounds = [0]
    when: dict[str, Callable[[Sequence[int]], bool]] = {
        "the second": lambda path: len(path) == 1,
        "each third": lambda path: len(path) % 3 == 2,
        "all": lambda path: True,
    }
    said = [tokens(TEXT, whole=False), (*tokens("hh"), CLOSE, *tokens(f"\n\n{TEXT}"))]
    cases = [
        Case(said[index % 2], OBJECT if index % 4 < 3 else None, thinks=bool(index % 2))
        for index in range(6)
    ]

    def script(row: DraftRow) -> Sequence[int]:
        """Other drafts whenever they are asked for: those of a dropped round are never right again."""
        rounds[0] += 1
        right = cases[row.history[0]].said[len(row.history) - row.prompt_length :]
        return right[: rounds[0] % 5] + tokens(TEXT)[rounds[0] % 3 :] * 4

    watch = Watch(script, slow=when[slow], pause=0.004)
    results, _ = compare(toy_engine, cases, lanes, drafts, watch=watch)
    seen = check_masks(watch, cases, parts=True)
    assert [result.text for result in results] == [TEXT] * 6
    assert watch.dropped
    assert seen["given up"] or drafts == 1


class Spoils(ToyModel):
    """Cannot decode a line feed, where the prompt is token 5."""

    def decoder(self, prompt: Any, request: Any, raw_members: Any = None) -> Any:
        decoder = super().decoder(prompt, request)
        return Breaks(self.vocabulary, False) if prompt.token_ids == (5,) else decoder


class Breaks(ToyDecoder):
    def step(self, state: Any, token: int) -> Any:
        if token == ord("\n"):
            raise RuntimeError("a line feed")
        return super().step(state, token)


@pytest.mark.parametrize("drafts", [1, 3, 15])
def test_a_round_that_another_row_spoils_is_made_again_from_where_it_was(
    toy_engine: Any, caplog: pytest.LogCaptureFixture, drafts: int
) -> None:
    """vLLM #31876, #31955, TRT-LLM PR 19296: the other rows' matchers had already been moved on by a round that then did not
    count, and met its tokens a second time.
    """
    said = tokens('"{}"'.format("abcdefgh" * 4), whole=False)
    constraints = [Regex('"[a-h]*"'), JsonSchema.of({"type": "string"})]
    cases = [
        Case(said if index != 5 else tokens("abc\n", whole=False), constraints[index % 2])
        for index in range(6)
    ]
    cases[5] = Case(cases[5].said)
    watch = Watch(lambda row: cases[row.history[0]].said[len(row.history) - 1 :])
    model = Spoils(Scripts(VOCABULARY, [case.said for case in cases]))
    results = run(toy_engine, model, cases, lanes=8, draft_tokens=drafts, **watch.options)
    assert results[5].error is not None
    assert [record.message for record in caplog.records] == ["a request's output session failed"]
    caplog.clear()
    for case, result in zip(cases[:5], results, strict=False):
        assert result.error is None
        assert result.token_ids == (*case.said, ENDS[0])
    assert not watch.faults
    assert [tuple(m.path) for m in watch.matchers if m.path] == [(*said, ENDS[0])] * 5


@FEW_SHAPES
def test_unconstrained_rows_among_constrained_ones_go_on(
    toy_engine: Any, lanes: int, drafts: int
) -> None:
    """vllm-gaudi #1199, #1200: plain requests in a batch with constrained ones met masks full of zeros, and gave the same
    token for ever. Atlas PR 21: the grammar of a row was not its own.
    """
    prose = tokens("Any text, {as it comes}!\n", whole=False)
    kinds = [None, OBJECT, None, None, Regex("[ab]{3,9}"), None, BLANKS, Choice(["aab", "b"])]
    for order in (kinds, kinds[::-1]):
        cases = [
            Case(prose[index % 3 :], kinds[index % 8], options={"max_tokens": 12 + 7 * (index % 3)})
            for index in range(16)
            for kinds in [order]
        ]
        results, watch = compare(toy_engine, cases, lanes, drafts)
        for case, result in zip(cases, results, strict=True):
            if case.constraint is None:
                assert result.token_ids == (*case.said, ENDS[0])[: case.options["max_tokens"]]
        check_masks(watch, cases)


@SHAPES
def test_a_single_wrong_draft_is_not_committed(toy_engine: Any, lanes: int, drafts: int) -> None:
    """lattice #243: a block of one draft was committed before it was verified."""
    said = tokens('{"a":1}', whole=False)
    cases = [
        Case(said, constraint, drafted=lambda position, wrong=wrong: [wrong])
        for constraint in (OBJECT, None)
        for wrong in (ord("2"), ENDS[1], 0)
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for result in results:
        assert result.token_ids == (*said, ENDS[0])
        assert result.usage.accepted_tokens == 0


@SHAPES
def test_counting_to_twenty_skips_nothing(toy_engine: Any, lanes: int, drafts: int) -> None:
    """mlx-lm #846: numbers were missing where drafts had been rejected. The drafter errs in every place of its blocks."""
    text = ", ".join(map(str, range(1, 21)))
    said = tokens(text, whole=False)

    def errs(place: int) -> Callable[[int], Sequence[int]]:
        return lambda position: [
            token if (position + column) % 7 != place else token + 1
            for column, token in enumerate(said[position:])
        ]

    counted = Regex(r"\d+(, \d+)*")
    cases = [
        Case(said, constraint, drafted=errs(place), options={"max_tokens": 99})
        for place in range(7)
        for constraint in (None, counted)
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    assert [
        b"".join(VOCABULARY.token_bytes[token] for token in result.token_ids).decode()
        for result in results
    ] == [text] * len(cases)
    assert any(result.usage.accepted_tokens for result in results)


@SHAPES
def test_the_token_with_id_0(toy_engine: Any, lanes: int, drafts: int) -> None:
    """vLLM PR 29274: token 0 was taken for none in the last row. It is draft, correction, bonus and first token here."""
    texts = [bytes(text) for text in product((0, 65), repeat=4)]
    pattern = Regex(r"[\x00A]{4}")
    wrong = {0: 65, 65: 0}
    cases = [
        Case(tuple(text), constraint, drafted=drafted)
        for text in texts
        for constraint in (pattern, None)
        for drafted in (
            None,
            lambda position, text=text: [wrong[token] for token in text[position:]],
            lambda position, text=text: [*text[position : position + 1], ENDS[0]],
        )
    ]
    results, _ = compare(toy_engine, cases, lanes, drafts)
    for case, result in zip(cases, results, strict=True):
        assert result.token_ids == (*case.said, ENDS[0])


@cache
def demo() -> Qwen3_5Model:
    return Qwen3_5Frontend().load(checkpoint_path(), LoadOptions(deterministic=True))


DEMO_PROMPTS = [
    ("Extract file, line, and severity as JSON from: Typo in README.md line 3", OBJECT, False),
    ("Repeat: abc", None, True),
    ("Count from 1 to 20.", None, False),
    ("Repeat: abc", Regex("[a-z ]{5,20}"), True),
]


def _ask_demo(make: Any, **options: Any) -> list[GenerationResult]:
    engine = make(demo(), deterministic=True, max_context=256, **options)
    handles = []
    for seed, (prompt, constraint, thinks) in enumerate(DEMO_PROMPTS):
        message = {"role": "user", "content": prompt}
        prepared = engine.prepare(PromptInput(messages=[message], enable_thinking=thinks))
        sampling = SamplingOptions(seed=seed, temperature=1.0 if seed != 2 else 0.0)
        handles.append(
            engine.submit(
                prepared, RequestOptions(constraint=constraint, sampling=sampling, max_tokens=16)
            )
        )
    return [handle.wait(WAIT) for handle in handles]


@pytest.fixture(scope="module")
def demo_texts() -> list[GenerationResult]:
    return []


@pytest.mark.parametrize("first_wrong", [0, 1, 2])
@FEW_SHAPES
def test_rejected_drafts_leave_no_trace_in_recurrent_state(
    toy_engine: Any, demo_texts: list[GenerationResult], lanes: int, drafts: int, first_wrong: int
) -> None:
    """vLLM #39273, llama.cpp PR 20075 and 20080, ik_llama #1639: on models with recurrent layers a rejected draft stayed in
    their state, and the text decayed. The drafter is wrong in every round; from its first, second or third draft on.
    """
    if not demo_texts:
        demo_texts.extend(_ask_demo(toy_engine, lanes=1))
    known = {}
    for (prompt, _, thinks), seed, result in zip(DEMO_PROMPTS, range(9), demo_texts, strict=False):
        message = {"role": "user", "content": prompt}
        prepared = demo().prepare(PromptInput(messages=[message], enable_thinking=thinks))
        known[prepared.token_ids, seed] = result.token_ids

    def script(row: DraftRow) -> list[int]:
        prompt = tuple(row.history[: row.prompt_length])
        right = [*known[prompt, row.seed][len(row.history) - row.prompt_length :]]
        wrong = [(token + 1) % demo().vocabulary.size for token in right[first_wrong:]]
        return (right[:first_wrong] + wrong + list(row.history))[:15]

    results = _ask_demo(
        toy_engine, lanes=lanes, draft_tokens=drafts, backend=ScriptedBackend(script)
    )
    for result, plain in zip(results, demo_texts, strict=True):
        assert result.error is None
        assert result.token_ids == plain.token_ids
        assert (result.text, result.reasoning) == (plain.text, plain.reasoning)
        assert len(result.token_ids) > 4
        assert bool(result.usage.accepted_tokens) == (first_wrong > 0)


def _calls(provider: str, policy: str) -> tuple[Any, Language, list[str]]:
    """A provider, a language of thinking and calls, and texts on the way through it."""
    vocabulary = demo().vocabulary
    framing = vocabulary.framing
    think = "Hm, 🙂.\n</think>\n\n"
    call = "<tool_call>\n<function=lookup>\n<parameter=city>\nUlm ö🙂\n</parameter>\n"
    call += "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
    short = "<tool_call>\n<function=run>\n<parameter=command>\nls -l\n</parameter>\n"
    short += "</function>\n</tool_call>"
    texts = [
        think + call,
        think + f"{short}\n{short}",
        think + "I look.\n\n" + short,
        think + '{"a":1}',
    ]
    if provider == "json":
        declared = read_tools(tools(strict=True))
        request = OutputRequest(
            JsonSchema.of(SCHEMA) if policy == "auto" else None, POLICIES[policy]
        )
        language = output_language(vocabulary, StartPhase.REASONING, declared, request)
        assert language is not None
        return JsonMaskProvider().bind(vocabulary), language, texts
    close, opened, closed = (framing[name] for name in ("</think>", "<tool_call>", "</tool_call>"))
    body = sequence(
        Literal(b"\n<function="),
        Content(Regex("[a-z]{1,8}")),
        Literal(b">\n"),
        Content(Regex("([a-z<=>/_ ö🙂-]|\\d|\\w|\n){0,90}")),
        Literal(b"</function>\n"),
    )
    one = Label("call", sequence(Token(opened), body, Token(closed)))
    answer = Union([Label("content", Content(Regex(r"\{.*\}"))), Separated(one, Literal(b"\n"))])
    language = sequence(
        Repeat(TextExcept({close})), Token(close), Literal(b"\n\n"), Label("answer", answer)
    )
    return XGrammarMaskProvider().bind(vocabulary), language, texts


@pytest.mark.parametrize("drafts", [1, 3, 15])
@pytest.mark.parametrize(
    ("provider", "policy"),
    [("json", "auto"), ("json", "automatic"), ("json", "required"), ("xgrammar", "")],
)
def test_looking_ahead_through_thinking_and_calls_equals_fresh_matchers(
    provider: str, policy: str, drafts: int
) -> None:
    """vLLM #46272, SGLang #24413, PR 14163, llguidance PR 364, xgrammar #389, TRT-LLM #10134: rolling back through calls or
    thinking, over multi-byte tokens or an end, left another state than the accepted tokens make.

    Blocks of drafts are looked at as in rounds, with illegal ones and ends among them, and cut at random.
    """
    bound, language, texts = _calls(provider, policy)
    vocabulary, rng = demo().vocabulary, random.Random(f"{provider} {policy} {drafts}")
    compiled, reference = bound.compile(language), bound.compile(language)
    columns = np.zeros((drafts + 1, vocabulary.words), dtype=np.int32)
    seen = dict.fromkeys(MaskState, 0)
    ended, labels = 0, set()
    for text, choose in product(texts, (max, min)):
        script = [*spell(text, vocabulary, choose), min(vocabulary.end_ids)]
        matcher, history = compiled.start(), list[int]()
        while len(history) < len(script) + 8 and not matcher.terminated:
            block = (script[len(history) :] + [max(vocabulary.end_ids)] * drafts)[:drafts]
            if rng.random() < 0.4:
                block[rng.randrange(drafts)] = rng.choice(
                    [
                        rng.randrange(vocabulary.size),
                        *vocabulary.end_ids,
                        *vocabulary.framing.values(),
                    ]
                )
            states = fill_columns(matcher, block, columns)
            fresh = reference.start(history)
            as_it_is, as_it_should_be = (Snapshot.of(m, vocabulary) for m in (matcher, fresh))
            assert as_it_is == as_it_should_be
            legal = 0
            for column, state in enumerate(states):
                seen[state] += 1
                if state is MaskState.UNREACHABLE:
                    continue
                wanted = np.zeros(vocabulary.words, dtype=np.int32)
                alive = fresh.fill(wanted)
                assert alive, (history, block[:column])
                assert state is MaskState.READY
                assert np.array_equal(columns[column], wanted), (history, block[:column])
                if column < drafts and is_legal(wanted, block[column]):
                    legal += 1
                    agreed = fresh.accept(block[column])
                    assert agreed
            cut = min(legal, rng.choice([legal, rng.randint(0, legal)]))
            # What a round would commit: the accepted drafts, and a correction or bonus where there is one.
            committed = block[:cut]
            if cut < len(states) and states[cut] is MaskState.READY:
                row = columns[cut]
                wanted_next = script[len(history) + cut] if len(history) + cut < len(script) else -1
                bits = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
                committed.append(
                    wanted_next if is_legal(row, wanted_next) else int(rng.choice(bits))
                )
            mark = matcher.mark()
            for again in (False, True):
                # A round that is dropped, and then made again.
                accepted = [matcher.accept(token) for token in committed]
                assert all(accepted)
                if not again:
                    matcher.rollback(mark)
            history += committed
            ended += matcher.terminated
        labels |= {*matcher.labels()}
    assert ended > 2
    assert labels & {"call", "tools"}
    assert seen[MaskState.UNREACHABLE] > 5 or drafts == 1
