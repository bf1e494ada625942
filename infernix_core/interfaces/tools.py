"""Tools: what a prompt declares, and what a request allows of it.

Declarations belong to the prompt, which shows all of them to the model. A :class:`ToolChoice` belongs to the
request and shapes the output alone: no choice changes a prompt.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve, field, frozen

from infernix_core.errors import InvalidOption, Location, invalid_prompt
from infernix_core.exact_json import json_text

#: What a tool without parameters declares.
NO_PARAMETERS = '{"type": "object", "properties": {}, "additionalProperties": false}'


@frozen
class ToolDeclaration:
    """One tool.

    Attributes:
        name: Unique in its prompt; not empty, without line breaks.
        parameters: JSON Schema of the arguments, as its source text (member order counts).
        strict: Arguments satisfy the schema. Otherwise it is a hint for reading them.
    """

    name: str
    parameters: str = field(default=NO_PARAMETERS, repr=False)
    strict: bool = False


class ToolMode(enum.Enum):
    """Whether the model calls tools.

    Attributes:
        AUTO: It may; text, calls, or text and then calls.
        NONE: It does not. The prompt is the same.
        REQUIRED: The output is one call or more.
    """

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ToolConstraints(enum.Enum):
    """How much of a call is enforced beyond what the request asks for by name.

    Attributes:
        BASIC: Framing and names of every call.
        AUTOMATIC: Nothing: only strict tools, allowed names, REQUIRED, NONE and one call at most are enforced;
            without any of these the model generates freely.
    """

    BASIC = "basic"
    AUTOMATIC = "automatic"


def _names(value: Iterable[str] | None) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InvalidOption(
            f"{value!r} is not a list of names",
            location=Location(field="tool_choice"),
            hint="a list of strings",
        )
    return tuple(value)


@frozen
class ToolChoice:
    """What a request allows of the declared tools.

    Attributes:
        allowed_names: The tools that may be called; ``None`` is all of them.
        parallel: More than one call may come.
    """

    mode: ToolMode = ToolMode.AUTO
    allowed_names: tuple[str, ...] | None = field(default=None, converter=_names)
    parallel: bool = True
    constraints: ToolConstraints = ToolConstraints.BASIC

    def only(self, name: str) -> ToolChoice:
        """The same, but one call of this tool has to come, and nothing else."""
        return evolve(self, mode=ToolMode.REQUIRED, allowed_names=(name,), parallel=False)

    def active(self, declared: Sequence[ToolDeclaration]) -> tuple[ToolDeclaration, ...]:
        """The tools that may be called, in their order."""
        if self.mode is ToolMode.NONE:
            return ()
        names = self.allowed_names
        return tuple(tool for tool in declared if names is None or tool.name in names)

    def constrains(self, declared: Sequence[ToolDeclaration]) -> bool:
        """Whether the output is constrained for the sake of tools."""
        return bool(declared) and (
            self.constraints is ToolConstraints.BASIC
            or self.mode is not ToolMode.AUTO
            or self.allowed_names is not None
            or not self.parallel
            or any(tool.strict for tool in declared)
        )


def read_tools(tools: Iterable[Any]) -> tuple[ToolDeclaration, ...]:
    """Tool objects as OpenAI writes them: ``{"type": "function", "function": {...}}``, or the function alone.

    Raises:
        InvalidPrompt: One of them is no such object, or two have one name; located as ``tools[3].function.name``.
    """
    declared: dict[str, ToolDeclaration] = {}
    for index, tool in enumerate(tools):
        declaration, where = _read_tool(tool, f"tools[{index}]")
        if declaration.name in declared:
            raise invalid_prompt(f"{where}.name", f"two tools are called {declaration.name!r}")
        declared[declaration.name] = declaration
    return tuple(declared.values())


def _read_tool(tool: Any, where: str) -> tuple[ToolDeclaration, str]:
    if not isinstance(tool, Mapping):
        raise invalid_prompt(where, f"a tool is an object, not {type(tool).__name__}")
    kind = tool.get("type", "function")
    if kind != "function":
        raise invalid_prompt(
            f"{where}.type", f"{kind!r} is no kind of tool that can be called here", "function"
        )
    function: Any = tool
    if "function" in tool:
        where, function = f"{where}.function", tool["function"]
        if not isinstance(function, Mapping):
            raise invalid_prompt(where, f"a function is an object, not {type(function).__name__}")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise invalid_prompt(f"{where}.name", "the tool has no name", "a non-empty string")
    if "\n" in name:
        raise invalid_prompt(f"{where}.name", "a name has no line breaks")
    strict = function.get("strict")
    if strict is not None and not isinstance(strict, bool):
        raise invalid_prompt(f"{where}.strict", f"{strict!r} is neither true nor false")
    parameters = function.get("parameters")
    if parameters is None:
        return ToolDeclaration(name, strict=bool(strict)), where
    if not isinstance(parameters, Mapping | bool):
        raise invalid_prompt(
            f"{where}.parameters", f"a JSON Schema is needed, not {type(parameters).__name__}"
        )
    try:
        source = json_text(parameters)
    except (TypeError, ValueError, RecursionError) as error:
        raise invalid_prompt(f"{where}.parameters", f"the schema is not JSON: {error}") from error
    return ToolDeclaration(name, source, bool(strict)), where
