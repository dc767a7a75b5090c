"""What happens, told as it happens to any number of pages: one look at the engine serves all that listen.

Of several events of one application that a listener has not read yet it gets the last. A listener that reads too
slowly all the same, or listens for long, is let go, and comes back: its page then asks for everything anew. So a
listener holds one event of each running application and some hundred others at most, nobody keeps an old view, and a
revoked token ends what it opened.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from anyio import move_on_after, to_thread

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


class Source(Protocol):
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

    def __init__(self, source: Source, *, closing: Callable[[], bool]) -> None:
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
