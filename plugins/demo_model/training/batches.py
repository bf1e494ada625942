"""Examples as token ids with per-token weights, grouped into batches of similar length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import torch
from tokenizers import Tokenizer

from .data import Example
from .tools import Preamble, training_preamble

#: Rows are padded to whole chunks of the linear attention's chunked form.
PAD_MULTIPLE = 32


@dataclass(frozen=True)
class Batch:
    """Right-padded ids ``[rows, columns]`` and the boolean mask of the positions to predict.

    ``target_mask[r, c]`` says that the token at column ``c + 1`` of row ``r`` is trained, so the
    mask is one column narrower than the ids. ``prefix``, of shape ``[1, tokens]``, stands before
    every row.
    """

    ids: torch.Tensor
    target_mask: torch.Tensor
    prefix: torch.Tensor | None = None


@dataclass(frozen=True)
class Encoded:
    """Token ids of prompt and answer, and which of them are trained."""

    ids: list[int]
    trained: list[bool]


def encode(tokenizer: Tokenizer, example: Example) -> Encoded:
    """Encode prompt and answer apart: a prompt always ends in a line end, where tokens split."""
    prompt = tokenizer.encode(example.prompt, add_special_tokens=False).ids
    answer = tokenizer.encode(example.answer, add_special_tokens=False)
    trained = [
        example.spans is None or any(start < to and at < end for start, end in example.spans)
        for at, to in answer.offsets
    ]
    return Encoded(prompt + answer.ids, [False] * len(prompt) + trained)


def collate(rows: Sequence[Encoded], pad_id: int, prefix: torch.Tensor | None = None) -> Batch:
    """Pad the rows at the right; causal layers never see the padding."""
    width = max(len(row.ids) for row in rows)
    width = -(-width // PAD_MULTIPLE) * PAD_MULTIPLE
    ids = torch.full((len(rows), width), pad_id, dtype=torch.long)
    mask = torch.zeros((len(rows), width), dtype=torch.bool)
    for index, row in enumerate(rows):
        ids[index, : len(row.ids)] = torch.tensor(row.ids)
        mask[index, : len(row.ids)] = torch.tensor(row.trained)
    return Batch(ids, mask[:, 1:], prefix)


def group(rows: Sequence[Encoded], tokens: int) -> Iterator[list[Encoded]]:
    """Split rows, sorted by length, into groups of at most ``tokens`` padded tokens."""
    chosen: list[Encoded] = []
    for row in sorted(rows, key=lambda item: len(item.ids)):
        width = -(-len(row.ids) // PAD_MULTIPLE) * PAD_MULTIPLE
        if chosen and width * (len(chosen) + 1) > tokens:
            yield chosen
            chosen = []
        chosen.append(row)
    if chosen:
        yield chosen


def plain_batches(
    draw: Callable[[], Example], tokenizer: Tokenizer, rng: Random, pad_id: int, tokens: int
) -> Iterator[Batch]:
    """An endless stream of batches of about ``tokens`` padded tokens."""
    while True:
        groups = list(group([encode(tokenizer, draw()) for _ in range(384)], tokens))
        rng.shuffle(groups)
        for rows in groups:
            yield collate(rows, pad_id)


def tool_batches(
    draw: Callable[[Preamble], Example], tokenizer: Tokenizer, rng: Random, pad_id: int, tokens: int
) -> Iterator[Batch]:
    """The same with tools declared: a batch's examples share their preamble.

    The declarations take four times the tokens of what follows. Read once for the whole batch,
    they cost little.
    """
    while True:
        preamble = training_preamble(rng)
        prefix = torch.tensor([tokenizer.encode(preamble.text, add_special_tokens=False).ids])
        encoded = [encode(tokenizer, draw(preamble)) for _ in range(96)]
        groups = list(group(encoded, tokens))
        rng.shuffle(groups)
        for rows in groups:
            yield collate(rows, pad_id, prefix)
