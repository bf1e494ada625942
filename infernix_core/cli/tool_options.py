"""The options by which a command line declares tools, and says what is allowed of them."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import Any

from attrs import evolve

from infernix_core.cli.text_input import checked_argument, read_text
from infernix_core.errors import InvalidOption, InvalidPrompt, Location, RequestError
from infernix_core.exact_json import ExactFloat
from infernix_core.interfaces.tools import (
    ToolChoice,
    ToolConstraints,
    ToolDeclaration,
    ToolMode,
    read_tools,
)

MODES = tuple(mode.value for mode in ToolMode)


def add_tool_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options on a command's parser."""
    group = parser.add_argument_group("tools (with --prompt or --messages)")
    group.add_argument(
        "--tools",
        metavar="FILE",
        help="JSON array of tools as OpenAI writes them, or an object with tools; - reads stdin",
    )
    group.add_argument(
        "--tool-choice",
        metavar="CHOICE",
        help="auto, none, required, or the name of the one tool to call (default: auto)",
    )
    group.add_argument(
        "--allowed-tool",
        metavar="NAME",
        action="append",
        help="a tool that may be called; repeat the option (default: every one)",
    )
    group.add_argument(
        "--no-parallel-tools",
        dest="parallel_tools",
        action="store_false",
        help="one call at most",
    )
    group.add_argument(
        "--tool-constraints",
        choices=[level.value for level in ToolConstraints],
        default=ToolConstraints.BASIC.value,
        help="how much of a call is enforced that nothing asks for (default: %(default)s)",
    )


def read_json(text: str, option: str) -> Any:
    """A JSON document of the command line.

    Raises:
        InvalidPrompt: It is none.
    """
    try:
        return json.loads(text, parse_float=ExactFloat)
    except (ValueError, RecursionError) as error:
        raise InvalidPrompt(f"not JSON: {error}", location=Location(field=option)) from None


def tools_from_arguments(namespace: argparse.Namespace) -> Sequence[Any]:
    """The tools of ``--tools``; none without it.

    Raises:
        InvalidOption: The file cannot be read.
        InvalidPrompt: It holds something else.
    """
    if namespace.tools is None:
        return ()
    document = read_json(read_text(namespace.tools, "--tools"), "--tools")
    if isinstance(document, dict) and document.keys() == {"tools"}:
        document = document["tools"]
    if not isinstance(document, list):
        raise InvalidPrompt(
            "the file holds no tools",
            location=Location(field="--tools"),
            hint="a JSON array of tools, or an object with one, tools, and nothing else",
        )
    return document


def declared_tools(tools: Sequence[Any], option: str) -> tuple[ToolDeclaration, ...]:
    """What tools declare, read before a model is loaded.

    Args:
        tools: As they were given.
        option: Where.

    Raises:
        InvalidPrompt: See ``read_tools``; the location begins with the option.
    """
    try:
        return read_tools(tools)
    except RequestError as error:
        location = error.location if error.location is not None else Location()
        error.location = evolve(location, field=f"{option}, {location.field}")
        raise


def choice_from_arguments(
    namespace: argparse.Namespace, declared: Sequence[ToolDeclaration]
) -> ToolChoice:
    """What the options allow of the tools.

    Raises:
        InvalidOption: A name is not declared, or two options contradict each other.
    """
    choice = ToolChoice(
        parallel=namespace.parallel_tools, constraints=ToolConstraints(namespace.tool_constraints)
    )
    asked, allowed = namespace.tool_choice, namespace.allowed_tool
    if allowed is not None:
        for name in allowed:
            _require_declared(checked_argument(name, "--allowed-tool"), "--allowed-tool", declared)
        choice = evolve(choice, allowed_names=allowed)
    if asked is None:
        return choice
    if asked in MODES:
        return evolve(choice, mode=ToolMode(asked))
    _require_declared(checked_argument(asked, "--tool-choice"), "--tool-choice", declared, MODES)
    if allowed is not None:
        raise InvalidOption(
            f"{asked!r} is one tool, and --allowed-tool lists others",
            location=Location(field="--tool-choice"),
            hint="leave out one of them",
        )
    return choice.only(asked)


def _require_declared(
    name: str, option: str, declared: Sequence[ToolDeclaration], others: Sequence[str] = ()
) -> None:
    names = [tool.name for tool in declared]
    if name in names:
        return
    known = ", ".join([*map(repr, names), *others])
    raise InvalidOption(
        f"no tool {name!r} is declared",
        location=Location(field=option),
        hint=f"one of {known}" if names else "declare tools with --tools or in --messages",
    )
