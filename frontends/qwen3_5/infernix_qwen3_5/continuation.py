"""Going on with a final assistant message: where its content stands in the prompt, and what it begins."""

from __future__ import annotations

import itertools
import re
import secrets
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infernix_core.errors import invalid_prompt
from infernix_core.interfaces.frontend import OutputRequest, PreparedPrompt
from infernix_qwen3_5.template import ChatTemplate
from infernix_qwen3_5.tokenizer import (
    CLOSE_CALL,
    CLOSE_THINK,
    OPEN_CALL,
    OPEN_THINK,
    TURN_END,
    TURN_START,
    Tokenizer,
)
from infernix_qwen3_5.tool_reader import CallReader, CallState, Unreadable

Parts = list[str | int]


def continued_content(messages: Sequence[Mapping[str, Any]], thinking: object) -> str:
    """The content that an output goes on with.

    Args:
        messages: Checked ones.
        thinking: What the template is told of ``enable_thinking``.

    Raises:
        InvalidPrompt: The last message is not an assistant's with text alone, or thinking is not off.
    """
    where, message = f"messages[{len(messages) - 1}]", messages[-1]
    if message["role"] != "assistant":
        raise invalid_prompt(
            f"{where}.role",
            f"a message of role {message['role']!r} cannot be continued",
            "end with the assistant's message, or leave out continue_final",
        )
    for key in ("tool_calls", "reasoning_content"):
        if message.get(key):
            raise invalid_prompt(f"{where}.{key}", "only plain content can be continued")
    if thinking is not False:
        raise invalid_prompt(
            "enable_thinking",
            "a message is continued behind its reasoning, so thinking has to be off",
            "set enable_thinking to false",
        )
    content: str = message["content"]
    return content


def continued_parts(
    template: ChatTemplate, variables: Mapping[str, Any], control: Mapping[str, int]
) -> Parts:
    """The prompt up to the end of its last message's content, as text and the template's own control tokens.

    A template has no word for this. So its last turn is rendered without the turn's end, and where the content
    stands in it is found by rendering another content.

    Raises:
        InvalidPrompt: The template changes the content, or puts something around it that is not known.
    """
    *messages, last = variables["messages"]
    mark = f"content{secrets.token_hex(16)}"
    marked = template.render({**variables, "messages": [*messages, {**last, "content": mark}]})
    around = _around(marked, mark)
    if around is not None:
        before, after = around
        parts = _joined([*before, last["content"]])
    where, _ = _last_content(variables)
    if around is None or template.render(variables) != _joined([*parts, *after]):
        raise invalid_prompt(
            where,
            "the chat template changes the content of the last message, so it cannot be continued",
            "most templates take away blanks at its beginning and end, and read </think> in it",
        )
    if not _opens_turn(before, control) or after not in _turn_ends(control):
        raise invalid_prompt(
            where, "the chat template writes more around the last message's content than its turn"
        )
    return parts


def with_calls(parts: Parts, variables: Mapping[str, Any], opener: int) -> Parts:
    """The parts with each ``<tool_call>`` that the last content, their end, spells as the token.

    Raises:
        InvalidPrompt: The content holds a whole call.
    """
    where, content = _last_content(variables)
    if not content:
        return parts
    spelled = content_parts(content, opener)
    if _holds_call(spelled):
        raise invalid_prompt(
            where,
            f"the content holds a whole call ({OPEN_CALL} ... {CLOSE_CALL}), which cannot be made again",
            "give it as tool_calls, and its result as a message after it",
        )
    return _joined([*parts[:-1], str(parts[-1]).removesuffix(content), *spelled])


def require_spelling(
    tokenizer: Tokenizer, ids: Sequence[int], variables: Mapping[str, Any]
) -> None:
    """Refuses a last content that the tokenizer changed: an output would go on with another one.

    Raises:
        InvalidPrompt: The ids do not end with the content's bytes.
    """
    where, content = _last_content(variables)
    if not b"".join(tokenizer.vocabulary.token_bytes[token] for token in ids).endswith(
        content.encode()
    ):
        raise invalid_prompt(
            where,
            "the tokenizer changes the content of the last message, so it cannot be continued",
            "send it in the tokenizer's normal form, which is NFC as a rule",
        )


def content_parts(content: str, opener: int) -> Parts:
    """A content as text and, for each ``<tool_call>`` that it spells, the token."""
    head, *calls = content.split(OPEN_CALL)
    parts: Parts = [head]
    for text in calls:
        parts += [opener, text]
    return _joined(parts)


def spells_calls(prompt: PreparedPrompt, request: OutputRequest) -> bool:
    """Whether a ``<tool_call>`` in the continued content is the token, for matcher and decoder.

    Beside a constrained content calls are a branch of their own, and begin with one. In the other branch it is text.
    """
    if not request.tools.active(prompt.tools):
        return False
    return request.constraint is None or (prompt.continued or "").startswith(OPEN_CALL)


def language_prefix(
    tokenizer: Tokenizer, prompt: PreparedPrompt, request: OutputRequest
) -> tuple[bytes | int, ...]:
    """What of its language a request's prompt already holds: as bytes, or as tokens where the language tells those
    apart.
    """
    if not prompt.continued:
        return ()
    content, calls = prompt.continued, spells_calls(prompt, request)
    if request.constraint is not None and not calls:
        return (content.encode(),)
    if request.constraint is None and not request.tools.constrains(prompt.tools):
        return ()
    tokens: list[int] = []
    for part in content_parts(content, tokenizer.control[OPEN_CALL]) if calls else [content]:
        if isinstance(part, int):
            tokens.append(part)
        else:
            tokens += [tokenizer.byte_ids[byte] for byte in part.encode()]
    return tuple(tokens)


def _holds_call(parts: Parts) -> bool:
    """Whether a call is whole, of any tool; what merely spells its end within a value does not count."""
    reader = CallReader({}, others=True)
    for before, call in itertools.pairwise(parts):
        if not isinstance(before, int) or not isinstance(call, str):
            continue
        state = CallState(0)
        try:
            for text in re.split(f"({re.escape(CLOSE_CALL)})", call):
                if text == CLOSE_CALL and state.complete:
                    return True
                state, _ = reader.step(state, text.encode())
        except Unreadable:
            continue
    return False


def _last_content(variables: Mapping[str, Any]) -> tuple[str, str]:
    """The last message's content, and where it is."""
    messages = variables["messages"]
    return f"messages[{len(messages) - 1}].content", messages[-1]["content"]


def _around(parts: Parts, mark: str) -> tuple[Parts, Parts] | None:
    """What stands before and after the mark, if it is there once."""
    places = [place for place, part in enumerate(parts) if mark in str(part)]
    if len(places) != 1:
        return None
    head, *tails = str(parts[places[0]]).split(mark)
    if len(tails) != 1:
        return None
    return _joined([*parts[: places[0]], head]), _joined([*tails, *parts[places[0] + 1 :]])


def _opens_turn(before: Parts, control: Mapping[str, int]) -> bool:
    """Whether an assistant's turn begins at the end: with nothing else, or with an empty block of reasoning."""
    start = control.get(TURN_START)
    if start not in before:
        return False
    turn = before[len(before) - before[::-1].index(start) :]
    block = [control.get(OPEN_THINK), "\n\n", control.get(CLOSE_THINK), "\n\n"]
    return turn == ["assistant\n"] or turn == ["assistant\n", *block]


def _turn_ends(control: Mapping[str, int]) -> tuple[Parts, ...]:
    end = control.get(TURN_END)
    return () if end is None else ([end, "\n"], [end])


def _joined(parts: Iterable[str | int]) -> Parts:
    """The same parts, texts next to each other as one and none of them empty."""
    joined: Parts = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined
