"""The ways to draft that ship, and how tests mix them with everything else."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from attrs import frozen
from safetensors.torch import load_file, save_file

from infernix_core.descriptors import BundledCheckpoint
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.interfaces.frontend import LoadedModel
from infernix_core.plugins import PluginRegistry

torch.set_num_threads(1)

REGISTRY = PluginRegistry.discover()


@frozen
class Drafts:
    """A backend, its numbers of drafts from the least to the most, and copies in front of it.

    Attributes:
        counts: The least, one between, and the most.
        one_hot: Whether drafts are certain, so that texts are those of ordinary decoding.
    """

    name: str
    spec: str
    counts: tuple[int, int, int]
    options: Mapping[str, Any]
    one_hot: bool = True


#: Copies of four equal tokens come up even in short outputs. In front they are longer than any drafts behind them.
SHORT = {"ngram_min_match": 4}
COPIES = {"ngram_draft_tokens": 15, **SHORT}
DRAFTS = (
    Drafts("ngram", "ngram", (1, 4, 15), SHORT),
    Drafts("mtp", "mtp", (1, 3, 5), {}),
    Drafts("dflash", "dflash", (1, 7, 15), {}),
    Drafts("dflash2", "dflash2", (1, 7, 15), {}, one_hot=False),
    Drafts("ngram before mtp", "mtp", (1, 3, 5), COPIES),
    Drafts("ngram before dflash2", "dflash2", (1, 7, 14), COPIES, one_hot=False),
)


def demo_directory() -> Path:
    """The bundled checkpoint, with its drafters."""
    (default,) = [c for c in REGISTRY.all(BundledCheckpoint) if c.default]
    return default.path()


def randomised(directory: Path, seed: int = 1) -> Path:
    """The bundled checkpoint with noise for all weights, those of its drafters included."""
    shutil.copytree(demo_directory(), directory)
    generator = torch.Generator().manual_seed(seed)
    for path in sorted(directory.rglob("*.safetensors")):
        noise = {}
        for name, tensor in load_file(path).items():
            scale = 0.3 if tensor.dim() < 2 else tensor[0].numel() ** -0.5
            noise[name] = (torch.randn(tensor.shape, generator=generator) * scale).to(tensor.dtype)
        save_file(noise, path)
    return directory


def make_engine(
    directory: Path, model: LoadedModel, drafts: Drafts | None, count: int = 0, **options: Any
) -> Engine:
    """An engine of a loaded model that drafts this way, or not at all."""
    chosen = EngineOptions(max_context=512, queue_limit=200, **options)
    if drafts is not None:
        chosen = EngineOptions(
            max_context=512,
            queue_limit=200,
            spec=drafts.spec,
            draft_tokens=count,
            **{**drafts.options, **options},
        )
    return Engine.load(directory, options=chosen, registry=REGISTRY, model=model)


def pairwise(*factors: Sequence[Any], seed: int = 0) -> list[tuple[Any, ...]]:
    """Few combinations in which every two values of two factors meet: greedily the one with most new pairs."""
    rng = random.Random(seed)
    indices = [range(len(factor)) for factor in factors]
    missing = {
        (a, i, b, j)
        for a, b in itertools.combinations(range(len(factors)), 2)
        for i, j in itertools.product(indices[a], indices[b])
    }
    rows = []

    def pairs(row: Sequence[int]) -> Iterator[tuple[int, int, int, int]]:
        for a, b in itertools.combinations(range(len(row)), 2):
            yield a, row[a], b, row[b]

    while missing:
        a, i, b, j = min(missing)
        best: tuple[int, ...] = ()
        gain = -1
        for _ in range(30):
            row = [rng.choice(index) for index in indices]
            row[a], row[b] = i, j
            new = sum(pair in missing for pair in pairs(row))
            if new > gain:
                best, gain = tuple(row), new
        rows.append(tuple(factor[index] for factor, index in zip(factors, best, strict=True)))
        missing -= set(pairs(best))
    return rows
