"""What the processes of one session have cost so far, read from proc(5)."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_EVERY_SECONDS = 0.2


class SessionUsage:
    """Processor time and peak memory of all processes of a session, also of those that are gone.

    A process is last seen up to 0.2 s before its end, so what it did after that is missing.
    """

    def __init__(self, session: int) -> None:
        self._session = session
        self._seconds: dict[tuple[int, str], float] = {}
        self.peak_memory_bytes = 0

    @property
    def core_seconds(self) -> float:
        return sum(self._seconds.values())

    def look(self) -> None:
        memory = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:  # it ended between the listing and the reading
                continue
            if int(fields[3]) != self._session:
                continue
            self._seconds[int(stat.parent.name), fields[19]] = (int(fields[11]) + int(fields[12])) / _TICKS
            memory += int(fields[21]) * _PAGE
        self.peak_memory_bytes = max(self.peak_memory_bytes, memory)


@contextmanager
def watching(session: int) -> Iterator[SessionUsage]:
    usage = SessionUsage(session)
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_EVERY_SECONDS):
            usage.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield usage
    finally:
        done.set()
        thread.join()
