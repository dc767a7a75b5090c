"""Following logs: any number of readers of one log cost what one does, and none can hold more than a window in memory.

Each log that is followed has one `Tail`, which looks for what is new and keeps the last of it. A reader who is at the
end is served from there; one who is behind, because he began there or reads slowly, reads the log itself, in pieces.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from anyio import CapacityLimiter, move_on_after, to_thread

from penstock.errors import ServiceError

PIECE_BYTES = 128 << 10
_WINDOW_BYTES = 256 << 10
_LOOK_SECONDS = 0.25
_ASK_STATE_SECONDS = 1.0
_READERS_AT_ONCE = 8

Key = tuple[str, str, int | None]
"""Application id, the log's name, and of which attempt; None for a log that has the attempt in its name."""


class Source(Protocol):
    """Where logs are. Both methods may block, and are called by several threads."""

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None) -> bytes:
        """The bytes from `start` that are there now; empty at the end. Raises `NotFound` where there is no such log."""

    def complete(self, application_id: str, attempt: int | None) -> bool:
        """Whether nothing will be added any more."""


class Tails:
    """Of one event loop."""

    def __init__(self, source: Source, *, closing: Callable[[], bool]) -> None:
        self._source = source
        self._closing = closing
        self._tails: dict[Key, _Tail] = {}
        # Of their own, so that followers never take the threads other requests wait for.
        self._threads = CapacityLimiter(_READERS_AT_ONCE)

    @property
    def open(self) -> int:
        """How many logs are looked at now."""
        return len(self._tails)

    async def read(self, key: Key, start: int = 0) -> AsyncGenerator[bytes, None]:
        """From byte `start` to the end of what is there now."""
        while piece := await self._piece(key, start):
            yield piece
            start += len(piece)

    async def follow(self, key: Key, start: int = 0) -> AsyncGenerator[bytes, None]:
        """From byte `start` until the application, or its attempt, has ended.

        Raises `ServiceError` where the service does before: the end of an answer must not pass for that of the log.
        """
        at_end = False
        while not self._closing():
            tail = self._tails.get(key)
            if at_end or (tail is not None and tail.end <= start):
                if not await self._more(key, start):
                    break
                at_end = False
            elif tail is not None and (piece := tail.after(start)):
                start += len(piece)
                yield piece
            else:
                piece = await self._piece(key, start)
                # A log may grow by a few bytes whenever it is looked at: the next look is not this reader's own.
                at_end = len(piece) < PIECE_BYTES
                if piece:
                    start += len(piece)
                    yield piece
        if self._closing():
            raise ServiceError("This service is ending", fix="go on where it was, with start=")

    async def _more(self, key: Key, position: int) -> bool:
        """Wait until there is something behind `position`; False where there never will be."""
        if (tail := self._tails.get(key)) is None:
            if await self._complete(key):
                # It may have grown between the two looks.
                return bool(await self._piece(key, position))
            # Others may have come while that was asked.
            if (tail := self._tails.get(key)) is None:
                tail = self._tails[key] = _Tail(position)
                tail.start(self._look(key, tail))
        tail.readers += 1
        try:
            return await tail.grown(position, self._closing)
        finally:
            tail.readers -= 1

    async def _look(self, key: Key, tail: _Tail) -> None:
        asked = last_read = time.monotonic()
        try:
            while not self._closing():
                if tail.readers:
                    last_read = time.monotonic()
                elif time.monotonic() - last_read > 4 * _LOOK_SECONDS:  # they write what they got, and come back
                    return
                if piece := await self._piece(key, tail.end):
                    tail.append(piece)
                    if len(piece) == PIECE_BYTES:
                        continue  # there is more already
                elif time.monotonic() - asked >= _ASK_STATE_SECONDS:
                    asked = time.monotonic()
                    if await self._complete(key):
                        while piece := await self._piece(key, tail.end):
                            tail.append(piece)
                        return
                await asyncio.sleep(_LOOK_SECONDS)
        except Exception as error:
            tail.problem = error  # the readers' own, each of them
        finally:
            del self._tails[key]
            tail.finish()

    async def _piece(self, key: Key, start: int) -> bytes:
        application_id, name, attempt = key
        look = partial(self._source.piece, application_id, name, start, PIECE_BYTES, attempt=attempt)
        return await to_thread.run_sync(look, limiter=self._threads)

    async def _complete(self, key: Key) -> bool:
        application_id, _, attempt = key
        return await to_thread.run_sync(self._source.complete, application_id, attempt, limiter=self._threads)


class _Tail:
    """The end of one log as far as it was seen: `end` is its length then."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.readers = 0
        self.problem: Exception | None = None
        self._window = bytearray()
        self._changed = asyncio.Event()
        self._finished = False
        self._task: asyncio.Task[None] | None = None

    def start(self, looking: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.ensure_future(looking)

    def append(self, piece: bytes) -> None:
        self._window += piece
        del self._window[:-_WINDOW_BYTES]
        self.end += len(piece)
        self._tell()

    def finish(self) -> None:
        self._finished = True
        self._tell()

    def after(self, position: int) -> bytes:
        """What the window has behind `position`; empty also where that is no longer, or not yet, in it."""
        behind = self.end - position
        if not 0 < behind <= len(self._window):
            return b""
        begin = len(self._window) - behind
        return bytes(self._window[begin : begin + PIECE_BYTES])

    async def grown(self, position: int, closing: Callable[[], bool]) -> bool:
        while self.end <= position:
            if self.problem is not None:
                raise self.problem
            if self._finished or closing():
                return False
            changed = self._changed
            with move_on_after(4 * _LOOK_SECONDS):
                await changed.wait()
        return True

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
