"""Worked examples of constrained decoding, with their numbers, through the whole engine."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import jsonschema
import numpy as np
import pytest
import torch

from infernix_core.engine.masks import is_legal
from infernix_core.engine.request import FinishReason, RequestOptions
from infernix_core.errors import ConstraintDeadEnd
from infernix_core.interfaces.constraints import Choice, Grammar, JsonObject, JsonSchema, Regex
from infernix_core.interfaces.frontend import OutputRequest, PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.toy import ToyModel, ToyTarget
from infernix_json_masks.provider import JsonMaskProvider
from tests.end_to_end.conftest import WAIT
from tests.end_to_end.json_prefix import verdict
from tests.end_to_end.kinds import BUG, PATH, PATH_PATTERN
from tests.end_to_end.test_tool_walks import demo, toyed


def vocabulary_of(texts: list[bytes]) -> Vocabulary:
    """These text tokens and one end token."""
    return Vocabulary((*texts, b""), (*(TokenClass.TEXT for _ in texts), TokenClass.END))


class Fixed(ToyTarget):
    """The same logits after every prefix."""

    def lm_head(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.table[:1].expand(len(hidden), -1)


def fixed(logits: dict[bytes, float], end: float = 0.0) -> ToyModel:
    target = Fixed(vocabulary_of(list(logits)))
    target.table[0, : len(logits)] = torch.tensor(list(logits.values()))
    target.table[0, len(logits)] = end
    return ToyModel(target)


def submit(
    engine: Any, constraint: Any, *, seed: int = 0, prompt: Any = None, **options: Any
) -> Any:
    sampling = SamplingOptions(seed=seed, greedy=options.pop("greedy", False))
    return engine.submit(
        engine.prepare(prompt if prompt is not None else PromptInput(token_ids=[0])),
        RequestOptions(constraint=constraint, sampling=sampling, **options),
    )


def test_1_what_a_constraint_makes_impossible() -> None:
    """Of seven usual answers only the clean one is usable; a prefix is not JSON either."""
    schema = {"properties": {"file": {"type": "string"}, "line": {"type": "integer"}}}
    answers = {
        '{"file": "a.py", "line": 3}': True,
        '```json\n{"file": "a.py", "line": 3}\n```': False,
        'Sure! {"file": "a.py", "line": 3}': False,
        '{"file": "a.py", "line": 3,}': False,
        "{'file': 'a.py', 'line': 3}": False,
        '{"file": "a.py", "li': False,
        '{"file": "a.py", "line": "3"}': False,
    }
    for text, usable in answers.items():
        complete = verdict(text) == "complete"
        assert (
            complete and jsonschema.Draft202012Validator(schema).is_valid(json.loads(text))
        ) == usable


LOGITS = {
    b"Sure": 3.0,
    b"{": 1.5,
    b" {": 0.5,
    b'"': -1.0,
    b"Here": 2.5,
    b"[": 0.0,
    b"```": 2.0,
    b"\n": 1.0,
}


def test_2_masking_is_renormalising(toy_engine: Any) -> None:
    """Kept mass 0.1229; "{" 0.7311 and " {" 0.2689 afterwards, still 2.7 to 1."""
    engine = toy_engine(fixed(LOGITS, end=-math.inf), queue_limit=3000)
    options = {"max_tokens": 1, "constraint_stats": True}
    handles = [submit(engine, Choice(["{", " {"]), seed=seed, **options) for seed in range(2000)]
    results = [handle.wait(WAIT) for handle in handles]
    assert results[0].constraint.kept_mass == pytest.approx(0.1229, abs=5e-5)
    assert results[0].constraint.kept_mass_minimum == results[0].constraint.kept_mass
    assert results[0].constraint.kept_mass_below_tenth == 0
    share = Counter(result.text for result in results)["{"] / len(results)
    # Three standard deviations of a share of 2000.
    assert share == pytest.approx(0.7311, abs=3 * math.sqrt(0.7311 * 0.2689 / 2000))


def test_6_a_mask_row_of_151936_tokens() -> None:
    """4,748 words, 18,992 bytes a row; 256 sequences of 1 + 3 positions take 18.55 MiB."""
    words = vocabulary_of([b"x"] * 151_935).words
    assert (words, words * 4) == (4_748, 18_992)
    assert round(256 * 4 * words * 4 / 2**20, 2) == 18.55


def test_7_a_grammar_stops_by_itself(toy_engine: Any) -> None:
    import re

    engine = toy_engine(ToyModel.make([b"edit ", b".java line ", b"ab", b"/"]), queue_limit=100)
    handles = [submit(engine, Grammar(PATH), seed=seed) for seed in range(40)]
    for handle in handles:
        result = handle.wait(WAIT)
        assert result.finish_reason is FinishReason.STOP
        assert re.fullmatch(PATH_PATTERN, result.text)


def test_8_a_schema_gives_valid_json_that_ends_by_itself(toy_engine: Any) -> None:
    engine = toy_engine(ToyModel.make([b'{"', b'":', b'","', b"file"]), queue_limit=100)
    handles = [submit(engine, JsonSchema.of(BUG), seed=seed) for seed in range(30)]
    for handle in handles:
        result = handle.wait(WAIT)
        assert result.finish_reason is FinishReason.STOP
        jsonschema.validate(json.loads(result.text), BUG)


def test_9_a_json_object_cut_at_60_tokens_is_a_prefix_and_says_length(toy_engine: Any) -> None:
    engine = toy_engine(ToyModel.make(bias={ord("}"): -20.0, ord('"'): -20.0}))
    result = submit(engine, JsonObject(), max_tokens=60).wait(WAIT)
    assert result.finish_reason is FinishReason.LENGTH
    assert verdict(result.text.rstrip("\ufffd")) == "prefix"
    assert not result.constraint.complete


EDIT = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "maxLength": 16, "pattern": r"^[a-z]+\.java$"},
        "line": {"type": "integer", "minimum": 1, "maximum": 9999},
    },
    "required": ["file", "line"],
    "additionalProperties": False,
}
TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "edit", "parameters": EDIT, "strict": True}},
    {"type": "function", "function": {"name": "undo", "parameters": {}}},
]


def test_11_nothing_is_constrained_before_the_trigger_and_everything_after_it() -> None:
    """The masks: free prose, `<tool_call>`, then only the beginning of a call and the declared names."""
    vocabulary = demo().vocabulary
    texts, opens = set(vocabulary.ids(TokenClass.TEXT)), vocabulary.framing["<tool_call>"]
    prompt = PromptInput(messages=[{"role": "user", "content": "Mend it."}], tools=TOOLS)
    language = demo().language(demo().prepare(prompt), OutputRequest())
    assert language is not None
    matcher = JsonMaskProvider().bind(vocabulary).compile(language).start()

    def legal() -> set[int]:
        row = np.zeros(vocabulary.words, dtype=np.int32)
        assert matcher.fill(row)
        return {token for token in range(vocabulary.size) if is_legal(row, token)}

    for token in demo().tokenizer.encode("I mend it: <function=nope> </function>\n\n"):
        assert legal() >= texts | {opens} | vocabulary.end_ids
        assert matcher.accept(token)
    assert matcher.accept(opens)
    read = b""
    while not read.endswith(b">\n"):
        calls = [f"\n<function={name}>\n".encode() for name in ("edit", "undo")]
        spelled = {token: vocabulary.token_bytes[token] for token in legal()}
        assert legal() <= texts
        for text in spelled.values():
            # What is legal is on the way to one of the two names, or goes past it.
            assert any(
                one.startswith(read + text) or (read + text).startswith(one) for one in calls
            )
        token = min(spelled, key=lambda token: (len(spelled[token]), spelled[token]))
        assert matcher.accept(token)
        read += spelled[token]


def test_11_free_text_then_a_call(toy_engine: Any) -> None:
    """Whatever the weights: prose that nothing holds, then calls of declared functions with well-formed arguments."""
    engine = toy_engine(toyed(), queue_limit=100)
    prompt = PromptInput(messages=[{"role": "user", "content": "Mend it."}], tools=TOOLS)
    handles = [submit(engine, None, seed=seed, prompt=prompt, max_tokens=300) for seed in range(30)]
    called: Counter[str] = Counter()
    for handle in handles:
        result = handle.wait(WAIT)
        called["prose"] += bool(result.text)
        for call in result.tool_calls:
            if call.arguments_json is None:
                assert result.finish_reason is FinishReason.LENGTH
                continue
            called[call.name] += 1
            arguments = json.loads(call.arguments_json)
            assert isinstance(arguments, dict)
            if call.name == "edit":
                jsonschema.validate(arguments, EDIT)
    assert called.keys() == {"prose", "edit", "undo"}


def test_12_blanks_are_bounded_however_much_the_model_likes_them(toy_engine: Any) -> None:
    engine = toy_engine(ToyModel.make(bias=dict.fromkeys(b" \n\t\r", 30.0)))
    result = submit(engine, JsonSchema.of(BUG)).wait(WAIT)
    assert result.finish_reason is FinishReason.STOP
    jsonschema.validate(json.loads(result.text), BUG)
    blanks = [run for run in _runs(result.text) if run]
    assert max(blanks) <= 32


def _runs(text: str) -> list[int]:
    runs = [0]
    for character in text:
        if character in " \n\t\r":
            runs[-1] += 1
        else:
            runs.append(0)
    return runs


def test_12_every_cut_of_a_json_text_fails_until_its_last_character() -> None:
    text = '{"name": "Ada", "tags": ["x", "y"], "age": 36}'
    for cut in range(1, len(text)):
        assert verdict(text[:cut]) == "prefix"
        with pytest.raises(json.JSONDecodeError):
            json.loads(text[:cut])
    assert verdict(text) == "complete"


def test_13_forcing_a_type_keeps_a_quarter_of_the_mass(toy_engine: Any) -> None:
    """P = {"unknown": .55, null: .20, 42: .10, 7: .08, 1: .07}: an integer keeps .25 and makes 42 .400."""
    law = {b'"unknown"': 0.55, b"null": 0.20, b"42": 0.10, b"7": 0.08, b"1": 0.07}
    model = fixed({token: math.log(p) for token, p in law.items()}, end=-math.inf)
    engine = toy_engine(model, queue_limit=3000)
    constraint = JsonSchema.of({"type": "integer"})
    options = {"max_tokens": 1, "constraint_stats": True}
    handles = [submit(engine, constraint, seed=seed, **options) for seed in range(2000)]
    results = [handle.wait(WAIT) for handle in handles]
    assert results[0].constraint.kept_mass == pytest.approx(0.25, abs=1e-5)
    share = Counter(result.text for result in results)["42"] / len(results)
    assert share == pytest.approx(0.4, abs=3 * math.sqrt(0.4 * 0.6 / 2000))


def test_13_properties_come_in_the_schemas_own_order(toy_engine: Any) -> None:
    schema = {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string", "maxLength": 5},
            "answer": {"type": "boolean"},
            "a": {"type": "null"},
        },
        "required": ["answer", "a", "reasoning"],
        "additionalProperties": False,
    }
    engine = toy_engine()
    for seed in range(5):
        result = submit(engine, JsonSchema.of(schema), seed=seed).wait(WAIT)
        assert list(json.loads(result.text)) == ["reasoning", "answer", "a"]


#: 32 tokens that can spell the record, some across its punctuation.
RECORD = [
    b'{"', b"name", b'": "', b'", "', b"age", b'": ', b"}", b'"', b"{", b": ", b", ",
    b"A", b"B", b"Ada", b"a", b"b", b"d", b"e", b"l", b"n", b"o", b'n", "', b"da",
    b"1", b"2", b"9", b"0", b"36", b"}}", b" ", b"g", b"m",
]  # fmt: skip


def test_14_a_toy_vocabulary_says_why_it_stopped(toy_engine: Any) -> None:
    import re

    pattern = r'\{"name": "[A-Z][a-z]{1,8}", "age": [1-9][0-9]?\}'
    assert len(RECORD) == 32
    engine = toy_engine(ToyModel(ToyTarget(vocabulary_of(RECORD))), queue_limit=200)
    handles = [submit(engine, Regex(pattern), seed=seed) for seed in range(50)]
    cut = [submit(engine, Regex(pattern), seed=seed, max_tokens=6) for seed in range(50)]
    for handle in handles:
        result = handle.wait(WAIT)
        assert result.finish_reason is FinishReason.STOP
        assert set(json.loads(result.text)) == {"name", "age"}
        assert re.fullmatch(pattern, result.text)
    for handle in cut:
        result = handle.wait(WAIT)
        assert result.finish_reason is FinishReason.LENGTH
        assert verdict(result.text) in ("prefix", "complete")
    doomed = submit(engine, Choice(["{xyz", "{qrs"])).wait(WAIT)
    assert isinstance(doomed.error.error, ConstraintDeadEnd)
    with pytest.raises(ConstraintDeadEnd, match="first token"):
        submit(engine, Choice(["xyz"]))
