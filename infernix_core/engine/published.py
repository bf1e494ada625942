"""What one request has published: text by channel, and calls. And the order in which pieces may come."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field, frozen

from infernix_core.engine.request import ToolCall
from infernix_core.errors import IntegrityError
from infernix_core.interfaces.frontend import (
    Channel,
    Piece,
    Segment,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)


@frozen
class CallOrder:
    """Where an output stands among its calls: one after the other, each whole before anything else comes.

    Attributes:
        begun: Calls that began.
        open: Whether the last of them has not ended.
        told: Whether the open one has arguments.
    """

    begun: int = 0
    open: bool = False
    told: bool = False

    def after(self, piece: Piece) -> CallOrder:
        """The order after one piece more.

        Raises:
            IntegrityError: It cannot come here.
        """
        match piece:
            case Segment():
                if not self.open:
                    return self
            case ToolCallStart(index, name):
                if not self.open and index == self.begun and name:
                    return CallOrder(index + 1, open=True)
            case ToolCallDelta(index, arguments):
                if self.open and index == self.begun - 1 and arguments:
                    return self if self.told else evolve(self, told=True)
            case ToolCallEnd(index):
                if self.told and index == self.begun - 1:
                    return CallOrder(self.begun)
        place = f"in call {self.begun - 1}" if self.open else f"after {self.begun} calls"
        raise IntegrityError(f"the decoder gives {piece} {place}")


@define
class _Call:
    name: str
    arguments: list[str] = field(factory=list)
    complete: bool = False


@define(eq=False)
class Published:
    """Text and calls of one output, as a result tells them. Pieces come in the order of :class:`CallOrder`."""

    _texts: dict[Channel, list[str]] = field(
        factory=lambda: {channel: [] for channel in Channel}, init=False
    )
    _calls: list[_Call] = field(factory=list, init=False)

    def add(self, piece: Piece) -> None:
        """One piece more."""
        match piece:
            case Segment(channel, text):
                self._texts[channel].append(text)
            case ToolCallStart(_, name):
                self._calls.append(_Call(name))
            case ToolCallDelta(_, arguments):
                self._calls[-1].arguments.append(arguments)
            case ToolCallEnd():
                self._calls[-1].complete = True

    def text(self, channel: Channel) -> str:
        """All text of one channel."""
        return "".join(self._texts[channel])

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls; one whose end has not come has no arguments."""
        return tuple(
            ToolCall(call.name, "".join(call.arguments) if call.complete else None)
            for call in self._calls
        )


def joined(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """Neighbours that say the same kind of thing as one: text of one channel, arguments of one call."""
    merged: list[Piece] = []
    for piece in pieces:
        last = merged[-1] if merged else None
        if isinstance(piece, Segment) and isinstance(last, Segment):
            if last.channel is piece.channel:
                merged[-1] = Segment(piece.channel, last.text + piece.text)
                continue
        elif isinstance(piece, ToolCallDelta) and isinstance(last, ToolCallDelta):
            merged[-1] = ToolCallDelta(piece.index, last.arguments + piece.arguments)
            continue
        merged.append(piece)
    return tuple(merged)
