"""The engine for an event loop: what every protocol adapter submits to.

Preparation (rendering, tokenisation, compilation) runs on threads of its own; the loop only passes events on.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable

from attrs import evolve

from infernix_core.engine.daemon_threads import DaemonThreads
from infernix_core.engine.engine import Engine
from infernix_core.engine.request import (
    Event,
    GenerationEnd,
    GenerationHandle,
    GenerationResult,
    RequestOptions,
)
from infernix_core.errors import EngineUnavailable, QueueFull, RequestCancelled
from infernix_core.interfaces.frontend import PromptInput

_log = logging.getLogger(__name__)

#: Seconds that :meth:`GenerationService.drain` gives requests to end when it has cancelled them.
GRACE = 2.0

Made = tuple[PromptInput, RequestOptions]


class Generation:
    """One request of a service: its events, and the means to end it. For the loop that made it.

    Attributes:
        request_id: As the service was given it.
        final: The result, as soon as there is one.
    """

    def __init__(self, request_id: str, changed: Callable[[Generation], None]) -> None:
        self.request_id = request_id
        self._changed = changed
        self._loop = asyncio.get_running_loop()
        self._handle: GenerationHandle | None = None
        self._cancelled = False
        self._events: deque[Event] = deque()
        self._news = asyncio.Event()
        self.final: GenerationResult | None = None

    def cancel(self) -> None:
        """Ends the request as soon as possible, also while it is prepared or waits. Idempotent."""
        if self._cancelled:
            return
        self._cancelled = True
        if self._handle is not None:
            self._handle.cancel()
        self._changed(self)

    async def next_event(self) -> Event:
        """The next event; after the last one, :class:`GenerationEnd`, there is none to wait for."""
        while not self._events:
            self._news.clear()
            # Once more: an event that came before the clearing woke nobody.
            if not self._events:
                await self._news.wait()
        return self._events.popleft()

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Every event that was not taken yet, up to and including the last."""
        while True:
            event = await self.next_event()
            yield event
            if isinstance(event, GenerationEnd):
                return

    async def result(self) -> GenerationResult:
        """Waits for the end, passing over the events before it. Errors are in the result, not raised."""
        async for event in self:
            if isinstance(event, GenerationEnd):
                return event.result
        raise AssertionError("a generation's last event is its end")

    def attach(self, handle: GenerationHandle) -> None:
        """Takes over the request's events. Called by the service, on the preparing thread."""
        self._handle = handle
        if self._cancelled:
            handle.cancel()
        handle.forward(self._receive)

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`cancel` was called."""
        return self._cancelled

    @property
    def attached(self) -> bool:
        """Whether the engine has taken the request."""
        return self._handle is not None

    def _receive(self, event: Event) -> None:
        """Called on the engine's thread. One wake-up may bring several events."""
        try:
            if isinstance(event, GenerationEnd):
                self._loop.call_soon_threadsafe(self._finish, event)
                return
            self._events.append(event)
            if not self._news.is_set():
                self._loop.call_soon_threadsafe(self._news.set)
        except RuntimeError:
            # The loop is closed: nobody is left to read.
            self._cancelled = True
            if self._handle is not None:
                self._handle.cancel()

    def _finish(self, event: GenerationEnd) -> None:
        """On the loop: first the service's books, then the news, so that a reader of the end finds them right."""
        self.final = event.result
        self._changed(self)
        self._events.append(event)
        self._news.set()


class GenerationService:
    """An engine under its public name, for one event loop.

    Args:
        engine: The engine.
        model_id: The name by which clients ask for the model.
        default_max_tokens: Output limit of requests that name none; ``None`` leaves the rest of the context.
        enable_thinking: Thinking of chat prompts that do not say; ``None`` takes the template's default.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        model_id: str,
        default_max_tokens: int | None = None,
        enable_thinking: bool | None = None,
    ) -> None:
        self.engine = engine
        self.model_id = model_id
        self.created = int(time.time())
        self._default_max_tokens = default_max_tokens
        self._enable_thinking = enable_thinking
        self._limit = engine.options.most_outstanding
        self._live: dict[Generation, asyncio.Future[None]] = {}
        self._news = asyncio.Event()
        self._draining = False
        # One thread for each request that may be outstanding, and as many for what cancelled ones cannot break
        # off: a build that takes long, or waits for another one, holds nobody else up.
        self._threads = DaemonThreads(2 * self._limit, "infernix-prepare")

    @property
    def available(self) -> bool:
        """Whether new requests are accepted; a full queue does not count as a refusal."""
        return not self._draining and self.engine.available

    @property
    def live(self) -> int:
        """Requests in preparation, waiting or running. One that is cancelled while it is prepared is none."""
        return len(self._live)

    @property
    def busy(self) -> bool:
        """Whether anything is prepared on a thread, be it for a request that nobody wants any more."""
        return self._threads.busy

    async def submit(
        self, prompt: PromptInput, options: RequestOptions, *, request_id: str
    ) -> Generation:
        """Prepares and queues a request. When the caller is cancelled meanwhile, so is the request.

        Raises:
            EngineUnavailable: The service is draining, or the engine has stopped.
            QueueFull: Too many requests are outstanding.
            RequestError: See ``Engine.prepare`` and ``Engine.submit``.
            DeadlineExceeded: See ``Engine.submit``.
        """
        return await self.submit_made(lambda: (prompt, options), request_id=request_id)

    async def submit_made(self, make: Callable[[], Made], *, request_id: str) -> Generation:
        """As :meth:`submit`, of a prompt and options that are made on the preparing thread.

        Args:
            make: What takes too long for the loop, such as writing out a large schema. What it raises is raised.
            request_id: For the log.
        """
        if self._draining:
            raise EngineUnavailable("the server is shutting down")
        if len(self._live) >= self._limit:
            raise QueueFull(f"{len(self._live)} requests are outstanding; try again later")
        loop = asyncio.get_running_loop()
        generation = Generation(request_id, self._changed)
        queued = self._live[generation] = loop.create_future()
        job = loop.run_in_executor(self._threads, self._start, make, generation)
        job.add_done_callback(lambda done: self._started(generation, queued, done))
        try:
            await queued
        except asyncio.CancelledError:
            generation.cancel()
            job.cancel()
            raise
        except RequestCancelled:
            job.cancel()
            message = "the server is shutting down; the request was cancelled"
            raise EngineUnavailable(message) from None
        return generation

    async def drain(self, timeout: float | None = None) -> None:
        """Accepts nothing more and waits for what is outstanding; after ``timeout`` seconds cancels it.

        What was cancelled is not waited for, but for a moment: a build that nobody can break off goes on, on a
        thread that holds up no exit.
        """
        self._draining = True
        try:
            async with asyncio.timeout(timeout):
                await self._until(lambda: all(one.cancelled for one in self._live))
        except TimeoutError:
            _log.warning("cancelling %d requests that have not ended", len(self._live))
            self._cancel_all()
        try:
            async with asyncio.timeout(GRACE):
                await self._until(lambda: not self._live)
        except TimeoutError:
            _log.warning("%d cancelled requests have not ended", len(self._live))

    def close(self) -> None:
        """Lets the threads go. What still runs on one ends with its request's cancellation."""
        self._draining = True
        self._cancel_all()
        self._threads.shutdown()

    def _cancel_all(self) -> None:
        for generation in tuple(self._live):
            generation.cancel()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    def _start(self, make: Callable[[], Made], generation: Generation) -> None:
        """On a thread of the pool; gives up between its steps when nobody waits any more."""
        if generation.cancelled:
            return
        prompt, options = make()
        if prompt.messages is not None and prompt.enable_thinking is None:
            prompt = evolve(prompt, enable_thinking=self._enable_thinking)
        if options.max_tokens is None:
            options = evolve(options, max_tokens=self._default_max_tokens)
        if generation.cancelled:
            return
        prepared = self.engine.prepare(prompt)
        if not generation.cancelled:
            handle = self.engine.submit(prepared, options, cancelled=lambda: generation.cancelled)
            generation.attach(handle)

    def _started(
        self, generation: Generation, queued: asyncio.Future[None], job: asyncio.Future[None]
    ) -> None:
        """On the loop, when the thread is done."""
        error = None if job.cancelled() else job.exception()
        if not generation.attached:
            self._forget(generation)
            cancelled = error is None or isinstance(error, RequestCancelled)
            outcome = "cancelled" if cancelled else type(error).__name__
            _log.info("request %s refused: %s", generation.request_id, outcome)
        if queued.done():
            return
        if error is not None:
            queued.set_exception(error)
        else:
            queued.set_result(None)

    def _changed(self, generation: Generation) -> None:
        """On the loop, when a generation was cancelled or has ended."""
        if generation.final is not None:
            # A caller may cancel what has ended: that is no second end.
            ended = generation in self._live
            self._forget(generation)
            if ended:
                _log.info("request %s %s", generation.request_id, log_line(generation.final))
        elif not generation.attached:
            # Its place is free at once, whatever its thread cannot break off.
            queued = self._live.get(generation)
            self._forget(generation)
            if queued is not None and not queued.done():
                queued.set_exception(RequestCancelled("cancelled while it was prepared"))
        self._news.set()

    def _forget(self, generation: Generation) -> None:
        self._live.pop(generation, None)
        self._news.set()


def log_line(result: GenerationResult) -> str:
    """One request's end in counts and times: never a word of its prompt, its schema or its text."""
    usage, timings, constraint = result.usage, result.timings, result.constraint
    parts = [
        f"finish={result.finish_reason.value}",
        f"prompt_tokens={usage.prompt_tokens}",
        f"completion_tokens={usage.completion_tokens}",
        f"rounds={usage.rounds}",
        f"preparation={timings.preparation:.3f}s",
        f"queue={timings.queue:.3f}s",
        f"prefill={timings.prefill:.3f}s",
        f"decode={timings.decode:.3f}s",
        f"total={timings.total:.3f}s",
    ]
    if usage.drafted_tokens:
        parts.append(f"drafts={usage.accepted_tokens}/{usage.drafted_tokens}")
    if constraint is not None:
        parts += [
            f"constraint={constraint.kind}",
            f"grammar={constraint.cache}",
            f"complete={str(constraint.complete).lower()}",
            f"masks={constraint.positions}",
            f"mask_cpu={constraint.mask_cpu_seconds:.3f}s",
        ]
    if result.error is not None:
        parts.append(f"error={result.error.kind}")
    return " ".join(parts)
