"""The conformance suite on the OpenAI adapter: both of its endpoints, in the server that it is made for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen

from infernix_core.testing.conformance import ProtocolSuite, WireClient, WireRequest
from infernix_openai.refused import CHAT, COMPLETIONS

#: Members that ask for nothing, so that the suite tries them with values of every kind.
UNASKED = (
    *("stream_options", "temperature", "top_p", "top_k", "seed", "stop", "stop_token_ids"),
    *("response_format", "structured_outputs", "logit_bias", "constraint_stats"),
    *("tools", "tool_choice", "parallel_tool_calls", "tool_constraints", "thinking_budget"),
)


@frozen
class OpenAIClient(WireClient):
    chat: bool

    def request(
        self, prompt: str, *, max_tokens: int, stream: bool, choices: Sequence[str] = ()
    ) -> WireRequest:
        path, asked = "/v1/completions", {**dict.fromkeys(COMPLETIONS), "prompt": prompt}
        if self.chat:
            path = "/v1/chat/completions"
            messages = [{"role": "user", "content": prompt}]
            asked = {**dict.fromkeys(CHAT), "chat_template_kwargs": None, "messages": messages}
        body = {**dict.fromkeys(UNASKED), **asked}
        body |= {"model": "toy", "max_tokens": max_tokens, "stream": stream}
        if choices:
            body["structured_outputs"] = {"choice": list(choices)}
        return WireRequest.json(path, body)

    def text(self, body: bytes) -> str:
        (choice,) = json.loads(body)["choices"]
        return choice["message"]["content"] if self.chat else choice["text"]

    def streamed_text(self, body: bytes) -> str:
        assert body.endswith(b"data: [DONE]\n\n"), "the stream lacks its end"
        events = [part for part in body.decode().split("\n\n") if part.startswith("data: ")]
        chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
        return "".join(self._delta(chunk) for chunk in chunks)

    def _delta(self, chunk: dict[str, Any]) -> str:
        assert "error" not in chunk, chunk
        (choice,) = chunk["choices"]
        return choice["delta"].get("content", "") if self.chat else choice["text"]


class TestOpenAI(ProtocolSuite):
    @pytest.fixture
    def create(self):
        from infernix_openai.adapter import OpenAIAdapter

        return OpenAIAdapter

    @pytest.fixture(params=[True, False], ids=["chat", "completions"])
    def client(self, request: pytest.FixtureRequest) -> OpenAIClient:
        return OpenAIClient(request.param)

    @pytest.fixture
    def application(self):
        from infernix_http.app import make_app

        return make_app
