"""What an option's value may be, said once for engines and for requests."""

from __future__ import annotations

import math

from infernix_core.errors import InvalidOption, Location


def is_count(value: object, least: int = 0) -> bool:
    """Whether a value is an integer of at least ``least``."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_number(value: object, low: float, high: float) -> bool:
    """Whether a value is a number in a range; NaN is in none."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and low <= value <= high  # type: ignore[operator]


def is_duration(value: object) -> bool:
    """Whether a value is a positive, finite number of seconds."""
    return is_number(value, 0, math.inf) and value not in (0, math.inf)


def impossible(name: str, value: object, accepted: str) -> InvalidOption:
    """The error for an option of that name."""
    return InvalidOption(f"{value!r} is not possible", location=Location(field=name), hint=accepted)
