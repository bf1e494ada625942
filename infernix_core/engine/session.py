"""The output session of one request: matcher, decoder, stop rules and budget, moved on as one.

``preview`` does everything that can fail; ``commit`` only confirms and ``discard`` only restores.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from attrs import define, field, frozen

from infernix_core.engine.request import FinishReason
from infernix_core.engine.stop_strings import StopStrings
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.frontend import Channel, OutputDecoder, Piece, Segment, ToolCallDelta
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


@define
class _Pending:
    preview: Preview
    mark: Any
    decoder: Any
    held: str
    tokens: tuple[int, ...]


@define(eq=False)
class OutputSession:
    """One request's output. Used by one thread at a time.

    Args:
        decoder: Decodes tokens to text.
        limit: Most tokens to generate.
        end_ids: The model's end tokens.
        matcher: The grammar state; ``None`` when unconstrained.
        stop: Stop strings.
        stop_token_ids: Further end tokens.
    """

    decoder: OutputDecoder
    limit: int
    end_ids: frozenset[int]
    matcher: GrammarMatcher | None = None
    stop: StopStrings = field(factory=StopStrings)
    stop_token_ids: frozenset[int] = frozenset()
    tokens: list[int] = field(factory=list, init=False)
    accept_cpu_seconds: float = field(default=0.0, init=False)
    _state: Any = field(init=False)
    _held: str = field(default="", init=False)
    _pending: _Pending | None = field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self._state = self.decoder.start()

    @property
    def remaining(self) -> int:
        """Tokens left in the budget."""
        return self.limit - len(self.tokens)

    def preview(self, tokens: Sequence[int]) -> Preview:
        """Feeds produced tokens up to the first that ends the output.

        Raises:
            IntegrityError: The matcher refuses a token that its mask allowed, or a preview is open. The
                session is as before.
        """
        if self._pending is not None:
            raise IntegrityError("a preview is already open")
        matcher = self.matcher
        started = time.thread_time() if matcher is not None else 0.0
        mark = matcher.mark() if matcher is not None else None
        try:
            state, held = self._state, self._held
            pieces: list[Piece] = []
            finish: FinishReason | None = None
            stop: str | int | None = None
            accepted = 0
            for token in tokens:
                accepted += 1
                if matcher is not None and not matcher.accept(token):
                    raise IntegrityError(f"the matcher refuses token {token} of its own mask")
                if token in self.end_ids or token in self.stop_token_ids:
                    finish = FinishReason.STOP
                    stop = token if token not in self.end_ids else None
                else:
                    state, decoded = self.decoder.step(state, token)
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
        except BaseException:
            if matcher is not None:
                matcher.rollback(mark)
            raise
        finally:
            if matcher is not None:
                self.accept_cpu_seconds += time.thread_time() - started
        preview = Preview(accepted, _joined(pieces), finish, stop)
        self._pending = _Pending(preview, mark, state, held, tuple(tokens[:accepted]))
        return preview

    def commit(self) -> Preview:
        """Confirms the open preview. Cannot fail for an open one."""
        pending = self._taken()
        self._state, self._held = pending.decoder, pending.held
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
        """Text still held back when the output ends at a committed token (cancellation, an error).

        It cannot fail: what a broken decoder still holds is dropped.
        """
        pieces: list[Piece] = []
        try:
            self._flush(self._state, self._held, pieces)
        except Exception:
            _log.exception("a decoder failed at the end of an output; its held text is dropped")
        self._held = ""
        return _joined(pieces)

    def release(self) -> None:
        """Drops the matcher; the compiled grammar may live on in its cache."""
        self.matcher = None

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


def _joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Neighbours that say the same kind of thing as one: text of one channel, arguments of one call."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if isinstance(piece, Segment) and isinstance(last, Segment):
            if last.channel is piece.channel:
                joined[-1] = Segment(piece.channel, last.text + piece.text)
                continue
        elif isinstance(piece, ToolCallDelta) and isinstance(last, ToolCallDelta):
            joined[-1] = ToolCallDelta(piece.index, last.arguments + piece.arguments)
            continue
        joined.append(piece)
    return tuple(joined)
