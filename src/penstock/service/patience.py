"""The HTTP protocol with an end to its patience: a connection that does not bring a whole request head is closed."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0


class PatientProtocol(H11Protocol):
    """uvicorn waits for ever for the first line, and for the rest of a head: a thousand idle sockets cost an attacker
    nothing and the service all its descriptors."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self._idle():
            self._expect_head()
        super().data_received(data)
        if not self._idle():
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _idle(self) -> bool:
        """No request is being answered; a cycle begins when its head is complete."""
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(HEAD_SECONDS, self._hang_up)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _hang_up(self) -> None:
        self._deadline = None
        if self._idle() and self.transport is not None and not self.transport.is_closing():
            self.transport.close()
