"""The output session of one request: matcher, decoder, stop rules and budget, moved on as one.

``preview`` does everything that can fail; ``commit`` only confirms and ``discard`` only restores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field, frozen

from infernix_core.engine.published import CallOrder, joined
from infernix_core.engine.request import FinishReason
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.frontend import Channel, OutputDecoder, Piece, Segment
from infernix_core.interfaces.mask_provider import GrammarMatcher

_log = logging.getLogger(__name__)


@frozen
class Preview:
    """What a row's tokens would become.

    Attributes:
        accepted: How many of them; less than given only when the output ends.
        pieces: What to publish: text and calls.
        finish: Why the output ends with them, or ``None``.
        stop: The stop string or stop token id that ended it.
    """

    accepted: int
    pieces: tuple[Piece, ...]
    finish: FinishReason | None = None
    stop: str | int | None = None


@frozen
class _State:
    """Everything of a session that a token changes, but for the matcher.

    Attributes:
        decoder: The decoder's own state.
        held: Content that a stop string may still claim.
        calls: Where the output stands among its calls.
        thinking: Whether the next token still belongs to the reasoning; only asked with a thinking budget.
        reasoned: Tokens of reasoning so far, where it is limited. The token that closes it is none of them.
    """

    decoder: Any
    held: str = ""
    calls: CallOrder = field(factory=CallOrder)
    thinking: bool = False
    reasoned: int = 0


@define
class _Pending:
    preview: Preview
    mark: Any
    after: _State
    tokens: tuple[int, ...]


@define(eq=False)
class OutputSession:
    """One request's output. Used by one thread at a time.

    Args:
        decoder: Decodes tokens to text and calls.
        limit: Most tokens to generate.
        end_ids: The model's end tokens.
        matcher: The grammar state; ``None`` when unconstrained.
        restart: Makes a matcher that is where ``matcher`` was before the first token.
        stop: Stop strings.
        stop_token_ids: Further end tokens.
        thinking_budget: Most tokens of reasoning; ``None`` does not limit it.
        early_close: What ends reasoning whose budget is used up.
    """

    decoder: OutputDecoder
    limit: int
    end_ids: frozenset[int]
    matcher: GrammarMatcher | None = None
    restart: Callable[[], GrammarMatcher] | None = None
    stop: StopStrings = field(factory=StopStrings)
    stop_token_ids: frozenset[int] = frozenset()
    thinking_budget: int | None = None
    early_close: tuple[int, ...] = ()
    tokens: list[int] = field(factory=list, init=False)
    accept_cpu_seconds: float = field(default=0.0, init=False)
    _state: _State = field(init=False)
    _pending: _Pending | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        start = self.decoder.start()
        limited = self.thinking_budget is not None
        self._state = _State(start, thinking=limited and self.decoder.reasoning(start))

    @property
    def room(self) -> int:
        """Most tokens that the next round may add: what the limit leaves, and the thinking budget while the
        reasoning is open. A round that takes it all may end in either.
        """
        left = self.limit - len(self.tokens)
        if self.thinking_budget is not None and self._state.thinking:
            left = min(left, self.thinking_budget - self._state.reasoned)
        return left

    @property
    def close_due(self) -> bool:
        """Whether the thinking budget is used up and the reasoning still open: ``early_close`` is what comes next."""
        budget, state = self.thinking_budget, self._state
        return budget is not None and state.thinking and state.reasoned >= budget

    def preview_close(self) -> Preview:
        """Feeds ``early_close`` as :meth:`preview` does.

        Raises:
            IntegrityError: The matcher refuses a token of it, the decoder fails, or the reasoning stays open. The
                session is as before.
        """
        preview = self.preview(self.early_close)
        assert self._pending is not None
        if preview.finish is None and self._pending.after.thinking:
            self.discard()
            raise IntegrityError("the text that closes the reasoning leaves it open")
        return preview

    def preview(self, tokens: Sequence[int]) -> Preview:
        """Feeds tokens up to the first that ends the output.

        Raises:
            IntegrityError: The matcher refuses a token, the decoder gives pieces out of order, or a preview is
                open. The session is as before.
        """
        if self._pending is not None:
            raise IntegrityError("a preview is already open")
        matcher = self.matcher
        started = time.thread_time() if matcher is not None else 0.0
        mark = matcher.mark() if matcher is not None else None
        try:
            before = self._state
            state, held, calls = before.decoder, before.held, before.calls
            thinking, reasoned = before.thinking, before.reasoned
            pieces: list[Piece] = []
            finish: FinishReason | None = None
            stop: str | int | None = None
            accepted = 0
            for token in tokens:
                accepted += 1
                if matcher is not None and not matcher.accept(token):
                    raise IntegrityError(f"the matcher refuses token {token}")
                if token in self.end_ids or token in self.stop_token_ids:
                    finish = FinishReason.STOP
                    stop = token if token not in self.end_ids else None
                else:
                    state, decoded = self.decoder.step(state, token)
                    if self.thinking_budget is not None:
                        inside, thinking = thinking, self.decoder.reasoning(state)
                        reasoned += inside and thinking
                    held, stop = self._scan(decoded, held, pieces)
                    if stop is not None:
                        finish = FinishReason.STOP
                if finish is None and len(self.tokens) + accepted >= self.limit:
                    finish = FinishReason.LENGTH
                if finish is not None:
                    break
            if finish is not None and not isinstance(stop, str):
                hit = self._flush(state, held, pieces)
                held = ""
                if hit is not None:
                    finish, stop = FinishReason.STOP, hit
            for piece in pieces:
                calls = calls.after(piece)
        except BaseException:
            if matcher is not None:
                matcher.rollback(mark)
            raise
        finally:
            if matcher is not None:
                self.accept_cpu_seconds += time.thread_time() - started
        preview = Preview(accepted, joined(pieces), finish, stop)
        self._pending = _Pending(
            preview,
            mark,
            _State(state, held, calls, thinking, reasoned),
            tuple(tokens[:accepted]),
        )
        return preview

    def commit(self) -> Preview:
        """Confirms the open preview. Cannot fail for an open one."""
        pending = self._taken()
        self._state = pending.after
        self.tokens.extend(pending.tokens)
        return pending.preview

    def discard(self) -> None:
        """Restores the state before the open preview, if there is one."""
        if self._pending is None:
            return
        pending = self._taken()
        if self.matcher is not None:
            started = time.thread_time()
            self.matcher.rollback(pending.mark)
            self.accept_cpu_seconds += time.thread_time() - started

    def close(self) -> tuple[Piece, ...]:
        """What is still held back when the output ends at a committed token (cancellation, an error).

        It cannot fail: what a broken decoder still holds is dropped.
        """
        held: list[Piece] = []
        pieces: list[Piece] = []
        calls = self._state.calls
        try:
            self._flush(self._state.decoder, self._state.held, held)
            for piece in held:
                calls = calls.after(piece)
                pieces.append(piece)
        except Exception:
            _log.exception("a decoder failed at the end of an output; what it holds is dropped")
        return joined(pieces)

    def leave_matcher(self) -> None:
        """Goes on with a matcher of its own making, which has read what is committed: the other one is busy.

        Raises:
            IntegrityError: There is none to be made, or it refuses what the other one accepted.
        """
        if self.restart is None or self._pending is not None:
            raise IntegrityError("the matcher cannot be replaced")
        matcher = self.restart()
        for token in self.tokens:
            if not matcher.accept(token):
                raise IntegrityError(f"a new matcher refuses the committed token {token}")
        self.matcher = matcher

    def release(self) -> None:
        """Drops the matcher; the compiled grammar may live on in its cache."""
        self.matcher = self.restart = None

    def _taken(self) -> _Pending:
        pending = self._pending
        if pending is None:
            raise IntegrityError("no preview is open")
        self._pending = None
        return pending

    def _scan(
        self, decoded: Sequence[Piece], held: str, pieces: list[Piece]
    ) -> tuple[str, str | None]:
        """Publishes what no stop string can claim any more; stop strings apply to content alone."""
        for piece in decoded:
            if not isinstance(piece, Segment):
                # A call begins: no stop string reaches across it.
                if held:
                    pieces.append(Segment(Channel.CONTENT, held))
                    held = ""
                pieces.append(piece)
            elif piece.channel is not Channel.CONTENT:
                pieces.append(piece)
            else:
                text, held, hit = self.stop.scan(held + piece.text)
                if text:
                    pieces.append(Segment(Channel.CONTENT, text))
                if hit is not None:
                    return "", hit
        return held, None

    def _flush(self, state: Any, held: str, pieces: list[Piece]) -> str | None:
        held, hit = self._scan(self.decoder.finish(state), held, pieces)
        if hit is None and held:
            pieces.append(Segment(Channel.CONTENT, held))
        return hit
