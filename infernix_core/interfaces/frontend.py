"""Model frontends: a checkpoint's tokenizer, template, framing, output decoding and mathematics."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from attrs import field, frozen

from infernix_core.errors import InvalidPrompt
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, RawMembers
from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolChoice, ToolDeclaration
from infernix_core.interfaces.vocabulary import Vocabulary


def _listed(tools: Any) -> Any:
    """Tools that can be read more than once. What is no list of them is left for whoever reads it to refuse."""
    if isinstance(tools, Iterable) and not isinstance(tools, str | bytes | Mapping):
        return tuple(tools)
    return tools


@frozen
class PromptInput:
    """A prompt: exactly one of messages, text and token ids.

    Attributes:
        messages: Chat messages, each with ``role`` and ``content``.
        text: Raw text to continue. No template; control-token spellings stay text.
        token_ids: Raw tokens to continue.
        tools: Tool objects as OpenAI writes them; the template gets them as they are (messages only).
        continue_final: Go on with the last message, an assistant's, instead of answering it. Its content is the
            beginning of the output and is not published again (messages only, thinking explicitly off).
        enable_thinking: Whether the model may think first; ``None`` takes the template's default.
        template_options: Further variables for the template.
        most_tokens: Most tokens of use to whoever asks, when it is known; the engine sets it. A frontend that sees
            without encoding it that a prompt has more may refuse it.
    """

    messages: Sequence[Mapping[str, Any]] | None = None
    text: str | None = None
    token_ids: Sequence[int] | None = None
    tools: Sequence[Mapping[str, Any]] = field(default=(), converter=_listed)
    continue_final: bool = False
    enable_thinking: bool | None = None
    template_options: Mapping[str, Any] = field(factory=dict)
    most_tokens: int | None = field(default=None, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        given = [
            name for name in ("messages", "text", "token_ids") if getattr(self, name) is not None
        ]
        if len(given) != 1:
            raise InvalidPrompt(
                f"a prompt has exactly one of messages, text and token ids, not {given or 'none'}"
            )


class StartPhase(enum.Enum):
    """Where the output of a prepared prompt starts.

    Attributes:
        REASONING: Inside the model's thinking block.
        CONTENT: At the assistant's content.
        RAW: Plain continuation: no framing at all.
    """

    REASONING = "reasoning"
    CONTENT = "content"
    RAW = "raw"


@frozen
class PreparedPrompt:
    """A rendered and encoded prompt.

    Attributes:
        token_ids: At least one token.
        phase: Where the output starts.
        source: The input that it was made from.
        tools: What it declares.
        continued: The content of the assistant message that the output goes on with, when it does.
    """

    token_ids: tuple[int, ...] = field(repr=False)
    phase: StartPhase
    source: PromptInput = field(repr=False, eq=False)
    tools: tuple[ToolDeclaration, ...] = ()
    continued: str | None = None


@frozen
class OutputRequest:
    """What a request asks of its output, beside the prompt.

    Attributes:
        constraint: The shape of the content.
        tools: What is allowed of the declared tools.
        raw: Everything is published as content: no reasoning, no calls, control tokens as their spelling.
    """

    constraint: OutputConstraint | None = None
    tools: ToolChoice = field(factory=ToolChoice)
    raw: bool = False


class Channel(enum.Enum):
    """What a piece of output text is.

    Attributes:
        REASONING: What the model thinks before it answers; never constrained.
        CONTENT: The answer: what a constraint shapes, and stop strings end.
    """

    REASONING = "reasoning"
    CONTENT = "content"


@frozen
class Segment:
    """A piece of decoded output text; never empty."""

    channel: Channel
    text: str


@frozen
class ToolCallStart:
    """A call begins: its name is known.

    Attributes:
        index: Of the call in its output, from 0.
    """

    index: int
    name: str


@frozen
class ToolCallDelta:
    """The next piece of a call's arguments. The pieces of a call join to the JSON text of one object.

    Attributes:
        arguments: Not empty.
    """

    index: int
    arguments: str


@frozen
class ToolCallEnd:
    """A call is complete: its pieces are its arguments."""

    index: int


Piece = Segment | ToolCallStart | ToolCallDelta | ToolCallEnd


class OutputDecoder(Protocol):
    """Turns tokens into published text and calls, incrementally. States are values: stepping changes nothing.

    End tokens are never fed. What a continued message already holds is not published, except a call that it
    leaves unfinished, which is published whole.
    """

    def start(self) -> Any:
        """The state before the first token."""

    def step(self, state: Any, token: int) -> tuple[Any, tuple[Piece, ...]]:
        """The state after one token, and what is now certain. A character split over tokens is
        held back until it is whole.

        Raises:
            IntegrityError: A call that its grammar let through cannot be read.
        """

    def finish(self, state: Any) -> tuple[Piece, ...]:
        """What is still held back when the output ends here; a cut character becomes U+FFFD. A call that is not
        complete gets no end.
        """

    def reasoning(self, state: Any) -> bool:
        """Whether the next token still belongs to the model's reasoning."""


class LoadedModel(Protocol):
    """A checkpoint in memory, ready for an engine. Everything but ``target`` is thread-safe."""

    @property
    def name(self) -> str:
        """A short public name."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Token bytes and classes."""

    @property
    def target(self) -> TargetModel:
        """The mathematics."""

    @property
    def context_length(self) -> int:
        """Most positions the checkpoint was made for."""

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """Renders and encodes.

        Raises:
            InvalidPrompt: It cannot be rendered or encoded; says why.
        """

    def language(self, prompt: PreparedPrompt, request: OutputRequest) -> Language | None:
        """The whole output language, framing included; ``None`` when nothing constrains the output.

        It takes no time to speak of: schemas are read by the mask provider.
        """

    def prefix(self, prompt: PreparedPrompt, request: OutputRequest) -> tuple[bytes | int, ...]:
        """What of the output language the prompt already holds, for ``CompiledGrammar.start``: of a continued
        message, its content; otherwise nothing.
        """

    def decoder(
        self,
        prompt: PreparedPrompt,
        request: OutputRequest,
        raw_members: RawMembers = NO_RAW_MEMBERS,
    ) -> OutputDecoder:
        """The decoder of one request's output.

        Args:
            prompt: What the output follows.
            request: What is asked of it.
            raw_members: Of each strict tool, the parameters that are written as raw text: ``raw_members`` of the
                compiled language.
        """

    def early_close(self, prompt: PreparedPrompt) -> tuple[int, ...]:
        """The tokens that end this prompt's reasoning before the model does: a text that says so, the close and
        its separator. Empty when the model has no reasoning.
        """

    def sampling_defaults(self, prompt: PreparedPrompt) -> SamplingOptions:
        """The checkpoint's own sampling settings over the family's preset for this prompt's mode."""


@frozen
class LoadOptions:
    """How to load a checkpoint.

    Attributes:
        device: ``cpu`` or a CUDA device.
        dtype: Of weights and activations; ``None`` takes float32 on the CPU, else the checkpoint's.
        deterministic: Every row-wise product runs at one fixed width, so that a row's numbers do not
            depend on what else is in the batch.
    """

    device: str = "cpu"
    dtype: torch.dtype | None = None
    deterministic: bool = False


class ModelFrontend(Protocol):
    """The frontend family's root object."""

    def load(self, directory: Path, options: LoadOptions) -> LoadedModel:
        """Loads a checkpoint directory as published on Hugging Face.

        Raises:
            CheckpointError: A file is missing or unreadable, or the parts contradict each other; names
                the file, tensor or key.
        """
