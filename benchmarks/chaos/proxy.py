"""A gateway that injects planned faults: `python -m benchmarks.chaos.proxy --upstream HOST:PORT --record FILE`.

This module is mechanism only; `faults.py` decides. Messages pass unchanged, above all the `Host` header, which the
client signed: give clients this gateway's address instead of the store's. The process prints its port, then reads
commands from standard input, a line of JSON each, and answers each with a line. It exits when that input ends, so it
never outlives its parent.

    {"plan": {...}}   follow this plan from its beginning
    {"count": true}   return the number of requests so far, by operation

Every injected fault is a line of JSON in the record, written before the fault is injected.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import struct
import sys
from collections import Counter
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from typing import Any

from benchmarks.chaos import faults
from benchmarks.chaos.body_corruption import CorruptedBody
from benchmarks.chaos.clients import client_process
from benchmarks.chaos.faults import Fault, FaultSelector, Plan, Request
from benchmarks.chaos.messages import Broken, Head, body, length_of, read_head

_ERROR = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>injected</Message></Error>'
_FRESH_SECONDS = 2.0
"""The store may have closed a connection that was idle for longer."""


class _Cut(Exception):
    """The transfer has reached the byte at which the fault ends the connection."""

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self.reset = reset


class Proxy:
    """A server of faulty S3 requests, until `close`; `selector` may be replaced at any time."""

    def __init__(self, upstream: tuple[str, int], record: Path, *, name: str = "") -> None:
        self.upstream = upstream
        self.requests: Counter[str] = Counter()
        self.selector = FaultSelector(Plan(""))
        self._record = record
        self._name = name
        self._server: asyncio.Server | None = None

    async def listen(self, port: int = 0) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, limit=1 << 20)
        return int(self._server.sockets[0].getsockname()[1])

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def write_down(self, request: Request, occurrence: int, fault: Fault, **more: object) -> None:
        line = {
            "at": datetime.now(timezone.utc).isoformat(),
            "gateway": self._name,
            **fault.to_json(),
            "operation": request.operation,
            "key": request.key,
            "occurrence": occurrence,
            **more,
        }
        with self._record.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        try:
            while (head := await read_head(reader)) is not None and await connection.exchange(head):
                pass
        except _Cut as cut:
            if cut.reset:
                _reset(writer)
        except (Broken, ConnectionError, TimeoutError):
            # The other side has to see that this one broke off, not an orderly end.
            _reset(writer)
        finally:
            connection.close()
            writer.close()


class _Connection:
    """One client's connection: its requests in sequence, each forwarded or treated as its fault says."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._in = reader
        self._out = writer
        self._store: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._used = 0.0

    def close(self) -> None:
        if self._store is not None:
            self._store[1].close()
            self._store = None

    async def exchange(self, head: Head) -> bool:
        """Handle one request, and return whether another may follow on this connection."""
        request = Request.of(head.start[0], head.start[1], head.headers)
        self._proxy.requests[request.operation] += 1
        fault, occurrence = self._proxy.selector.choose(request)
        if fault is None:
            return await self._passed(head, None)
        if isinstance(fault, (faults.KillClient, faults.StopClient)):
            return await self._inject(head, request, occurrence, fault)
        self._proxy.write_down(request, occurrence, fault)
        if isinstance(fault, faults.Reset):
            await asyncio.sleep(fault.seconds)
            raise _Cut(reset=True)
        if isinstance(fault, faults.Answer):
            return await self._answer(head, fault.status, fault.code, _retry_after(fault))
        if isinstance(fault, faults.Skew) and fault.refused:
            date = {"Date": _http_date(datetime.now(timezone.utc) + timedelta(seconds=fault.seconds))}
            return await self._answer(head, 403, "RequestTimeTooSkewed", date)
        if isinstance(fault, faults.Delay):
            await asyncio.sleep(fault.seconds)
        return await self._passed(head, fault)

    async def _inject(
        self, head: Head, request: Request, occurrence: int, fault: faults.KillClient | faults.StopClient
    ) -> bool:
        victim = client_process(self._out.get_extra_info("peername")[1], self._out.get_extra_info("sockname")[1])
        if victim is None:
            # Only processes of applications may be killed: a request of any other client passes.
            return await self._passed(head, None)
        self._proxy.write_down(request, occurrence, fault, victim=victim.to_json())
        if fault.done:
            await self._relayed(head, None, hear=False)
        if isinstance(fault, faults.KillClient):
            victim.signal(signal.SIGKILL)
            raise _Cut(reset=True)
        victim.signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.seconds)
        finally:
            victim.signal(signal.SIGCONT)
        if fault.done:
            raise _Cut(reset=True)
        return await self._passed(head, None)

    async def _passed(self, head: Head, fault: Fault | None) -> bool:
        return await self._relayed(head, fault, hear=True) and not head.says("connection", "close")

    async def _relayed(self, head: Head, fault: Fault | None, *, hear: bool) -> bool:
        """Forward the request to the store and, with `hear`, the answer to the client.

        Returns whether both sides know where the next request begins.
        """
        reader, writer = await self._connected()
        writer.write(head.raw)
        waits = head.says("expect", "100-continue")
        if not waits:
            await self._upload(head, writer, fault)
        answer = await self._next_head(reader)
        while answer.start[1].startswith("1"):
            self._out.write(answer.raw)
            if waits:
                await self._upload(head, writer, fault)
                waits = False
            answer = await self._next_head(reader)
        if isinstance(fault, faults.LoseAnswer):
            raise _Cut(reset=True)
        await self._download(head, answer, reader, fault if hear else None, hear=hear)
        self._used = asyncio.get_running_loop().time()
        # A client that still waits may or may not send its body; a body without a length ends with its connection.
        return not (waits or answer.says("connection", "close") or _is_endless(head, answer))

    async def _upload(self, head: Head, store: asyncio.StreamWriter, fault: Fault | None) -> None:
        touched = CorruptedBody(fault, length_of(head), faults.FlipUpload, faults.CutUpload)
        async for piece in body(self._in, head, to_the_end=False):
            store.write(await touched.by_fault(piece))
            await store.drain()
            if touched.cut:
                raise _Cut(reset=True)

    async def _download(
        self, head: Head, answer: Head, store: asyncio.StreamReader, fault: Fault | None, *, hear: bool
    ) -> None:
        if hear:
            self._out.write(_dated(answer, fault))
        if _is_bodiless(head, answer):
            return
        touched = CorruptedBody(fault, length_of(answer), faults.FlipAnswer, faults.CutAnswer)
        async for piece in body(store, answer, to_the_end=True):
            if hear:
                self._out.write(await touched.by_fault(piece))
                await self._out.drain()
            if touched.cut:
                raise _Cut(reset=isinstance(fault, faults.CutAnswer) and fault.reset)

    async def _answer(self, head: Head, status: int, code: str, headers: dict[str, str]) -> bool:
        """Answer without the store.

        A client that waits to send its body may or may not send it now, so its connection ends.
        """
        waits = head.says("expect", "100-continue")
        if not waits:
            async for _ in body(self._in, head, to_the_end=False):
                pass
        content = _ERROR.format(code=code).encode() if head.start[0] != "HEAD" else b""
        lines = {
            "Date": _http_date(datetime.now(timezone.utc)),
            "Content-Type": "application/xml",
            "Content-Length": str(len(content)),
            **headers,
            **({"Connection": "close"} if waits else {}),
        }
        text = f"HTTP/1.1 {status} {code}\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._out.write(text.encode("latin-1") + b"\r\n" + content)
        await self._out.drain()
        return not waits

    async def _next_head(self, store: asyncio.StreamReader) -> Head:
        head = await read_head(store)
        if head is None:
            raise Broken("the store ended the connection")
        return head

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._store is not None and asyncio.get_running_loop().time() - self._used > _FRESH_SECONDS:
            self.close()
        if self._store is None:
            self._store = await asyncio.open_connection(*self._proxy.upstream, limit=1 << 20)
        return self._store


def _is_bodiless(head: Head, answer: Head) -> bool:
    return head.start[0] == "HEAD" or answer.status in (204, 304)


def _is_endless(head: Head, answer: Head) -> bool:
    chunked = answer.says("transfer-encoding", "chunked")
    return not (_is_bodiless(head, answer) or chunked) and length_of(answer) is None


def _dated(answer: Head, fault: Fault | None) -> bytes:
    if not isinstance(fault, faults.Skew) or "date" not in answer.headers:
        return answer.raw
    moved = parsedate_to_datetime(answer.headers["date"]) + timedelta(seconds=fault.seconds)
    return answer.with_header("Date", _http_date(moved))


def _http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(timezone.utc), usegmt=True)


def _retry_after(fault: faults.Answer) -> dict[str, str]:
    return {} if fault.retry_after is None else {"Retry-After": str(fault.retry_after)}


def _reset(writer: asyncio.StreamWriter) -> None:
    """End the connection with an RST instead of a FIN."""
    with contextlib.suppress(OSError, AttributeError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _obey(proxy: Proxy, port: int) -> None:
    print(port, flush=True)
    commands = asyncio.StreamReader(limit=1 << 20)
    protocol = asyncio.StreamReaderProtocol(commands)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await commands.readline():
        print(json.dumps(_obeyed(proxy, json.loads(line))), flush=True)


def _obeyed(proxy: Proxy, command: dict[str, Any]) -> Any:
    if "plan" in command:
        proxy.selector = FaultSelector(Plan.from_json(command["plan"]))
        return "ok"
    return dict(proxy.requests)


async def _main(options: argparse.Namespace) -> None:
    host, _, port = options.upstream.rpartition(":")
    proxy = Proxy((host, int(port)), options.record, name=options.name)
    await _obey(proxy, await proxy.listen(options.listen))
    proxy.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--upstream", required=True, metavar="HOST:PORT")
    parser.add_argument("--record", required=True, type=Path, metavar="FILE")
    parser.add_argument("--listen", type=int, default=0, metavar="PORT", help="port to listen on; 0 chooses a free one")
    parser.add_argument("--name", default="", help="name of this gateway in the record")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_main(parser.parse_args()))
    # Nothing waits for the connections that are still open.
    os._exit(0)
