"""Sampling defaults: the checkpoint's ``generation_config.json`` over the family's presets."""

from __future__ import annotations

import logging
import re
from typing import Any

from attrs import evolve

from infernix_core.checkpoint_files import Keys
from infernix_core.interfaces.frontend import StartPhase
from infernix_core.interfaces.sampling import SamplingOptions

FILE = "generation_config.json"

_log = logging.getLogger(__name__)

#: The model cards' presets for text.
THINKING = SamplingOptions(temperature=1.0, top_p=0.95, top_k=20, min_p=0.0, presence_penalty=1.5)
DIRECT = SamplingOptions(temperature=0.7, top_p=0.8, top_k=20, min_p=0.0, presence_penalty=1.5)
DIRECT_SMALL = SamplingOptions(
    temperature=1.0, top_p=1.0, top_k=20, min_p=0.0, presence_penalty=2.0
)

#: Raw continuation belongs to no mode of the cards: generation_config's usual values, unpenalised.
RAW = evolve(THINKING, presence_penalty=0.0)

#: The hidden size of the 2B model. The cards of dense models up to it have a preset of their own; the 35B
#: mixture of experts is as wide and has that of the large models.
SMALL_HIDDEN_SIZE = 2048


def preset(
    phase: StartPhase, name: str, hidden_size: int, *, mixture: bool = False
) -> SamplingOptions:
    """The family's preset for a prompt's mode.

    Args:
        phase: REASONING is the thinking mode, CONTENT the direct one.
        name: The checkpoint's name; 3.8 shares 3.5's architecture, but its card drops the penalty.
        hidden_size: Tells the small models apart.
        mixture: Whether it is a mixture of experts.
    """
    if phase is StartPhase.RAW:
        return RAW
    if phase is StartPhase.CONTENT:
        small = hidden_size <= SMALL_HIDDEN_SIZE and not mixture
        return DIRECT_SMALL if small else DIRECT
    return evolve(THINKING, presence_penalty=0.0) if re.search(r"3[._]8", name) else THINKING


def checkpoint_options(document: dict[str, Any]) -> SamplingOptions:
    """What ``generation_config.json`` sets; ``None`` where it says nothing.

    Raises:
        CheckpointError: A value is impossible.
    """
    keys = Keys(document, FILE)
    values: dict[str, Any] = {}
    bounds = {
        "temperature": (0.0, 1e4, "at least 0"),
        "top_p": (1e-9, 1.0, "above 0 and at most 1"),
        "min_p": (0.0, 1.0, "between 0 and 1"),
        "presence_penalty": (-100.0, 100.0, "a number"),
    }
    for key, (low, high, expected) in bounds.items():
        value = document.get(key)
        if value is None:
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value <= high
        ):
            raise keys.wrong(key, value, expected)
        values[key] = float(value)
    if keys.has("top_k"):
        values["top_k"] = keys.integer("top_k", minimum=0)
    if document.get("repetition_penalty", 1.0) not in (1, None):
        # Loading goes on: the family's own lever is the presence penalty, and its files say 1.0 here.
        _log.warning("%s: 'repetition_penalty' is not supported and has no effect", FILE)
    return SamplingOptions(greedy=not keys.flag("do_sample", True), **values)


def over(checkpoint: SamplingOptions, family: SamplingOptions) -> SamplingOptions:
    """The checkpoint's settings where it has any, else the family's."""
    names = ("temperature", "top_k", "top_p", "min_p", "presence_penalty")
    given = {name: getattr(checkpoint, name) for name in names}
    merged = {name: value for name, value in given.items() if value is not None}
    return evolve(family, greedy=checkpoint.greedy, **merged)
