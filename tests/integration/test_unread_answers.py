"""A client that does not read its answers is disconnected, on real sockets, and takes nothing that others need."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from penstock.service.guards import ConcurrencyLimits, RequestLimits
from penstock.service.server import TimeoutProtocol
from tests.support.waiting import within
from tests.unit.service.fakes import Stage

SECONDS = 0.5
KERNEL_BUFFER_BYTES = 4096
"""The size of the sockets' buffers: the kernel holds little of an answer, so that the rest stays in the service."""
LARGE = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE_AND_LAST = LARGE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
SMALL = b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n"


class Serving:
    """A service that admits a single request from an address without a token."""

    def __init__(self, root: Path) -> None:
        stage = Stage(root, limits=RequestLimits(send_seconds=SECONDS), bounds=ConcurrencyLimits(per_address=1))
        self._listener = socket.create_server(("127.0.0.1", 0))
        # Accepted sockets inherit it.
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BUFFER_BYTES)
        self.address: tuple[str, int] = self._listener.getsockname()
        config = uvicorn.Config(
            stage.app,
            http=TimeoutProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            timeout_keep_alive=1,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._listener]})
        self._thread.start()
        within(lambda: self._server.started)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()

    @property
    def connections(self) -> int:
        return len(self._server.server_state.connections)

    @property
    def answers(self) -> int:
        return self._server.server_state.total_requests

    @contextlib.contextmanager
    def never_reading(self, requests: bytes) -> Iterator[None]:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BUFFER_BYTES)
            client.connect(self.address)
            client.sendall(requests)
            yield

    def status(self) -> int:
        """Return the status of another client's request, from the same address."""
        connection = http.client.HTTPConnection(*self.address, timeout=60)
        try:
            connection.request("GET", "/health/live")
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Serving]:
    monkeypatch.setattr(TimeoutProtocol, "send_seconds", SECONDS)
    made = Serving(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("asked", "times"),
    [(LARGE, 200), (LARGE_AND_LAST, 1), (SMALL, 400), (SMALL, 50)],
    ids=["large-answers", "one-large-answer", "small-answers", "small-answers-and-then-silence"],
)
def test_a_client_that_never_reads_takes_no_connection_that_others_need(
    service: Serving, asked: bytes, times: int
) -> None:
    with service.never_reading(asked * times):
        within(lambda: service.answers > 0)
        within(lambda: service.connections == 0)
        within(lambda: service.status() == 200)


def test_other_clients_are_served_while_one_never_reads(service: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request's place is free before the connection is: uvicorn still answers it when the guard has given up."""
    monkeypatch.setattr(TimeoutProtocol, "send_seconds", 3600.0)
    with service.never_reading(LARGE * 200):
        within(lambda: service.answers > 0)
        within(lambda: service.status() == 200)
        assert service.connections
