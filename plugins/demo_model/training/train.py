"""Train the demo model on one CPU thread.

    python -m training.train OUTPUT --cpu-minutes 60 --wall-minutes 90
    python -m training.train OUTPUT --start OUTPUT --peak-rate 0.001 --cpu-minutes 10

OUTPUT must hold ``tokenizer.json`` (see ``make_tokenizer``). The checkpoint there is rewritten
every few minutes, so a usable one exists early. With ``--start`` the training goes on from the
weights of a folder, past the curriculum's first part.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn
from transformers import DynamicCache, Qwen3_5ForCausalLM

from .batches import Batch, plain_batches, tool_batches
from .conversations import tool_example, undeclared_example
from .data import Example, training_example
from .evaluate import DEMO_PROMPTS, exact_match, greedy
from .model import new_model, save_checkpoint
from .words import WordPools

_WARM_UP_STEPS = 100
_CONSTANT_UNTIL = 0.3
_FINAL_SHARE = 0.02
_TOKENS_PER_STEP = 2560
#: The share of the batches that declare tools, and of other examples that ask for a call in vain.
_TOOL_SHARE = 0.5
_UNDECLARED_SHARE = 0.015
_WATCHED = (
    "bug, thinking",
    "contact",
    "tool",
    "tool, thinking",
    "two calls",
    "tool result, thinking",
)


@dataclass
class Clock:
    """Training progress from 0 to 1 by whichever budget, CPU or wall time, runs out first.

    A shared machine gives an unknown share of a core, so a schedule by steps could not be kept.
    """

    cpu_minutes: float
    wall_minutes: float

    def __post_init__(self) -> None:
        """Start counting."""
        self._wall_start = time.monotonic()
        self._cpu_start = time.process_time()

    @property
    def cpu(self) -> float:
        """CPU minutes so far."""
        return (time.process_time() - self._cpu_start) / 60

    @property
    def wall(self) -> float:
        """Wall minutes so far."""
        return (time.monotonic() - self._wall_start) / 60

    @property
    def progress(self) -> float:
        """Share of the budget that is used, at most 1."""
        return min(1.0, max(self.cpu / self.cpu_minutes, self.wall / self.wall_minutes))


def learning_rate(peak: float, progress: float, step: int) -> float:
    """Warm up by steps, stay constant, then fall linearly over the rest of the budget."""
    decay = 1.0
    if progress > _CONSTANT_UNTIL:
        done = (progress - _CONSTANT_UNTIL) / (1 - _CONSTANT_UNTIL)
        decay = 1 - (1 - _FINAL_SHARE) * done
    return peak * decay * min(1.0, (step + 1) / _WARM_UP_STEPS)


def make_optimizers(
    model: nn.Module, rate: float, table: str = "embed_tokens"
) -> list[torch.optim.Optimizer]:
    """Muon for the layers' matrices, AdamW for all else; tables that rows are looked up in have ``table`` in their name."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and table not in name
        (matrices if is_matrix else others).append(parameter)
    return [
        torch.optim.Muon(
            matrices,
            lr=rate,
            weight_decay=0.05,
            momentum=0.95,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(others, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def read_once(model: Qwen3_5ForCausalLM, prefix: torch.Tensor, rows: int) -> DynamicCache:
    """The states after ``prefix``, for ``rows`` rows that go on from it, with gradients.

    The cache is made for inference and writes over its states. Here they are what the gradient
    flows through, so the next update has to leave them and to store its own beside them.
    """
    cache = DynamicCache(config=model.config)
    model.model(input_ids=prefix, cache=cache, use_cache=True, chunk_size=32)
    for layer, kind in zip(cache.layers, model.config.layer_types, strict=True):
        if kind == "full_attention":
            layer.keys = layer.keys.expand(rows, -1, -1, -1)
            layer.values = layer.values.expand(rows, -1, -1, -1)
        else:
            layer.record_past = True  # the convolution's state is then replaced, not overwritten
            layer.conv_states[0] = layer.conv_states[0].expand(rows, -1, -1)
            layer.recurrent_states[0] = layer.recurrent_states[0].expand(rows, -1, -1, -1)
            layer.is_recurrent_states_initialized[0] = False  # a new tensor is made for the update
    return cache


def loss_of(model: Qwen3_5ForCausalLM, batch: Batch) -> torch.Tensor:
    """Mean cross entropy over the trained positions; logits are computed only there."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        cache = None if batch.prefix is None else read_once(model, batch.prefix, len(batch.ids))
        hidden = model.model(
            input_ids=batch.ids, cache=cache, use_cache=cache is not None, chunk_size=32
        ).last_hidden_state
        logits = model.lm_head(hidden[:, :-1][batch.target_mask])
    return F.cross_entropy(logits.float(), batch.ids[:, 1:][batch.target_mask])


def base_example(rng: Random, pools: WordPools, progress: float) -> Example:
    """An example without declared tools."""
    if progress >= _CONSTANT_UNTIL and rng.random() < _UNDECLARED_SHARE:
        return undeclared_example(rng, pools)
    return training_example(rng, pools, progress)


def curriculum(
    rng: Random, progress: Callable[[], float], plain: Iterator[Batch], tools: Iterator[Batch]
) -> Iterator[Batch]:
    """Batches with tools among the others, from the curriculum's second part on."""
    while True:
        with_tools = progress() >= _CONSTANT_UNTIL and rng.random() < _TOOL_SHARE
        yield next(tools if with_tools else plain)


def train(
    model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, clock: Clock, arguments: argparse.Namespace
) -> None:
    """Run the curriculum until the clock's budget is used, saving as it goes."""
    folder, seed, peak = arguments.folder, arguments.seed, arguments.peak_rate
    skipped = _CONSTANT_UNTIL if arguments.start else 0.0
    rng = Random(seed)
    pools = WordPools.build(tokenizer.get_vocab())
    pad = tokenizer.token_to_id("<|endoftext|>")
    optimizers = make_optimizers(model, peak)

    def progress() -> float:
        return max(skipped, clock.progress)

    shared = (tokenizer, rng, pad, _TOKENS_PER_STEP)
    plain = plain_batches(lambda: base_example(rng, pools, progress()), *shared)
    tools = tool_batches(lambda preamble: tool_example(rng, pools, preamble), *shared)
    batches = curriculum(rng, progress, plain, tools)
    losses: list[float] = []
    next_save, tokens = 2.0, 0
    for step, batch in enumerate(batches):
        rate = learning_rate(peak, clock.progress, step)
        for optimizer in optimizers:
            for parameters in optimizer.param_groups:
                parameters["lr"] = rate
        loss = loss_of(model, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        tokens += batch.ids.numel()
        if step % 50 == 49:
            report = f"step {step + 1} loss {sum(losses) / len(losses):.4f} rate {rate:.2e}"
            print(f"{report} {tokens} tokens cpu {clock.cpu:.1f} wall {clock.wall:.1f}", flush=True)
            losses.clear()
        finished = clock.progress >= 1
        if finished or clock.cpu >= next_save:
            next_save = clock.cpu + 5.0
            save_checkpoint(model, tokenizer, folder)
            watch(model, tokenizer, _WATCHED)
        if finished:
            return


def watch(model: Qwen3_5ForCausalLM, tokenizer: Tokenizer, tasks: Iterable[str]) -> None:
    """Print the watched figures, on few examples, and the first demo answers."""
    model.eval()
    shares = [f"{task} {100 * exact_match(model, tokenizer, task, 48):.0f}" for task in tasks]
    print(" | ".join(shares), flush=True)
    for prompt in DEMO_PROMPTS[:2]:
        print(f"  {greedy(model, tokenizer, prompt, think=False, limit=48)!r}", flush=True)
    model.train()


def main() -> None:
    """Train from scratch into the folder named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cpu-minutes", type=float, default=60)
    parser.add_argument("--wall-minutes", type=float, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, help="go on from the weights of this folder")
    parser.add_argument("--peak-rate", type=float, default=3e-3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    tokenizer = Tokenizer.from_file(str(arguments.folder / "tokenizer.json"))
    if arguments.start:
        model = Qwen3_5ForCausalLM.from_pretrained(arguments.start, dtype=torch.float32).train()
    else:
        model = new_model(tokenizer).train()
    print(f"{sum(p.numel() for p in model.parameters())} parameters", flush=True)
    clock = Clock(arguments.cpu_minutes, arguments.wall_minutes)
    train(model, tokenizer, clock, arguments)


if __name__ == "__main__":
    main()
