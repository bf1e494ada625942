"""Whose sampling value wins: the caller's, then the checkpoint's, then the neutral one."""

from __future__ import annotations

import math

import pytest

from infernix_core.engine.sampling_defaults import resolve_sampling
from infernix_core.errors import InvalidOption
from infernix_core.interfaces.sampling import SamplingConfig, SamplingOptions

CARD = SamplingOptions(
    temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5, frequency_penalty=0.25
)


def test_unset_options_take_the_checkpoints_values() -> None:
    config = resolve_sampling(SamplingOptions(seed=3), CARD, constrained=False)
    assert config == SamplingConfig(
        temperature=0.7, top_k=20, top_p=0.8, presence_penalty=1.5, frequency_penalty=0.25, seed=3
    )


def test_without_any_default_the_law_is_the_models_own() -> None:
    config = resolve_sampling(SamplingOptions(seed=0), SamplingOptions(), constrained=False)
    assert config == SamplingConfig(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)


def test_a_constraint_drops_the_presets_penalties_and_keeps_the_callers() -> None:
    dropped = resolve_sampling(SamplingOptions(), CARD, constrained=True)
    assert (dropped.presence_penalty, dropped.frequency_penalty) == (0.0, 0.0)
    kept = resolve_sampling(SamplingOptions(presence_penalty=0.5), CARD, constrained=True)
    assert (kept.presence_penalty, kept.frequency_penalty) == (0.5, 0.0)


def test_greedy_of_the_caller_and_of_the_checkpoint() -> None:
    assert resolve_sampling(SamplingOptions(greedy=True), CARD, constrained=False).temperature == 0
    greedy = SamplingOptions(greedy=True, temperature=0.6)
    assert resolve_sampling(SamplingOptions(), greedy, constrained=False).temperature == 0
    asked = resolve_sampling(SamplingOptions(temperature=0.9), greedy, constrained=False)
    assert asked.temperature == 0.9


def test_unseeded_requests_differ() -> None:
    seeds = {resolve_sampling(SamplingOptions(), CARD, constrained=False).seed for _ in range(20)}
    assert len(seeds) == 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", "hot"),
        ("top_p", 0.0),
        ("top_p", 1.5),
        ("min_p", -1),
        ("min_p", 2),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_k", True),
        ("seed", -1),
        ("presence_penalty", math.nan),
        ("frequency_penalty", math.inf),
    ],
)
def test_impossible_values_are_named(name: str, value: object) -> None:
    with pytest.raises(InvalidOption, match=name):
        resolve_sampling(SamplingOptions(**{name: value}), CARD, constrained=False)


def test_greedy_contradicts_a_temperature() -> None:
    with pytest.raises(InvalidOption, match="greedy contradicts temperature"):
        resolve_sampling(SamplingOptions(greedy=True, temperature=0.5), CARD, constrained=False)
