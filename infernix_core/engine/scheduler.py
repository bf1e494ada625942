"""The scheduler: which unit runs next. What fills one lane and decode rounds take turns."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field, frozen

from infernix_core.engine.resident import Request, Stage


@frozen
class _OneLane:
    """What runs for one request alone."""

    request: Request

    @property
    def requests(self) -> tuple[Request, ...]:
        """Its requests."""
        return (self.request,)


@frozen
class PrefillUnit(_OneLane):
    """One chunk of one prompt."""

    start: int
    stop: int


@frozen
class FirstTokenUnit(_OneLane):
    """The first token of one prompt that is fully executed."""


@frozen
class CloseUnit(_OneLane):
    """The next piece of the text that closes one request's reasoning."""


@frozen
class DecodeUnit:
    """One round over every decode-ready request."""

    requests: tuple[Request, ...]


Unit = PrefillUnit | FirstTokenUnit | CloseUnit | DecodeUnit

_FILLING = (Stage.PREFILL, Stage.CLOSE)


@define(eq=False)
class Scheduler:
    """Chooses units over the resident requests.

    Args:
        chunk: Prompt tokens per prefill unit, a multiple of the model's grid.
    """

    chunk: int
    _filling_next: bool = field(default=True, init=False)
    _turn: int = field(default=0, init=False)

    def next(self, residents: Sequence[Request]) -> Unit | None:
        """The next unit, or ``None`` when nothing can run.

        A first token goes before everything, since its hidden is at hand; then what is executed without being
        drawn (chunks of prompts and pieces of closing texts, the requests in turn) and decode rounds alternate
        while both kinds of work exist.
        """
        for request in residents:
            if request.stage is Stage.FIRST:
                return FirstTokenUnit(request)
        filling = [request for request in residents if request.stage in _FILLING]
        decoding = tuple(request for request in residents if request.stage is Stage.DECODE)
        if filling and (self._filling_next or not decoding):
            self._filling_next = False
            request = filling[self._turn % len(filling)]
            self._turn += 1
            if request.stage is Stage.CLOSE:
                return CloseUnit(request)
            start = request.prefilled
            return PrefillUnit(request, start, min(start + self.chunk, request.prompt_length))
        self._filling_next = True
        return DecodeUnit(decoding) if decoding else None
