"""Resolves a request's sampling options: caller, then checkpoint or family, then neutral values."""

from __future__ import annotations

import secrets

from infernix_core.engine.option_checks import impossible, is_count, is_number
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.sampling import SamplingConfig, SamplingOptions

_BOUNDS = {
    "temperature": (0.0, 1e6, "between 0 and 1000000"),
    "top_p": (0.0, 1.0, "above 0 and at most 1"),
    "min_p": (0.0, 1.0, "between 0 and 1"),
    "presence_penalty": (-1000.0, 1000.0, "between -1000 and 1000"),
    "frequency_penalty": (-1000.0, 1000.0, "between -1000 and 1000"),
}


def check_options(options: SamplingOptions) -> None:
    """Refuses impossible values by name.

    Raises:
        InvalidOption: Names the option, the value, and what is accepted.
    """
    for name, (low, high, accepted) in _BOUNDS.items():
        value = getattr(options, name)
        if value is None:
            continue
        if not is_number(value, low, high) or (name == "top_p" and value == 0):
            raise impossible(name, value, accepted)
    if not isinstance(options.greedy, bool):
        raise impossible("greedy", options.greedy, "true or false")
    for name in ("top_k", "seed"):
        value = getattr(options, name)
        if value is not None and not is_count(value):
            raise impossible(name, value, "an integer of at least 0")
    if options.seed is not None and options.seed >= 2**64:
        raise InvalidOption(
            f"{options.seed} has more than 64 bits",
            location=Location(field="seed"),
            hint="below 2**64",
        )
    if options.greedy and options.temperature:
        raise InvalidOption(
            f"greedy contradicts temperature {options.temperature}",
            location=Location(field="greedy"),
            hint="give one of them",
        )


def resolve_sampling(
    options: SamplingOptions, defaults: SamplingOptions, *, constrained: bool
) -> SamplingConfig:
    """The sampling law of one request.

    A default's penalties are dropped under a content constraint: the language repeats its structure by
    construction, and a penalty would push the model off it through legal but unwanted tokens. Penalties of
    the caller stay.

    Raises:
        InvalidOption: A value of the caller's is impossible.
    """
    check_options(options)

    def pick(name: str, neutral: float) -> float:
        value = getattr(options, name)
        if value is None and not (constrained and name.endswith("_penalty")):
            value = getattr(defaults, name)
        return neutral if value is None else value

    greedy = options.greedy or (options.temperature is None and defaults.greedy)
    return SamplingConfig(
        temperature=0.0 if greedy else float(pick("temperature", 1.0)),
        top_k=int(pick("top_k", 0)),
        top_p=float(pick("top_p", 1.0)),
        min_p=float(pick("min_p", 0.0)),
        presence_penalty=float(pick("presence_penalty", 0.0)),
        frequency_penalty=float(pick("frequency_penalty", 0.0)),
        seed=secrets.randbits(64) if options.seed is None else options.seed,
    )
