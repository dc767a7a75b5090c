"""What the processes of one session have cost so far."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from penstock import processes

_EVERY_SECONDS = 0.2


class SessionUsage:
    """Processor time and peak memory of all processes of a session, also of those that are gone.

    A process is last seen up to 0.2 s before its end, so what it did after that is missing.
    """

    def __init__(self, session: int) -> None:
        self._session = session
        self._seconds: dict[tuple[int, int], float] = {}
        self.peak_memory_bytes = 0

    @property
    def core_seconds(self) -> float:
        return sum(self._seconds.values())

    def look(self) -> None:
        members = [process for process in processes.processes() if process.session == self._session]
        for process in members:
            self._seconds[process.pid, process.started] = process.core_seconds
        self.peak_memory_bytes = max(self.peak_memory_bytes, sum(process.resident_bytes for process in members))


@contextmanager
def watching(session: int) -> Iterator[SessionUsage]:
    usage = SessionUsage(session)
    with repeatedly(usage.look, every_seconds=_EVERY_SECONDS):
        yield usage


@contextmanager
def repeatedly(look: Callable[[], None], *, every_seconds: float) -> Iterator[None]:
    """Have it called from another thread now and then, until the block ends."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
