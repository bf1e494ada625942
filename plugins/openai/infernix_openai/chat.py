"""POST /v1/chat/completions."""

from __future__ import annotations

import uuid
from typing import Any

from attrs import frozen

from infernix_core.engine.request import Event, FinishReason, GenerationResult, TextDelta
from infernix_core.interfaces.frontend import Channel, ToolCallDelta, ToolCallStart
from infernix_openai.replies import FINISH, Head, extras, usage

CHUNK = "chat.completion.chunk"
FIELDS = {Channel.CONTENT: "content", Channel.REASONING: "reasoning_content"}


@frozen
class ChatFormat:
    """How an answer looks as a chat completion.

    A call that the output's end cut off has no arguments: it is none of a whole answer's calls, and in a stream its
    pieces stop.

    Attributes:
        named: The request named the tool that is called. OpenAI then ends with "stop", as after any answer of the
            form that was asked for.
    """

    named: bool = False
    prefix = "chatcmpl"

    def whole(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The answer in one piece."""
        calls = [
            _call(call.name, call.arguments_json)
            for call in result.tool_calls
            if call.arguments_json is not None
        ]
        message: dict[str, Any] = {
            "role": "assistant",
            "content": result.text or (None if calls else ""),
            "refusal": None,
        }
        if result.reasoning:
            message["reasoning_content"] = result.reasoning
        if calls:
            message["tool_calls"] = calls
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._finish(result),
        }
        body = head.body("chat.completion", [choice])
        return {**body, "usage": usage(result), **extras(result)}

    def first(self, head: Head) -> dict[str, Any] | None:
        """The chunk that says who speaks."""
        return head.body(CHUNK, [_choice({"role": "assistant", "content": "", "refusal": None})])

    def piece(self, head: Head, event: Event) -> dict[str, Any] | None:
        """A chunk of text, the beginning of a call, or a piece of its arguments."""
        match event:
            case TextDelta(channel, text):
                delta: dict[str, Any] = {FIELDS[channel]: text}
            case ToolCallStart(index, name):
                # The arguments are an empty text here: clients join texts, and null is none.
                delta = {"tool_calls": [{"index": index, **_call(name, "")}]}
            case ToolCallDelta(index, arguments):
                delta = {"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}
            case _:
                return None
        return head.body(CHUNK, [_choice(delta)])

    def last(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk that says why the text ended."""
        choice = _choice({}, self._finish(result))
        return {**head.body(CHUNK, [choice]), **extras(result)}

    def counts(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk of token counts."""
        return {**head.body(CHUNK, []), "usage": usage(result)}

    def _finish(self, result: GenerationResult) -> str:
        called = any(call.arguments_json is not None for call in result.tool_calls)
        if called and not self.named and result.finish_reason is FinishReason.STOP:
            return "tool_calls"
        return FINISH[result.finish_reason]


def _call(name: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"call_{uuid.uuid4().hex}",
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
