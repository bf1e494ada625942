"""The engine of infernix_core.testing alone: it answers, remembers, and needs no plugin."""

from __future__ import annotations

import subprocess
import sys

import pytest

from infernix_core.engine.request import FinishReason, TextDelta
from infernix_core.errors import InvalidOption
from infernix_core.interfaces.constraints import Choice, Regex
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.testing.drafters import ScriptedBackend
from infernix_core.testing.scripted_model import saying
from infernix_core.testing.toy import ToyModel
from infernix_core.testing.toy_engine import toy_engine
from tests.core.conftest import answer, ask, chat
from tests.core.test_engine import greedy_by_definition

TEXT = "naïve 🙂 café"


def test_greedy_answers_are_the_models_argmax() -> None:
    with toy_engine() as engine:
        for prompt in ("a", "a prompt of more than one chunk"):
            result = answer(engine, prompt, greedy=True, max_tokens=8)
            assert list(result.token_ids) == greedy_by_definition(ToyModel.make(), prompt, 8)


def test_a_constraint_is_kept_and_drafts_change_no_text() -> None:
    choice = Choice(["abcabcabc", "cabcab", "x"])
    drafter = ScriptedBackend(lambda row: [97, 98, 99])
    texts = []
    for backend in (None, drafter):
        with toy_engine(backend=backend) as engine:
            results = [
                answer(engine, chat("?"), seed=seed, constraint=choice, constraint_stats=True)
                for seed in range(6)
            ]
            texts.append([result.text for result in results])
            assert bool(sum(result.usage.drafted_tokens for result in results)) == bool(backend)
            assert all(0 < result.constraint.kept_mass <= 1 for result in results)
    assert texts[0] == texts[1]
    assert set(texts[0]) <= set(choice.literals)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"greedy": True},
        {"temperature": 2.0},
        {"top_p": 0.5, "top_k": 3},
        {"presence_penalty": 2.0, "frequency_penalty": 2.0},
    ],
    ids=str,
)
def test_a_scripted_model_says_its_text_whatever_the_law(options: dict) -> None:
    with toy_engine(saying(TEXT, words=[b"na", b" caf", "é".encode()])) as engine:
        for prompt in ("x", PromptInput(token_ids=[7]), chat("a longer question than a chunk")):
            result = answer(engine, prompt, seed=3, **options)
            assert (result.text, result.finish_reason) == (TEXT, FinishReason.STOP)
            assert result.token_ids[-1] in engine.model.vocabulary.end_ids


def test_a_scripted_model_thinks_and_streams_whole_characters() -> None:
    with toy_engine(saying("so 🙂", reasoning="hmm…"), lanes=2) as engine:
        handles = [ask(engine, chat("?", thinking=True)) for _ in range(3)]
        for handle in handles:
            deltas = [event for event in handle if isinstance(event, TextDelta)]
            assert [d.text for d in deltas] == ["h", "m", "m", "…", "s", "o", " ", "🙂"]
            assert [d.channel.value for d in deltas] == ["reasoning"] * 4 + ["content"] * 4


def test_a_scripted_model_bows_to_a_constraint() -> None:
    with toy_engine(saying("yes, of course")) as engine:
        assert answer(engine, chat("?"), constraint=Choice(["yes", "no"])).text == "yes"
        assert answer(engine, chat("?"), constraint=Choice(["no"])).text == "no"


def test_it_remembers_what_was_submitted_and_what_was_refused() -> None:
    with toy_engine() as engine:
        answer(engine, chat("first"), max_tokens=1)
        with pytest.raises(InvalidOption):
            ask(engine, "second", constraint=Regex("a+"))
        with pytest.raises(InvalidOption):
            ask(engine, "third", max_tokens=-1)
        engine.submit(engine.prepare(PromptInput(text="fourth"))).cancel()
    (first, one), (_, two), (_, three), (fourth, four) = engine.submitted
    assert first.source.messages[0]["content"] == "first"
    assert (one.max_tokens, two.constraint.kind, three.max_tokens) == (1, "regex", -1)
    assert (fourth.source.text, four.constraint) == ("fourth", None)


def test_it_needs_no_plugin() -> None:
    """Nothing but the core and its own dependencies, pytest not among them."""
    code = (
        "import sys\n"
        "from infernix_core.engine.request import RequestOptions\n"
        "from infernix_core.interfaces.constraints import Choice\n"
        "from infernix_core.interfaces.frontend import PromptInput\n"
        "from infernix_core.testing.toy_engine import toy_engine\n"
        "with toy_engine() as engine:\n"
        "    prompt = engine.prepare(PromptInput(text='x'))\n"
        "    result = engine.submit(prompt, RequestOptions(constraint=Choice(['yes']))).wait()\n"
        "assert result.text == 'yes'\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(n for n in names if n.startswith('infernix_') or n in ('pytest', 'pluggy')))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(eval(result.stdout))
    assert "pytest" not in loaded
    assert {name for name in loaded if name.startswith("infernix_")} == {"infernix_core"}
