"""What speculative decoding is measured on: requests that end by themselves, some in a fixed shape, some free."""

from __future__ import annotations

import json

from attrs import frozen

from infernix_core.interfaces.constraints import JsonSchema, OutputConstraint
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.tools import ToolChoice, ToolMode

_BUG = {
    "type": "object",
    "properties": {
        "file": {"type": "string", "minLength": 1, "maxLength": 64},
        "line": {"type": "integer", "minimum": 1, "maximum": 999999},
        "severity": {"enum": ["low", "medium", "high"]},
    },
    "required": ["file", "line", "severity"],
    "additionalProperties": False,
}
_BUGS = (
    "NullPointerException in Parser.java at line 88, crashes the build",
    "Typo in README.md line 3",
    "TimeoutError in src/net/HttpClient.kt at line 1207, slow under load",
    "Memory leak in billing/invoice_store.py at line 412, crashes the server",
    "Wrong colour in web/theme/dark.css line 57",
    "Deadlock in core/scheduler.go at line 931, hangs the build",
    "Race condition in lib/cache/Table.cpp at line 64, fails now and then",
    "Missing translation in app/strings.xml line 2048",
)
_COPIES = (
    "Zebra-7 flies over qLmx_204",
    "the quick parser reads billing/invoice_store.py twice",
    "jane.hopper@contoso.com wrote to grace@example.org on Monday",
    "src/net/HttpClient.kt imports core/scheduler.go and lib/cache/Table.cpp",
    "toolbar_panel, toolbar_panel, toolbar_panel and toolbar_panel",
    "a1 b2 c3 d4 e5 f6 g7 h8 i9",
    "read app/strings.xml, then read web/theme/dark.css, then stop",
    "KeyError in lib/cache/Table.cpp, KeyError in lib/cache/Table.cpp",
)
_CALLS = (
    "Open src/Main.java",
    "Search for TokenStream in src/lexer",
    "Read src/Main.java at line 88",
    "Search for retry_limit in billing/invoice_store.py",
    "Open web/theme/dark.css",
    "Read core/scheduler.go at line 931",
    "Search for HttpClient in src/net",
    "Open docs/index.md",
)


def _tool(name: str, description: str, required: list[str], **properties: dict[str, str]) -> object:
    parameters = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    function = {"name": name, "description": description, "parameters": parameters, "strict": True}
    return {"type": "function", "function": function}


_TOOLS = (
    _tool(
        "read_file",
        "Read a text file, or one line of it.",
        ["path"],
        path={"type": "string", "description": "The file to read."},
        line={"type": "integer", "description": "The only line to read."},
    ),
    _tool(
        "search",
        "Search for a text in a file or folder.",
        ["pattern", "path"],
        pattern={"type": "string", "description": "The text to search for."},
        path={"type": "string", "description": "The file or folder to search."},
    ),
)
_EXTRACT = "Extract file, line, and severity as JSON from: "


@frozen
class Task:
    """One kind of request.

    Attributes:
        contents: User messages.
        constraint: Of the content.
        thinking: Whether the model thinks first.
        tools: Declared tools; one of them has to be called, where there are any.
    """

    name: str
    contents: tuple[str, ...]
    constraint: OutputConstraint | None = None
    thinking: bool = False
    tools: tuple[object, ...] = ()

    @property
    def constrained(self) -> bool:
        """Whether masks are made."""
        return self.constraint is not None or bool(self.tools)

    @property
    def tool_choice(self) -> ToolChoice:
        """What the request says about calls."""
        return ToolChoice(ToolMode.REQUIRED) if self.tools else ToolChoice()

    def prompts(self) -> list[PromptInput]:
        """The conversations."""
        return [
            PromptInput(
                messages=[{"role": "user", "content": content}],
                tools=self.tools,
                enable_thinking=self.thinking,
            )
            for content in self.contents
        ]


_SCHEMA = JsonSchema(json.dumps(_BUG))
_REPORTS = tuple(_EXTRACT + bug for bug in _BUGS)

TASKS = (
    Task("extract, schema", _REPORTS, _SCHEMA),
    Task("extract, free", _REPORTS),
    Task("think, extract, schema", _REPORTS, _SCHEMA, thinking=True),
    Task("call a tool", _CALLS, tools=_TOOLS),
    Task("copy, free", tuple(f"Repeat: {text}" for text in _COPIES)),
)
