"""The engine: prepare a prompt, submit it, read its events."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from attrs import evolve

from infernix_core.descriptors import (
    MaskProviderPlugin,
    SamplerPlugin,
    SpeculativeBackendPlugin,
)
from infernix_core.engine.checkpoint import load_model
from infernix_core.engine.cold_work import Patience, never
from infernix_core.engine.draft_policy import FixedDrafts
from infernix_core.engine.drafting import bind_drafter, check_drafting
from infernix_core.engine.grammar_cache import GrammarCache
from infernix_core.engine.option_checks import is_duration
from infernix_core.engine.options import DEFAULT_CONTEXT, NGRAM, EngineOptions
from infernix_core.engine.preparation import Preparation
from infernix_core.engine.program import Program
from infernix_core.engine.request import FinishReason, GenerationHandle, RequestOptions
from infernix_core.engine.resident import Request
from infernix_core.engine.scheduler import Scheduler
from infernix_core.engine.worker import Worker
from infernix_core.errors import EngineUnavailable, InvalidOption, Location, QueueFull
from infernix_core.interfaces.frontend import LoadedModel, PreparedPrompt, PromptInput
from infernix_core.interfaces.mask_provider import MaskProvider
from infernix_core.interfaces.sampling import Sampler
from infernix_core.interfaces.speculative import DraftPolicy, SpeculativeBackend
from infernix_core.plugins import PluginRegistry

_log = logging.getLogger(__name__)


class Engine:
    """One model on one machine. Public methods are thread-safe.

    Args:
        model: The loaded checkpoint.
        mask_provider: Makes the mask provider; called when the first constrained request or ``warm_up`` needs it.
        sampler: The sampler.
        backend: The speculative backend, or ``None``.
        copier: The backend that copies in front of it, as many tokens as ``options.ngram_draft_tokens``.
        checkpoint: The model's directory, where a backend may find its drafter.
        policy: Chooses draft widths; ``None`` gives every row as many as the options allow.
        options: Sizes.
    """

    def __init__(
        self,
        model: LoadedModel,
        *,
        mask_provider: Callable[[], MaskProvider],
        sampler: Sampler,
        backend: SpeculativeBackend | None = None,
        copier: SpeculativeBackend | None = None,
        checkpoint: Path | None = None,
        policy: DraftPolicy | None = None,
        options: EngineOptions | None = None,
    ) -> None:
        self.model = model
        self.options = options = options if options is not None else EngineOptions()
        limit = model.context_length
        context = (
            min(limit, DEFAULT_CONTEXT) if options.max_context is None else options.max_context
        )
        if context > limit:
            raise InvalidOption(
                f"the checkpoint was made for {limit} positions, not {context}",
                location=Location(field="max_context"),
                hint=f"at most {limit}",
            )
        self.max_context = context
        grid = model.target.grid
        self._grammars = GrammarCache(
            lambda: mask_provider().bind(model.vocabulary),
            options.grammar_cache_bytes,
            model.vocabulary.words,
        )
        drafter = bind_drafter(
            backend,
            copier,
            model.target,
            model.vocabulary,
            options,
            capacity=context,
            checkpoint=checkpoint,
        )
        self._program = Program(
            model.target,
            model.vocabulary,
            sampler,
            drafter,
            lanes=options.lanes,
            capacity=context,
            deterministic=options.deterministic,
        )
        self._outstanding = 0
        self._preparing: set[Patience] = set()
        self._outstanding_lock = threading.Lock()
        self._worker = Worker(
            self._program,
            Scheduler(-(-options.prefill_chunk // grid) * grid),
            policy if policy is not None else FixedDrafts(self._program.width - 1),
            self._release,
            mask_timeout=options.mask_timeout,
        )
        self._preparation = Preparation(model, self._grammars, context, self._worker.wake)

    @classmethod
    def load(
        cls,
        directory: Path | str,
        *,
        options: EngineOptions | None = None,
        registry: PluginRegistry | None = None,
        model: LoadedModel | None = None,
    ) -> Engine:
        """An engine for a checkpoint directory, with the plugins that ``options`` names.

        Args:
            directory: The checkpoint.
            options: Sizes and choices.
            registry: The plugins; ``None`` takes those that are installed.
            model: What was loaded from the directory before, for the same device, dtype and determinism.

        Raises:
            CheckpointError: The directory cannot be loaded.
            PluginError: A named plugin is missing, doubled, or cannot be used.
            InvalidOption: An option contradicts the checkpoint.
        """
        options = options if options is not None else EngineOptions()
        registry = registry if registry is not None else PluginRegistry.discover()
        # What can be found wrong without the weights is found before they are read.
        registry.get(MaskProviderPlugin, options.mask_provider)
        sampler = registry.create(SamplerPlugin, options.sampler)
        check_drafting(options)
        backend = copier = None
        if options.spec is not None:
            backend = registry.create(SpeculativeBackendPlugin, options.spec)
        if options.ngram_draft_tokens:
            copier = registry.create(SpeculativeBackendPlugin, NGRAM)
        return cls(
            model if model is not None else load_model(Path(directory), options, registry),
            mask_provider=lambda: registry.create(MaskProviderPlugin, options.mask_provider),
            sampler=sampler,
            backend=backend,
            copier=copier,
            checkpoint=Path(directory),
            options=options,
        )

    @property
    def grammars(self) -> GrammarCache:
        """The compiled grammars, for observation."""
        return self._grammars

    @property
    def outstanding(self) -> int:
        """Requests that are in preparation, waiting or running."""
        return self._outstanding

    @property
    def available(self) -> bool:
        """Whether work is accepted: the engine is neither closed nor stopped by a fault. A full queue is
        no fault.
        """
        try:
            self._worker.require_available()
        except EngineUnavailable:
            return False
        return True

    def warm_up(self) -> None:
        """Does now what the first constrained requests would wait for: makes, binds and warms the mask provider."""
        self._grammars.bind().warm_up()

    def prepare(self, prompt: PromptInput) -> PreparedPrompt:
        """Renders and encodes a prompt. Compiles nothing.

        Raises:
            TypeError: It is no PromptInput.
            InvalidPrompt: It cannot be rendered or encoded.
            ContextOverflow: It leaves no room for output.
        """
        if not isinstance(prompt, PromptInput):
            raise TypeError(f"prepare takes a PromptInput, not {type(prompt).__name__}")
        prepared = self.model.prepare(evolve(prompt, most_tokens=self.max_context - 1))
        self._preparation.check_prompt(prepared)
        return prepared

    def submit(
        self,
        prompt: PreparedPrompt,
        options: RequestOptions | None = None,
        *,
        cancelled: Callable[[], bool] = never,
    ) -> GenerationHandle:
        """Prepares the output session on the calling thread, then queues the request.

        Args:
            prompt: What :meth:`prepare` gave.
            options: How to generate.
            cancelled: Whether nobody wants the request any more; for callers that cannot wait for the handle.
                Asked between the steps of preparation and while it waits, also on other threads. From the moment
                that it says so, the request takes no place among the outstanding ones.

        Raises:
            ContextOverflow: The prompt was not prepared by this engine and leaves no room for output.
            InvalidPrompt: It holds ids that the vocabulary lacks.
            QueueFull: Too many requests are outstanding.
            EngineUnavailable: The engine is closed or has failed.
            InvalidOption: Options are impossible or contradict each other.
            ConstraintError: The constraint is invalid, unsupported or leaves no first token.
            DeadlineExceeded: The pending deadline passed during preparation.
            RequestCancelled: ``cancelled`` said so.
        """
        submitted = time.monotonic()
        if not isinstance(prompt, PreparedPrompt):
            raise TypeError(f"submit takes what prepare gave, not {type(prompt).__name__}")
        options = options if options is not None else RequestOptions()
        self._worker.require_available()
        patience = self._patience(options, submitted, cancelled)
        with self._outstanding_lock:
            limit = self.options.most_outstanding
            if self._outstanding >= limit:
                abandoned = sum(one.cancelled() for one in self._preparing)
                if (outstanding := self._outstanding - abandoned) >= limit:
                    raise QueueFull(f"{outstanding} requests are outstanding; try again later")
            self._outstanding += 1
            self._preparing.add(patience)
        try:
            request = self._preparation.request(prompt, options, submitted, patience)
            patience.check()
            if request.session.limit == 0:
                self._finish_empty(request)
            else:
                self._worker.submit(request)
        except BaseException:
            self._release(None)
            raise
        finally:
            with self._outstanding_lock:
                self._preparing.discard(patience)
        return request.handle

    def close(self, timeout: float | None = None) -> bool:
        """Cancels what runs and what waits, and stops the worker. Idempotent.

        Args:
            timeout: Seconds to wait for the worker, which finishes what it computes; ``None`` waits for the end.

        Returns:
            Whether the worker has stopped.
        """
        return self._worker.close(timeout)

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _patience(
        self, options: RequestOptions, submitted: float, cancelled: Callable[[], bool]
    ) -> Patience:
        """Until when a request may be prepared and wait; an impossible timeout is refused later."""
        timeout = options.pending_timeout
        timeout = self.options.pending_timeout if timeout is None else timeout
        deadline = None
        if timeout is not None and is_duration(timeout):
            deadline = submitted + timeout
        return Patience(cancelled, deadline)

    def _finish_empty(self, request: Request) -> None:
        request.queued = time.monotonic()
        request.finish(FinishReason.LENGTH)
        self._release(None)

    def _release(self, request: Request | None) -> None:
        with self._outstanding_lock:
            self._outstanding -= 1
        if request is not None and request.work is not None:
            try:
                self._grammars.refresh(request.work.language)
            except Exception:
                _log.exception("a compiled grammar does not tell its size")
