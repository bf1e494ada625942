"""The output language: what one request may generate, from where its prompt ends."""

from __future__ import annotations

from collections.abc import Sequence as Listed

from infernix_core.interfaces.constraints import JsonSchema
from infernix_core.interfaces.frontend import OutputRequest, StartPhase
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Members,
    Repeat,
    Separated,
    Sequence,
    TextExcept,
    Token,
    Union,
    sequence,
)
from infernix_core.interfaces.tools import ToolDeclaration, ToolMode
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_qwen3_5.tokenizer import CLOSE_CALL, CLOSE_THINK, OPEN_CALL
from infernix_qwen3_5.tool_contract import END_FUNCTION, FUNCTION, NAMED, PARAMETER

#: Between the token that closes the reasoning and the answer.
SEPARATOR = b"\n\n"

#: Labels of the answer's two branches, for a session that asks the matcher where it is.
CONTENT, TOOLS = "content", "tools"


def output_language(
    vocabulary: Vocabulary,
    phase: StartPhase,
    declared: Listed[ToolDeclaration],
    request: OutputRequest,
) -> Language | None:
    """What a request may generate; ``None`` when nothing constrains it.

    In raw continuation the constraint owns all new text. A chat's answer is content, calls, or both, and open
    reasoning comes before it: any token but ``</think>``, the token, the separator. A call is opened and closed
    by the ids of its two control tokens.
    """
    if request.constraint is None and not request.tools.constrains(declared):
        return None
    framing = vocabulary.framing
    if phase is StartPhase.RAW:
        assert request.constraint is not None, "a raw prompt declares no tools"
        return Content(request.constraint)
    active = request.tools.active(declared)
    barred = {framing[OPEN_CALL]} if declared and not active else set()
    answer = _answer(framing, active, request)
    if phase is StartPhase.CONTENT:
        return answer
    close = framing[CLOSE_THINK]
    thoughts = Repeat(TextExcept({close, *barred}))
    return sequence(thoughts, Token(close), Literal(SEPARATOR), answer)


def _answer(
    framing: dict[str, int], active: Listed[ToolDeclaration], request: OutputRequest
) -> Language:
    constraint, choice = request.constraint, request.tools
    content = Label(
        CONTENT,
        Repeat(TextExcept({framing[OPEN_CALL]})) if constraint is None else Content(constraint),
    )
    if not active:
        return content
    call = _call(framing, active)
    calls = Label(TOOLS, Separated(call, Literal(b"\n")) if choice.parallel else call)
    if choice.mode is ToolMode.REQUIRED:
        return calls
    if constraint is not None:
        return Union((content, calls))
    return sequence(content, Union((Sequence(()), calls)))


def _call(framing: dict[str, int], tools: Listed[ToolDeclaration]) -> Language:
    functions = [
        sequence(Literal(tool.name.encode() + NAMED), _arguments(tool), Literal(END_FUNCTION))
        for tool in tools
    ]
    opening, closing = Token(framing[OPEN_CALL]), Token(framing[CLOSE_CALL])
    return sequence(opening, Literal(FUNCTION), Union(functions), closing)


def _arguments(tool: ToolDeclaration) -> Members:
    """Of a tool that is not strict, the same for all with its name: its schema is a hint for reading."""
    if not tool.strict:
        return Members(PARAMETER, owner=tool.name)
    return Members(PARAMETER, JsonSchema(tool.parameters), tool.name)
