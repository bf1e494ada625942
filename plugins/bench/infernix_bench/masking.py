"""Masks: what one position costs, from the first of a fresh grammar on."""

from __future__ import annotations

import time

import numpy as np
from attrs import frozen

from infernix_bench.report import Column, Report, duration, median, percentile
from infernix_bench.workload import SHAPES, Bench
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.language import Content
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.spelling import spelt


@frozen
class MaskRow:
    """One kind's numbers, in wall seconds; all but ``accept`` are of fills.

    Attributes:
        first: The first position of a grammar that was just compiled.
        worst: Of every walk, the first walk over a fresh grammar included.
        accept: Median of an accept.
    """

    kind: str
    positions: int
    first: float
    p50: float
    p99: float
    worst: float
    accept: float


def measure(bench: Bench) -> Report:
    """Walks a fresh matcher along each kind's text, again and again over one compiled grammar."""
    vocabulary = bench.engine.model.vocabulary
    rows = [_row(bench, vocabulary, index) for index in range(len(SHAPES))]
    return Report(
        name="masks",
        title=f"masks: one position over {vocabulary.size} tokens",
        columns=(
            Column("constraint", lambda row: row.kind),
            Column("positions", lambda row: str(row.positions)),
            Column("first", lambda row: duration(row.first)),
            Column("p50", lambda row: duration(row.p50)),
            Column("p99", lambda row: duration(row.p99)),
            Column("worst", lambda row: duration(row.worst)),
            Column("accept p50", lambda row: duration(row.accept)),
        ),
        records=rows,
        notes=[f"{bench.repeats} walks per constraint; the first one visits every state anew"],
    )


def _row(bench: Bench, vocabulary: Vocabulary, index: int) -> MaskRow:
    shape = SHAPES[index]
    tokens = spelt(shape.text.encode(), vocabulary)
    compiled = bench.provider.bind(vocabulary).compile(Content(shape.constraint))
    row = np.zeros(vocabulary.words, dtype=np.int32)
    fills: list[float] = []
    accepts: list[float] = []
    for _ in range(bench.repeats):
        matcher = compiled.start()
        for token in (*tokens, None):
            started = time.perf_counter()
            matcher.fill(row)
            fills.append(time.perf_counter() - started)
            if token is None:
                break
            started = time.perf_counter()
            accepted = matcher.accept(token)
            accepts.append(time.perf_counter() - started)
            if not accepted:
                raise IntegrityError(f"{shape.name}: token {token} of its own text was refused")
    return MaskRow(
        kind=shape.name,
        positions=len(fills),
        first=fills[0],
        p50=median(fills),
        p99=percentile(fills, 0.99),
        worst=max(fills),
        accept=median(accepts),
    )
