"""Waiting for changes of applications: one listener on the records wakes whoever waits in this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

from anyio import move_on_after, to_thread

from penstock.model import Application

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
