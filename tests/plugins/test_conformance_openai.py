"""The conformance suite on the OpenAI adapter: both of its endpoints, in the server that it is made for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from attrs import frozen

from infernix_core.testing.conformance import ProtocolSuite, WireClient, WireRequest


@frozen
class OpenAIClient(WireClient):
    chat: bool

    def request(
        self, prompt: str, *, max_tokens: int, stream: bool, choices: Sequence[str] = ()
    ) -> WireRequest:
        path, asked = "/v1/completions", {"prompt": prompt}
        if self.chat:
            path, asked = (
                "/v1/chat/completions",
                {"messages": [{"role": "user", "content": prompt}]},
            )
        body = {"model": "toy", "max_tokens": max_tokens, "stream": stream, **asked}
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
