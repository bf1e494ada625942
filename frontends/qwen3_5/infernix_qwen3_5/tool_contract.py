"""What a tool's declaration says of its calls: one contract for the language that admits them and the reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from attrs import evolve, frozen

from infernix_constraints.json_schema.arguments import reduce_arguments
from infernix_core.errors import ConstraintError, Location
from infernix_core.interfaces.language import MemberFraming
from infernix_core.interfaces.tools import ToolDeclaration
from infernix_qwen3_5.tool_values import JSON, OPEN, TEXT, ValueForm, hinted_form

OPEN_CALL, CLOSE_CALL = "<tool_call>", "</tool_call>"

#: A call without its two control tokens: ``FUNCTION``, the tool's name, ``NAMED``, arguments, ``END_FUNCTION``.
FUNCTION, NAMED, END_FUNCTION = b"\n<function=", b">\n", b"</function>\n"

#: An argument.
PARAMETER = MemberFraming(
    opening=b"<parameter=", naming=NAMED, end=b"\n</parameter>", closing=b"\n"
)

#: Tools whose contracts are kept: the same ones come with every request of a conversation.
_KEPT = 1024


@frozen
class ToolContract:
    """How the arguments of one tool are written.

    Attributes:
        forms: By declared parameter.
        closed: There are no other parameters: the tool is strict.
    """

    name: str
    forms: Mapping[str, ValueForm]
    closed: bool = False

    @property
    def raw(self) -> frozenset[str]:
        """Declared parameters whose values are raw text."""
        return frozenset(name for name, form in self.forms.items() if form == TEXT)

    def form(self, parameter: str) -> ValueForm | None:
        """The form of a parameter's values; ``None`` when there is no such parameter."""
        return self.forms.get(parameter, None if self.closed else OPEN)


@lru_cache(maxsize=_KEPT)
def tool_contract(tool: ToolDeclaration) -> ToolContract:
    """The contract of a declaration.

    Raises:
        ConstraintError: The arguments of a strict tool cannot be enforced; located in the tool.
    """
    if tool.strict:
        return ToolContract(tool.name, _strict_forms(tool), closed=True)
    schema = json.loads(tool.parameters)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ToolContract(tool.name, {})
    return ToolContract(
        tool.name, {name: hinted_form(property) for name, property in properties.items()}
    )


def tool_contracts(tools: Iterable[ToolDeclaration]) -> dict[str, ToolContract]:
    """Contracts by name; raises what :func:`tool_contract` does."""
    return {tool.name: tool_contract(tool) for tool in tools}


def _strict_forms(tool: ToolDeclaration) -> dict[str, ValueForm]:
    try:
        arguments = reduce_arguments(tool.parameters, PARAMETER.end.decode())
    except ConstraintError as error:
        raise type(error)(
            error.message,
            location=evolve(error.location or Location(), tool=tool.name),
            hint=error.hint,
        ) from error
    return {member.name: TEXT if member.raw else JSON for member in arguments.members}
