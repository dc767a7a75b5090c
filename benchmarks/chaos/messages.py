"""HTTP/1.1 messages on asyncio streams, forwarded unchanged to the byte, since requests are signed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

PIECE = 64 << 10


class Broken(Exception):
    """The peer closed the connection within a message, or sent something other than HTTP/1.1."""


@dataclass(frozen=True)
class Head:
    raw: bytes
    start: tuple[str, str, str]
    """The parts of the request line or of the status line."""
    headers: dict[str, str]
    """Values by lower-case name."""

    @property
    def status(self) -> int:
        return int(self.start[1])

    def says(self, header: str, token: str) -> bool:
        return token in self.headers.get(header, "").lower()

    def with_header(self, name: str, value: str) -> bytes:
        """The raw head with this header in place of any other of the name."""
        first, *lines = self.raw.rstrip(b"\r\n").split(b"\r\n")
        kept = [line for line in lines if line.partition(b":")[0].strip().lower() != name.lower().encode()]
        return b"\r\n".join([first, *kept, f"{name}: {value}".encode("latin-1"), b"", b""])


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """Read the head of the next message; None where the connection ends before one begins.

    Raises `Broken`.
    """
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise Broken("the connection ended within a message's head") from error
        return None
    except (asyncio.LimitOverrunError, ConnectionError) as error:
        raise Broken(str(error)) from error
    first, *lines = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
    parts = first.split(" ", 2)
    if len(parts) < 2:
        raise Broken(f"invalid start line: {first[:80]}")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Head(raw, (parts[0], parts[1], parts[2] if len(parts) > 2 else ""), headers)


async def body(reader: asyncio.StreamReader, head: Head, *, to_the_end: bool) -> AsyncIterator[bytes]:
    """Read the body in pieces, with its framing (RFC 9112, section 6.3).

    With `to_the_end`, a body without a length lasts until the connection ends, as an answer's does. Raises `Broken`.
    """
    try:
        if head.says("transfer-encoding", "chunked"):
            async for piece in _chunked(reader):
                yield piece
        elif "content-length" in head.headers:
            left = int(head.headers["content-length"])
            while left:
                piece = await reader.read(min(left, PIECE))
                if not piece:
                    raise Broken(f"{left} bytes of a body are missing")
                left -= len(piece)
                yield piece
        elif to_the_end:
            while piece := await reader.read(PIECE):
                yield piece
    except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
        raise Broken(str(error)) from error


async def _chunked(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        yield line
        size = int(line.partition(b";")[0], 16)
        if size == 0:
            break
        left = size + 2
        while left:
            piece = await reader.readexactly(min(left, PIECE))
            left -= len(piece)
            yield piece
    while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
        yield line
    yield b"\r\n"


def length_of(head: Head) -> int | None:
    """The body's length in bytes, or None where the head does not state it."""
    given = head.headers.get("content-length")
    return int(given) if given is not None and not head.says("transfer-encoding", "chunked") else None
