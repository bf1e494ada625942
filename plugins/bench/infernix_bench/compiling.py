"""Compilation: each kind of constraint built for the first time, and found again."""

from __future__ import annotations

from functools import partial

from attrs import frozen

from infernix_bench.report import Column, Report, Stopwatch, duration, median
from infernix_bench.workload import SHAPES, Bench
from infernix_core.engine.grammar_cache import GrammarCache
from infernix_core.interfaces.frontend import OutputRequest
from infernix_core.interfaces.mask_provider import BoundMaskProvider


@frozen
class CompileRow:
    """One kind's numbers: medians of wall seconds.

    Attributes:
        cold: Compiled by a provider that has seen nothing but the vocabulary.
        warm: Looked up in the engine's cache.
        bytes: What the compiled grammar holds before any mask.
    """

    kind: str
    cold: float
    warm: float
    bytes: int


def _given(bound: BoundMaskProvider) -> BoundMaskProvider:
    return bound


def measure(bench: Bench) -> Report:
    """Every kind ``repeats`` times, in turns, each cold build with a fresh provider."""
    model = bench.engine.model
    binding: list[float] = []
    cold: dict[str, list[float]] = {shape.name: [] for shape in SHAPES}
    warm: dict[str, list[float]] = {shape.name: [] for shape in SHAPES}
    sizes: dict[str, int] = {}
    for _ in range(bench.repeats):
        for shape in SHAPES:
            language = model.language(bench.prompts[0], OutputRequest(shape.constraint))
            assert language is not None
            with Stopwatch() as watch:
                bound = bench.provider.bind(model.vocabulary)
            binding.append(watch.wall)
            capacity, words = bench.options.grammar_cache_bytes, model.vocabulary.words
            cache = GrammarCache(partial(_given, bound), capacity, words)
            with Stopwatch() as watch:
                found = cache.get(language)
            cold[shape.name].append(watch.wall)
            with Stopwatch() as watch:
                cache.get(language)
            warm[shape.name].append(watch.wall)
            sizes[shape.name] = found.grammar.memory_size
    index = median(binding)
    return Report(
        name="compile",
        title=f"compile: a vocabulary of {model.vocabulary.size} tokens",
        columns=(
            Column("constraint", lambda row: row.kind),
            Column("cold", lambda row: duration(row.cold)),
            Column("warm", lambda row: duration(row.warm)),
            Column("memory", lambda row: f"{row.bytes / 1e3:.0f} kB"),
        ),
        records=[
            CompileRow(name, median(cold[name]), median(warm[name]), sizes[name]) for name in cold
        ],
        notes=[f"once per engine, indexing the vocabulary: {duration(index)}"],
        extra={"index_seconds": index},
    )
