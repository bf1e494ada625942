"""Times the index of one sequence: CPU time of this process, best of several.

python backends/ngram/benchmarks/index.py
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from infernix_core.interfaces.speculative import DraftRow, DraftSetup
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_ngram.backend import NgramBackend

NOTHING: Any = None
CHUNK = 512


def seconds(prepare: Callable[[], Any], step: Callable[[], Any], repeats: int) -> float:
    """Best time of a step after one warm-up."""
    times = []
    for _ in range(repeats + 1):
        prepare()
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times[1:])


def records(rng: random.Random, size: int, count: int) -> list[int]:
    """Records of 40 tokens, one in twenty of which differs from record to record."""
    form = rng.choices(range(size), k=40)
    tokens: list[int] = []
    while len(tokens) < count:
        tokens += [rng.randrange(size) if rng.random() < 0.05 else token for token in form]
    return tokens[:count]


def main() -> None:
    """Prints one line per kind of text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompt", type=int, default=8192, help="tokens of the prompt")
    parser.add_argument("--output", type=int, default=1000, help="tokens of the output")
    parser.add_argument("--vocabulary", type=int, default=248320)
    parser.add_argument("--min-match", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    size, length, repeats = arguments.vocabulary, arguments.prompt, arguments.repeats
    vocabulary = Vocabulary((b"x",) * size, (TokenClass.TEXT,) * size)
    setup = DraftSetup(
        lanes=1,
        drafts=None,
        capacity=length + arguments.output,
        min_match=arguments.min_match,
    )
    bound = NgramBackend().bind(NOTHING, vocabulary, setup)
    rng = random.Random(0)
    new = rng.choices(range(size), k=length + arguments.output)
    alike = records(rng, size, length + arguments.output)
    kinds = {
        "never the same": (new[:length], new[length:]),
        "copies the prompt": (new[:length], new[: arguments.output]),
        "records alike": (alike[:length], alike[length:]),
    }

    def rows(history: Sequence[int]) -> list[DraftRow]:
        return [DraftRow(0, history, length, 15, 1.0, 0)]

    print(f"{'text':20}{'prompt, ms':>12}{'token, µs':>12}{'proposal, µs':>14}{'drafts':>8}")
    for name, (prompt, output) in kinds.items():

        def executed(prompt: Sequence[int] = prompt) -> None:
            for start in range(0, length, CHUNK):
                bound.prefilled(0, prompt[start : start + CHUNK], start, {}, NOTHING)

        history = [*prompt, output[0]]
        prompt_time = seconds(lambda: bound.release(0), executed, repeats)

        def ready(history: Sequence[int] = history) -> None:
            bound.release(0)
            bound.propose(rows(history), NOTHING)

        whole = [*prompt, *output]
        # All at once: without what a round costs besides.
        token_time = seconds(ready, lambda: bound.propose(rows(whole), NOTHING), repeats)  # noqa: B023
        again = [rows(whole)] * 200
        proposal_time = seconds(
            lambda: None,
            lambda: [bound.propose(each, NOTHING) for each in again],  # noqa: B023
            repeats,
        )
        extent = bound.propose(rows(whole), NOTHING).extents[0]
        print(
            f"{name:20}{prompt_time * 1e3:12.2f}{token_time / len(output) * 1e6:12.1f}"
            f"{proposal_time / len(again) * 1e6:14.1f}{extent:8}"
        )


if __name__ == "__main__":
    main()
