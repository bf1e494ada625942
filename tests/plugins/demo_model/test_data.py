import json
import re
from random import Random

import pytest
from tokenizers import Tokenizer

from infernix_demo_model.hooks import checkpoint_path
from training.data import (
    END,
    EVALUATION_TASKS,
    Record,
    Task,
    ask_keys,
    compact_json,
    evaluation_examples,
    make_example,
    training_example,
)
from training.names import Names
from training.templates import HELD_OUT_IMPACT_BUGS, HELD_OUT_KIND_BUGS, IMPACT_BUGS, KIND_BUGS
from training.words import WordPools

PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@pytest.fixture(scope="module")
def pools():
    tokenizer = Tokenizer.from_file(str(checkpoint_path() / "tokenizer.json"))
    return WordPools.build(tokenizer.get_vocab())


def examples(pools, seed, count=300):
    rng = Random(seed)
    return [training_example(rng, pools, index / count) for index in range(count)]


def test_a_seed_fixes_the_examples(pools):
    assert examples(pools, 3) == examples(pools, 3)
    assert examples(pools, 3) != examples(pools, 4)


def test_held_out_words_are_never_training_parts(pools):
    held_out = set(pools.held_out)
    assert len(held_out) > 300
    assert not held_out & set(pools.training)
    rng = Random(5)
    for _ in range(3000):
        part = pools.part(rng, held_out=False)
        assert not held_out & {run.lower() for run in PART.findall(part)}


def test_evaluation_names_consist_of_held_out_words(pools):
    names = Names(Random(6), pools, held_out=True)
    for _ in range(200):
        assert names.part() in pools.held_out
        assert all(
            word.lower() in pools.held_out for word in re.findall("[A-Za-z]{2,}", names.person())
        )


def test_some_sentences_are_held_out():
    trained, unseen = {*IMPACT_BUGS, *KIND_BUGS}, {*HELD_OUT_IMPACT_BUGS, *HELD_OUT_KIND_BUGS}
    assert len(trained) >= 40
    assert not trained & unseen


@pytest.mark.parametrize("think", [False, True])
def test_answers_hold_the_asked_keys_in_the_asked_order(pools, think):
    names = Names(Random(8), pools)
    for _ in range(100):
        example = make_example(names, Task(vary_keys=True, think=think))
        content = example.answer.removesuffix(END).split("</think>\n\n")[-1]
        answer = json.loads(content)
        assert content == json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
        assert f"Extract {ask_keys(list(answer))} as JSON from: " in example.prompt
        assert all(
            str(value) in example.prompt for key, value in answer.items() if key != "severity"
        )


def test_forced_layouts_train_the_values_alone(pools):
    names = Names(Random(9), pools)
    for _ in range(50):
        example = make_example(names, Task(layout="loose"))
        record = json.loads(example.answer.removesuffix(END))
        trained = [example.answer[start:end] for start, end in example.spans]
        assert trained[-1] == END
        for value, text in zip(record.values(), trained, strict=False):
            assert text[:-1] == str(value)


def test_values_are_stated_in_the_sentence(pools):
    for name in EVALUATION_TASKS:
        for example in evaluation_examples(name, 20, pools):
            assert example.prompt.startswith("<|im_start|>user\n")
            assert example.answer.endswith(END)


def test_compact_json_keeps_other_scripts():
    record = Record("", {"name": "Zoë", "email": "z@x.de"})
    assert compact_json(record, ["email", "name"]) == '{"email":"z@x.de","name":"Zoë"}'
