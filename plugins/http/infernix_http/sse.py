"""Server-sent events: a stream that stays alive, and that ends with its reader."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from infernix_core.engine.request import Event, GenerationEnd
from infernix_core.engine.service import Generation

#: What ends a line of a stream of events; whatever it was in a text, a reader joins lines with line feeds.
_LINE_END = re.compile(r"\r\n|\r|\n")

#: Seconds without an event after which a comment is sent.
KEEP_ALIVE = 5.0

#: Seconds that a reader may leave what was written unread.
STALL = 20.0

HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",  # a proxy that buffers would hold events back
}


class EventStream:
    """The response to a streaming request. The headers go out with the first thing that is sent."""

    def __init__(self, request: web.Request) -> None:
        self._request = request
        self._response = web.StreamResponse(headers=HEADERS)

    @property
    def opened(self) -> bool:
        """Whether the status is out: from now on an error can only be told inside the stream."""
        return self._response.prepared

    @property
    def response(self) -> web.StreamResponse:
        """What a handler returns."""
        return self._response

    async def send(self, data: Any, *, event: str | None = None) -> None:
        """One event; ``data`` is text, or anything that JSON can express.

        Raises:
            ConnectionError: The reader is gone, or has read nothing for a while.
        """
        text = data if isinstance(data, str) else dump(data)
        lines = [f"event: {event}"] if event is not None else []
        lines += [f"data: {line}" for line in _LINE_END.split(text)]
        await self._write("\n".join(lines) + "\n\n")

    async def comment(self, text: str) -> None:
        """A comment, which readers pass over."""
        await self._write(f": {text}\n\n")

    async def close(self) -> None:
        """Ends the stream."""
        await self._response.write_eof()

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(STALL):
                if not self.opened:
                    await self._response.prepare(self._request)
                await self._response.write(text.encode())
        except TimeoutError:
            if self._request.transport is not None:
                self._request.transport.abort()
            raise ConnectionAbortedError(f"the reader took nothing for {STALL:.0f} s") from None


def dump(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


async def events(generation: Generation, stream: EventStream) -> AsyncIterator[Event]:
    """A generation's events; while there are none, keep-alive comments go out on the stream."""
    while True:
        try:
            # Not wait_for: up to Python 3.11 it may swallow a cancellation that comes with an event.
            async with asyncio.timeout(KEEP_ALIVE):
                event = await generation.next_event()
        except TimeoutError:
            await stream.comment("keep-alive")
            continue
        yield event
        if isinstance(event, GenerationEnd):
            return
