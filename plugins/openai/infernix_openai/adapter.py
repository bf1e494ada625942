"""The routes, and one request's way from body to answer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from typing import Any, Protocol

from aiohttp import web

from infernix_core.engine.request import (
    Event,
    FinishReason,
    GenerationEnd,
    GenerationResult,
    GenerationStart,
    RequestOptions,
)
from infernix_core.engine.service import Generation, GenerationService
from infernix_core.errors import EngineUnavailable, RequestError
from infernix_core.interfaces.frontend import PromptInput
from infernix_http.app import request_id, server_options
from infernix_http.json_body import read_as
from infernix_http.sse import EventStream, dump, events
from infernix_http.wire_errors import wire_error
from infernix_openai.chat import ChatFormat
from infernix_openai.completions import CompletionFormat
from infernix_openai.content import ContentSource
from infernix_openai.replies import Head
from infernix_openai.requests import CommonRequest, no_such_model, read_chat, read_completion


class Format(Protocol):
    """How an answer looks on the wire."""

    prefix: str

    def whole(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The answer in one piece."""

    def first(self, head: Head) -> dict[str, Any] | None:
        """The chunk before any text, if there is one."""

    def piece(self, head: Head, event: Event) -> dict[str, Any] | None:
        """The chunk of one event in between, if it has one."""

    def last(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk that says why the text ended."""

    def counts(self, head: Head, result: GenerationResult) -> dict[str, Any]:
        """The chunk of token counts."""


class OpenAIAdapter:
    """See ``ProtocolAdapter``."""

    def routes(self, service: GenerationService) -> Iterable[web.AbstractRouteDef]:
        """Models, chat completions and completions."""

        async def models(request: web.Request) -> web.Response:
            return _json({"object": "list", "data": [model_card(service)]})

        async def model(request: web.Request) -> web.Response:
            name = request.match_info["name"]
            if name != service.model_id:
                raise no_such_model(name, service.model_id)
            return _json(model_card(service))

        async def chat(request: web.Request) -> web.StreamResponse:
            asked = await read_as(request, lambda body: read_chat(body, service.model_id))
            return await _answer(request, service, asked, ChatFormat(asked.names_one_tool))

        async def completions(request: web.Request) -> web.StreamResponse:
            asked = await read_as(request, lambda body: read_completion(body, service.model_id))
            return await _answer(request, service, asked, CompletionFormat())

        return [
            web.get("/v1/models", models),
            web.get("/v1/models/{name:.+}", model),
            web.post("/v1/chat/completions", chat),
            web.post("/v1/completions", completions),
        ]


def model_card(service: GenerationService) -> dict[str, Any]:
    """The model as ``/v1/models`` lists it."""
    engine = service.engine
    return {
        "id": service.model_id,
        "object": "model",
        "created": service.created,
        "owned_by": "infernix",
        "max_model_len": engine.max_context,
        "meta": {
            "n_vocab": engine.model.vocabulary.size,
            "n_ctx": engine.max_context,
            "n_ctx_train": engine.model.context_length,
        },
    }


async def _answer(
    request: web.Request,
    service: GenerationService,
    asked: CommonRequest,
    form: Format,
) -> web.StreamResponse:
    """Submits, and answers in one piece or as a stream. The generation never outlives the handler."""
    source: ContentSource | None = None

    def make() -> tuple[PromptInput, RequestOptions]:
        """On the preparing thread: a schema may take long to write out."""
        nonlocal source
        made = asked.source()
        prompt, options = asked.prompt_input(), asked.options(made, server_options(request))
        source = made
        return prompt, options

    try:
        generation = await service.submit_made(make, request_id=request_id(request))
    except RequestError as error:
        if source is not None:
            asked.locate(error, source)  # otherwise it is the request's own, and has its place
        raise
    assert source is not None
    head = Head(f"{form.prefix}-{uuid.uuid4().hex}", int(time.time()), service.model_id)
    try:
        if asked.stream:
            return await _stream(request, generation, asked, source, form, head)
        result = await generation.result()
        if (failure := _failure(result, asked, source)) is not None:
            raise failure
        return _json(form.whole(head, result))
    finally:
        generation.cancel()


async def _stream(
    request: web.Request,
    generation: Generation,
    asked: CommonRequest,
    source: ContentSource,
    form: Format,
    head: Head,
) -> web.StreamResponse:
    """Chunks as the text is committed. What goes wrong before the first one still has a status."""
    stream = EventStream(request)
    counted = {"usage": None} if asked.include_usage else {}
    begun = False

    async def begin() -> None:
        nonlocal begun
        if not begun:
            begun = True
            if (chunk := form.first(head)) is not None:
                await stream.send({**chunk, **counted})

    async for event in events(generation, stream):
        if isinstance(event, GenerationStart):
            await begin()
        elif isinstance(event, GenerationEnd):
            result = event.result
            if (failure := _failure(result, asked, source)) is not None:
                if not stream.opened:
                    raise failure
                # A data object with a truthy error is what the SDK raises as an APIError.
                await stream.send(wire_error(failure).body)
                break
            await begin()
            await stream.send({**form.last(head, result), **counted})
            if asked.include_usage:
                await stream.send(form.counts(head, result))
            await stream.send("[DONE]")
        elif (chunk := form.piece(head, event)) is not None:
            await stream.send({**chunk, **counted})
    await stream.close()
    return stream.response


def _failure(
    result: GenerationResult, asked: CommonRequest, source: ContentSource
) -> BaseException | None:
    """Why there is no answer, if there is none."""
    if result.error is not None:
        error = result.error.error
        if isinstance(error, RequestError):
            asked.locate(error, source)
        return error
    if result.finish_reason is FinishReason.CANCELLED:
        return EngineUnavailable("the server is shutting down; the request was cancelled")
    return None


def _json(body: dict[str, Any]) -> web.Response:
    return web.json_response(body, dumps=dump)
