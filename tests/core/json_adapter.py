"""A small protocol of JSON lines in steps of its own, for the protocol suite and for its mutants."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from infernix_core.engine.request import (
    FinishReason,
    GenerationEnd,
    GenerationResult,
    RequestOptions,
    TextDelta,
)
from infernix_core.engine.service import Generation, GenerationService
from infernix_core.errors import EngineUnavailable
from infernix_core.interfaces.constraints import Choice
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.testing.conformance import WireClient, WireRequest


class JsonClient(WireClient):
    def request(
        self, prompt: str, *, max_tokens: int, stream: bool, choices: Sequence[str] = ()
    ) -> WireRequest:
        body = {"prompt": prompt, "max_tokens": max_tokens, "stream": stream}
        return WireRequest.json("/ask", {**body, "choices": list(choices)} if choices else body)

    def text(self, body: bytes) -> str:
        return json.loads(body)["text"]

    def streamed_text(self, body: bytes) -> str:
        *deltas, last = map(json.loads, body.splitlines())
        assert last == {"done": True}
        return "".join(delta["text"] for delta in deltas)


class JsonAdapter:
    """POST /ask: an object with a prompt; the answer is an object, or a line for each piece of text."""

    def routes(self, service: GenerationService) -> list[web.AbstractRouteDef]:
        async def post(request: web.Request) -> web.StreamResponse:
            return await self.answer(request, service)

        return [web.post("/ask", post)]

    async def answer(self, request: web.Request, service: GenerationService) -> web.StreamResponse:
        asked = self.checked(await self.read(request))
        generation = await self.submit(service, asked)
        try:
            if asked.get("stream"):
                return await self.stream(request, generation)
            return self.whole(await generation.result())
        finally:
            self.leave(generation)

    async def read(self, request: web.Request) -> Any:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType
        try:
            return json.loads(await request.read())
        except (ValueError, RecursionError):
            raise web.HTTPBadRequest(text="no JSON") from None

    def checked(self, asked: Any) -> dict[str, Any]:
        kinds = {"prompt": str, "max_tokens": int | None, "stream": bool, "choices": list}
        if not isinstance(asked, dict) or "prompt" not in asked:
            raise web.HTTPBadRequest(text="an object with a prompt is needed")
        for name, kind in kinds.items():
            if name in asked and not isinstance(asked[name], kind):
                raise web.HTTPBadRequest(text=f"{name} is of the wrong kind")
        return asked

    async def submit(self, service: GenerationService, asked: dict[str, Any]) -> Generation:
        return await service.submit(
            PromptInput(text=asked["prompt"]), self.options(asked), request_id="one"
        )

    def options(self, asked: dict[str, Any]) -> RequestOptions:
        constraint = Choice(asked["choices"]) if asked.get("choices") else None
        return RequestOptions(constraint=constraint, max_tokens=asked.get("max_tokens"))

    def whole(self, result: GenerationResult) -> web.Response:
        return web.json_response({"text": self.sound(result).text})

    def sound(self, result: GenerationResult) -> GenerationResult:
        if result.finish_reason is FinishReason.CANCELLED:
            raise EngineUnavailable("shutting down")
        return result.raise_for_error()

    async def stream(self, request: web.Request, generation: Generation) -> web.StreamResponse:
        response = web.StreamResponse()

        async def send(value: Any) -> None:
            if not response.prepared:
                await response.prepare(request)
            await response.write(json.dumps(value).encode() + b"\n")

        async for event in generation:
            if isinstance(event, TextDelta):
                await send({"text": event.text})
            elif isinstance(event, GenerationEnd):
                try:
                    self.sound(event.result)
                except Exception:
                    if not response.prepared:
                        raise
                    await send({"error": "no more"})
                else:
                    await send({"done": True})
        await response.write_eof()
        return response

    def leave(self, generation: Generation) -> None:
        generation.cancel()
