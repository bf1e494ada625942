"""The frozen base as drafters see it: its hidden states, its head, and batches to learn from."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from transformers import Qwen3_5ForCausalLM

from .batches import Batch, plain_batches, tool_batches
from .conversations import tool_example
from .train import base_example, read_once
from .words import WordPools


@dataclass(frozen=True)
class Reading:
    """What the target computed over a batch.

    ``features`` has the residual streams after all decoder blocks, concatenated per position in
    the blocks' order; ``hidden`` is the last of them after the final norm. Both have shape
    ``[rows, columns, ...]``; those of the shared prefix, if any, have one row.
    """

    features: torch.Tensor
    hidden: torch.Tensor
    prefix_features: torch.Tensor | None = None
    prefix_hidden: torch.Tensor | None = None

    @property
    def prefix_length(self) -> int:
        """The number of tokens before every row."""
        return 0 if self.prefix_hidden is None else self.prefix_hidden.shape[1]


class Target:
    """The base model, never trained here, with what its blocks put out recorded."""

    def __init__(self, folder: Path) -> None:
        """Load the base of a checkpoint folder."""
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.model = Qwen3_5ForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.model.requires_grad_(False)
        self.embedding = self.model.model.embed_tokens.weight
        self.pad_id = self.tokenizer.token_to_id("<|endoftext|>")
        self._outputs: list[torch.Tensor] = []
        for layer in self.model.model.layers:
            layer.register_forward_hook(lambda _, __, output: self._outputs.append(output))

    @torch.no_grad()
    def read(self, batch: Batch) -> Reading:
        """Read a batch once."""
        blocks = len(self.model.model.layers)
        self._outputs.clear()
        cache = None
        if batch.prefix is not None:
            cache = read_once(self.model, batch.prefix, len(batch.ids))
        self.model.model(
            input_ids=batch.ids, cache=cache, use_cache=cache is not None, chunk_size=32
        )
        readings = []
        for start in range(0, len(self._outputs), blocks):
            outputs = self._outputs[start : start + blocks]
            readings.append((torch.cat(outputs, dim=-1), self.model.model.norm(outputs[-1])))
        self._outputs.clear()
        return Reading(*readings[-1], *(readings[0] if batch.prefix is not None else ()))

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """The tied head."""
        return F.linear(hidden, self.embedding)


def drafter_batches(target: Target, seed: int, tool_share: float, tokens: int) -> Iterator[Batch]:
    """The base's training examples of the curriculum's last part, for a drafter to learn from."""
    rng = Random(seed)
    pools = WordPools.build(target.tokenizer.get_vocab())
    shared = (target.tokenizer, rng, target.pad_id, tokens)
    plain = plain_batches(lambda: base_example(rng, pools, 1.0), *shared)
    tools = tool_batches(lambda preamble: tool_example(rng, pools, preamble), *shared)
    while True:
        yield next(tools if rng.random() < tool_share else plain)


def answer_bounds(batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """The first and the last trained column of every row."""
    trained = batch.target_mask.int()
    width = trained.shape[1]
    return trained.argmax(1) + 1, width - trained.flip(1).argmax(1)


def gather_columns(values: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
    """``values[r, columns[r]]`` for every row; columns past the end give the last one."""
    columns = columns.clamp(max=values.shape[1] - 1)
    rows = torch.arange(len(values)).view(-1, *[1] * (columns.ndim - 1))
    return values[rows, columns]
