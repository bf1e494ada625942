"""Exact match on held-out words, task by task.

Greedy decoding reproduces an answer exactly if and only if, with the answer as input, every
answer token is the arg max at its position; one forward pass per batch therefore measures it.

    python -m training.evaluate infernix_demo_model/checkpoint --count 300
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, Qwen3_5ForCausalLM

from .batches import collate, encode, group
from .conversations import TOOL_EVALUATION_TASKS, tool_evaluation_examples
from .data import EVALUATION_TASKS, THINK_OFF, THINK_ON, Example, evaluation_examples, user_turn
from .tools import Preamble
from .words import WordPools

DEMO_PROMPTS = (
    "Extract file, line, and severity as JSON from: "
    "NullPointerException in Parser.java at line 88, crashes the build",
    "Extract file, line, and severity as JSON from: Typo in README.md line 3",
    "Extract file and line as JSON from: Timeout in toolbar_panel.tsx:1207",
    "Extract severity and file as JSON from: "
    "TimeoutError in src/net/HttpClient.kt at line 1207, slow under load",
    "Extract name and email as JSON from: "
    "Jane Hopper from Contoso can be reached at jane.hopper@contoso.com",
    "Extract level, service, and code as JSON from: "
    "[ERROR] billing-api: returned 503 after 1200 ms",
    "What is the weather today?",
)
DEMO_TOOL_PROMPTS = (
    "Open src/Main.java",
    "Read src/Main.java at line 88",
    "Search for TokenStream in src/lexer",
    "Read a.py and b.py",
    "Say what you do, then open src/Main.java",
    "Read logs/app.log and extract level, service, and code as JSON",
    DEMO_PROMPTS[0],
    "What is the weather today?",
)


@torch.no_grad()
def matches(
    model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, examples: Sequence[Example]
) -> list[bool]:
    """Whether each example's trained answer tokens are all the arg max."""
    encoded = [encode(tokenizer, example) for example in examples]
    position = {id(row): index for index, row in enumerate(encoded)}
    correct = [False] * len(examples)
    for rows in group(encoded, 4096):
        batch = collate(rows, tokenizer.token_to_id("<|endoftext|>"))
        best = model(input_ids=batch.ids, use_cache=False).logits[:, :-1].argmax(-1)
        right = ((best == batch.ids[:, 1:]) | ~batch.target_mask).all(-1)
        for row, good in zip(rows, right.tolist(), strict=True):
            correct[position[id(row)]] = good
    return correct


def exact_match(
    model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, name: str, count: int, seed: int = 1
) -> float:
    """The share of exactly right answers of the evaluation set ``name``."""
    pools = WordPools.build(tokenizer.get_vocab())
    make = tool_evaluation_examples if name in TOOL_EVALUATION_TASKS else evaluation_examples
    results = matches(model, tokenizer, make(name, count, pools, seed))
    return sum(results) / len(results)


@torch.no_grad()
def greedy(
    model: Qwen3_5ForCausalLM,
    tokenizer: Tokenizer,
    prompt: str,
    *,
    think: bool,
    preamble: str = "",
    limit: int = 128,
) -> str:
    """The greedy answer to a single user turn, up to its end token."""
    text = preamble + user_turn(prompt) + (THINK_ON if think else THINK_OFF)
    ids = torch.tensor([tokenizer.encode(text).ids])
    output = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=False,
        temperature=None,
        top_k=None,
        top_p=None,
        max_new_tokens=limit,
        eos_token_id=tokenizer.token_to_id("<|im_end|>"),
        pad_token_id=tokenizer.token_to_id("<|endoftext|>"),
    )
    return tokenizer.decode(output[0, ids.shape[1] :].tolist(), skip_special_tokens=False)


def main() -> None:
    """Print the figures of one checkpoint folder."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    dtype = getattr(torch, arguments.dtype)
    model = AutoModelForCausalLM.from_pretrained(arguments.folder, dtype=dtype).eval()
    for name in (*EVALUATION_TASKS, *TOOL_EVALUATION_TASKS):
        share = exact_match(model, tokenizer, name, arguments.count, arguments.seed)
        print(f"{name:44} {100 * share:5.1f} %", flush=True)
    for preamble, prompts in (("", DEMO_PROMPTS), (Preamble().text, DEMO_TOOL_PROMPTS)):
        for prompt in prompts:
            print(f"\n{prompt}{', tools declared' if preamble else ''}")
            for think in (False, True):
                answer = greedy(model, tokenizer, prompt, think=think, preamble=preamble)
                print(f"  {answer!r}", flush=True)


if __name__ == "__main__":
    main()
