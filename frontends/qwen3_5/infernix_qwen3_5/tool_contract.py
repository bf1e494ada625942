"""How calls are written: the framing that language and reader share, and the form of each parameter's values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache

from attrs import frozen

from infernix_core.errors import IntegrityError
from infernix_core.interfaces.language import MemberFraming
from infernix_core.interfaces.mask_provider import RawMembers
from infernix_core.interfaces.tools import ToolDeclaration
from infernix_qwen3_5.tool_values import JSON, OPEN, TEXT, ValueForm, hinted_form

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
        forms: By parameter.
        others: Of every other parameter.
    """

    name: str
    forms: Mapping[str, ValueForm]
    others: ValueForm = OPEN

    def form(self, parameter: str) -> ValueForm:
        """The form of a parameter's values."""
        return self.forms.get(parameter, self.others)


@lru_cache(maxsize=_KEPT)
def _hinted_contract(name: str, parameters: str) -> ToolContract:
    """The contract of a tool whose schema is a hint."""
    schema = json.loads(parameters)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return ToolContract(name, {})
    return ToolContract(name, {key: hinted_form(property) for key, property in properties.items()})


def tool_contracts(
    tools: Iterable[ToolDeclaration], raw_members: RawMembers
) -> dict[str, ToolContract]:
    """Contracts by name.

    Args:
        tools: The tools that may be called.
        raw_members: Of each strict one, the parameters that its grammar writes as raw text; the others are JSON.

    Raises:
        IntegrityError: A strict tool is not among them.
    """
    contracts = {}
    for tool in tools:
        if tool.strict:
            raw = raw_members.get(tool.name)
            if raw is None:
                raise IntegrityError(
                    f"the compiled language does not say how the strict tool {tool.name!r} is written"
                )
            contracts[tool.name] = ToolContract(tool.name, dict.fromkeys(raw, TEXT), JSON)
        else:
            contracts[tool.name] = _hinted_contract(tool.name, tool.parameters)
    return contracts
