"""Mixed batches: constrained and free requests side by side, against batches of one kind."""

from __future__ import annotations

from attrs import frozen

from infernix_bench.report import Column, Report, Stopwatch, median, shown
from infernix_bench.workload import RECORDS, Bench
from infernix_core.engine.request import GenerationResult
from infernix_core.interfaces.constraints import Grammar


@frozen
class MixedRow:
    """One batch's numbers.

    Attributes:
        constrained: Requests with a constraint; ``free`` those without.
        tokens_per_second: Of the batch, from the wall time.
        cpu_seconds: Of one run.
        constrained_rate: Tokens per second of one constrained request from its first token to its end, the
            median; ``None`` where there is none. ``free_rate`` likewise.
    """

    constrained: int
    free: int
    tokens_per_second: float
    cpu_seconds: float
    constrained_rate: float | None
    free_rate: float | None


def measure(bench: Bench) -> Report:
    """Every batch ``repeats`` times, in turns, after one run that is not counted."""
    lanes, grammar = bench.options.lanes, Grammar(RECORDS)
    mixes = (0, lanes // 2, lanes)
    batches = {mix: (grammar,) * mix + (None,) * (lanes - mix) for mix in mixes}
    runs: dict[int, list[tuple[Stopwatch, list[GenerationResult]]]] = {mix: [] for mix in mixes}
    for turn in range(bench.repeats + 1):
        for mix, batch in batches.items():
            with Stopwatch() as watch:
                results = bench.generate(batch)
            if turn:
                runs[mix].append((watch, results))
    return Report(
        name="mixed",
        title=f"mixed: {lanes} requests of {bench.tokens} tokens at once",
        columns=(
            Column("constrained + free", lambda row: f"{row.constrained} + {row.free}"),
            Column("tokens/s", lambda row: f"{row.tokens_per_second:.0f}"),
            Column("CPU s", lambda row: f"{row.cpu_seconds:.3f}"),
            Column("tokens/s of a constrained one", lambda row: shown(row.constrained_rate, ".0f")),
            Column("tokens/s of a free one", lambda row: shown(row.free_rate, ".0f")),
        ),
        records=[_row(mix, lanes - mix, runs[mix]) for mix in mixes],
    )


def _row(
    constrained: int, free: int, runs: list[tuple[Stopwatch, list[GenerationResult]]]
) -> MixedRow:
    tokens = sum(len(result.token_ids) for result in runs[0][1])
    rates: dict[bool, list[float]] = {True: [], False: []}
    for _, results in runs:
        for result in results:
            rate = (len(result.token_ids) - 1) / max(result.timings.decode, 1e-9)
            rates[result.constraint is not None].append(rate)
    return MixedRow(
        constrained=constrained,
        free=free,
        tokens_per_second=tokens / median(watch.wall for watch, _ in runs),
        cpu_seconds=median(watch.cpu for watch, _ in runs),
        constrained_rate=median(rates[True]) if rates[True] else None,
        free_rate=median(rates[False]) if rates[False] else None,
    )
