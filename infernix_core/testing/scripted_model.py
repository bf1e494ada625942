"""A toy that says what it is told to, whatever the prompt: for tests of what is made of an answer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, evolve, field
from torch import Tensor

from infernix_core.interfaces.frontend import PreparedPrompt, PromptInput
from infernix_core.interfaces.model import ForwardBatch, StateViews
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.testing.spelling import spelt
from infernix_core.testing.table_target import TableTarget
from infernix_core.testing.toy import ToyModel, toy_vocabulary

CERTAIN = 1e3
"""Logit of the script's next token; that of every other is 0."""


def start_of(vocabulary: Vocabulary) -> int:
    """The token that ends every prompt."""
    return min(vocabulary.ids(TokenClass.FORBIDDEN))


@define(eq=False)
class ScriptedTarget(TableTarget):
    """Gives the tokens of ``script`` in turn after :func:`start_of`, and END after them; implements ``TargetModel``.

    Its state is how many tokens were executed since the start, and that one counts too: 0 before it. At ordinary
    temperatures and penalties every sampling law takes the script's token, unless a constraint forbids it: then all
    legal ones are alike.

    Args:
        vocabulary: Its tokens.
        script: Token ids of the output, without an END.
    """

    script: Sequence[int]
    _start: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._start = start_of(self.vocabulary)
        end = min(self.vocabulary.end_ids)
        tokens = [end, *self.script, end]
        self.table = torch.zeros((len(tokens), self.logits_width))
        self.table[torch.arange(len(tokens)), torch.tensor(tokens)] = CERTAIN

    def absorb(self, digest: int, token: int) -> int:
        """See ``TableTarget``."""
        if token == self._start:
            return 1
        return digest + 1 if digest else 0

    def rows(
        self, digests: Sequence[int], batch: ForwardBatch, row: int, views: StateViews
    ) -> Tensor:
        """See ``TableTarget``."""
        return torch.tensor(digests).clamp(max=len(self.table) - 1)


@define(eq=False)
class ScriptedModel(ToyModel):
    """A scripted target behind the toy's prompts and framing; implements ``LoadedModel``. Use :func:`saying`.

    Prompts are the toy's, and one FORBIDDEN token more, which begins the output.
    """

    name: str = "scripted"

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        plain = super().prepare(prompt)
        return evolve(plain, token_ids=(*plain.token_ids, start_of(self.vocabulary)))


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
    vocabulary = toy_vocabulary(words)
    script = spelt(text.encode(), vocabulary)
    if reasoning is not None:
        thought = spelt(reasoning.encode(), vocabulary)
        script = [*thought, vocabulary.framing["</think>"], *spelt(b"\n\n", vocabulary), *script]
    return ScriptedModel(ScriptedTarget(vocabulary, script))
