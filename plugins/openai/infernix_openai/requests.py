"""Request bodies as attrs classes, and what of them the engine is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeVar

from attrs import evolve, frozen

from infernix_core.engine.request import RequestOptions
from infernix_core.errors import (
    ConstraintError,
    InvalidOption,
    InvalidPrompt,
    Location,
    RequestError,
)
from infernix_core.interfaces.frontend import PromptInput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolConstraints
from infernix_http.converter import forbid_unknown_members, make_converter, structure
from infernix_http.json_body import shown
from infernix_http.options import ServerOptions
from infernix_http.wire_errors import HttpError
from infernix_openai.content import (
    ContentSource,
    JsonSchemaFormat,
    ResponseFormat,
    StructuredOutputs,
    check_format,
    check_outputs,
    content_source,
)
from infernix_openai.refused import CHAT, COMPLETIONS, OTHER_CHAT, OTHER_COMPLETIONS, refuse
from infernix_openai.tools import check_tools, names_one, read_choice

T = TypeVar("T", bound="CommonRequest")


@frozen(kw_only=True)
class StreamOptions:
    """``stream_options``."""

    include_usage: bool | None = None


@frozen(kw_only=True)
class CommonRequest:
    """What chat completions and completions share.

    Fields beyond OpenAI's: top_k, min_p, stop_token_ids, structured_outputs, compact_json,
    constraint_stats.

    Attributes:
        prompt_field: Where the prompt stands.
    """

    prompt_field: ClassVar[str] = "prompt"

    model: str
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    stop_token_ids: list[int] | None = None
    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    compact_json: bool | None = None
    constraint_stats: bool | None = None

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return self.stream_options is not None and bool(self.stream_options.include_usage)

    def wire_name(self, field: str) -> str:
        """How the wire spells a field that the engine names."""
        if field == "max_tokens" and self.max_completion_tokens is not None:
            return "max_completion_tokens"
        return field

    def locate(self, error: RequestError, source: ContentSource) -> None:
        """Locates an engine's error in this request: in a tool's schema, in a message, at the constraint's source, at
        the prompt, or at the field that it names.
        """
        location = error.location if error.location is not None else Location()
        name: str | None
        if isinstance(error, ConstraintError) and location.tool is not None:
            name = self.tool_field(location.tool) + (location.pointer or "")
            location = evolve(location, pointer=None)
        elif location.field is not None and location.field.startswith("messages["):
            name = location.field  # a continued message that does not fit
        elif location.field == "constraint" or isinstance(error, ConstraintError):
            name = source.path if source.constraint is not None else "tools"
        elif location.field is not None:
            name = self.wire_name(location.field)
        else:
            name = self.prompt_field if isinstance(error, InvalidPrompt) else None
        error.location = evolve(location, field=name)

    def tool_field(self, tool: str) -> str:
        """Where the schema of a tool's arguments stands."""
        return "tools"

    def prompt_input(self) -> PromptInput:
        """The prompt as the engine takes it."""
        raise NotImplementedError

    def source(self) -> ContentSource:
        """The constraint; see :func:`infernix_openai.content.content_source`."""
        return content_source(self.response_format, self.structured_outputs, self.compact_json)

    def options(self, source: ContentSource, server: ServerOptions) -> RequestOptions:
        """The engine's options; what the request leaves out, the engine resolves.

        Args:
            source: The constraint.
            server: What holds for requests that do not say.

        Raises:
            InvalidOption: Two limits contradict each other.
        """
        limit = self.max_completion_tokens
        if limit is None:
            limit = self.max_tokens
        elif self.max_tokens is not None and self.max_tokens != limit:
            raise InvalidOption(
                f"{self.max_tokens} contradicts max_completion_tokens {limit}",
                location=Location(field="max_tokens"),
                hint="give one of them",
            )
        return RequestOptions(
            constraint=source.constraint,
            sampling=SamplingOptions(
                temperature=self.temperature,
                top_k=self.top_k,
                top_p=self.top_p,
                min_p=self.min_p,
                presence_penalty=self.presence_penalty,
                frequency_penalty=self.frequency_penalty,
                seed=self.seed,
            ),
            max_tokens=limit,
            stop=(self.stop,) if isinstance(self.stop, str) else self.stop or (),
            stop_token_ids=self.stop_token_ids or (),
            constraint_stats=bool(self.constraint_stats),
        )


@frozen(kw_only=True)
class ChatRequest(CommonRequest):
    """POST /v1/chat/completions. ``messages`` are taken whole; the model's frontend reads them.

    Fields beyond OpenAI's: enable_thinking, preserve_thinking, chat_template_kwargs, thinking_budget,
    tool_constraints.
    """

    prompt_field = "messages"

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    tool_constraints: Literal["basic", "automatic"] | None = None
    thinking_budget: int | None = None
    reasoning_effort: str | None = None
    enable_thinking: bool | None = None
    preserve_thinking: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = None

    def wire_name(self, field: str) -> str:
        """See :class:`CommonRequest`."""
        if field.startswith("template_options."):
            return field.replace("template_options", "chat_template_kwargs", 1)
        return super().wire_name(field)

    @property
    def names_one_tool(self) -> bool:
        """Whether the one tool that is called was named."""
        return names_one(self.tool_choice)

    def tool_field(self, tool: str) -> str:
        """See :class:`CommonRequest`."""
        names = [declared["function"].get("name") for declared in self.tools or ()]
        return f"tools[{names.index(tool)}].function.parameters"

    def options(self, source: ContentSource, server: ServerOptions) -> RequestOptions:
        """See :class:`CommonRequest`.

        Raises:
            InvalidOption: Two limits contradict each other, or the choice of tools is none.
        """
        constraints = server.tool_constraints
        if self.tool_constraints is not None:
            constraints = ToolConstraints(self.tool_constraints)
        choice = read_choice(
            self.tool_choice,
            self.tools or (),
            parallel=self.parallel_tool_calls is not False,
            constraints=constraints,
        )
        return evolve(
            super().options(source, server),
            tool_choice=choice,
            thinking_budget=self.thinking_budget,
        )

    def prompt_input(self) -> PromptInput:
        """The messages, the tools, and how to think. A last message of the assistant's is gone on with.

        Raises:
            InvalidOption: The ways to ask for thinking contradict each other.
        """
        template = dict(self.chat_template_kwargs or {})
        thinking = self.enable_thinking
        named = {"enable_thinking": thinking}
        if self.reasoning_effort is not None:
            named["reasoning_effort"] = self.reasoning_effort != "none"
        if "enable_thinking" in template:
            named["chat_template_kwargs.enable_thinking"] = template["enable_thinking"]
        asked = {name: value for name, value in named.items() if value is not None}
        for name, value in asked.items():
            if not isinstance(value, bool):
                raise InvalidOption("a boolean is needed", location=Location(field=name))
        if len(set(asked.values())) > 1:
            first, *_, last = asked
            raise InvalidOption(
                f"contradicts {first}", location=Location(field=last), hint="give one of them"
            )
        if asked:
            thinking = next(iter(asked.values()))
        if self.preserve_thinking is not None:
            if template.get("preserve_thinking", self.preserve_thinking) != self.preserve_thinking:
                raise InvalidOption(
                    "contradicts preserve_thinking",
                    location=Location(field="chat_template_kwargs.preserve_thinking"),
                )
            template["preserve_thinking"] = self.preserve_thinking
        return PromptInput(
            messages=self.messages,
            tools=self.tools or (),
            continue_final=bool(self.messages) and self.messages[-1].get("role") == "assistant",
            enable_thinking=thinking,
            template_options=template,
        )


def _prompt(value: Any) -> str | list[int]:
    """A text or token ids; a list of one prompt is that prompt."""
    if isinstance(value, list) and len(value) == 1 and not isinstance(value[0], int):
        (value,) = value
    if isinstance(value, str):
        return value
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return value
    hint = "a string, or an array of token ids"
    if isinstance(value, list) and len(value) > 1:
        hint += "; one prompt per request"
    raise InvalidOption("this is not one prompt", location=Location(field="prompt"), hint=hint)


@frozen(kw_only=True)
class CompletionRequest(CommonRequest):
    """POST /v1/completions. ``prompt`` is a text or token ids, as :func:`read_completion` makes of it."""

    prompt: Any

    def wire_name(self, field: str) -> str:
        """See :class:`CommonRequest`."""
        if field.startswith("token_ids"):
            return field.replace("token_ids", "prompt", 1)
        return super().wire_name(field)

    def prompt_input(self) -> PromptInput:
        """Raw text, in which spellings of control tokens are text, or token ids."""
        if isinstance(self.prompt, str):
            return PromptInput(text=self.prompt)
        return PromptInput(token_ids=self.prompt)


CONVERTER = make_converter()
forbid_unknown_members(CONVERTER, JsonSchemaFormat, ResponseFormat, StructuredOutputs)


def read_chat(body: Mapping[str, Any], model_id: str) -> ChatRequest:
    """A chat request.

    Raises:
        InvalidOption: A field is missing, unfit, or cannot be given; located.
        HttpError: The model is another.
    """
    check_tools(body.get("tools"))
    return _read(body, ChatRequest, CHAT, OTHER_CHAT, model_id)


def read_completion(body: Mapping[str, Any], model_id: str) -> CompletionRequest:
    """A completion request; raises as :func:`read_chat`."""
    if body.get("messages") is None:  # else it is asked at the wrong place, which is said instead
        if "prompt" not in body:
            raise InvalidOption("is missing", location=Location(field="prompt"))
        body = {**body, "prompt": _prompt(body["prompt"])}
    return _read(body, CompletionRequest, COMPLETIONS, OTHER_COMPLETIONS, model_id)


def no_such_model(name: str, model_id: str) -> HttpError:
    """The error for another model."""
    message = f"the model {shown(name)} does not exist here; there is {model_id!r}"
    return HttpError(404, message, code="model_not_found", param="model")


def _read(
    body: Mapping[str, Any],
    kind: type[T],
    refused: Mapping[str, tuple[tuple[Any, ...], str]],
    other: Mapping[str, str],
    model_id: str,
) -> T:
    refuse(body, refused, other)
    check_format(body.get("response_format"))
    check_outputs(body.get("structured_outputs"))
    request = structure(CONVERTER, body, kind)
    if request.model != model_id:
        raise no_such_model(request.model, model_id)
    if request.stream_options is not None and not request.stream:
        raise InvalidOption(
            "is for streams alone",
            location=Location(field="stream_options"),
            hint='leave it out, or ask for "stream": true',
        )
    return request
