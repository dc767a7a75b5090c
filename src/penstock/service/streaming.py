"""Streams of events and logs: one look at the engine, or at a log, serves every listener.

Of several events of one application that a listener has not read yet it gets the last. A listener that reads too slowly
all the same, or listens for long, is disconnected, and comes back: its page then asks for everything anew. So a
listener holds one event of each running application and some hundred others at most, nobody keeps an old view, and a
revoked token ends what it opened.

Each log that is followed has one `Tail`, which looks for what is new and keeps the last of it. A reader at the end is
served from there; one who is behind reads the log itself, in pieces. The last lines of a log that can only be read
forwards are found in bounded memory.
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
"""Those a listener sees; None for all."""

HEARTBEAT = b": \n\n"

_log = logging.getLogger("penstock.service")

_LOOK_SECONDS = 1.0
_LEAST_PAUSE_SECONDS = 0.1
_QUEUE_SECONDS = (1.0, 5.0)
"""The queue is worked out anew at most, and at least, so often: it is of the length it has."""
_HEARTBEAT_SECONDS = 15.0
_LONGEST_SECONDS = 900.0
_MOST_WAITING_EVENTS = 512
"""The bound for one listener, besides an event of each running application: those come at once when it begins."""


@dataclass(frozen=True)
class Event:
    """`instance` is whose it is: others do not hear of it."""

    kind: str
    instance: str
    data: Mapping[str, Any]


class EventSource(Protocol):
    """What there is to tell. Every method may block, and is called by one thread at a time."""

    def application(self, application_id: str) -> Event | None:
        """As it is now; None where it is no more."""

    def progress(self) -> Iterable[Event]:
        """The last snapshot of each application that runs, with `id`, and `updated_ms` by which a new one is known."""

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        """The waiting queue as those who see these instances see it."""


_Subject = tuple[str, str]
"""The kind of an event, and of which application."""


@dataclass(eq=False)
class _Listener:
    instances: Instances
    _waiting: dict[_Subject, bytes] = field(default_factory=dict)
    _woken: asyncio.Event = field(default_factory=asyncio.Event)
    _gone: bool = False

    def hear(self, subject: _Subject, written: bytes, *, at_most: int) -> None:
        """Replaces what waits of the same subject; let go where `at_most` others wait already."""
        self._waiting.pop(subject, None)
        if len(self._waiting) >= at_most:
            self.let_go()
        if not self._gone:
            self._waiting[subject] = written
            self._woken.set()

    def let_go(self) -> None:
        self._gone = True
        self._waiting.clear()
        self._woken.set()

    async def next(self) -> bytes | None:
        """The event that waits longest, as soon as there is one; None where it was let go."""
        await self._woken.wait()
        if self._gone:
            return None
        written = self._waiting.pop(next(iter(self._waiting)))
        if not self._waiting:
            self._woken.clear()
        return written


class Feed:
    """Of one event loop. Looks at the engine only while somebody listens."""

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
        self._looking: asyncio.Task[None] | None = None

    @property
    def listeners(self) -> int:
        return len(self._listeners)

    def tell(self, application_id: str) -> None:
        """An application changed. Called on the event loop."""
        if self._listeners:
            self._changed.add(application_id)
            self._woken.set()

    def tell_all(self) -> None:
        """Nobody knows what changed: all come back and ask for everything. Called on the event loop."""
        for listener in self._listeners:
            listener.let_go()

    async def listen(self, instances: Instances) -> AsyncGenerator[bytes, None]:
        """Server-sent events `application`, `progress` and `queue`, until the service lets go."""
        listener = _Listener(instances)
        if (queue := self._queues.get(instances)) is not None:
            listener.hear(_QUEUE, queue, at_most=self._at_most())
        for event in self._progress.values():
            if _sees(instances, event):
                listener.hear(_subject(event), _written(event.kind, event.data), at_most=self._at_most())
        self._listeners.add(listener)
        self._woken.set()
        if self._looking is None or self._looking.done():
            self._looking = asyncio.ensure_future(self._look())
        ends_at = time.monotonic() + _LONGEST_SECONDS
        try:
            yield HEARTBEAT
            while time.monotonic() < ends_at:
                written: bytes | None = HEARTBEAT
                with move_on_after(_HEARTBEAT_SECONDS):
                    written = await listener.next()
                if written is None:
                    return
                yield written
        finally:
            self._listeners.discard(listener)

    async def _look(self) -> None:
        try:
            while self._listeners and not self._closing():
                self._woken.clear()
                changed, self._changed = self._changed, set()
                await self._tell_of(changed)
                # Changes that come in a burst are told together.
                await asyncio.sleep(_LEAST_PAUSE_SECONDS)
                # Not asyncio's wait_for, which before Python 3.12 may take an end that is asked for as a change.
                with move_on_after(_LOOK_SECONDS):
                    await self._woken.wait()
        except Exception:
            _log.exception("the feed of changes stopped")
        finally:
            # Also where a look failed: the pages come back, and their requests tell them what is wrong.
            self._looking = None
            self._progress.clear()
            self._queues.clear()
            self.tell_all()

    async def _tell_of(self, changed: set[str]) -> None:
        applications, progress, queues = await to_thread.run_sync(self._seen, changed, self._queues_due(changed))
        before, self._progress = self._progress, {event.data["id"]: event for event in progress}
        for event in applications:
            self._tell(event)
        for event in progress:
            known = before.get(event.data["id"])
            if known is None or known.data.get("updated_ms") != event.data.get("updated_ms"):
                self._tell(event)
        for instances, data in queues.items():
            written = _written("queue", data)
            if self._queues.get(instances) != written:
                for listener in self._listeners:
                    if listener.instances == instances:
                        listener.hear(_QUEUE, written, at_most=self._at_most())
            self._queues[instances] = written

    def _queues_due(self, changed: set[str]) -> set[Instances]:
        """Whose view of the queue to work out now."""
        views = {listener.instances for listener in self._listeners}
        self._queue_changed |= bool(changed)
        age = time.monotonic() - self._queued_at
        at_most, at_least = _QUEUE_SECONDS
        if age < (at_most if self._queue_changed else at_least):
            return views - self._queues.keys()
        self._queue_changed, self._queued_at = False, time.monotonic()
        return views

    def _seen(
        self, changed: set[str], views: set[Instances]
    ) -> tuple[list[Event], list[Event], dict[Instances, Mapping[str, Any]]]:
        found = (self._source.application(application_id) for application_id in sorted(changed))
        queues = {instances: self._source.queue(instances) for instances in views}
        return [event for event in found if event is not None], list(self._source.progress()), queues

    def _tell(self, event: Event) -> None:
        written = _written(event.kind, event.data)
        for listener in self._listeners:
            if _sees(listener.instances, event):
                listener.hear(_subject(event), written, at_most=self._at_most())

    def _at_most(self) -> int:
        return _MOST_WAITING_EVENTS + len(self._progress)


_QUEUE: _Subject = ("queue", "")


def _subject(event: Event) -> _Subject:
    return event.kind, str(event.data.get("id", ""))


def _sees(instances: Instances, event: Event) -> bool:
    return instances is None or event.instance in instances


def _written(kind: str, data: Mapping[str, Any]) -> bytes:
    # JSON has no line ends of its own when written like this, so that one `data:` holds it whole.
    return f"event: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()


_MOST_QUEUED = 200
"""Told of the queue each time it changes: more than a page shows, less than would slow it down."""


class Happenings:
    def __init__(self, service: responses.Shown) -> None:
        self._service = service

    def application(self, application_id: str) -> Event | None:
        try:
            found = self._service.engine.get(application_id)
        except NotFound:
            return None
        return Event("application", found.spec.instance, responses.application(self._service, found))

    def progress(self) -> Iterable[Event]:
        for found in self._service.engine.list(states=[State.RUNNING]):
            seen = self._service.engine.clusters.observe(found)
            if seen is not None and seen.progress is not None:
                more = {"id": found.id, "cost": responses.cost(self._service, found)}
                shown = self._service.paths.hidden_in(dict(seen.progress))
                yield Event("progress", found.spec.instance, {**shown, **more})

    def queue(self, instances: Instances) -> Mapping[str, Any]:
        seen = responses.queue(self._service, lambda name: instances is None or name in instances)
        # With how many there are: the list is cut, and `used` counts those that these listeners do not see.
        return {**seen, "items": seen["items"][:_MOST_QUEUED], "waiting": len(seen["items"])}


_LOOK_AGAIN_SECONDS = 5.0
"""A change can be missed while the database is away; nobody waits longer than this for it."""


class News:
    """Of one event loop. `get` reads an application from the records, and may block."""

    def __init__(self, get: Callable[[str], Application], *, closing: threading.Event) -> None:
        self._get = get
        self._closing = closing
        self._waiting: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def tell(self, application_id: str) -> None:
        """Called on the event loop."""
        for event in self._waiting.get(application_id, ()):
            event.set()

    async def ended(self, application_id: str, seconds: float) -> Application:
        """The application when it has ended, or as it is when the time is over or the service about to end."""
        deadline = time.monotonic() + seconds
        with self._woken(application_id) as event:
            while True:
                # In this order: what changes behind the look sets the event.
                event.clear()
                application = await to_thread.run_sync(self._get, application_id)
                left = deadline - time.monotonic()
                if application.state.final or left <= 0 or self._closing.is_set():
                    return application
                with move_on_after(min(left, _LOOK_AGAIN_SECONDS)):
                    await event.wait()

    def tell_all(self) -> None:
        """Called on the event loop: everybody looks again."""
        for application_id in list(self._waiting):
            self.tell(application_id)

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
"""Application id, the log's name, and of which attempt; None for a log that has the attempt in its name."""


class LogSource(Protocol):
    """Where logs are. Both methods may block, and are called by several threads."""

    def piece(self, application_id: str, name: str, start: int, at_most: int, *, attempt: int | None) -> bytes:
        """The bytes from `start` that are there now; empty at the end. Raises `NotFound` where there is no such log."""

    def complete(self, application_id: str, attempt: int | None) -> bool:
        """Whether nothing will be added any more."""


class Tails:
    """Of one event loop."""

    def __init__(self, source: LogSource, *, closing: Callable[[], bool]) -> None:
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
                elif time.monotonic() - last_read > 4 * _TAIL_LOOK_SECONDS:  # they write what they got, and come back
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
                await asyncio.sleep(_TAIL_LOOK_SECONDS)
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
            with move_on_after(4 * _TAIL_LOOK_SECONDS):
                await changed.wait()
        return True

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


MOST_LINES = 10_000
_MOST_BYTES = 4 << 20


def last_lines(read: Callable[[int], bytes], lines: int, *, size: int = 0) -> tuple[bytes, int]:
    """The last `lines` lines, of at most 4 MiB, and the position they begin at; `read` gives what is behind one.

    `size` is how long the log was a moment ago: what cannot be among its last 4 MiB is not read.
    """
    kept, end = b"", max(0, size - _MOST_BYTES)
    while piece := read(end):
        end += len(piece)
        kept = (kept + piece)[-_MOST_BYTES:]
    wanted = b"".join(kept.splitlines(keepends=True)[-lines:]) if lines else b""
    return wanted, end - len(wanted)
