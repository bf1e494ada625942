"""From a ``PromptInput`` to plain template variables: messages and tools are checked and normalised here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from infernix_core.errors import invalid_prompt
from infernix_core.exact_json import ExactFloat, read_exact
from infernix_core.interfaces.frontend import PromptInput

ROLES = ("system", "developer", "user", "assistant", "tool")

#: Content item types that hold text under ``text``.
TEXT_ITEMS = ("text", "input_text", "output_text")

TEXT_ITEM = '{"type": "text", "text": "..."}'

ARGUMENTS = 'a JSON object such as {"city": "Rome"}, without NaN and Infinity'

#: Parts of a content item's ``type``, or keys, that give media away.
MEDIA = ("image", "video", "audio")


def template_variables(prompt: PromptInput, reserved: frozenset[str]) -> dict[str, Any]:
    """What the template of a chat prompt sees.

    Args:
        prompt: An input with messages.
        reserved: Names that template options may not set.

    Raises:
        InvalidPrompt: A message, a tool or an option cannot be used; says where.
    """
    messages = prompt.messages
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Sequence):
        raise invalid_prompt("messages", f"a list of messages is needed, not {_name(messages)}")
    if not messages:
        raise invalid_prompt("messages", "the list of messages is empty")
    variables: dict[str, Any] = {
        "messages": [_message(message, f"messages[{i}]", i) for i, message in enumerate(messages)],
        "tools": [_tool(tool, f"tools[{i}]") for i, tool in enumerate(prompt.tools)] or None,
        "add_generation_prompt": not prompt.continue_final,
    }
    if variables["messages"][-1]["role"] == "assistant" and not prompt.continue_final:
        # The template would open a second assistant turn, which is not what a caller means by it.
        raise invalid_prompt(
            f"messages[{len(messages) - 1}]",
            "the last message is the assistant's",
            "end with a user or a tool message, or set continue_final to go on with it",
        )
    for name, value in prompt.template_options.items():
        where = f"template_options.{name}"
        if not isinstance(name, str) or not name.isidentifier():
            raise invalid_prompt(where, "the name of a template option is an identifier")
        if name in reserved:
            raise invalid_prompt(where, f"the template's {name!r} cannot be set by an option")
        variables[name] = _plain(value, where)
    if prompt.enable_thinking is not None:
        given = variables.get("enable_thinking", prompt.enable_thinking)
        if given != prompt.enable_thinking:
            raise invalid_prompt(
                "template_options.enable_thinking",
                f"{given!r} contradicts enable_thinking {prompt.enable_thinking!r}",
            )
        variables["enable_thinking"] = prompt.enable_thinking
    return variables


def _message(message: Any, where: str, index: int) -> dict[str, Any]:
    if not isinstance(message, Mapping):
        raise invalid_prompt(
            where, f"a message is an object with role and content, not {_name(message)}"
        )
    role = message.get("role")
    if role not in ROLES:
        said = "the role is missing" if role is None else f"{_shown(role)} is not a role"
        raise invalid_prompt(f"{where}.role", said, f"one of {', '.join(ROLES)}")
    plain: dict[str, Any] = {}
    for key, value in message.items():
        if key == "content":
            continue
        plain[str(key)] = (
            _tool_calls(value, f"{where}.tool_calls")
            if key == "tool_calls"
            else _plain(value, f"{where}.{key}")
        )
    plain["content"] = _content(message, where, index)
    return plain


def _content(message: Mapping[str, Any], where: str, index: int) -> str:
    """The content as one string: its text items joined as the template would, null as empty."""
    content = message.get("content")
    where = f"{where}.content"
    if isinstance(content, str):
        return content
    if content is None:
        if message["role"] == "assistant":
            return ""
        raise invalid_prompt(where, "the content is missing", "a string or a list of text items")
    if not isinstance(content, Sequence) or isinstance(content, bytes):
        raise invalid_prompt(
            where, f"a string or a list of text items is needed, not {_name(content)}"
        )
    texts = []
    for position, item in enumerate(content):
        at = f"{where}[{position}]"
        if isinstance(item, str):
            texts.append(item)
            continue
        if not isinstance(item, Mapping):
            raise invalid_prompt(at, f"a content item is an object, not {_name(item)}")
        kind = item.get("type", "text")
        medium = _medium(item)
        if medium is not None:
            raise invalid_prompt(
                at, f"message {index} holds {medium} content; this model is used for text alone"
            )
        text = item.get("text")
        if kind not in TEXT_ITEMS:
            raise invalid_prompt(at, f"{_shown(kind)} is no text item", TEXT_ITEM)
        if not isinstance(text, str):
            said = "is missing" if text is None else f"a string is needed, not {_name(text)}"
            raise invalid_prompt(f"{at}.text", said, TEXT_ITEM)
        texts.append(text)
    return "".join(texts)


def _medium(item: Mapping[str, Any]) -> str | None:
    kind = str(item.get("type", ""))
    for medium in MEDIA:
        if medium in kind or any(str(key).startswith(medium) for key in item):
            return medium
    return None


def _tool_calls(calls: Any, where: str) -> list[Any] | None:
    if calls is None:
        return None
    if not isinstance(calls, Sequence) or isinstance(calls, str | bytes):
        raise invalid_prompt(where, f"a list of tool calls is needed, not {_name(calls)}")
    return [_tool_call(call, f"{where}[{index}]") for index, call in enumerate(calls)]


def _tool_call(call: Any, where: str) -> dict[str, Any]:
    """A call whose arguments are an object; OpenAI's wire form writes them as a JSON string."""
    if not isinstance(call, Mapping):
        raise invalid_prompt(where, f"a tool call is an object, not {_name(call)}")
    plain: dict[str, Any] = _plain(call, where)
    nested = "function" in plain
    function = plain["function"] if nested else plain
    where = f"{where}.function" if nested else where
    if not isinstance(function, dict):
        raise invalid_prompt(where, f"a function is an object, not {_name(function)}")
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise invalid_prompt(f"{where}.name", "the name of the called function is missing")
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments = _arguments(arguments, f"{where}.arguments")
    if arguments is not None and not isinstance(arguments, dict):
        said = f"an object is needed, not {_name(arguments)}"
        raise invalid_prompt(f"{where}.arguments", said, ARGUMENTS)
    function["arguments"] = arguments or {}
    return plain


def _arguments(text: str, where: str) -> Any:
    """Arguments of a JSON string; numbers keep their spelling, so that a model reads what it wrote.

    Of a name that comes twice in an object, the last value counts, as for whoever executed the call: a model may
    write such a value, and the conversation must be able to go on.
    """
    if not text.strip():
        return {}
    try:
        return read_exact(text)
    except RecursionError:
        raise invalid_prompt(where, "the arguments are nested too deeply") from None
    except ValueError as error:
        raise invalid_prompt(where, f"the arguments are not JSON: {error}", ARGUMENTS) from None


def _tool(tool: Any, where: str) -> dict[str, Any]:
    if not isinstance(tool, Mapping):
        raise invalid_prompt(where, f"a tool is an object, not {_name(tool)}")
    plain: dict[str, Any] = _plain(tool, where)
    return plain


def _plain(value: Any, where: str) -> Any:
    """A deep copy in dicts, lists and scalars, so that a template meets no foreign objects."""
    if isinstance(value, float) and not isinstance(value, ExactFloat) and not math.isfinite(value):
        raise invalid_prompt(where, f"{value} is no JSON number", "a finite number")
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise invalid_prompt(where, f"the key {_shown(key)} is not a string")
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    raise invalid_prompt(where, f"{_name(value)} is nothing that JSON can express")


def _shown(value: object) -> str:
    """A value in a message: a short beginning of it."""
    if not isinstance(value, str):
        return _name(value)
    return repr(value) if len(value) <= 40 else f"{value[:40]!r}..."


def _name(value: object) -> str:
    return "null" if value is None else type(value).__name__
