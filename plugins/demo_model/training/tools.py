"""The two tools that the model is trained to call, and turns that declare or call them.

The texts here are what ``chat_template.jinja`` renders; a test compares the two.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import infernix_demo_model

from .templates import SYSTEM_PROMPTS

Tool = dict[str, Any]

#: The declarations, in OpenAI's form. Users pass the same file to Infernix.
TOOLS: tuple[Tool, ...] = tuple(
    json.loads(
        Path(infernix_demo_model.__file__).with_name("tools.json").read_text(encoding="utf-8")
    )
)

_PREAMBLE = """<|im_start|>system
# Tools

You have access to the following functions:

<tools>
{tools}
</tools>

To call a function, write a block of this form, one block for each call:

<tool_call>
<function=name_of_the_function>
<parameter=name_of_a_parameter>
its value
</parameter>
</function>
</tool_call>

<IMPORTANT>
- Give every required parameter; a value may span several lines.
- Explain a call before its block, if at all, and write nothing after the last block.
- Answer directly when no function helps.
</IMPORTANT>{system}<|im_end|>
"""


@dataclass(frozen=True)
class Preamble:
    """What stands before the first user turn: declared tools and a system text."""

    tools: tuple[Tool, ...] = TOOLS
    system: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The declared tools' names."""
        return frozenset(tool["function"]["name"] for tool in self.tools)

    @property
    def text(self) -> str:
        """The system turn that declares the tools."""
        lines = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in self.tools)
        return _PREAMBLE.format(tools=lines, system=f"\n\n{self.system}" if self.system else "")


def training_preamble(rng: Random) -> Preamble:
    """Mostly the plain declarations; else what other clients make of them."""
    draw = rng.random()
    if draw < 0.65:
        return Preamble()
    if draw < 0.8:
        return Preamble(system=rng.choice((*SYSTEM_PROMPTS, "You are a coding assistant.")))
    if draw < 0.87:
        return Preamble(TOOLS[::-1])
    if draw < 0.94:
        return Preamble((rng.choice(TOOLS),))
    strict = deepcopy(TOOLS)
    for tool in strict:
        tool["function"]["parameters"]["additionalProperties"] = False
        tool["function"]["strict"] = True
    return Preamble(strict)


@dataclass(frozen=True)
class Call:
    """One call of a tool."""

    name: str
    arguments: Mapping[str, str | int]

    @property
    def text(self) -> str:
        """The call's block."""
        parameters = "".join(
            f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in self.arguments.items()
        )
        return f"<tool_call>\n<function={self.name}>\n{parameters}</function>\n</tool_call>"


def calls_text(calls: Sequence[Call], said: str = "") -> str:
    """An assistant's content: what it says first, if anything, then its calls."""
    blocks = "\n".join(call.text for call in calls)
    return f"{said}\n\n{blocks}" if said else blocks
