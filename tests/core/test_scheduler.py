"""Which unit runs next."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from infernix_core.engine.resident import Stage
from infernix_core.engine.scheduler import (
    CloseUnit,
    DecodeUnit,
    FirstTokenUnit,
    PrefillUnit,
    Scheduler,
)


def request(stage: Stage, length: int = 10) -> Any:
    return SimpleNamespace(stage=stage, prompt_length=length, prefilled=0)


def run(scheduler: Scheduler, residents: list[Any]) -> list[Any]:
    """Units until every prompt has its first token; what each unit does is done to the requests."""
    units = []
    while any(r.stage is not Stage.DECODE for r in residents):
        unit = scheduler.next(residents)
        units.append(unit)
        if isinstance(unit, PrefillUnit):
            unit.request.prefilled = unit.stop
            if unit.stop == unit.request.prompt_length:
                unit.request.stage = Stage.FIRST
        elif isinstance(unit, FirstTokenUnit):
            unit.request.stage = Stage.DECODE
    return units


def test_a_prompt_runs_in_chunks_and_its_first_token_follows_at_once() -> None:
    prompt = request(Stage.PREFILL, 20)
    units = run(Scheduler(8), [prompt])
    assert [(u.start, u.stop) for u in units[:-1]] == [(0, 8), (8, 16), (16, 20)]
    assert isinstance(units[-1], FirstTokenUnit)


def test_chunks_and_decode_rounds_take_turns() -> None:
    prompt, running = request(Stage.PREFILL, 32), request(Stage.DECODE)
    kinds = [type(unit) for unit in run(Scheduler(8), [prompt, running])]
    assert kinds == [PrefillUnit, DecodeUnit] * 3 + [PrefillUnit, FirstTokenUnit]


def test_prompts_take_turns() -> None:
    prompts = [request(Stage.PREFILL, 16) for _ in range(3)]
    units = [u for u in run(Scheduler(8), prompts) if isinstance(u, PrefillUnit)]
    assert all(unit.request is prompt for unit, prompt in zip(units, prompts, strict=False))


def test_a_closing_text_takes_turns_with_rounds_and_prompts() -> None:
    closing, prompt, running = request(Stage.CLOSE), request(Stage.PREFILL), request(Stage.DECODE)
    scheduler = Scheduler(8)
    residents = [closing, prompt, running]
    units = [scheduler.next(residents) for _ in range(4)]
    assert [type(unit) for unit in units] == [CloseUnit, DecodeUnit, PrefillUnit, DecodeUnit]
    assert units[0].requests == (closing,)
    assert all(unit.requests == (running,) for unit in units[1::2])
    assert [type(scheduler.next([closing])) for _ in range(3)] == [CloseUnit] * 3


def test_a_round_takes_every_decode_ready_row() -> None:
    rows = [request(Stage.DECODE) for _ in range(3)]
    unit = Scheduler(8).next([rows[0], request(Stage.WAITING), rows[1], rows[2]])
    assert isinstance(unit, DecodeUnit)
    assert unit.requests == tuple(rows)


def test_nothing_to_do_is_no_unit() -> None:
    assert Scheduler(8).next([]) is None
