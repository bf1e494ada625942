"""What the bench runs: an engine whose outputs have a fixed length, its prompts and its constraints."""

from __future__ import annotations

import json
from pathlib import Path

from attrs import evolve, frozen

from infernix_core.descriptors import MaskProviderPlugin, SamplerPlugin
from infernix_core.engine.checkpoint import load_model
from infernix_core.engine.engine import Engine
from infernix_core.engine.options import EngineOptions
from infernix_core.engine.request import GenerationResult, RequestOptions
from infernix_core.errors import ContextOverflow, InvalidPrompt
from infernix_core.interfaces.constraints import (
    Choice,
    Grammar,
    JsonObject,
    JsonSchema,
    OutputConstraint,
    Regex,
)
from infernix_core.interfaces.frontend import (
    LoadedModel,
    OutputDecoder,
    OutputRequest,
    PreparedPrompt,
    PromptInput,
)
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, MaskProvider, RawMembers
from infernix_core.interfaces.model import TargetModel
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import TokenClass, Vocabulary
from infernix_core.plugins import PluginRegistry

_ITEM = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "severity": {"enum": ["low", "medium", "high"]},
        "count": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["title", "severity", "count", "tags"],
    "additionalProperties": False,
}

#: GBNF that xgrammar's own front door reads alike, so that both sides of a comparison have one language. No text
#: of it is shorter than 2,000 bytes: an output of the bench never ends by itself.
RECORDS = r"""
root ::= "[" record ("," record){127} "]"
record ::= "{\"title\":" string ",\"severity\":" severity ",\"count\":" count ",\"tags\":[" (string ("," string)*)? "]}"
severity ::= "\"low\"" | "\"medium\"" | "\"high\""
count ::= "-"? ("0" | [1-9] [0-9]*)
string ::= "\"" ([^"\\\x00-\x1f] | "\\" ["\\/bfnrt])* "\""
"""

#: The same records as a schema, by which only this engine is measured: the peer's JSON is another language.
SCHEMA = json.dumps({"type": "array", "minItems": 128, "maxItems": 128, "items": _ITEM})

_TEXTS = (
    "The login page shows an empty screen after the update, reported by Ada Lovelace on Monday.",
    "Please reach Grace Hopper at grace@example.org or under +1 555 0100 before the meeting.",
    "2024-05-17 12:44:01 ERROR worker 7: connection to db-3 lost after 30 seconds, retrying.",
    "Printing fails with error 42 when the paper size is A5; three users have seen it this week.",
    "Alan Turing, Bletchley Park, writes that the export button is missing in version 2.1.",
    "2024-06-02 03:15:59 WARN cache: 812 entries evicted, memory above the limit of 2 GB.",
    "The search finds nothing when the query holds an umlaut; it happens on every machine.",
    "Call Katherine Johnson on extension 4711, or write to kj@example.com, about the orbit data.",
)


@frozen
class Shape:
    """A constraint to measure, and a text that it accepts."""

    name: str
    constraint: OutputConstraint
    text: str


_OBJECT = '{"name": "Ada Lovelace", "tags": ["a", "b c", "d\\"e"], "n": -12.5e3, "deep": {"x": [[1], null, true]}}'
_RECORD = (
    '{"title": "Login page is empty", "severity": "high", "count": 12, "tags": ["ui", "auth"]}'
)
_LINES = 'root ::= line+\nline ::= key " = " value "\\n"\nkey ::= [a-z_]+\nvalue ::= [0-9]+ | "\\"" [^"\\n]* "\\""\n'

SHAPES = (
    Shape("json object", JsonObject(), _OBJECT),
    Shape("json schema", JsonSchema(json.dumps(_ITEM)), _RECORD),
    Shape("gbnf", Grammar(_LINES), 'retries = 3\nname = "worker seven"\nlimit_mb = 2048\n'),
    Shape(
        "regex",
        Regex("[0-9]{4}-[0-9]{2}-[0-9]{2} (ERROR|WARN|INFO) [a-z0-9 ]{1,60}: .{1,200}"),
        "2024-05-17 ERROR worker 7: connection to the database lost after 30 seconds",
    ),
    Shape(
        "choice of 1,000",
        Choice([f"choice number {index}" for index in range(1000)]),
        "choice number 741",
    ),
)


@frozen(eq=False)
class EndlessModel:
    """A loaded model whose end tokens are tokens like any other: only the token limit ends its outputs."""

    inner: LoadedModel
    vocabulary: Vocabulary

    @classmethod
    def of(cls, model: LoadedModel) -> EndlessModel:
        """Declares the end tokens to be framing, which no constraint lets through."""
        words = model.vocabulary
        classes = tuple(
            TokenClass.FRAMING if kind is TokenClass.END else kind for kind in words.classes
        )
        return cls(model, Vocabulary(words.token_bytes, classes, words.framing))

    @property
    def name(self) -> str:
        """See ``LoadedModel``."""
        return self.inner.name

    @property
    def target(self) -> TargetModel:
        """See ``LoadedModel``."""
        return self.inner.target

    @property
    def context_length(self) -> int:
        """See ``LoadedModel``."""
        return self.inner.context_length

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        return self.inner.prepare(prompt)

    def language(self, prompt: PreparedPrompt, request: OutputRequest) -> Language | None:
        """See ``LoadedModel``."""
        return self.inner.language(prompt, request)

    def prefix(self, prompt: PreparedPrompt, request: OutputRequest) -> tuple[bytes | int, ...]:
        """See ``LoadedModel``."""
        return self.inner.prefix(prompt, request)

    def decoder(
        self,
        prompt: PreparedPrompt,
        request: OutputRequest,
        raw_members: RawMembers = NO_RAW_MEMBERS,
    ) -> OutputDecoder:
        """See ``LoadedModel``."""
        return self.inner.decoder(prompt, request, raw_members)

    def early_close(self, prompt: PreparedPrompt) -> tuple[int, ...]:
        """See ``LoadedModel``."""
        return self.inner.early_close(prompt)

    def sampling_defaults(self, prompt: PreparedPrompt) -> SamplingOptions:
        """See ``LoadedModel``."""
        return self.inner.sampling_defaults(prompt)


@frozen(eq=False)
class Bench:
    """An engine and what it is asked.

    Attributes:
        directory: The checkpoint.
        model: What was loaded from it; the engine's outputs of fixed length are made of it.
        registry: The plugins.
        provider: Makes what compiles constraints.
        prompts: One per lane, all of one length, as transformers' batches want it.
        tokens: Tokens of every output.
        repeats: Runs of each case.
    """

    directory: Path
    model: LoadedModel
    registry: PluginRegistry
    engine: Engine
    options: EngineOptions
    provider: MaskProvider
    prompts: tuple[PreparedPrompt, ...]
    tokens: int
    repeats: int

    @classmethod
    def load(
        cls,
        directory: Path,
        options: EngineOptions,
        registry: PluginRegistry,
        *,
        tokens: int,
        repeats: int,
    ) -> Bench:
        """Loads the checkpoint.

        Raises:
            ContextOverflow: The engine's context has no room for the prompts and so many tokens.
        """

        def provider() -> MaskProvider:
            made: MaskProvider = registry.create(MaskProviderPlugin, options.mask_provider)
            return made

        # What can be found wrong without the weights is found before they are read.
        registry.get(MaskProviderPlugin, options.mask_provider)
        registry.get(SamplerPlugin, options.sampler)
        model = load_model(directory, options, registry)
        endless = Engine.load(
            directory, options=options, registry=registry, model=EndlessModel.of(model)
        )
        prompts = _prompts(endless, options.lanes)
        longest = len(prompts[0].token_ids) + tokens
        if longest > endless.max_context:
            endless.close()
            raise ContextOverflow(
                f"prompts and outputs have {longest} tokens, the context {endless.max_context}",
                hint="lower --tokens or raise --max-context",
            )
        return cls(
            directory=directory,
            model=model,
            registry=registry,
            engine=endless,
            options=options,
            provider=provider(),
            prompts=prompts,
            tokens=tokens,
            repeats=repeats,
        )

    def generate(self, constraints: tuple[OutputConstraint | None, ...]) -> list[GenerationResult]:
        """One greedy request per constraint, all at once.

        Raises:
            InfernixError: One of them failed.
        """
        handles = [
            self.engine.submit(
                prompt,
                RequestOptions(
                    constraint=constraint,
                    sampling=SamplingOptions(
                        greedy=True, presence_penalty=0.0, frequency_penalty=0.0
                    ),
                    max_tokens=self.tokens,
                ),
            )
            for prompt, constraint in zip(self.prompts, constraints, strict=False)
        ]
        return [handle.wait().raise_for_error() for handle in handles]


def _prompts(engine: Engine, count: int) -> tuple[PreparedPrompt, ...]:
    """Chat prompts where the checkpoint has a template, cut at their beginning to one length."""
    prepared = []
    for index in range(count):
        text = _TEXTS[index % len(_TEXTS)]
        message = {"role": "user", "content": f"Report {index + 1}. {text}"}
        try:
            prompt = engine.prepare(PromptInput(messages=[message], enable_thinking=False))
        except InvalidPrompt:
            prompt = engine.prepare(PromptInput(text=text))
        prepared.append(prompt)
    length = min(len(prompt.token_ids) for prompt in prepared)
    return tuple(evolve(prompt, token_ids=prompt.token_ids[-length:]) for prompt in prepared)
