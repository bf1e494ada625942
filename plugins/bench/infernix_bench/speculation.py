"""Speculative decoding: every backend and number of drafts against ordinary decoding, in turns, on whole requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from attrs import evolve, field, frozen

from infernix_bench.report import Column, Report, Stopwatch, median, shown
from infernix_bench.spec_tasks import TASKS, Task
from infernix_bench.workload import Bench
from infernix_core.descriptors import SpeculativeBackendPlugin
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.errors import InfernixError, InvalidOption, InvalidPrompt
from infernix_core.interfaces.sampling import SamplingOptions

#: Numbers of drafts that are tried, as far as a backend takes them.
DRAFTS = (1, 2, 3, 5, 7, 15)

ORDINARY = "ordinary"


@frozen
class Setting:
    """How an engine drafts.

    Attributes:
        backend: A plugin's name, with the copy source in front of it; or :data:`ORDINARY`.
        drafts: Most drafts of a row; 0 without a backend.
    """

    backend: str
    drafts: int
    engine: Engine = field(eq=False)


@frozen
class SpecRow:
    """One setting's numbers on one task.

    Attributes:
        requests: Requests at once.
        constrained: Whether masks were made.
        tokens: Of all outputs of one run.
        tokens_per_round: Output tokens for each round of a request.
        accepted: Of the rounds that drafted a first, a second, … token, the share in which it became output.
        draft_wait_seconds: Wall time that requests waited for drafts; requests of one round wait at once.
        mask_cpu_seconds: Of masks, lookahead and rollback.
        tokens_per_second: Behind the first token of each request; the median of the runs. With several
            requests at once from the time of the whole run.
        speedup: That rate over ordinary decoding's in the same turn, the median.
        cpu_speedup: CPU time of ordinary decoding's run over this one's in the same turn, prompts included.
    """

    backend: str
    drafts: int
    task: str
    requests: int
    constrained: bool
    tokens: int
    tokens_per_round: float
    accepted: tuple[float, ...]
    draft_wait_seconds: float
    mask_cpu_seconds: float
    tokens_per_second: float
    speedup: float
    cpu_speedup: float


@frozen
class Run:
    """All requests of a task, once."""

    watch: Stopwatch
    results: Sequence[GenerationResult]

    def rate(self, requests: int) -> float:
        """Tokens per second, see :class:`SpecRow`."""
        if requests > 1:
            return sum(len(result.token_ids) for result in self.results) / self.watch.wall
        later = sum(len(result.token_ids) - 1 for result in self.results)
        return later / max(sum(result.timings.decode for result in self.results), 1e-9)


def measure(bench: Bench) -> Report:
    """Runs every task with every setting ``repeats`` times, in turns, after one run that is not counted."""
    notes: list[str] = []
    records: list[SpecRow] = []
    with ExitStack() as stack:
        settings = []
        for setting in _settings(bench, notes):
            settings.append(setting)
            stack.enter_context(setting.engine)
        for task in TASKS:
            try:
                bench.engine.prepare(task.prompts()[0])
            except InvalidPrompt as error:
                notes.append(f"{task.name}: {error}")
                continue
            for requests in (1, bench.options.lanes):
                records += _rows(bench, settings, task, requests)
    return Report(
        name="spec",
        title=f"spec: {len(TASKS[0].contents)} requests of at most {bench.tokens} tokens for each task, greedy",
        columns=(
            Column("backend", lambda row: row.backend),
            Column("drafts", lambda row: str(row.drafts)),
            Column("task", lambda row: row.task),
            Column("requests", lambda row: str(row.requests)),
            Column("tokens/round", lambda row: f"{row.tokens_per_round:.2f}"),
            Column("accepted by position", lambda row: _positions(row.accepted)),
            Column("draft s", lambda row: f"{row.draft_wait_seconds:.3f}"),
            Column("mask s", lambda row: f"{row.mask_cpu_seconds:.3f}"),
            Column("tokens/s", lambda row: f"{row.tokens_per_second:.0f}"),
            Column("× ordinary", lambda row: shown(row.speedup, ".2f")),
            Column("CPU", lambda row: shown(row.cpu_speedup, ".2f")),
        ),
        records=records,
        notes=notes,
    )


def _settings(bench: Bench, notes: list[str]) -> Iterator[Setting]:
    """Ordinary decoding, then each backend with each number of drafts that it takes."""
    plain = evolve(
        bench.options,
        spec=None,
        draft_tokens=None,
        ngram_draft_tokens=0,
        ngram_min_match=None,
        drafter=None,
    )
    yield Setting(ORDINARY, 0, _engine(bench, plain))
    chosen = bench.options.spec
    for plugin in bench.registry.all(SpeculativeBackendPlugin):
        if chosen is not None and plugin.name != chosen:
            continue
        # A drafter and a copy source belong to the backend that they were named for.
        base = bench.options if chosen is not None else plain
        copies = base.ngram_draft_tokens
        # Copies are longer than the drafts behind them, or they are refused.
        swept = tuple(count for count in DRAFTS if count < copies) if copies > 1 else DRAFTS
        counts = (base.draft_tokens,) if base.draft_tokens is not None else swept
        copied = f"{copies} copied, " if copies else ""
        for count in counts:
            options = evolve(base, spec=plugin.name, draft_tokens=count)
            try:
                yield Setting(f"{copied}{plugin.name}", count, _engine(bench, options))
            except InfernixError as error:
                if base.draft_tokens is None and _is_number_of_drafts(error):
                    continue
                if chosen is not None:
                    raise
                notes.append(f"{plugin.name}: {error}")
                break


def _is_number_of_drafts(error: InfernixError) -> bool:
    """Whether a backend does not take this number of drafts."""
    located = error.location if isinstance(error, InvalidOption) else None
    return located is not None and located.field == "draft_tokens"


def _engine(bench: Bench, options: EngineOptions) -> Engine:
    return Engine.load(bench.directory, options=options, registry=bench.registry, model=bench.model)


def _rows(bench: Bench, settings: Sequence[Setting], task: Task, requests: int) -> list[SpecRow]:
    runs: dict[Setting, list[Run]] = {setting: [] for setting in settings}
    for turn in range(bench.repeats + 1):
        for setting in settings:
            run = _run(setting.engine, task, requests, bench.tokens)
            if turn:
                runs[setting].append(run)
    ordinary = runs[settings[0]]
    return [_row(setting, task, requests, runs[setting], ordinary) for setting in settings]


def _run(engine: Engine, task: Task, requests: int, tokens: int) -> Run:
    prompts = [engine.prepare(prompt) for prompt in task.prompts()]
    options = RequestOptions(
        constraint=task.constraint,
        tool_choice=task.tool_choice,
        sampling=SamplingOptions(greedy=True, presence_penalty=0.0, frequency_penalty=0.0),
        max_tokens=tokens,
    )
    results = []
    with Stopwatch() as watch:
        for start in range(0, len(prompts), requests):
            handles = [engine.submit(each, options) for each in prompts[start : start + requests]]
            results += [handle.wait().raise_for_error() for handle in handles]
    return Run(watch, results)


def _row(
    setting: Setting, task: Task, requests: int, own: Sequence[Run], ordinary: Sequence[Run]
) -> SpecRow:
    results = own[-1].results
    tokens = sum(len(result.token_ids) for result in results)
    pairs = list(zip(own, ordinary, strict=True))
    return SpecRow(
        backend=setting.backend,
        drafts=setting.drafts,
        task=task.name,
        requests=requests,
        constrained=task.constrained,
        tokens=tokens,
        tokens_per_round=tokens / sum(result.usage.rounds for result in results),
        accepted=_accepted(results),
        draft_wait_seconds=median(
            sum(result.timings.drafts for result in run.results) for run in own
        ),
        mask_cpu_seconds=median(
            sum(r.constraint.mask_cpu_seconds for r in run.results if r.constraint is not None)
            for run in own
        ),
        tokens_per_second=median(run.rate(requests) for run in own),
        speedup=median(run.rate(requests) / plain.rate(requests) for run, plain in pairs),
        cpu_speedup=median(plain.watch.cpu / run.watch.cpu for run, plain in pairs),
    )


def _accepted(results: Sequence[GenerationResult]) -> tuple[float, ...]:
    """Share of the drafts of each position that became output, over all requests."""
    totals: list[list[int]] = []
    for result in results:
        for index, (drafted, accepted) in enumerate(result.usage.drafts_by_position):
            if index == len(totals):
                totals.append([0, 0])
            totals[index][0] += drafted
            totals[index][1] += accepted
    return tuple(accepted / drafted for drafted, accepted in totals)


def _positions(shares: Sequence[float]) -> str:
    """At most seven of them, in percent."""
    shown_shares = " ".join(f"{100 * share:.0f}" for share in shares[:7])
    return shown_shares + (" …" if len(shares) > 7 else "")
