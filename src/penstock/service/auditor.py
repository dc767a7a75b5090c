"""The audit of a service: every request that may change something, by whom, and what became of it.

Written down in one place for all routes and dialects, so that none can forget to.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from penstock.engine.auditing import Audit
from penstock.engine.rows import now
from penstock.service.journal import Seen

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Ledger(Protocol):
    def audit(self, entries: Sequence[Audit]) -> None: ...


class Auditor:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._told: deque[Audit] = deque()
        self._writer: ThreadPoolExecutor | None = None

    def tell(self, seen: Seen) -> None:
        """Who has no valid token is nobody: such requests are in the journal, where they cost no record."""
        if seen.method in _READING or seen.caller is None:
            return
        if self._writer is None:
            # One thread: in order, and beside the event loop.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._told.append(_entry(seen, seen.caller))
        self._writer.submit(self._write)

    def close(self) -> None:
        """Returns when all is written; what is told afterwards is written, too."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()

    def _write(self) -> None:
        # What came while the last ones were written goes together: one transaction for as many as there are.
        entries = [self._told.popleft() for _ in range(len(self._told))]
        try:
            if entries:
                self._ledger.audit(entries)
        except Exception:
            logging.getLogger("penstock.service").exception("the audit could not be written")


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
