"""The audit of a service: every request that may change something, by whom, and what became of it.

Written down in one place for all routes and dialects, so that none can forget to.
"""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from penstock.service.guards import Seen

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


class Ledger(Protocol):
    def audit(
        self,
        actor: str,
        action: str,
        *,
        subject: str = "",
        outcome: str = "done",
        address: str = "",
        detail: dict[str, Any] | None = None,
    ) -> None: ...


class Auditor:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._writer: ThreadPoolExecutor | None = None

    def tell(self, seen: Seen) -> None:
        """Who has no valid token is nobody: such requests are in the journal, where they cost no record."""
        if seen.method in _READING or seen.caller is None:
            return
        if self._writer is None:
            # One thread: in order, and beside the event loop.
            self._writer = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._writer.submit(self._write, seen)

    def close(self) -> None:
        """Returns when all is written; what is told afterwards is written, too."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.shutdown()

    def _write(self, seen: Seen) -> None:
        try:
            self._ledger.audit(
                seen.caller or "",
                f"{seen.method} {seen.route}",
                subject=seen.application_id or seen.path,
                outcome=outcome(seen.status),
                address=seen.client,
                detail={"status": seen.status, "request": seen.request_id, "token": seen.token_id},
            )
        except Exception:
            logging.getLogger("penstock.service").exception("the audit could not be written")


def outcome(status: int) -> str:
    if status < 400:
        return "done"
    return "refused" if status < 500 else "failed"
