"""Times one sampling round, in units that travel between machines.

The unit is one argmax over the same logits, on one thread; the yardstick is a plain sampler that sorts the whole vocabulary.
Masks are off, on, or on with the kept mass asked for.

    python plugins/sampling/benchmarks/sampling_speed.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial

import torch

from infernix_core.interfaces.sampling import (
    MaskState,
    SamplerSpec,
    SamplingConfig,
    SamplingRound,
)
from infernix_sampling.sampler import TorchSampler


def milliseconds(step: Callable[[], object], repeats: int, device: str) -> float:
    """Best time of a step after one warm-up: CPU time of this process on the CPU, else wall time."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    times = []
    for _ in range(repeats + 1):
        start = clock()
        step()
        if device != "cpu":
            torch.cuda.synchronize()
        times.append((clock() - start) * 1e3)
    return min(times[1:])


def plain(logits: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """Top-p by a full sort of every column: what a straightforward sampler does."""
    values, order = (logits.flatten(0, 1) / temperature).sort(-1, descending=True)
    p = values.softmax(-1)
    p = torch.where(p.cumsum(-1) - p < top_p, p, 0.0)
    return order.gather(1, p.multinomial(1))


def main() -> None:
    """Prints one line per case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--vocabulary", type=int, default=248320)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    device = arguments.device
    size, rows = arguments.vocabulary, arguments.rows
    generator = torch.Generator().manual_seed(0)
    generable = torch.ones(size, dtype=torch.bool)
    generable[-300:] = False
    words = -(-size // 32)
    laws = {
        "greedy": SamplingConfig(temperature=0),
        "top_k 20, top_p .95": SamplingConfig(top_k=20, top_p=0.95, temperature=0.7),
        "top_k 0, top_p .95": SamplingConfig(top_p=0.95, temperature=0.7),
        "top_k 0, top_p 1": SamplingConfig(),
        "top_k 0, min_p .05": SamplingConfig(min_p=0.05),
        "top_k 20, penalties": SamplingConfig(top_k=20, presence_penalty=1.5),
    }
    header = f"{'law':22} {'W':>2} {'mask':>5} {'ms':>8} {'argmaxes':>9} {'of plain':>9}"
    print(f"V {size}, B {rows}, {device}, {torch.get_num_threads()} threads\n{header}")
    for width in (1, 4):
        plan = TorchSampler().plan(
            SamplerSpec(
                rows=rows,
                width=width,
                vocabulary_size=size,
                logits_width=size,
                generable=generable.to(device),
            )
        )
        # Peaked like a language model's: a few dozen likely tokens over a broad floor.
        logits = torch.randn((rows, width, size), generator=generator)
        likely = torch.randint(0, size - 300, (rows, width, 40), generator=generator)
        logits.scatter_add_(-1, likely, 8 + 8 * torch.rand(likely.shape, generator=generator))
        logits = logits.to(device)
        masks = torch.randint(-(2**31), 2**31, (rows, width, words), generator=generator)
        drafts = torch.randint(0, size - 300, (rows, width - 1), generator=generator)
        for row in range(rows):  # the drafts are legal, so every column counts as reachable
            for column, draft in enumerate(drafts[row].tolist()):
                masks[row, column, draft // 32] |= 1 << (draft % 32)
        unit = milliseconds(partial(torch.argmax, logits, -1), arguments.repeats, device)
        yardstick = milliseconds(partial(plain, logits, 0.7, 0.95), 2, device)
        for name, law in laws.items():
            for mask in ("off", "on", "mass"):
                masked = mask != "off"
                state = MaskState.READY if masked else MaskState.UNCONSTRAINED
                counts = torch.zeros((rows, size), dtype=torch.int32, device=device)
                round = SamplingRound(
                    logits=logits,
                    drafts=drafts,
                    extents=(width - 1,) * rows,
                    distribution=None,
                    masks=masks.to(torch.int32) if masked else None,
                    states=((state,) * width,) * rows,
                    configs=(law,) * rows,
                    positions=(100,) * rows,
                    counts=counts if law.penalised else None,
                    kept_mass=(mask == "mass",) * rows,
                )
                took = milliseconds(partial(plan.run, round), arguments.repeats, device)
                print(
                    f"{name:22} {width:2} {mask:>5} {took:8.2f}"
                    f" {took / unit:9.2f} {took / yardstick:9.3f}"
                )


if __name__ == "__main__":
    main()
