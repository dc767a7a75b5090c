"""A connection without a request, or whose answers are not read, ends; others do not, however long a response takes.

The test controls the loop's clock, and the transport is in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
import uvicorn
from uvicorn.server import ServerState

from penstock.service.server import HEADER_TIMEOUT_SECONDS, LEAST_READ_BYTES, TimeoutProtocol

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
    """A transport that records its writes and its end. `unread` is the size of its write buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.unread = 0
        self.closed = False
        self.aborted = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = self.closed = True
        self._protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return self.unread

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = cast(asyncio.Protocol, protocol)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Connection:
    """A connection to an application that responds when the test lets it."""

    def __init__(self, loop: ClockedLoop) -> None:
        self.loop = loop
        self.wire = Wire()
        self.answered = 0
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        config = uvicorn.Config(self._answer, interface="asgi3", ws="none", lifespan="off", log_config=None)
        config.load()
        self._protocol = TimeoutProtocol(config, ServerState(), {}, loop)
        self.wire.set_protocol(self._protocol)
        self._protocol.connection_made(self.wire)

    def send(self, data: bytes) -> None:
        self._protocol.data_received(data)
        self.loop.let_pass(0)

    def stop_reading(self, unread: int) -> None:
        self.wire.unread = unread
        self._protocol.pause_writing()

    def read_all(self) -> None:
        self.wire.unread = 0
        self._protocol.resume_writing()

    def lose(self) -> None:
        self._protocol.connection_lost(None)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})
        self.answered += 1


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


LIMIT = TimeoutProtocol.send_seconds


def test_a_client_that_does_not_read_stops_the_next_answer_no_longer_than_the_limit(connection: Connection) -> None:
    connection.stop_reading(10 * LEAST_READ_BYTES)
    connection.send(REQUEST)
    connection.loop.let_pass(LIMIT)
    assert (connection.answered, connection.wire.aborted) == (0, False)
    connection.loop.let_pass(LIMIT)
    assert (connection.answered, connection.wire.aborted) == (1, True)
    assert connection.wire.written == b""


@pytest.mark.parametrize("unread", [1, 10 * LEAST_READ_BYTES])
def test_a_closed_connection_does_not_wait_for_its_client_to_read(connection: Connection, unread: int) -> None:
    connection.wire.unread = unread
    connection.loop.let_pass(HEADER_TIMEOUT_SECONDS)
    assert connection.wire.closed
    connection.loop.let_pass(LIMIT)
    assert not connection.wire.aborted
    connection.loop.let_pass(LIMIT)
    assert connection.wire.aborted


@pytest.mark.parametrize("closed", [False, True])
def test_a_client_that_reads_slowly_gets_everything(connection: Connection, closed: bool) -> None:
    connection.stop_reading(10 * LEAST_READ_BYTES)
    if closed:
        connection.wire.close()
    else:
        connection.send(REQUEST)
    while connection.wire.unread:
        connection.loop.let_pass(LIMIT)
        connection.wire.unread -= LEAST_READ_BYTES
    connection.read_all()
    connection.loop.let_pass(0)
    assert not connection.wire.aborted
    assert closed or connection.wire.written.endswith(b"ok")


def test_a_client_that_falls_behind_again_and_again_is_no_client_that_does_not_read(connection: Connection) -> None:
    connection.send(REQUEST)
    for _ in range(5):
        connection.stop_reading(10 * LEAST_READ_BYTES)
        connection.loop.let_pass(LIMIT)
        connection.read_all()
    assert not connection.wire.aborted


def test_a_lost_connection_leaves_no_timer_behind(connection: Connection) -> None:
    connection.stop_reading(10 * LEAST_READ_BYTES)
    connection.lose()
    connection.loop.let_pass(LIMIT)
    connection.loop.let_pass(LIMIT)
    assert not connection.wire.aborted
