"""Decoding: this engine and transformers, free and constrained, one request and many, in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import field, frozen

from infernix_bench.reference import Reference
from infernix_bench.report import Column, Report, Stopwatch, median, shown
from infernix_bench.workload import RECORDS, SCHEMA, Bench
from infernix_core.interfaces.constraints import Grammar, JsonSchema, OutputConstraint

OURS, THEIRS = "infernix", "transformers"

#: What holds the outputs, by name. Masks of the one are asked of xgrammar, those of the other are look-ups.
CONSTRAINTS: Mapping[str | None, OutputConstraint | None] = {
    None: None,
    "gbnf": Grammar(RECORDS),
    "json schema": JsonSchema(SCHEMA, compact=True),
}


@frozen
class Case:
    """One way to generate.

    Attributes:
        constraint: Of :data:`CONSTRAINTS`.
        run: Generates, and gives the tokens of each request.
    """

    system: str
    requests: int
    constraint: str | None
    run: Callable[[], Sequence[Sequence[int]]] = field(eq=False)


@frozen
class DecodeRow:
    """One case's numbers.

    Attributes:
        requests: Requests at once.
        constraint: What holds the outputs.
        tokens: Tokens of one run, all requests together.
        wall_seconds: Of one run, prompts included; the median.
        cpu_seconds: See ``wall_seconds``.
        tokens_per_second: From the wall time.
        speedup: CPU time of transformers' run over this one's in the same turn, the median; ``None``
            without a reference of the same constraint.
        constraint_cost: CPU time over that of the unconstrained run in the same turn, less 1; ``None`` for
            the unconstrained ones.
        same_tokens: Share of the tokens before the first that differs from transformers'; ``None`` without.
    """

    system: str
    requests: int
    constraint: str | None
    tokens: int
    wall_seconds: float
    cpu_seconds: float
    tokens_per_second: float
    speedup: float | None
    constraint_cost: float | None
    same_tokens: float | None


def measure(bench: Bench) -> Report:
    """Runs every case ``repeats`` times, in turns, after one run that is not counted."""
    reference = Reference.load(bench, RECORDS)
    cases = _cases(bench, None if isinstance(reference, str) else reference)
    outputs = {case: case.run() for case in cases}
    times: dict[Case, list[Stopwatch]] = {case: [] for case in cases}
    for _ in range(bench.repeats):
        for case in cases:
            with Stopwatch() as watch:
                case.run()
            times[case].append(watch)
    return Report(
        name="decode",
        title=f"decode: {bench.tokens} tokens per request, greedy, prompts of "
        f"{len(bench.prompts[0].token_ids)} tokens included",
        columns=(
            Column("system", lambda row: row.system),
            Column("requests", lambda row: str(row.requests)),
            Column("constraint", lambda row: row.constraint or "none"),
            Column("tokens/s", lambda row: f"{row.tokens_per_second:.0f}"),
            Column("wall s", lambda row: f"{row.wall_seconds:.3f}"),
            Column("CPU s", lambda row: f"{row.cpu_seconds:.3f}"),
            Column("× transformers", lambda row: shown(row.speedup, ".2f")),
            Column("constraint cost", lambda row: shown(row.constraint_cost, "+.1%")),
            Column("same tokens", lambda row: shown(row.same_tokens, ".0%")),
        ),
        records=[_row(case, times, outputs) for case in cases],
        notes=[reference] if isinstance(reference, str) else [],
    )


def _cases(bench: Bench, reference: Reference | None) -> list[Case]:
    cases = []
    for count in (1, bench.options.lanes):
        prompts = [prompt.token_ids for prompt in bench.prompts[:count]]
        for name, constraint in CONSTRAINTS.items():

            def ours(
                count: int = count, constraint: OutputConstraint | None = constraint
            ) -> list[tuple[int, ...]]:
                return [each.token_ids for each in bench.generate((constraint,) * count)]

            cases.append(Case(OURS, count, name, ours))
            if reference is not None and name != "json schema":

                def theirs(
                    reference: Reference = reference,
                    prompts: Sequence[Sequence[int]] = prompts,
                    constrained: bool = name is not None,
                ) -> list[list[int]]:
                    return reference.generate(prompts, bench.tokens, constrained=constrained)

                cases.append(Case(THEIRS, count, name, theirs))
    return cases


def _row(
    case: Case,
    times: dict[Case, list[Stopwatch]],
    outputs: dict[Case, Sequence[Sequence[int]]],
) -> DecodeRow:
    def other(system: str, constraint: str | None) -> Case | None:
        wanted = (system, case.requests, constraint)
        return next((c for c in times if (c.system, c.requests, c.constraint) == wanted), None)

    own = times[case]
    tokens = sum(map(len, outputs[case]))
    reference, free = other(THEIRS, case.constraint), other(case.system, None)
    speedup = same = cost = None
    if reference is not None:
        pairs = zip(times[reference], own, strict=True)
        speedup = median(theirs.cpu / ours.cpu for theirs, ours in pairs)
        same = _agreement(outputs[reference], outputs[case])
    if case.constraint is not None and free is not None:
        pairs = zip(own, times[free], strict=True)
        cost = median(constrained.cpu / plain.cpu for constrained, plain in pairs) - 1
    wall = median(watch.wall for watch in own)
    return DecodeRow(
        system=case.system,
        requests=case.requests,
        constraint=case.constraint,
        tokens=tokens,
        wall_seconds=wall,
        cpu_seconds=median(watch.cpu for watch in own),
        tokens_per_second=tokens / wall,
        speedup=speedup,
        constraint_cost=cost,
        same_tokens=same,
    )


def _agreement(expected: Sequence[Sequence[int]], found: Sequence[Sequence[int]]) -> float:
    equal = 0
    for left, right in zip(expected, found, strict=True):
        for one, two in zip(left, right, strict=True):
            if one != two:
                break
            equal += 1
    return equal / sum(map(len, expected))
