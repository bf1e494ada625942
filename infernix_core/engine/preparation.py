"""From a prompt and options to a request that can be queued: everything that may be refused is refused here."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import numpy as np
from attrs import frozen

from infernix_core.engine.cold_work import Patience
from infernix_core.engine.constraint_work import ConstraintWork
from infernix_core.engine.grammar_cache import Found, GrammarCache
from infernix_core.engine.request import GenerationHandle, RequestOptions
from infernix_core.engine.request_checks import check_budget, check_request, check_tools
from infernix_core.engine.resident import PreparedMasks, Request
from infernix_core.engine.sampling_defaults import resolve_sampling
from infernix_core.engine.session import OutputSession
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import (
    ConstraintDeadEnd,
    ContextOverflow,
    InvalidOption,
    InvalidPrompt,
    Location,
)
from infernix_core.interfaces.frontend import LoadedModel, PreparedPrompt, PromptInput, StartPhase
from infernix_core.interfaces.mask_provider import (
    NO_RAW_MEMBERS,
    GrammarMatcher,
    MaskRow,
    RawMembers,
)
from infernix_core.interfaces.sampling import MaskState


@frozen(eq=False)
class Preparation:
    """Makes the requests of one engine, on the threads that submit them.

    Args:
        model: The loaded checkpoint.
        grammars: Its compiled grammars.
        max_context: Most positions of a request.
        wake: Called when a request is cancelled.
    """

    model: LoadedModel
    grammars: GrammarCache
    max_context: int
    wake: Callable[[], None]

    def check_prompt(self, prompt: PreparedPrompt) -> None:
        """Raises for a prompt that this engine cannot take.

        Raises:
            ContextOverflow: It leaves no room for output.
            InvalidPrompt: It holds ids that the vocabulary lacks.
        """
        length, size = len(prompt.token_ids), self.model.vocabulary.size
        if length >= self.max_context:
            limit = self.model.context_length
            larger = f", or start the engine with a max_context of up to {limit}"
            raise ContextOverflow(
                f"the prompt has {length} tokens, the context {self.max_context}",
                hint="shorten the prompt" + (larger if self.max_context < limit else ""),
            )
        if not length or min(prompt.token_ids) < 0 or max(prompt.token_ids) >= size:
            raise InvalidPrompt(f"a prompt is one or more token ids below {size}")

    def request(
        self,
        prompt: PreparedPrompt,
        options: RequestOptions,
        submitted: float,
        patience: Patience,
    ) -> Request:
        """Checks prompt and options, alone and together, and builds the output session.

        Args:
            prompt: What the frontend prepared.
            options: How to generate.
            submitted: When the request came, on the monotonic clock.
            patience: Asked between the steps.

        Raises:
            RequestError: See ``Engine.submit``.
            DeadlineExceeded: See there.
            RequestCancelled: See there.
        """
        self.check_prompt(prompt)
        check_request(options, chat=prompt.phase is not StartPhase.RAW)
        check_tools(options, prompt.tools)
        size = self.model.vocabulary.size
        if outside := [token for token in options.stop_token_ids if token >= size]:
            raise InvalidOption(
                f"token {outside[0]} is not in the vocabulary of {size}",
                location=Location(field="stop_token_ids"),
            )
        config = resolve_sampling(
            options.sampling,
            self.model.sampling_defaults(prompt),
            constrained=options.constraint is not None,
        )
        room = self.max_context - len(prompt.token_ids)
        limit = room if options.max_tokens is None else min(options.max_tokens, room)
        early_close = self._early_close(prompt, options, limit)
        matcher, restart, work, initial, raw_members = self._matcher(prompt, options, patience)
        session = OutputSession(
            decoder=self.model.decoder(prompt, options.output, raw_members),
            limit=limit,
            end_ids=self.model.vocabulary.end_ids,
            matcher=matcher,
            restart=restart,
            stop=StopStrings(options.stop),
            stop_token_ids=frozenset(options.stop_token_ids),
            thinking_budget=options.thinking_budget if early_close else None,
            early_close=early_close,
        )
        cancelled, wake = threading.Event(), self.wake

        def cancel() -> None:
            # The handle must not keep the request, and so its matcher, alive.
            cancelled.set()
            wake()

        return Request(
            prompt=prompt,
            options=options,
            config=config,
            session=session,
            handle=GenerationHandle(cancel),
            work=work,
            submitted=submitted,
            deadline=patience.deadline,
            cancelled=cancelled,
            prepared=(
                PreparedMasks(0, (), initial[None], (MaskState.READY,))
                if initial is not None
                else None
            ),
        )

    def _early_close(
        self, prompt: PreparedPrompt, options: RequestOptions, limit: int
    ) -> tuple[int, ...]:
        """What would end the reasoning; nothing where it is not limited, or there is none."""
        if options.thinking_budget is None:
            return ()
        control = tuple(self.model.early_close(prompt))
        if control and prompt.phase is StartPhase.REASONING:
            check_budget(options.thinking_budget, control=len(control), limit=limit)
        return control

    def _matcher(
        self, prompt: PreparedPrompt, options: RequestOptions, patience: Patience
    ) -> tuple[
        GrammarMatcher | None,
        Callable[[], GrammarMatcher] | None,
        ConstraintWork | None,
        MaskRow | None,
        RawMembers,
    ]:
        """Compiles the output language and checks that it has a first token after what the prompt holds of it: a
        matcher, what makes another one like it, the first mask.
        """
        started = time.thread_time()
        patience.check()
        language = self.model.language(prompt, options.output)
        # Also where nothing is constrained: what cannot be gone on with is refused there too.
        prefix = self.model.prefix(prompt, options.output)
        if language is None:
            return None, None, None, None, NO_RAW_MEMBERS
        patience.check()
        found = self.grammars.get(language, patience)
        kind = options.constraint.kind if options.constraint is not None else "tools"
        if prefix:
            matcher, first = self._continued(found, prefix, kind, prompt.source, patience)
        else:
            matcher, first = found.grammar.start(), found.first
        if first is None:
            raise ConstraintDeadEnd(
                "the constraint leaves no legal first token",
                location=Location(field=kind),
                hint="its language is empty, or this model's vocabulary cannot spell it",
            )
        seconds = time.thread_time() - started
        work = ConstraintWork(
            language, kind, found.cache, seconds, found.grammar.notes, positions=1
        )
        raw_members = found.grammar.raw_members if prompt.tools else NO_RAW_MEMBERS
        grammar = found.grammar
        return matcher, lambda: grammar.start(prefix), work, first, raw_members

    def _continued(
        self,
        found: Found,
        prefix: tuple[bytes | int, ...],
        kind: str,
        source: PromptInput,
        patience: Patience,
    ) -> tuple[GrammarMatcher, MaskRow | None]:
        """A matcher behind a prefix, and its first mask: the cache knows the one before the prefix alone."""
        try:
            matcher = found.grammar.start(prefix)
        except ConstraintDeadEnd as error:
            raise ConstraintDeadEnd(
                f"the continued message is no beginning of the output that is asked for: {error.message}",
                location=Location(field=f"messages[{len(source.messages or ()) - 1}].content"),
                hint=f"change the message, or what is asked for ({kind})",
            ) from error
        patience.check()
        row: MaskRow = np.zeros(self.model.vocabulary.words, dtype=np.int32)
        if matcher.ready:
            return matcher, row if matcher.fill(row) else None
        with self.grammars.turn(patience):
            return matcher, row if matcher.fill(row) else None
