"""A connection without a request is closed; one with a request is not, however long its response takes.

The test controls the loop's clock, and the transport is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from penstock.service.server import HEADER_TIMEOUT_SECONDS, HeaderTimeoutProtocol

REQUEST = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


class ClockedLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock the test advances."""

    now = 0.0

    def time(self) -> float:
        return self.now

    def let_pass(self, seconds: float) -> None:
        self.now += seconds
        self.run_until_complete(self._turns())

    async def _turns(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


class Wire(asyncio.Transport):
    """A transport that records its writes and its close."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection:
    """A connection to an application that responds when the test lets it."""

    def __init__(self, loop: ClockedLoop) -> None:
        self.loop = loop
        self.wire = Wire()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        config = uvicorn.Config(self._answer, interface="asgi3", ws="none", lifespan="off", log_config=None)
        config.load()
        self._protocol = HeaderTimeoutProtocol(config, ServerState(), {}, loop)
        self._protocol.connection_made(self.wire)

    def send(self, data: bytes) -> None:
        self._protocol.data_received(data)
        self.loop.let_pass(0)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})


@pytest.fixture
def connection() -> Iterator[Connection]:
    loop = ClockedLoop()
    yield Connection(loop)
    loop.close()


def test_a_connection_that_says_nothing_is_closed(connection: Connection) -> None:
    connection.loop.let_pass(HEADER_TIMEOUT_SECONDS - 0.1)
    assert not connection.wire.closed
    connection.loop.let_pass(0.2)
    assert connection.wire.closed
    assert connection.wire.written == b""


def test_a_head_that_trickles_in_is_not_waited_for(connection: Connection) -> None:
    connection.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
    for _ in range(14):
        connection.loop.let_pass(1)
        connection.send(b"X-More: 1\r\n")
    assert not connection.wire.closed
    connection.loop.let_pass(1)
    assert connection.wire.closed
    assert connection.wire.written == b""


def test_a_request_is_answered_however_long_that_takes_and_the_next_one_too(connection: Connection) -> None:
    for _ in range(2):
        connection.may_answer.clear()
        connection.wire.written = b""
        connection.send(REQUEST)
        connection.loop.let_pass(10 * HEADER_TIMEOUT_SECONDS)
        assert not connection.wire.closed
        connection.may_answer.set()
        connection.loop.let_pass(0)
        assert connection.wire.written.startswith(b"HTTP/1.1 200")
        assert connection.wire.written.endswith(b"ok")


def test_the_second_head_on_a_connection_has_no_longer_than_the_first(connection: Connection) -> None:
    connection.send(REQUEST)
    assert connection.wire.written.endswith(b"ok")
    connection.send(b"GET / HT")
    connection.loop.let_pass(HEADER_TIMEOUT_SECONDS - 0.1)
    assert not connection.wire.closed
    connection.loop.let_pass(0.2)
    assert connection.wire.closed
