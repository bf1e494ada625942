"""POST /v1/chat/completions."""

from __future__ import annotations

from typing import Any

from infernix_core.engine.request import GenerationResult
from infernix_core.interfaces.frontend import Channel
from infernix_openai.replies import FINISH, Head, extras, usage

CHUNK = "chat.completion.chunk"
FIELDS = {Channel.CONTENT: "content", Channel.REASONING: "reasoning_content"}


class ChatFormat:
    """How an answer looks as a chat completion."""

    prefix = "chatcmpl"

    def whole(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The answer in one piece."""
        message: dict[str, Any] = {"role": "assistant", "content": result.text, "refusal": None}
        if result.reasoning:
            message["reasoning_content"] = result.reasoning
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": FINISH[result.finish_reason],
        }
        body = head.body("chat.completion", [choice])
        return {**body, "usage": usage(result), **extras(result)}

    def first(self, head: Head) -> dict[str, Any] | None:
        """The chunk that says who speaks."""
        return head.body(CHUNK, [_choice({"role": "assistant", "content": "", "refusal": None})])

    def delta(self, head: Head, channel: Channel, text: str) -> dict[str, Any]:
        """A chunk of text."""
        return head.body(CHUNK, [_choice({FIELDS[channel]: text})])

    def last(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk that says why the text ended."""
        choice = _choice({}, FINISH[result.finish_reason])
        return {**head.body(CHUNK, [choice]), **extras(result)}

    def counts(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk of token counts."""
        return {**head.body(CHUNK, []), "usage": usage(result)}


def _choice(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
