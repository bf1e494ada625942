"""An engine on the toy model that can be held up and broken, for the protocol suite."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen

from infernix_core.interfaces.frontend import OutputRequest, PreparedPrompt, PromptInput
from infernix_core.interfaces.language import Language
from infernix_core.interfaces.mask_provider import NO_RAW_MEMBERS, RawMembers, never
from infernix_core.interfaces.model import ForwardBatch, StateViews, StepKind, StepOutput
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.vocabulary import Vocabulary
from infernix_core.testing.plain_provider import PlainGrammar, PlainMatcher, PlainProvider
from infernix_core.testing.toy import ToyDecoder, ToyModel, ToyTarget, toy_vocabulary
from infernix_core.testing.toy_engine import ToyEngine, toy_engine

#: A prompt with this word in it is what the preparation's gate holds up.
HELD = "held"

#: The text of every injected fault, which no client may see.
SECRET = "the-secret-inside-of-the-program"

#: Pieces of characters, line ends and blanks, which break careless framing, and words.
WORDS = (
    b"re",
    b"\n\n",
    b"\r\n",
    b"\r",
    b" ",
    b"data: ",
    "€".encode(),
    "🙂".encode()[:2],
    b"\x99\x82",
)


@define(eq=False)
class Gate:
    """Holds threads of the engine up until the test lets them go, or gives up.

    Attributes:
        patience: Seconds after which it opens by itself: the test cannot, since its loop is blocked.
        expired: Whether it did.
        reached: Whether a thread has been held up.
    """

    patience: float
    expired: bool = False
    reached: bool = False
    _spared: int = 0
    _open: threading.Event = field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self._open.set()

    def shut(self, spared: int = 0) -> None:
        """From now on threads are held up; the first ``spared`` passages are still free."""
        self._spared, self.reached = spared, False
        self._open.clear()

    def open(self) -> None:
        """Lets everything go."""
        self._open.set()

    def wait(self) -> None:
        """Called where a thread may be held up."""
        if self._open.is_set():
            return
        if self._spared:
            self._spared -= 1
            return
        self.reached = True
        if not self._open.wait(self.patience):
            self.expired = True
            self._open.set()


@define(eq=False)
class Controls:
    """Holds an engine up and breaks it.

    Attributes:
        preparation: Holds the preparation of prompts that contain HELD.
        build: Holds the building of constraints.
        decode: Holds the model's decoding rounds.
        pause: Seconds that each execution of the model takes.
        broken: The part that raises: preparation, prefill, decode, decoder or matcher.
        sound: How often that part still works.
        prefills: Chunks of prompts that were executed.
        decodes: Decoding rounds that were executed.
    """

    patience: float
    preparation: Gate = field(init=False)
    build: Gate = field(init=False)
    decode: Gate = field(init=False)
    pause: float = 0.0
    broken: str | None = None
    sound: int = 0
    prefills: int = 0
    decodes: int = 0

    def __attrs_post_init__(self) -> None:
        self.preparation, self.build, self.decode = (Gate(self.patience) for _ in range(3))

    @property
    def expired(self) -> bool:
        """Whether a gate has opened by itself."""
        return any(gate.expired for gate in (self.preparation, self.build, self.decode))

    def let_go(self) -> None:
        """Opens every gate."""
        for gate in (self.preparation, self.build, self.decode):
            gate.open()

    def part(self, name: str) -> None:
        """Called by each part when it works."""
        if self.broken == name:
            if not self.sound:
                raise RuntimeError(SECRET)
            self.sound -= 1


@define(eq=False)
class _Target(ToyTarget):
    controls: Controls = field(kw_only=True)

    def forward(
        self, batch: ForwardBatch, views: StateViews, features: Sequence[str] = ()
    ) -> StepOutput:
        """See ``TargetModel``."""
        controls = self.controls
        time.sleep(controls.pause)
        if batch.kind is StepKind.PREFILL:
            controls.part("prefill")
            controls.prefills += 1
        else:
            controls.decode.wait()
            controls.part("decode")
            controls.decodes += 1
        return super().forward(batch, views, features)


@frozen
class _Decoder(ToyDecoder):
    controls: Controls = field(kw_only=True)

    def step(self, state: Any, token: int) -> Any:
        """See ``OutputDecoder``."""
        self.controls.part("decoder")
        return super().step(state, token)


@define(eq=False)
class _Model(ToyModel):
    controls: Controls = field(kw_only=True)

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """See ``LoadedModel``."""
        prepared = super().prepare(prompt)
        if HELD.encode() in bytes(token for token in prepared.token_ids if 0 <= token < 256):
            self.controls.preparation.wait()
        self.controls.part("preparation")
        return prepared

    def decoder(
        self,
        prompt: PreparedPrompt,
        request: OutputRequest,
        raw_members: RawMembers = NO_RAW_MEMBERS,
    ) -> ToyDecoder:
        """See ``LoadedModel``."""
        plain = super().decoder(prompt, request, raw_members)
        return _Decoder(plain.vocabulary, plain.thinks, controls=self.controls)


@define(eq=False)
class _Matcher(PlainMatcher):
    controls: Controls = field(kw_only=True)

    def accept(self, token: int) -> bool:
        """See ``GrammarMatcher``."""
        self.controls.part("matcher")
        return super().accept(token)


@frozen
class _Grammar(PlainGrammar):
    controls: Controls = field(kw_only=True, eq=False)

    def start(self, prefix: Sequence[bytes | int] = ()) -> PlainMatcher:
        """See ``CompiledGrammar``."""
        plain = super().start(prefix)
        return _Matcher(plain.vocabulary, plain.items, plain.masks, controls=self.controls)


@frozen
class _Provider(PlainProvider):
    controls: Controls = field(kw_only=True, eq=False)

    def bind(self, vocabulary: Vocabulary) -> PlainProvider:
        """See ``MaskProvider``."""
        return _Provider(vocabulary, controls=self.controls)

    def compile(self, language: Language, check: Callable[[], None] = never) -> PlainGrammar:
        """See ``BoundMaskProvider``."""
        self.controls.build.wait()
        plain = super().compile(language)
        return _Grammar(plain.vocabulary, plain.language, controls=self.controls)


def controlled_engine(controls: Controls, *, seed: int = 0, **options: Any) -> ToyEngine:
    """An engine whose free answers never end by themselves, and are greedy where the request does not say."""
    vocabulary = toy_vocabulary(WORDS)
    bias = {256 + index: 2.0 for index in range(len(WORDS))}
    bias |= dict.fromkeys(vocabulary.end_ids, -1e4)
    target = _Target(vocabulary, seed=seed, bias=bias, controls=controls)
    model = _Model(target, defaults=SamplingOptions(greedy=True), controls=controls)
    return toy_engine(model, mask_provider=lambda: _Provider(controls=controls), **options)
