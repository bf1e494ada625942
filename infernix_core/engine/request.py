"""What goes into a generation request, what comes out of it, and the handle between."""

from __future__ import annotations

import enum
import logging
import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import define, field, frozen

from infernix_core.errors import ErrorReport, InfernixError, InvalidOption, Location
from infernix_core.interfaces.constraints import OutputConstraint
from infernix_core.interfaces.frontend import (
    Channel,
    OutputRequest,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from infernix_core.interfaces.sampling import SamplingOptions
from infernix_core.interfaces.tools import ToolChoice

_log = logging.getLogger(__name__)


def _stop(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(_listed(values, "stop"))


def _stop_token_ids(values: Iterable[int]) -> tuple[int, ...]:
    return tuple(_listed(values, "stop_token_ids"))


def _listed(values: Any, name: str) -> Iterable[Any]:
    """Refuses what only looks like a list: a bare string, ``None``, a number."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidOption(
            f"{values!r} is not a list", location=Location(field=name), hint="wrap it in a list"
        )
    return values


@frozen
class RequestOptions:
    """How one prepared prompt is generated from.

    Attributes:
        constraint: The shape of the content; ``None`` leaves it free.
        sampling: The sampling law; unset parts take the checkpoint's or the family's values.
        max_tokens: Most tokens to generate, reasoning and end token included; ``None`` leaves the rest of
            the context. 0 generates nothing and finishes with ``length``.
        stop: Strings that end the output before they would be published (content only). Not with a
            constraint, nor where calls are required, or a tool that may be called is strict.
        stop_token_ids: Further tokens that end the output unpublished, wherever they come from. Not where
            ``stop`` cannot be given.
        raw_output: Publish everything as content: no reasoning split, control tokens as their spelling.
            Not on a chat whose output is constrained, be it for the sake of tools.
        pending_timeout: Seconds the request may wait, from ``submit`` until it is admitted; ``None`` is
            the engine's default.
        draft_limit: Most draft tokens per round; ``None`` leaves it to the engine's policy.
        tool_choice: What is allowed of the tools that the prompt declares.
        thinking_budget: Most tokens of reasoning, without the token that closes it. When so many have come and
            it is still open, it is closed with the model's fixed text, which counts as output and is not drawn;
            0 closes it before its first token. ``None`` does not limit it; without thinking it does nothing.
        constraint_stats: Measure how far the constraint bends the model, for the kept mass of the
            :class:`ConstraintReport`. Costs a softmax over the vocabulary per position that is decided, and
            changes no token. Only where the output is constrained.
    """

    constraint: OutputConstraint | None = None
    sampling: SamplingOptions = field(factory=SamplingOptions)
    max_tokens: int | None = None
    stop: tuple[str, ...] = field(default=(), converter=_stop)
    stop_token_ids: tuple[int, ...] = field(default=(), converter=_stop_token_ids)
    raw_output: bool = False
    pending_timeout: float | None = None
    draft_limit: int | None = None
    tool_choice: ToolChoice = field(factory=ToolChoice)
    thinking_budget: int | None = None
    constraint_stats: bool = False

    @property
    def output(self) -> OutputRequest:
        """What a frontend is told of them."""
        return OutputRequest(self.constraint, self.tool_choice, self.raw_output)


class FinishReason(enum.Enum):
    """Why an output ended.

    Attributes:
        STOP: The model, a constraint's end, or a stop condition ended it.
        LENGTH: The token limit or the context ended it; a constrained content may be incomplete.
        CANCELLED: The caller, or the engine's end, cancelled it; the text is a part.
        ERROR: It failed, and the result's ``error`` says why; the text is a part.
    """

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@frozen
class Usage:
    """Token counts.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        completion_tokens: Output tokens: the generated ones, the end token included, and those that closed the
            reasoning at the end of its budget.
        rounds: Rounds that gave it tokens, the one of its first token included.
        drafted_tokens: Drafts that were verified for it.
        accepted_tokens: How many of them became output.
        drafts_by_position: Of the rounds that drafted a first, a second, … token for it: how many there were, and
            in how many that draft became output.
    """

    prompt_tokens: int
    completion_tokens: int = 0
    rounds: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    drafts_by_position: tuple[tuple[int, int], ...] = ()


@frozen
class Timings:
    """Wall seconds of one request. ``total`` runs from submit to the end.

    Attributes:
        preparation: Inside ``submit``: validation, compilation, the initial mask.
        queue: From the queue to a lane.
        prefill: From the lane to the first token.
        decode: From the first token to the end.
        first_token: From submit to the first token.
        drafts: The part of ``decode`` in which its committed rounds waited for their drafts, those of other requests
            in the same rounds included.
    """

    preparation: float = 0.0
    queue: float = 0.0
    prefill: float = 0.0
    decode: float = 0.0
    first_token: float = 0.0
    drafts: float = 0.0
    total: float = 0.0


@frozen
class ConstraintReport:
    """The committed state of a constraint when the request ended, and what it cost.

    Attributes:
        kind: grammar, json_object, json_schema, choice or regex; ``tools`` when nothing but calls is constrained.
        branch: ``undecided`` while the output has not reached its content, then ``content``, and ``tools`` from
            its first call on.
        complete: The language may end here: with the prefix it forms a whole text of it.
        terminated: An end token was accepted; only then is the output a normal completion.
        cache: How the compiled grammar was had: ``hit``, ``built`` or ``waited`` (for another's build).
        positions: Positions that masks were computed for, lookahead included.
        mask_bytes: Bytes of the masks that sampling read in committed rounds.
        preparation_cpu_seconds: CPU seconds of this request's thread for compilation and the initial mask.
        mask_cpu_seconds: CPU seconds of masks, lookahead and rollback.
        accept_cpu_seconds: CPU seconds of previews and discards: matcher, decoder and stop rules.
        notes: What the constraint's source says that asserts nothing, such as an unknown ``format``; one line each.
        kept_mass: Mean over output tokens of the probability that the model itself gave to the legal ones
            (1 - bending), by its penalised logits at temperature 1, before any truncation; ``None`` when
            ``constraint_stats`` was not asked for, or without tokens. So are the next two.
        kept_mass_minimum: The least of them.
        kept_mass_below_tenth: Output tokens at which it was below 0.1.
    """

    kind: str
    branch: str
    complete: bool
    terminated: bool
    cache: str
    positions: int
    mask_bytes: int
    preparation_cpu_seconds: float
    mask_cpu_seconds: float
    accept_cpu_seconds: float
    notes: tuple[str, ...] = ()
    kept_mass: float | None = None
    kept_mass_minimum: float | None = None
    kept_mass_below_tenth: int | None = None


@frozen
class ToolCall:
    """A call that the output makes.

    Attributes:
        arguments_json: The JSON text of one object; ``None`` when the output ended within the call.
    """

    name: str
    arguments_json: str | None


@frozen
class GenerationResult:
    """The end of one request.

    Attributes:
        text: Published content.
        tool_calls: In their order; one that the output's end cut off is the last, without arguments.
        reasoning: Published reasoning.
        finish_reason: Why it ended.
        stop: What stopped it, when it was a stop string or a stop token id.
        token_ids: Committed output tokens, a final end token included.
        seed: The seed that was used.
        usage: Token counts.
        timings: Wall seconds.
        constraint: Present when the request was constrained, unless it ended while a slow mask was made.
        error: Present when ``finish_reason`` is ERROR. Text published before it stays.
    """

    text: str
    reasoning: str
    finish_reason: FinishReason
    token_ids: tuple[int, ...] = field(repr=False)
    seed: int
    usage: Usage
    timings: Timings
    stop: str | int | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    constraint: ConstraintReport | None = None
    error: ErrorReport | None = None

    def raise_for_error(self) -> GenerationResult:
        """The result itself, or the error that ended the request.

        A CANCELLED result has no error: its text is a part.
        """
        if self.error is not None:
            raise self.error.error
        return self


def report_error(error: InfernixError) -> ErrorReport:
    """An error as a value."""
    return ErrorReport(type(error).__name__, str(error), error)


@frozen
class GenerationStart:
    """The request was admitted to a lane."""

    prompt_tokens: int


@frozen
class TextDelta:
    """Newly published text. Deltas of one channel concatenate to the result's text.

    Attributes:
        tokens: Output tokens committed so far.
    """

    channel: Channel
    text: str
    tokens: int


@frozen
class GenerationEnd:
    """The last event."""

    result: GenerationResult


Event = GenerationStart | TextDelta | ToolCallStart | ToolCallDelta | ToolCallEnd | GenerationEnd


@define(eq=False)
class GenerationHandle:
    """One submitted request. Thread-safe.

    Iterating yields the events, each once, up to and including :class:`GenerationEnd`. Where a thread per
    request is too much, :meth:`forward` hands them to a listener instead.
    """

    _cancel: Callable[[], None]
    _events: queue.SimpleQueue[Event] = field(factory=queue.SimpleQueue, init=False)
    _done: threading.Event = field(factory=threading.Event, init=False)
    _result: GenerationResult | None = field(default=None, init=False)
    _drained: bool = field(default=False, init=False)
    _listener: Callable[[Event], None] | None = field(default=None, init=False)
    _listening: threading.Lock = field(factory=threading.Lock, init=False)

    def publish(self, event: Event) -> None:
        """Called by the engine."""
        if isinstance(event, GenerationEnd):
            self._result = event.result
        with self._listening:
            self._events.put(event)
            if self._listener is not None:
                self._deliver(self._listener)
        if isinstance(event, GenerationEnd):
            self._done.set()

    def forward(self, listener: Callable[[Event], None]) -> None:
        """Gives every event that nobody has taken yet, and every later one, to ``listener``; once.

        It is called in order, here for what has been published already and on the engine's own thread for
        the rest: it must be quick. What it raises is logged and changes nothing for the request.
        """
        with self._listening:
            self._drained = True
            self._listener = listener
            self._deliver(listener)

    def _deliver(self, listener: Callable[[Event], None]) -> None:
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return
            try:
                listener(event)
            except Exception:
                _log.exception("a listener failed; its request goes on")

    def __iter__(self) -> Iterator[Event]:
        while not self._drained:
            event = self._events.get()
            if isinstance(event, GenerationEnd):
                # Put back for other iterators that wait for an event; they find the handle drained.
                self._events.put(event)
                if self._drained:
                    return
                self._drained = True
            yield event

    def wait(self, timeout: float | None = None) -> GenerationResult:
        """Blocks until the end. Errors are in the result, not raised.

        Raises:
            TimeoutError: The request has not ended within ``timeout`` seconds; it goes on.
        """
        if not self._done.wait(timeout):
            raise TimeoutError(f"the request did not end within {timeout} s")
        assert self._result is not None
        return self._result

    @property
    def done(self) -> bool:
        """Whether the request has ended."""
        return self._done.is_set()

    def cancel(self) -> None:
        """Ends the request as soon as possible; text published so far stays. Idempotent."""
        self._cancel()
