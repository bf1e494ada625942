"""Model frontends: a checkpoint's tokenizer, template, framing, output decoding and mathematics."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import torch
from attrs import field, frozen

from infernix_core.errors import InvalidPrompt
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import Vocabulary


@frozen
class PromptInput:
    """A prompt: exactly one of messages, text and token ids.

    Attributes:
        messages: Chat messages, each with ``role`` and ``content``.
        text: Raw text to continue. No template; control-token spellings stay text.
        token_ids: Raw tokens to continue.
        tools: Tool declarations for the template (messages only).
        enable_thinking: Whether the model may think first; ``None`` takes the template's default.
        template_options: Further variables for the template.
        most_tokens: Most tokens of use to whoever asks, when it is known; the engine sets it. A frontend that sees
            without encoding it that a prompt has more may refuse it.
    """

    messages: Sequence[Mapping[str, Any]] | None = None
    text: str | None = None
    token_ids: Sequence[int] | None = None
    tools: Sequence[Mapping[str, Any]] = ()
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
    """

    token_ids: tuple[int, ...] = field(repr=False)
    phase: StartPhase
    source: PromptInput = field(repr=False, eq=False)


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


class OutputDecoder(Protocol):
    """Turns tokens into published text, incrementally. States are values: stepping changes nothing.

    End tokens are never fed.
    """

    def start(self) -> Any:
        """The state before the first token."""

    def step(self, state: Any, token: int) -> tuple[Any, tuple[Segment, ...]]:
        """The state after one token, and the text that is now certain. A character split over tokens is
        held back until it is whole.
        """

    def finish(self, state: Any) -> tuple[Segment, ...]:
        """What is still held back when the output ends here; a cut character becomes U+FFFD."""


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

    def language(self, prompt: PreparedPrompt, constraint: OutputConstraint) -> Language:
        """The whole output language of a constrained request, framing included."""

    def decoder(self, prompt: PreparedPrompt) -> OutputDecoder:
        """The decoder of one request's output."""

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
