"""Responses and chunks, as OpenAI's SDK types them. ``constraint`` is this server's extension."""

from __future__ import annotations

from typing import Any

from attrs import asdict, frozen

from infernix_core.engine.request import FinishReason, GenerationResult

FINISH = {FinishReason.STOP: "stop", FinishReason.LENGTH: "length"}


@frozen
class Head:
    """What every chunk of one answer repeats.

    Attributes:
        id: ``chatcmpl-…`` or ``cmpl-…``.
        created: Unix seconds.
        model: The public model name.
    """

    id: str
    created: int
    model: str

    def body(self, kind: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """An object of the API."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }


def usage(result: GenerationResult) -> dict[str, Any]:
    """Token counts."""
    counts = result.usage
    return {
        "prompt_tokens": counts.prompt_tokens,
        "completion_tokens": counts.completion_tokens,
        "total_tokens": counts.prompt_tokens + counts.completion_tokens,
    }


def extras(result: GenerationResult) -> dict[str, Any]:
    """The constraint report, under the names of ``ConstraintReport``; nothing without a constraint."""
    return {"constraint": asdict(result.constraint)} if result.constraint is not None else {}
