"""POST /v1/completions."""

from __future__ import annotations

from typing import Any

from infernix_core.engine.request import Event, GenerationResult, TextDelta
from infernix_openai.replies import FINISH, Head, extras, usage

KIND = "text_completion"


class CompletionFormat:
    """How an answer looks as a text completion, in one piece and in chunks."""

    prefix = "cmpl"

    def whole(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The answer in one piece."""
        choice = _choice(result.text, FINISH[result.finish_reason])
        return {**head.body(KIND, [choice]), "usage": usage(result), **extras(result)}

    def first(self, head: Head) -> dict[str, Any] | None:
        """Nothing: nobody has to be introduced."""
        return None

    def piece(self, head: Head, event: Event) -> dict[str, Any] | None:
        """A chunk of text; a raw continuation has one channel, and no calls."""
        return head.body(KIND, [_choice(event.text)]) if isinstance(event, TextDelta) else None

    def last(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk that says why the text ended."""
        return {**head.body(KIND, [_choice("", FINISH[result.finish_reason])]), **extras(result)}

    def counts(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk of token counts."""
        return {**head.body(KIND, []), "usage": usage(result)}


def _choice(text: str, finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish}
