"""A toy that says what it is told to, whatever the prompt: for tests of what is made of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, evolve, field
from torch import Tensor

from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.frontend import PreparedPrompt, PromptInput
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.model import (
    ForwardBatch,
    StateKind,
    StateSpec,
    StateViews,
    StepKind,
    StepOutput,
)
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.spelling import spelt
from infernix_core.testing.toy import ToyDecoder, ToyModel

CERTAIN = 1e3
"""Logit of the script's next token; that of every other is 0."""


@define(eq=False)
class ScriptedTarget:
    """Gives the tokens of ``script`` in turn after ``start``, and END after them; implements ``TargetModel``.

    Its state is how many tokens were executed since ``start``, and that one counts too: 0 before it. At ordinary
    temperatures and penalties every sampling law takes the script's token, unless a constraint forbids it: then all
    legal ones are alike.

    Args:
        vocabulary: Its tokens.
        start: The token that ends every prompt.
        script: Token ids of the output, without an END.
    """

    vocabulary: Vocabulary
    start: int
    script: Sequence[int]
    grid: int = 4
    device: torch.device = field(factory=lambda: torch.device("cpu"))
    _table: Tensor = field(init=False)

    def __attrs_post_init__(self) -> None:
        end = min(self.vocabulary.end_ids)
        tokens = [end, *self.script, end]
        self._table = torch.zeros((len(tokens), self.logits_width))
        self._table[torch.arange(len(tokens)), torch.tensor(tokens)] = CERTAIN

    @property
    def logits_width(self) -> int:
        """See ``TargetModel``."""
        return self.vocabulary.size

    def states(self) -> Sequence[StateSpec]:
        """See ``TargetModel``."""
        return (
            StateSpec("scripted.said", StateKind.SLOT, (), torch.int64),
            StateSpec("scripted.column", StateKind.RECORD, (), torch.int64),
        )

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """See ``TargetModel``. The only feature is ``final``."""
        if unknown := set(features) - {"final"}:
            raise ValueError(f"unknown features {sorted(unknown)}")
        hidden = torch.zeros((*batch.ids.shape, 1), dtype=torch.int64)
        said = views.read_slot("scripted.said", batch.lanes).tolist()
        ids = batch.ids.tolist()
        for row, width in enumerate(batch.widths):
            for column in range(width):
                said[row] = self._after(said[row], ids[row][column])
                hidden[row, column, 0] = said[row]
        if batch.kind is StepKind.PREFILL:
            views.write_slot("scripted.said", batch.lanes, torch.tensor(said))
        else:
            views.write_records("scripted.column", batch.ids)
        return StepOutput(hidden, dict.fromkeys(features, hidden))

    def fold(self, lanes: Sequence[int], counts: Sequence[int], views: StateViews) -> None:
        """See ``TargetModel``."""
        said = views.read_slot("scripted.said", lanes).tolist()
        records = views.read_records("scripted.column", len(lanes)).tolist()
        for row, count in enumerate(counts):
            for token in records[row][:count]:
                said[row] = self._after(said[row], token)
        views.write_slot("scripted.said", lanes, torch.tensor(said))

    def embed(self, ids: Tensor) -> Tensor:
        """See ``TargetModel``."""
        return ids[..., None]

    def lm_head(self, hidden: Tensor) -> Tensor:
        """See ``TargetModel``."""
        return self._table[hidden[:, 0].clamp(max=len(self._table) - 1)]

    def draft_head(self, name: str) -> str:
        """See ``TargetModel``."""
        return f"a toy has no draft head {name!r}"

    def _after(self, said: int, token: int) -> int:
        if token == self.start:
            return 1
        return said + 1 if said else 0


@define(eq=False)
class ScriptedModel:
    """A scripted target behind the toy's prompts and framing; implements ``LoadedModel``. Use :func:`saying`.

    Prompts are the toy's, and one FORBIDDEN token more, which begins the output.
    """

    target: ScriptedTarget
    toy: ToyModel
    name: str = "scripted"

    @property
    def vocabulary(self) -> Vocabulary:
        """See ``LoadedModel``."""
        return self.toy.vocabulary

    @property
    def context_length(self) -> int:
        """See ``LoadedModel``."""
        return self.toy.context_length

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        plain = self.toy.prepare(prompt)
        return evolve(plain, token_ids=(*plain.token_ids, self.target.start))

    def language(self, prompt: PreparedPrompt, constraint: OutputConstraint) -> Language:
        """See ``LoadedModel``."""
        return self.toy.language(prompt, constraint)

    def decoder(self, prompt: PreparedPrompt) -> ToyDecoder:
        """See ``LoadedModel``."""
        return self.toy.decoder(prompt)

    def sampling_defaults(self, prompt: PreparedPrompt) -> SamplingOptions:
        """See ``LoadedModel``."""
        return self.toy.sampling_defaults(prompt)


def saying(
    text: str, *, reasoning: str | None = None, words: Sequence[bytes] = ()
) -> ScriptedModel:
    """A toy that answers every prompt with ``text``, byte by byte, and ends.

    Args:
        text: The content.
        reasoning: What it thinks first. Give it where prompts are chats that enable thinking, and only there:
            elsewhere the end of thinking is no part of an output.
        words: Further tokens. The answer uses them where they fit, the longest first.
    """
    toy = ToyModel.make(words)
    vocabulary = toy.vocabulary
    script = spelt(text.encode(), vocabulary)
    if reasoning is not None:
        thought = spelt(reasoning.encode(), vocabulary)
        script = [*thought, vocabulary.framing["</think>"], *spelt(b"\n\n", vocabulary), *script]
    start = min(vocabulary.ids(TokenClass.FORBIDDEN))
    return ScriptedModel(ScriptedTarget(vocabulary, start, script), toy)
