import json
import re
from random import Random

import pytest
from tokenizers import Tokenizer

from infernix_demo_model.hooks import checkpoint_path
from tests.plugins.demo_model.test_chat_template import assistant, call, render, user
from training import tool_templates as tt
from training.conversations import (
    TOOL_EVALUATION_TASKS,
    tool_conversation,
    tool_evaluation_examples,
    tool_example,
    undeclared_example,
)
from training.conversations import (
    render as rendered_turns,
)
from training.data import END, THINK_OFF
from training.names import Names
from training.templates import SMALL_TALK_ANSWER
from training.tool_requests import one_call, two_calls
from training.tools import TOOLS, Call, Preamble, training_preamble
from training.words import WordPools

__all__ = ["render"]  # the fixture

BLOCK = re.compile(
    r"<tool_call>\n<function=(\w+)>\n((?:<parameter=\w+>\n[^\n]*\n</parameter>\n)*)</function>\n</tool_call>"
)
PARAMETER = re.compile(r"<parameter=(\w+)>\n([^\n]*)\n</parameter>\n")
NAMES = frozenset(tool["function"]["name"] for tool in TOOLS)


def parsed(content):
    """What is said before the calls, and the calls, of a whole answer."""
    first = BLOCK.search(content)
    said = content[: first.start()].removesuffix("\n\n")
    calls = [(name, dict(PARAMETER.findall(body))) for name, body in BLOCK.findall(content)]
    assert content[first.start() :] == "\n".join(match.group() for match in BLOCK.finditer(content))
    return said, calls


@pytest.fixture(scope="module")
def pools():
    tokenizer = Tokenizer.from_file(str(checkpoint_path() / "tokenizer.json"))
    return WordPools.build(tokenizer.get_vocab())


def test_the_declarations_are_two_openai_tools():
    assert [tool["type"] for tool in TOOLS] == ["function", "function"]
    read_file, search = (tool["function"] for tool in TOOLS)
    assert (read_file["name"], search["name"]) == ("read_file", "search")
    types = {name: item["type"] for name, item in read_file["parameters"]["properties"].items()}
    assert types == {"path": "string", "line": "integer"}
    assert read_file["parameters"]["required"] == ["path"]
    types = {name: item["type"] for name, item in search["parameters"]["properties"].items()}
    assert types == {"pattern": "string", "path": "string"}
    assert search["parameters"]["required"] == ["pattern", "path"]
    for tool in TOOLS:
        assert tool["function"]["description"]
        for item in tool["function"]["parameters"]["properties"].values():
            assert item["description"]


def test_the_trained_call_is_written_as_the_template_writes_it(render):
    calls = (Call("read_file", {"path": "src/Main.java", "line": 88}),)
    expected = render(
        user("a"), assistant("", tool_calls=[call(calls[0].name, calls[0].arguments)])
    )
    assert expected.endswith(calls[0].text + END + "\n")


def test_conversations_are_what_the_template_renders(pools, render):
    rng = Random(11)
    kinds = set()
    for _ in range(400):
        preamble = training_preamble(rng)
        messages = tool_conversation(Names(rng, pools), preamble.names)
        kinds.add(tuple(message["role"] for message in messages))
        system = [{"role": "system", "content": preamble.system}] if preamble.system else []
        whole = render(*system, *messages, tools=list(preamble.tools))
        prompt, answer = rendered_turns(messages)
        assert preamble.text + prompt + answer + "\n" == whole
        # The prompt alone is what the template gives for an answer that is still to come.
        assert preamble.text + prompt == render(
            *system,
            *messages[:-1],
            tools=list(preamble.tools),
            add_generation_prompt=True,
            enable_thinking=not prompt.endswith(THINK_OFF),
        )
    assert ("user", "assistant") in kinds
    assert ("user", "assistant", "tool", "assistant") in kinds
    assert ("user", "assistant", "tool", "tool", "assistant") in kinds


def test_calls_copy_what_the_request_names(pools):
    names = Names(Random(12), pools)
    seen = set()
    for index in range(400):
        request = (two_calls if index % 4 == 0 else one_call)(names, NAMES)
        for item in request.calls:
            seen.add((item.name, *item.arguments))
            assert all(str(value) in request.text for value in item.arguments.values())
        assert bool(request.said) is request.say
    assert seen == {
        ("read_file", "path"),
        ("read_file", "path", "line"),
        ("search", "pattern", "path"),
    }


def test_call_answers_parse(pools):
    for name in ("tool", "tool, thinking", "two calls", "two calls, thinking"):
        for example in tool_evaluation_examples(name, 60, pools):
            content = example.answer.removesuffix(END).split("</think>\n\n")[-1]
            said, calls = parsed(content)
            assert len(calls) >= (2 if "two" in name else 1)
            assert said == "" or said.startswith("I ")
            for tool, arguments in calls:
                assert list(arguments) in (["path"], ["path", "line"], ["pattern", "path"])
                assert tool == ("search" if "pattern" in arguments else "read_file")
                assert arguments.get("line", "1").isdigit()


def test_result_answers_are_records_of_the_result(pools):
    for name in ("tool result", "tool result, thinking"):
        for example in tool_evaluation_examples(name, 60, pools):
            assert ("</think>" in example.answer) is name.endswith("thinking")
            record = json.loads(example.answer.removesuffix(END).split("</think>\n\n")[-1])
            result = example.prompt.split("<tool_response>\n")[-1]
            assert all(str(v) in result for key, v in record.items() if key != "severity")


def test_a_tool_that_is_not_declared_is_never_called(pools):
    rng = Random(13)
    for tool in TOOLS:
        for _ in range(200):
            example = tool_example(rng, pools, Preamble((tool,)))
            called = set(re.findall(r"<function=(\w+)>", example.prompt + example.answer))
            assert called <= {tool["function"]["name"]}
    for _ in range(50):
        answer = undeclared_example(rng, pools).answer
        assert answer.removesuffix(END).split("</think>\n\n")[-1] == SMALL_TALK_ANSWER


def test_evaluation_sets_declare_the_tools_and_use_held_out_names(pools):
    for name in TOOL_EVALUATION_TASKS:
        examples = tool_evaluation_examples(name, 30, pools)
        assert examples == tool_evaluation_examples(name, 30, pools)
        assert all(example.prompt.startswith(Preamble().text) for example in examples)
    names = Names(Random(14), pools, held_out=True)
    for _ in range(200):
        (item,) = one_call(names, NAMES).calls
        path = str(item.arguments["path"]).lower()
        # A folder to search may be one of the usual ones, such as "src".
        assert item.name == "search" or any(word in path for word in pools.held_out)


def test_some_requests_are_held_out():
    for held_out, trained in (
        (tt.HELD_OUT_READ, tt.READ_SENTENCES),
        (tt.HELD_OUT_READ_LINE, tt.READ_LINE_SENTENCES),
        (tt.HELD_OUT_SEARCH, (*tt.SEARCH_REQUESTS, *tt.SEARCH_SENTENCES)),
        (tt.HELD_OUT_READ_AND_EXTRACT, tt.READ_AND_EXTRACT),
    ):
        assert held_out
        assert not {*held_out} & {*trained}


def test_batches_with_a_shared_prefix_give_the_loss_of_whole_rows(pools):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from training.batches import Batch, collate, encode
    from training.model import new_model
    from training.train import loss_of

    # A fresh model: of a trained one the loss is so small that bfloat16 hides it.
    torch.manual_seed(0)
    tokenizer = Tokenizer.from_file(str(checkpoint_path() / "tokenizer.json"))
    model = new_model(tokenizer).train()
    rng, preamble = Random(15), Preamble()
    prefix = torch.tensor([tokenizer.encode(preamble.text, add_special_tokens=False).ids])
    rows = [encode(tokenizer, tool_example(rng, pools, preamble)) for _ in range(3)]
    shared = collate(rows, 0, prefix)
    before = torch.zeros(3, prefix.shape[1], dtype=torch.bool)
    whole = Batch(
        torch.cat([prefix.expand(3, -1), shared.ids], 1),
        torch.cat([before, shared.target_mask], 1),
    )
    losses, gradients = [], []
    for batch in (shared, whole):
        model.zero_grad()
        loss = loss_of(model, batch)
        loss.backward()
        losses.append(loss.item())
        gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
    # Both run in bfloat16, in another order of the sums.
    assert losses[0] == pytest.approx(losses[1], rel=0.02)
    assert torch.nn.functional.cosine_similarity(*gradients, dim=0) > 0.98
