"""A connection that does not bring a request is closed; one that does is not, however long its answer takes."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn

from penstock.service import patience
from penstock.service.patience import PatientProtocol


async def slow_answer(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await asyncio.sleep(0.6)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, int]]:
    monkeypatch.setattr(patience, "HEAD_SECONDS", 0.3)
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(slow_answer, http=PatientProtocol, ws="none", lifespan="off", log_config=None)
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()
    server.should_exit = True
    thread.join(5)


def closed_after(connection: socket.socket) -> float:
    """Seconds until the service hung up without a word."""
    connection.settimeout(5)
    began = time.monotonic()
    assert connection.recv(100) == b""
    return time.monotonic() - began


def test_a_connection_that_says_nothing_is_closed(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        assert 0.1 < closed_after(connection) < 2


def test_a_head_that_trickles_in_is_not_waited_for(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        for _ in range(3):
            time.sleep(0.05)
            connection.sendall(b"X-More: 1\r\n")
        assert closed_after(connection) < 2


def test_a_request_is_answered_however_long_that_takes_and_the_next_one_too(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.settimeout(5)
        for _ in range(2):
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            got = b""
            while not got.endswith(b"ok"):
                got += connection.recv(1000)
            assert got.startswith(b"HTTP/1.1 200")


def test_the_second_head_on_a_connection_has_no_longer_than_the_first(address: tuple[str, int]) -> None:
    with socket.create_connection(address) as connection:
        connection.settimeout(5)
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        got = b""
        while not got.endswith(b"ok"):
            got += connection.recv(1000)
        connection.sendall(b"GET / HT")
        assert closed_after(connection) < 2
