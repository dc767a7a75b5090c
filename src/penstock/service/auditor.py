"""The audit of a service: every request that may change something, by whom, and what became of it.

Written down in one place for all routes and dialects, so that none can forget to. Entries are written behind the
answer, several in one transaction. None is dropped: those that could not be written are kept and tried again, and until
they are written nothing more may be changed.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from penstock.engine.repository.applications import now
from penstock.engine.repository.audit import Audit
from penstock.errors import ServiceError
from penstock.service.journal import Seen

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_RETRY_SECONDS = 1.0


class Ledger(Protocol):
    def audit(self, entries: Sequence[Audit]) -> None: ...


class Auditor:
    def __init__(self, ledger: Ledger, retry_seconds: float = _RETRY_SECONDS) -> None:
        self._ledger = ledger
        self._retry_seconds = retry_seconds
        self._waiting: deque[Audit] = deque()
        self._writer: ThreadPoolExecutor | None = None
        self._behind = False
        self._closing = threading.Event()

    def admit(self, method: str) -> None:
        """Raise `ServiceError` where a request would change something that could not be audited now."""
        if self._behind and method not in _READING:
            raise ServiceError(
                "Nothing can be changed at the moment",
                why="the audit cannot be written: its database is away, or busy",
                fix="ask again in a while; reading goes on",
            )

    def add(self, seen: Seen) -> None:
        """Who has no valid token is nobody: such requests are in the journal, where they cost no record."""
        if seen.method in _READING or seen.caller is None:
            return
        if self._writer is None:
            # One thread: in order, and beside the event loop.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._waiting.append(_entry(seen, seen.caller))
        self._writer.submit(self._write)

    def close(self) -> None:
        """Returns when all is written, or the last try has failed; then the journal has each entry."""
        self._closing.set()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()
        self._closing.clear()
        for entry in self._waiting:
            _log.error("not in the audit: %s", entry.to_json())
        self._waiting.clear()

    def _write(self) -> None:
        # What came while the last ones were written goes together: one transaction for as many as there are.
        while entries := [self._waiting.popleft() for _ in range(len(self._waiting))]:
            if not self._written(entries):
                self._waiting.extendleft(reversed(entries))
                if self._closing.wait(self._retry_seconds):
                    return

    def _written(self, entries: Sequence[Audit]) -> bool:
        try:
            self._ledger.audit(entries)
        except Exception:
            if not self._behind:
                _log.exception("the audit cannot be written; until it is, nothing may be changed")
            self._behind = True
        else:
            self._behind = False
        return not self._behind


_log = logging.getLogger("penstock.service")


def _entry(seen: Seen, actor: str) -> Audit:
    return Audit(
        now(),
        actor,
        f"{seen.method} {seen.route}",
        subject=seen.application_id or seen.path,
        outcome=outcome(seen.status),
        address=seen.client,
        detail={"status": seen.status, "request": seen.request_id, "token": seen.token_id},
    )


def outcome(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"
