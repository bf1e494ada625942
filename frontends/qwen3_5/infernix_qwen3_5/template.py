"""Chat templates whose own control tokens stay apart from what users write.

A rendered template is one string in which a user's ``<|im_end|>`` and the template's look alike. So every
control token that the template itself writes is wrapped in marks: the template is parsed, and the
spellings in its literal text and in those string constants that it outputs are replaced by marked ones before it
is compiled. Constants that it only compares or searches with (``'</think>' in content``,
``content.split('</think>')``) stay as they are, so that they meet user text as everywhere else. A mark holds a
random number: nobody can write it, and a prompt that contains it all the same is rendered with another one.
"""

from __future__ import annotations

import datetime
import json
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import jinja2
from attrs import frozen
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

from infernix_core.checkpoint_files import one_line
from infernix_core.errors import CheckpointError, InvalidPrompt
from infernix_core.exact_json import ExactFloat

#: String methods and filters whose arguments are looked for in a text, not written to one; of
#: ``replace`` the first alone.
SEARCHING = frozenset(
    {
        "count",
        "endswith",
        "find",
        "index",
        "lstrip",
        "partition",
        "removeprefix",
        "removesuffix",
        "rfind",
        "rindex",
        "rpartition",
        "rsplit",
        "rstrip",
        "split",
        "startswith",
        "strip",
        "trim",
    }
)


class _Refused(Exception):
    """The template called ``raise_exception``."""


@frozen(eq=False)
class _Compiled:
    """A template compiled with one mark."""

    mark: str
    template: jinja2.Template
    pattern: re.Pattern[str]


class ChatTemplate:
    """A checkpoint's template, compiled once.

    Args:
        source: Jinja text.
        control: Control token ids by spelling.
        variables: Strings of the tokenizer's configuration that templates may use, such as ``eos_token``;
            they count as the template's own.

    Raises:
        CheckpointError: The template is not well formed.
    """

    def __init__(
        self, source: str, control: Mapping[str, int], variables: Mapping[str, str] | None = None
    ) -> None:
        self._source = source
        self._control = dict(control)
        self._variables = dict(variables or {})
        spellings = sorted(control, key=len, reverse=True)
        # "(?!)" matches nothing: a tokenizer without control tokens.
        self._spelling = re.compile("|".join(map(re.escape, spellings)) or "(?!)")
        self._environment = _environment()
        self._compiled = self._compile()

    @property
    def reserved(self) -> frozenset[str]:
        """Names that template options may not set."""
        return frozenset({"messages", "tools", "add_generation_prompt", *self._variables})

    def render(self, variables: Mapping[str, Any]) -> list[str | int]:
        """Renders, and gives the prompt as text and the template's own control token ids.

        Args:
            variables: Plain JSON-like values.

        Raises:
            InvalidPrompt: The template refuses the messages or fails on them.
        """
        compiled = self._compiled
        while _contains(variables, compiled.mark):
            compiled = self._compile()
        own = {
            name: _mark(text, compiled.mark, self._spelling)
            for name, text in self._variables.items()
        }
        try:
            rendered = compiled.template.render(**own, **variables)
        except _Refused as error:
            message = compiled.pattern.sub(lambda match: match[1], str(error))
            raise InvalidPrompt(
                f"the chat template refuses these messages: {one_line(message)}"
            ) from None
        except Exception as error:  # a template may fail in any way on what users send
            message = compiled.pattern.sub(lambda match: match[1], one_line(error))
            raise InvalidPrompt(
                f"the chat template fails on these messages: {type(error).__name__}: {message}"
            ) from error
        return self._parts(rendered, compiled)

    def _parts(self, rendered: str, compiled: _Compiled) -> list[str | int]:
        parts: list[str | int] = []
        end = 0
        for match in compiled.pattern.finditer(rendered):
            parts += [rendered[end : match.start()], self._control[match[1]]]
            end = match.end()
        parts.append(rendered[end:])
        if any(isinstance(part, str) and compiled.mark in part for part in parts):
            raise InvalidPrompt(
                "the chat template takes apart a control token that it wrote itself, "
                "so its tokens cannot be told from user text"
            )
        return [part for part in parts if part != ""]

    def _compile(self) -> _Compiled:
        mark = f"\ue000{secrets.token_hex(16)}\ue001"
        try:
            tree = self._environment.parse(self._source)
            _Marker(mark, self._spelling).template(tree)
            template = self._environment.from_string(tree)
        except jinja2.TemplateError as error:
            line = getattr(error, "lineno", None)
            where = f" in line {line}" if line else ""
            raise CheckpointError(
                f"the chat template is not well formed{where}: {one_line(error)}"
            ) from error
        pattern = re.compile(f"{re.escape(mark)}({self._spelling.pattern}){re.escape(mark)}")
        return _Compiled(mark, template, pattern)


class _Marker:
    """Rewrites the constants of a template that end up in its output."""

    def __init__(self, mark: str, spelling: re.Pattern[str]) -> None:
        self._mark = mark
        self._spelling = spelling

    def template(self, node: nodes.Node) -> None:
        """Marks a subtree in place."""
        if isinstance(node, nodes.TemplateData):
            node.data = _mark(node.data, self._mark, self._spelling)
        elif isinstance(node, nodes.Const):
            if isinstance(node.value, str):
                node.value = _mark(node.value, self._mark, self._spelling)
        elif isinstance(node, nodes.Compare | nodes.Test):
            return
        elif isinstance(node, nodes.Getitem):
            self.template(node.node)
        elif isinstance(node, nodes.Pair):
            self.template(node.value)
        elif isinstance(node, nodes.Filter):
            # Within {% filter %} there is no operand; a length is a number of characters without marks.
            if node.node is not None and node.name not in ("length", "count"):
                self.template(node.node)
            self._arguments(node.name, node)
        elif isinstance(node, nodes.Call):
            self.template(node.node)
            name = node.node.attr if isinstance(node.node, nodes.Getattr) else ""
            self._arguments(name, node)
        else:
            for child in node.iter_child_nodes():
                self.template(child)

    def _arguments(self, name: str, node: nodes.Filter | nodes.Call) -> None:
        if name in SEARCHING:
            return
        skipped = 1 if name == "replace" else 0
        for argument in [*node.args[skipped:], *(pair.value for pair in node.kwargs)]:
            self.template(argument)


def _mark(text: str, mark: str, spelling: re.Pattern[str]) -> str:
    return spelling.sub(lambda match: f"{mark}{match[0]}{mark}", text)


def _contains(value: Any, needle: str) -> bool:
    """Whether a string occurs anywhere in a JSON-like value, keys included."""
    if isinstance(value, str):
        return needle in value
    if isinstance(value, Mapping):
        return any(_contains(key, needle) or _contains(item, needle) for key, item in value.items())
    if isinstance(value, Iterable):
        return any(_contains(item, needle) for item in value)
    return False


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: non-ASCII kept, key order kept, nothing escaped for HTML.

    Numbers are written as they were spelled. The encoder cannot be told so: it writes a marked string in the place
    of each.
    """
    mark, numbers = secrets.token_hex(16), list[str]()
    text = json.dumps(
        _without_numbers(value, mark, numbers),
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )
    if not numbers:
        return text
    return re.sub(f'"{mark}([0-9]+)"', lambda match: numbers[int(match[1])], text)


def _without_numbers(value: Any, mark: str, numbers: list[str]) -> Any:
    """A value with marks for its exact numbers, whose spellings are collected."""
    if isinstance(value, ExactFloat):
        numbers.append(value.text)
        return f"{mark}{len(numbers) - 1}"
    if isinstance(value, Mapping):
        return {key: _without_numbers(item, mark, numbers) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_numbers(item, mark, numbers) for item in value]
    return value


def _raise_exception(message: object) -> NoReturn:
    raise _Refused(str(message))


def _strftime_now(format: str) -> str:
    return datetime.datetime.now().strftime(format)
