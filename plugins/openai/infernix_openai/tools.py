"""Tools of a chat request: what it declares, what it allows of them, and where the wire says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from infernix_core.errors import InvalidOption, Location
from infernix_core.interfaces.tools import ToolChoice, ToolConstraints, ToolMode
from infernix_http.json_body import json_kind, shown

NESTED = '{"type": "function", "function": {"name": "...", "parameters": {...}}}'
NAMED = '{"type": "function", "function": {"name": "..."}}'
ALLOWED = f'{{"type": "allowed_tools", "allowed_tools": {{"mode": "auto", "tools": [{NAMED}]}}}}'
MODES = tuple(mode.value for mode in ToolMode)

#: Members of a function that stand beside it in other protocols. There they would be passed over, and with them what
#: they ask for.
INSIDE = ("name", "parameters", "strict")


def check_tools(tools: Any) -> None:
    """Refuses tools that are not in this protocol's form. What is in the functions, the model's frontend reads.

    Raises:
        InvalidOption: Names the member.
    """
    if not isinstance(tools, list):
        return
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            continue
        where = f"tools[{index}]"
        _check_kind(tool, where, NESTED)
        if tool.get("function") is None:
            raise _refused(f"{where}.function", "is missing", NESTED)
        for name in INSIDE:
            if tool.get(name) is not None:
                raise _refused(f"{where}.{name}", "belongs into the function", NESTED)


def names_one(value: Any) -> bool:
    """Whether a ``tool_choice`` names the one tool that is called."""
    return isinstance(value, dict) and value.get("type") == "function"


def read_choice(
    value: Any,
    tools: Sequence[Mapping[str, Any]],
    *,
    parallel: bool,
    constraints: ToolConstraints,
) -> ToolChoice:
    """What ``tool_choice`` asks for.

    Args:
        value: As it was sent.
        tools: What the request declares.
        parallel: ``parallel_tool_calls``.
        constraints: How much of a call is enforced.

    Raises:
        InvalidOption: It is no choice, or none among these tools; located.
    """
    plain = ToolChoice(parallel=parallel, constraints=constraints)
    if value is None:
        return plain
    if isinstance(value, str):
        if value not in MODES:
            raise _refused(
                "tool_choice", f"{shown(value)} is no choice", f"one of {', '.join(MODES)}, {NAMED}"
            )
        choice = evolve(plain, mode=ToolMode(value))
    elif isinstance(value, dict):
        choice = _of_object(value, tools, plain)
    else:
        raise _refused(
            "tool_choice", f"a string or an object is needed, not {json_kind(value)}", NAMED
        )
    if not tools and choice.mode is ToolMode.REQUIRED:
        raise _refused(
            "tool_choice", "the request declares no tools", "give tools, or leave tool_choice out"
        )
    return choice


def _of_object(
    value: Mapping[str, Any], tools: Sequence[Mapping[str, Any]], plain: ToolChoice
) -> ToolChoice:
    if value.get("type") == "allowed_tools":
        where = "tool_choice.allowed_tools"
        allowed = value.get("allowed_tools")
        if not isinstance(allowed, dict):
            raise _refused(where, f"an object is needed, not {json_kind(allowed)}", ALLOWED)
        mode, listed = allowed.get("mode"), allowed.get("tools")
        if mode not in ("auto", "required"):
            raise _refused(f"{where}.mode", f"{shown(mode)} is no mode", "one of auto, required")
        if not isinstance(listed, list) or not listed:
            given = "an empty one" if listed == [] else json_kind(listed)
            raise _refused(f"{where}.tools", f"an array of tools is needed, not {given}", NAMED)
        names = [
            _declared(item, f"{where}.tools[{index}]", tools) for index, item in enumerate(listed)
        ]
        return evolve(plain, mode=ToolMode(mode), allowed_names=names)
    name = _declared(value, "tool_choice", tools)
    return plain.only(name)


def _declared(item: Any, where: str, tools: Sequence[Mapping[str, Any]]) -> str:
    """The name in a reference to a declared tool."""
    if not isinstance(item, dict):
        raise _refused(where, f"an object is needed, not {json_kind(item)}", NAMED)
    _check_kind(item, where, NAMED)
    function = item.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise _refused(f"{where}.function.name", "is missing", NAMED)
    name: str = function["name"]
    names = [tool["function"].get("name") for tool in tools if isinstance(tool["function"], dict)]
    if name not in names:
        declared = ", ".join(shown(one) for one in names)
        raise _refused(
            f"{where}.function.name",
            f"the request declares no tool {shown(name)}",
            f"it declares {declared}" if names else "give tools, or leave tool_choice out",
        )
    return name


def _check_kind(item: Mapping[str, Any], where: str, hint: str) -> None:
    kind = item.get("type")
    if kind != "function":
        said = "is missing" if kind is None else f"{shown(kind)} is no kind of tool that works here"
        raise _refused(f"{where}.type", said, hint)


def _refused(field: str, message: str, hint: str) -> InvalidOption:
    return InvalidOption(message, location=Location(field=field), hint=hint)
