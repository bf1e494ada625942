"""A toy model whose next-token law is exactly known, for tests of engines, samplers, providers and drafters.

The logits after a prefix are a row of a fixed random table, chosen by two integer digests of the whole prefix: one
kept as recurrent SLOT state with RECORDs and ``fold``, one recomputed from PAGED state. Integer arithmetic makes
them exact in any batch and any chunking, and any state that is lost, doubled or leaked changes the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from attrs import define, field, frozen
from torch import Tensor

from infernix_core.errors import InvalidPrompt
from infernix_core.interfaces.frontend import (
    Channel,
    OutputRequest,
    PreparedPrompt,
    PromptInput,
    Segment,
    StartPhase,
)
from infernix_core.interfaces.language import (
    Content,
    Label,
    Language,
    Literal,
    Repeat,
    TextExcept,
    Token,
    sequence,
)
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, RawMembers
from infernix_core.interfaces.model import ForwardBatch, StateKind, StateSpec, StateViews
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.table_target import TableTarget

_PRIME = 2_147_483_647
_FACTOR = 48_271
_ROWS = 509

TOKENS = "toy.tokens"


def toy_vocabulary(words: Sequence[bytes] = ()) -> Vocabulary:
    """256 single bytes, then ``words``, then ``</think>`` (FRAMING), two END tokens and a FORBIDDEN one."""
    text = [bytes([value]) for value in range(256)] + list(words)
    close = len(text)
    return Vocabulary(
        token_bytes=(*text, b"", b"", b"", b""),
        classes=(
            *(TokenClass.TEXT for _ in text),
            TokenClass.FRAMING,
            TokenClass.END,
            TokenClass.END,
            TokenClass.FORBIDDEN,
        ),
        framing={"</think>": close},
    )


@define(eq=False)
class ToyTarget(TableTarget):
    """The toy's mathematics; implements ``TargetModel``.

    Args:
        vocabulary: Its tokens.
        seed: Of the logit table.
        spread: Standard deviation of the logits.
        padding: Logit columns beyond the vocabulary; they are large, so that a sampler that looks at them
            is found out.
        bias: Logits added to single tokens.
        poison: A digest row whose logits are NaN, or ``None``.
    """

    seed: int = 0
    spread: float = 2.0
    padding: int = 5
    bias: Mapping[int, float] = field(factory=dict)
    poison: int | None = None

    def __attrs_post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        table = torch.randn((_ROWS, self.logits_width), generator=generator) * self.spread
        for token, extra in self.bias.items():
            table[:, token] += extra
        table[:, self.vocabulary.size :] = 1e4
        if self.poison is not None:
            table[self.poison] = torch.nan
        self.table = table

    @property
    def logits_width(self) -> int:
        """See ``TargetModel``."""
        return self.vocabulary.size + self.padding

    def states(self) -> Sequence[StateSpec]:
        """See ``TargetModel``."""
        return (*super().states(), StateSpec(TOKENS, StateKind.PAGED, (), torch.int64))

    def absorb(self, digest: int, token: int) -> int:
        """See ``TableTarget``."""
        return (digest * _FACTOR + token + 1) % _PRIME

    def rows(
        self, digests: Sequence[int], batch: ForwardBatch, row: int, views: StateViews
    ) -> Tensor:
        """See ``TableTarget``. The second digest is computed anew from all tokens."""
        lane, start = batch.lanes[row], batch.starts[row]
        end = start + len(digests)
        views.write_pages(TOKENS, lane, start, batch.ids[row, : len(digests)])
        seen = views.read_pages(TOKENS, lane, end)
        sums = ((seen + 1) * torch.arange(1, end + 1)).cumsum(0)[start:]
        return (torch.tensor(digests) + sums) % _ROWS

    def logits_after(self, history: Sequence[int]) -> Tensor:
        """The logits after a prefix, float32 [logits_width], by the definition: no state involved."""
        digest = total = 0
        for position, token in enumerate(history, start=1):
            digest = self.absorb(digest, token)
            total += (token + 1) * position
        return self.table[(digest + total) % _ROWS]


@frozen
class _Text:
    """Bytes that are not yet whole characters."""

    tail: bytes = b""
    reasoning: bool = False
    skip: bytes = b""
    """Separator bytes still to be dropped after the close of the reasoning."""


@frozen
class ToyDecoder:
    """Decodes the toy's tokens: reasoning up to ``</think>`` and two line feeds, then content."""

    vocabulary: Vocabulary
    thinks: bool

    def start(self) -> Any:
        """See ``OutputDecoder``."""
        return _Text(reasoning=self.thinks)

    def step(self, state: Any, token: int) -> tuple[Any, tuple[Segment, ...]]:
        """See ``OutputDecoder``."""
        if state.reasoning and token == self.vocabulary.framing["</think>"]:
            return _Text(skip=b"\n\n"), self.finish(state)
        raw = self.vocabulary.token_bytes[token]
        skip = state.skip
        while skip and raw[:1] == skip[:1]:
            raw, skip = raw[1:], skip[1:]
        skip = b"" if raw else skip
        data = state.tail + raw
        text, tail = _whole(data)
        after = _Text(tail, state.reasoning, skip)
        return after, self._segments(text, state.reasoning)

    def finish(self, state: Any) -> tuple[Segment, ...]:
        """See ``OutputDecoder``."""
        return self._segments("\ufffd" if state.tail else "", state.reasoning)

    def reasoning(self, state: Any) -> bool:
        """See ``OutputDecoder``."""
        return bool(state.reasoning)

    @staticmethod
    def _segments(text: str, reasoning: bool) -> tuple[Segment, ...]:
        channel = Channel.REASONING if reasoning else Channel.CONTENT
        return (Segment(channel, text),) if text else ()


def _whole(data: bytes) -> tuple[str, bytes]:
    """Whole characters of ``data``, and a trailing part that may still become one."""
    for size in range(min(3, len(data)) + 1):
        head, tail = data[: len(data) - size], data[len(data) - size :]
        lead = tail[:1]
        needed = (
            2 if b"\xc2" <= lead <= b"\xdf" else 3 if lead[:1] and 0xE0 <= lead[0] <= 0xEF else 4
        )
        if size == 0:
            try:
                return data.decode(), b""
            except UnicodeDecodeError:
                continue
        if lead and 0xC2 <= lead[0] <= 0xF4 and size < needed:
            try:
                return head.decode(), tail
            except UnicodeDecodeError:
                continue
    return data.decode(errors="replace"), b""


def _encoded(text: str) -> tuple[int, ...]:
    try:
        return tuple(text.encode())
    except UnicodeEncodeError:
        raise InvalidPrompt(
            "the prompt holds lone surrogates, which no encoding expresses"
        ) from None


@define(eq=False)
class ToyModel:
    """The toy as a loaded checkpoint; implements ``LoadedModel``.

    A chat message list is rendered as its contents joined; ``enable_thinking`` starts inside reasoning.
    """

    target: TableTarget
    context_length: int = 4096
    defaults: SamplingOptions = field(factory=SamplingOptions)
    name: str = "toy"

    @classmethod
    def make(cls, words: Sequence[bytes] = (), **target: Any) -> ToyModel:
        """A toy over :func:`toy_vocabulary`."""
        return cls(ToyTarget(toy_vocabulary(words), **target))

    @property
    def vocabulary(self) -> Vocabulary:
        """See ``LoadedModel``."""
        return self.target.vocabulary

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        phase = StartPhase.RAW
        if prompt.token_ids is not None:
            ids = tuple(prompt.token_ids)
        elif prompt.text is not None:
            ids = _encoded(prompt.text)
        else:
            contents = [
                message.get("content") if isinstance(message, Mapping) else None
                for message in prompt.messages or ()
            ]
            if not all(isinstance(content, str) for content in contents):
                raise InvalidPrompt("a message is an object with a text as its content")
            ids = _encoded("".join(map(str, contents)))
            phase = StartPhase.REASONING if prompt.enable_thinking else StartPhase.CONTENT
        if not ids:
            raise InvalidPrompt("the prompt is empty")
        return PreparedPrompt(ids, phase, prompt)

    def language(self, prompt: PreparedPrompt, request: OutputRequest) -> Language | None:
        """See ``LoadedModel``."""
        constraint = request.constraint
        if constraint is None:
            return None
        if prompt.phase is StartPhase.RAW:
            return Content(constraint)
        content = Label("content", Content(constraint))
        if prompt.phase is StartPhase.CONTENT:
            return content
        close = self.vocabulary.framing["</think>"]
        free = Repeat(TextExcept({close}))
        return sequence(free, Token(close), Literal(b"\n\n"), content)

    def prefix(self, prompt: PreparedPrompt, request: OutputRequest) -> tuple[bytes | int, ...]:
        """See ``LoadedModel``: the toy continues no messages."""
        return ()

    def decoder(
        self,
        prompt: PreparedPrompt,
        request: OutputRequest,
        raw_members: RawMembers = NO_RAW_MEMBERS,
    ) -> ToyDecoder:
        """See ``LoadedModel``."""
        reasoning = prompt.phase is StartPhase.REASONING and not request.raw
        return ToyDecoder(self.vocabulary, reasoning)

    def early_close(self, prompt: PreparedPrompt) -> tuple[int, ...]:
        """See ``LoadedModel``."""
        return (*b"\nEnough.\n", self.vocabulary.framing["</think>"], *b"\n\n")

    def sampling_defaults(self, prompt: PreparedPrompt) -> SamplingOptions:
        """See ``LoadedModel``."""
        return self.defaults
