"""Streams of events and logs: one read of the engine, or of a log, serves every listener.

Unread events of one application coalesce into the latest. A listener that still reads too slowly, or that has listened
for long, is disconnected; its page reconnects and fetches everything anew. So a listener holds at most one event per
running application and some hundred others, no page keeps a stale view, and the streams of a revoked token end.

Each followed log has one `_Tail`, which polls it and buffers its end. Readers at the end are served from the buffer;
readers that are behind read the log itself, in pieces. The last lines of a log that can only be read forwards are found
in bounded memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from anyio import CapacityLimiter, move_on_after, to_thread

from penstock.errors import NotFound, ServiceError
from penstock.model import Application, State
from penstock.service import responses

Instances = frozenset[str] | None
"""The instances that a listener may see; None for all."""

HEARTBEAT = b": \n\n"

_log = logging.getLogger("penstock.service")

_LOOK_SECONDS = 1.0
_LEAST_PAUSE_SECONDS = 0.1
_QUEUE_SECONDS = (1.0, 5.0)
"""The shortest and the longest interval between computations of the queue, whose cost grows with its length."""
_HEARTBEAT_SECONDS = 15.0
_LONGEST_SECONDS = 900.0
_MOST_WAITING_EVENTS = 512
"""The bound for one listener, besides an event per running application: those all arrive when it connects."""


@dataclass(frozen=True)
class Event:
    """An event of one instance; listeners that do not see the instance do not get it."""

    kind: str
    instance: str
    data: Mapping[str, Any]


class EventSource(Protocol):
    """The source of a feed's events. Every method may block, and is called by one thread at a time."""

    def application(self, application_id: str) -> Event | None:
        """Return the application's current state; None if it no longer exists."""

    def progress(self) -> Iterable[Event]:
        """Return the last snapshot of each running application, with `id`, and `updated_ms`, which changes with it."""

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        """Return the queue as seen by a caller of these instances."""


_Subject = tuple[str, str]
"""The kind of an event, and the application's id."""


@dataclass(eq=False)
class _Listener:
    instances: Instances
    _waiting: dict[_Subject, bytes] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: bool = False

    def send(self, subject: _Subject, encoded: bytes, *, at_most: int) -> None:
        """Replace the unread event of the same subject; disconnect where `at_most` others are unread."""
        self._waiting.pop(subject, None)
        if len(self._waiting) >= at_most:
            self.disconnect()
        if not self._gone:
            self._waiting[subject] = encoded
            self._woken.set()

    def disconnect(self) -> None:
        self._gone = True
        self._waiting.clear()
        self._woken.set()

    async def next(self) -> bytes | None:
        """Wait for and return the oldest unread event; None once disconnected."""
        await self._woken.wait()
        if self._gone:
            return None
        encoded = self._waiting.pop(next(iter(self._waiting)))
        if not self._waiting:
            self._woken.clear()
        return encoded


class EventFeed:
    """The feed of events of one event loop. It reads the engine only while there are listeners."""

    def __init__(self, source: EventSource, *, closing: Callable[[], bool]) -> None:
        self._source = source
        self._closing = closing
        self._listeners: set[_Listener] = set()
        self._changed: set[str] = set()
        self._woken = asyncio.Event()
        self._progress: dict[str, Event] = {}
        self._queues: dict[Instances, bytes] = {}
        self._queued_at = 0.0
        self._queue_changed = True
        self._polling: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def notify(self, application_id: str) -> None:
        """Announce that an application changed. Called on the event loop."""
        if self._listeners:
            self._changed.add(application_id)
            self._woken.set()

    def notify_all(self) -> None:
        """Disconnect all listeners, since any application may have changed. Called on the event loop."""
        for listener in self._listeners:
            listener.disconnect()

    async def listen(self, instances: Instances) -> AsyncGenerator[bytes, None]:
        """Yield server-sent events `application`, `progress` and `queue` until the service disconnects."""
        listener = _Listener(instances)
        if (queue := self._queues.get(instances)) is not None:
            listener.send(_QUEUE, queue, at_most=self._at_most())
        for event in self._progress.values():
            if _sees(instances, event):
                listener.send(_subject(event), _encoded(event.kind, event.data), at_most=self._at_most())
        self._listeners.add(listener)
        self._woken.set()
        if self._polling is None or self._polling.done():
            self._polling = asyncio.ensure_future(self._poll())
        ends_at = time.monotonic() + _LONGEST_SECONDS
        try:
            yield HEARTBEAT
            while time.monotonic() < ends_at:
                encoded: bytes | None = HEARTBEAT
                with move_on_after(_HEARTBEAT_SECONDS):
                    encoded = await listener.next()
                if encoded is None:
                    return
                yield encoded
        finally:
            self._listeners.discard(listener)

    async def _poll(self) -> None:
        try:
            while self._listeners and not self._closing():
                self._woken.clear()
                changed, self._changed = self._changed, set()
                await self._publish(changed)
                # Changes that come in a burst are published together.
                await asyncio.sleep(_LEAST_PAUSE_SECONDS)
                # Not asyncio.wait_for: before Python 3.12 it may swallow a cancellation.
                with move_on_after(_LOOK_SECONDS):
                    await self._woken.wait()
        except Exception:
            _log.exception("the feed of changes stopped")
        finally:
            # Also after a failure: the pages reconnect, and their own requests report the error.
            self._polling = None
            self._progress.clear()
            self._queues.clear()
            self.notify_all()

    async def _publish(self, changed: set[str]) -> None:
        applications, progress, queues = await to_thread.run_sync(self._read, changed, self._queues_due(changed))
        before, self._progress = self._progress, {event.data["id"]: event for event in progress}
        for event in applications:
            self._send(event)
        for event in progress:
            known = before.get(event.data["id"])
            if known is None or known.data.get("updated_ms") != event.data.get("updated_ms"):
                self._send(event)
        for instances, data in queues.items():
            encoded = _encoded("queue", data)
            if self._queues.get(instances) != encoded:
                for listener in self._listeners:
                    if listener.instances == instances:
                        listener.send(_QUEUE, encoded, at_most=self._at_most())
            self._queues[instances] = encoded

    def _queues_due(self, changed: set[str]) -> set[Instances]:
        """Return the views of the queue that are due for computation."""
        views = {listener.instances for listener in self._listeners}
        self._queue_changed |= bool(changed)
        age = time.monotonic() - self._queued_at
        at_most, at_least = _QUEUE_SECONDS
        if age < (at_most if self._queue_changed else at_least):
            return views - self._queues.keys()
        self._queue_changed, self._queued_at = False, time.monotonic()
        return views

    def _read(
        self, changed: set[str], views: set[Instances]
    ) -> tuple[list[Event], list[Event], dict[Instances, Mapping[str, Any]]]:
        found = (self._source.application(application_id) for application_id in sorted(changed))
        queues = {instances: self._source.queue(instances) for instances in views}
        return [event for event in found if event is not None], list(self._source.progress()), queues

    def _send(self, event: Event) -> None:
        encoded = _encoded(event.kind, event.data)
        for listener in self._listeners:
            if _sees(listener.instances, event):
                listener.send(_subject(event), encoded, at_most=self._at_most())

    def _at_most(self) -> int:
        return _MOST_WAITING_EVENTS + len(self._progress)


_QUEUE: _Subject = ("queue", "")


def _subject(event: Event) -> _Subject:
    return event.kind, str(event.data.get("id", ""))


def _sees(instances: Instances, event: Event) -> bool:
    return instances is None or event.instance in instances


def _encoded(kind: str, data: Mapping[str, Any]) -> bytes:
    # JSON encoded without indentation has no line ends, so it fits one `data:` field.
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


_MOST_QUEUED = 200
"""The items in a `queue` event: more than a page shows, less than would slow it down."""


class EngineEvents:
    """The engine as the source of a feed."""

    def __init__(self, service: responses.Context) -> None:
        self._service = service

    def application(self, application_id: str) -> Event | None:
        try:
            found = self._service.engine.get(application_id)
        except NotFound:
            return None
        shown = responses.application(self._service, found)
        return Event("application", found.spec.instance, shown.model_dump(mode="json"))

    def progress(self) -> Iterable[Event]:
        for found in self._service.engine.list(states=[State.RUNNING]):
            observed = self._service.engine.clusters.observe(found)
            if observed is not None and observed.progress is not None:
                cost = responses.cost(self._service, found)
                more = {"id": found.id, "cost": cost and cost.model_dump(mode="json")}
                shown = self._service.path_redactor.redact_json(observed.progress)
                yield Event("progress", found.spec.instance, {**shown, **more})

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        queue = responses.queue(self._service, lambda name: instances is None or name in instances)
        # With their number, since the list is cut, and `used` also counts applications these listeners do not see.
        waiting, queue.items = len(queue.items), queue.items[:_MOST_QUEUED]
        return {**queue.model_dump(mode="json"), "waiting": waiting}


_LOOK_AGAIN_SECONDS = 5.0
"""A notification can be missed while the database is down; no request waits longer than this for it."""


class ChangeNotifier:
    """Notifications for waiting requests of one event loop. `get` reads an application; it may block."""

    def __init__(self, get: Callable[[str], Application], *, closing: threading.Event) -> None:
        self._get = get
        self._closing = closing
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def notify(self, application_id: str) -> None:
        """Announce that an application changed. Called on the event loop."""
        for event in self._waiting.get(application_id, ()):
            event.set()

    async def ended(self, application_id: str, seconds: float) -> Application:
        """Wait until the application has ended, the time is over, or the service is shutting down; then return it."""
        deadline = time.monotonic() + seconds
        with self._woken(application_id) as event:
            while True:
                # Cleared before the read: a change after the read sets it again.
                event.clear()
                application = await to_thread.run_sync(self._get, application_id)
                left = deadline - time.monotonic()
                if application.state.final or left <= 0 or self._closing.is_set():
                    return application
                with move_on_after(min(left, _LOOK_AGAIN_SECONDS)):
                    await event.wait()

    def notify_all(self) -> None:
        """Wake all waiting requests, since any application may have changed. Called on the event loop."""
        for application_id in list(self._waiting):
            self.notify(application_id)

    @contextlib.contextmanager
    def _woken(self, application_id: str) -> Iterator[asyncio.Event]:
        event = asyncio.Event()
        self._waiting[application_id].add(event)
        try:
            yield event
        finally:
            self._waiting[application_id].discard(event)
            if not self._waiting[application_id]:
                del self._waiting[application_id]


PIECE_BYTES = 128 << 10
_WINDOW_BYTES = 256 << 10
_TAIL_LOOK_SECONDS = 0.25
_ASK_STATE_SECONDS = 1.0
_READERS_AT_ONCE = 8

Key = tuple[str, str, int | None]
"""Application id, the log's name, and the attempt; None for a log that has the attempt in its name."""


class LogSource(Protocol):
    """Access to logs. Both methods may block, and are called by several threads."""

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None) -> bytes:
        """Return the bytes from `start` that exist now; empty at the end. Raises `NotFound` for an unknown log."""

    def complete(self, application_id: str, attempt: int | None) -> bool:
        """Return whether the log has its final length."""


class LogTailing:
    """The followed logs of one event loop."""

    def __init__(self, source: LogSource, *, closing: Callable[[], bool]) -> None:
        self._source = source
        self._closing = closing
        self._tails: dict[Key, _Tail] = {}
        # A pool of its own, so that followers never take the threads that other requests wait for.
        self._threads = CapacityLimiter(_READERS_AT_ONCE)

    @property
    def open(self) -> int:
        """The number of logs polled now."""
        return len(self._tails)

    async def read(self, key: Key, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the log from byte `start` to its present end."""
        while piece := await self._piece(key, start):
            yield piece
            start += len(piece)

    async def follow(self, key: Key, start: int = 0) -> AsyncGenerator[bytes, None]:
        """Yield the log from byte `start` until the application, or its attempt, has ended.

        Raises `ServiceError` where the service shuts down first: a cut response must not look like the log's end.
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
                # A log may grow by a few bytes at every read: from here on this reader waits for the shared tail.
                at_end = len(piece) < PIECE_BYTES
                if piece:
                    start += len(piece)
                    yield piece
        if self._closing():
            raise ServiceError("This service is shutting down", fix="resume with start= and the bytes received")

    async def _more(self, key: Key, position: int) -> bool:
        """Wait until the log is longer than `position`; False if it never will be."""
        if (tail := self._tails.get(key)) is None:
            if await self._complete(key):
                # It may have grown between the two reads.
                return bool(await self._piece(key, position))
            # Another reader may have made it meanwhile.
            if (tail := self._tails.get(key)) is None:
                tail = self._tails[key] = _Tail(position)
                tail.start(self._poll(key, tail))
        tail.readers += 1
        try:
            return await tail.grown(position, self._closing)
        finally:
            tail.readers -= 1

    async def _poll(self, key: Key, tail: _Tail) -> None:
        checked = last_read = time.monotonic()
        try:
            while not self._closing():
                if tail.readers:
                    last_read = time.monotonic()
                # Readers leave while they write a piece, and come back.
                elif time.monotonic() - last_read > 4 * _TAIL_LOOK_SECONDS:
                    return
                if piece := await self._piece(key, tail.end):
                    tail.append(piece)
                    if len(piece) == PIECE_BYTES:
                        continue  # there is more already
                elif time.monotonic() - checked >= _ASK_STATE_SECONDS:
                    checked = time.monotonic()
                    if await self._complete(key):
                        while piece := await self._piece(key, tail.end):
                            tail.append(piece)
                        return
                await asyncio.sleep(_TAIL_LOOK_SECONDS)
        except Exception as error:
            tail.problem = error  # raised in each reader
        finally:
            del self._tails[key]
            tail.finish()

    async def _piece(self, key: Key, start: int) -> bytes:
        application_id, name, attempt = key
        read = partial(self._source.piece, application_id, name, start, PIECE_BYTES, attempt=attempt)
        return await to_thread.run_sync(read, limiter=self._threads)

    async def _complete(self, key: Key) -> bool:
        application_id, _, attempt = key
        return await to_thread.run_sync(self._source.complete, application_id, attempt, limiter=self._threads)


class _Tail:
    """The buffered end of one log; `end` is the length read so far."""

    def __init__(self, end: int) -> None:
        self.end = end
        self.readers = 0
        self.problem: Exception | None = None
        self._window = bytearray()
        self._changed = asyncio.Event()
        self._finished = False
        self._task: asyncio.Task[None] | None = None

    def start(self, polling: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.ensure_future(polling)

    def append(self, piece: bytes) -> None:
        self._window += piece
        del self._window[:-_WINDOW_BYTES]
        self.end += len(piece)
        self._notify()

    def finish(self) -> None:
        self._finished = True
        self._notify()

    def after(self, position: int) -> bytes:
        """Return the buffered bytes after `position`; empty where the buffer does not reach it."""
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
            with move_on_after(4 * _TAIL_LOOK_SECONDS):
                await changed.wait()
        return True

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


MOST_TAIL_LINES = 10_000
_MOST_BYTES = 4 << 20


def last_lines(read: Callable[[int], bytes], lines: int, *, size: int = 0) -> tuple[bytes, int]:
    """Return the last `lines` lines, of at most 4 MiB, and the position where they begin.

    `read` returns the bytes after a position. `size` is a recent length of the log: reading begins at most 4 MiB before
    it.
    """
    buffered, end = b"", max(0, size - _MOST_BYTES)
    while piece := read(end):
        end += len(piece)
        buffered = (buffered + piece)[-_MOST_BYTES:]
    found = b"".join(buffered.splitlines(keepends=True)[-lines:]) if lines else b""
    return found, end - len(found)
