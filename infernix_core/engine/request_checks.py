"""Checks of a request that need no model: types, ranges, and combinations that contradict each other."""

from __future__ import annotations

from infernix_core.engine.option_checks import impossible, is_count, is_duration
from infernix_core.engine.request import RequestOptions
from infernix_core.engine.sampling_defaults import check_options
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.sampling import SamplingOptions


def check_request(options: RequestOptions, *, chat: bool) -> None:
    """Refuses impossible options by name.

    Args:
        options: The request's options.
        chat: Whether the prompt is a chat, whose constraint owns the output's framing.

    Raises:
        InvalidOption: Names the option, the value, and what is accepted.
    """
    if options.constraint is not None and not isinstance(options.constraint, OutputConstraint):
        raise InvalidOption(
            f"{options.constraint!r} is no constraint",
            location=Location(field="constraint"),
            hint="one of Grammar, JsonObject, JsonSchema, Choice, Regex",
        )
    if not isinstance(options.sampling, SamplingOptions):
        raise InvalidOption("not SamplingOptions", location=Location(field="sampling"))
    check_options(options.sampling)
    for name in ("max_tokens", "draft_limit"):
        value = getattr(options, name)
        if value is not None and not is_count(value):
            raise impossible(name, value, "an integer of at least 0")
    for token in options.stop_token_ids:
        if not is_count(token):
            raise impossible("stop_token_ids", token, "token ids")
    for name in ("raw_output", "constraint_stats"):
        value = getattr(options, name)
        if not isinstance(value, bool):
            raise impossible(name, value, "true or false")
    timeout = options.pending_timeout
    if timeout is not None and not is_duration(timeout):
        raise impossible("pending_timeout", timeout, "seconds, more than 0")
    StopStrings(options.stop)
    if options.constraint is not None:
        _check_alone(options, chat=chat)
    elif options.constraint_stats:
        raise InvalidOption(
            "there is no constraint whose statistics could be reported",
            location=Location(field="constraint_stats"),
            hint="leave out constraint_stats or give a constraint",
        )


def _check_alone(options: RequestOptions, *, chat: bool) -> None:
    """A constraint's own end ends the output, so nothing else may."""
    for name, given in (
        ("stop", bool(options.stop)),
        ("stop_token_ids", bool(options.stop_token_ids)),
        ("raw_output", options.raw_output and chat),
    ):
        if given:
            raise InvalidOption(
                "cannot be combined with a constraint, whose own end ends the output",
                location=Location(field=name),
                hint=f"leave out {name} or the constraint",
            )
