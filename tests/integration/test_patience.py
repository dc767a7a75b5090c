"""The service's HTTP protocol on real sockets: a silent connection is closed. The unit tests show the rest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from penstock.service import server as patience
from penstock.service.server import TimeoutProtocol
from tests.support.waiting import within


async def answer(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(patience, "HEADER_TIMEOUT_SECONDS", 0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(answer, http=TimeoutProtocol, ws="none", lifespan="off", log_config=None))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    within(lambda: server.started)
    yield listener.getsockname()
    server.should_exit = True
    thread.join()
    listener.close()


def test_a_connection_that_says_nothing_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        assert connection.recv(100) == b""


def test_one_that_has_asked_and_begins_again_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address, timeout=60) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        got = b""
        while not got.endswith(b"ok"):
            got += connection.recv(1000)
        assert got.startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET / HT")
        assert connection.recv(100) == b""
