"""Checks of a request that need no model: types, ranges, and combinations that contradict each other."""

from __future__ import annotations

from collections.abc import Sequence

from infernix_core.engine.option_checks import impossible, is_count, is_duration
from infernix_core.engine.request import RequestOptions
from infernix_core.engine.sampling_defaults import check_options
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.constraints import JsonObject, JsonSchema, OutputConstraint
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import (
    ToolChoice,
    ToolConstraints,
    ToolDeclaration,
    ToolMode,
)


def check_request(options: RequestOptions, *, chat: bool) -> None:
    """Refuses impossible options by name. :func:`check_tools` does the rest, once the prompt's tools are known.

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
    _check_tool_choice(options.tool_choice)
    if options.thinking_budget is not None:
        _check_thinking_budget(options, chat=chat)
    if options.constraint is not None:
        _check_alone(options, "a constraint", "the constraint")
        if options.raw_output and chat:
            raise _contradiction("raw_output", "a constraint", "the constraint")


def check_tools(options: RequestOptions, tools: Sequence[ToolDeclaration]) -> None:
    """Refuses by name what options cannot ask for where these tools are declared.

    Args:
        options: What :func:`check_request` has let through.
        tools: What the prompt declares; only a chat declares any.

    Raises:
        InvalidOption: Names the option, what it contradicts, and what would be accepted.
    """
    choice = options.tool_choice
    _check_names(choice, tools)
    active = choice.active(tools)
    if (
        active
        and options.constraint is not None
        and not isinstance(options.constraint, JsonObject | JsonSchema)
    ):
        raise InvalidOption(
            f"a constraint of kind {options.constraint.kind} cannot stand beside tools that may be called",
            location=Location(field="constraint"),
            hint="JSON constraints go with tools; with mode none the others do too",
        )
    if (enforced := _enforced_calls(choice, active)) is not None:
        _check_alone(options, enforced, "leave calls free: mode auto, nothing strict")
    constrained = choice.constrains(tools)
    if options.raw_output and constrained:
        raise InvalidOption(
            "raw output cannot tell the calls that the output is constrained for",
            location=Location(field="raw_output"),
            hint="leave out raw_output, or choose automatic tool constraints and enforce nothing of a call",
        )
    if options.constraint_stats and options.constraint is None and not constrained:
        raise InvalidOption(
            "there is no constraint whose statistics could be reported",
            location=Location(field="constraint_stats"),
            hint="leave out constraint_stats or give a constraint",
        )


def check_budget(budget: int, *, control: int, limit: int) -> None:
    """Refuses a thinking budget that leaves no output for an answer.

    Args:
        budget: Tokens of reasoning.
        control: Tokens that close the reasoning when the budget is used up.
        limit: Most tokens of output.

    Raises:
        InvalidOption: Gives the numbers.
    """
    if budget + control < limit:
        return
    hint = f"{budget + control + 1} output tokens at least"
    if limit > control:
        hint = f"at most {limit - control - 1}, or {hint}"
    raise InvalidOption(
        f"{budget} tokens of reasoning and the {control} that close it leave none of {limit} output tokens "
        "for an answer",
        location=Location(field="thinking_budget"),
        hint=hint,
    )


def _check_tool_choice(choice: object) -> None:
    if not isinstance(choice, ToolChoice):
        raise InvalidOption(
            f"{choice!r} is no ToolChoice",
            location=Location(field="tool_choice"),
            hint="such as ToolChoice(ToolMode.REQUIRED)",
        )
    for value, kind in ((choice.mode, ToolMode), (choice.constraints, ToolConstraints)):
        if not isinstance(value, kind):
            names = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
            raise impossible("tool_choice", value, f"one of {names}")
    if not isinstance(choice.parallel, bool):
        raise impossible("tool_choice", choice.parallel, "true or false for parallel")
    for name in choice.allowed_names or ():
        if not isinstance(name, str):
            raise impossible("tool_choice", name, "allowed names are strings")
    if choice.allowed_names == ():
        raise InvalidOption(
            "the list of allowed names is empty",
            location=Location(field="tool_choice"),
            hint="leave it out to allow every tool; mode none forbids calls",
        )


def _check_thinking_budget(options: RequestOptions, *, chat: bool) -> None:
    if not is_count(options.thinking_budget):
        raise impossible("thinking_budget", options.thinking_budget, "an integer of at least 0")
    if not chat:
        raise InvalidOption(
            "a raw prompt has no reasoning that could be limited",
            location=Location(field="thinking_budget"),
            hint="leave out thinking_budget, or ask as a chat",
        )
    if options.raw_output:
        raise InvalidOption(
            "raw output does not tell reasoning apart, so it cannot be limited",
            location=Location(field="thinking_budget"),
            hint="leave out thinking_budget or raw_output",
        )


def _check_names(choice: ToolChoice, tools: Sequence[ToolDeclaration]) -> None:
    """Whether what is asked for by name, or at all, is declared."""
    if not tools and (choice.mode is ToolMode.REQUIRED or choice.allowed_names is not None):
        asked = "names tools" if choice.allowed_names is not None else "requires a call"
        raise InvalidOption(
            f"it {asked}, and the prompt declares none",
            location=Location(field="tool_choice"),
            hint="declare tools with the prompt, or leave out tool_choice",
        )
    declared = [tool.name for tool in tools]
    for name in choice.allowed_names or ():
        if name not in declared:
            raise InvalidOption(
                f"the prompt declares no tool {name!r}",
                location=Location(field="tool_choice"),
                hint="it declares " + ", ".join(map(repr, declared)),
            )


def _enforced_calls(choice: ToolChoice, active: Sequence[ToolDeclaration]) -> str | None:
    """What of calls is guaranteed, so that nothing but the language's end may end the output."""
    if not active:
        return None
    if choice.mode is ToolMode.REQUIRED:
        return "a required call"
    strict = next((tool for tool in active if tool.strict), None)
    return f"the strict tool {strict.name!r}" if strict is not None else None


def _check_alone(options: RequestOptions, what: str, instead: str) -> None:
    """What is guaranteed has its own end, so nothing else may end the output."""
    for name in ("stop", "stop_token_ids"):
        if getattr(options, name):
            raise _contradiction(name, what, instead)


def _contradiction(name: str, what: str, instead: str) -> InvalidOption:
    return InvalidOption(
        f"cannot be combined with {what}, whose own end ends the output",
        location=Location(field=name),
        hint=f"leave out {name} or {instead}",
    )
