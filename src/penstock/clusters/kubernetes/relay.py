"""A port of this machine's loopback that leads to one of a driver's, through its keeper: what listens on the loopback
of a pod is nobody's but the pod's own, and no port of it needs to be open to the cluster."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.clusters.kubernetes.pod.tunnel import UPGRADE
from penstock.errors import ClusterError

_PIECE = 1 << 16
_OPEN_SECONDS = 15.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class Entrance:
    """Where a connection to the keeper is made, and what it says first. `tls` is None where it is not encrypted."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    headers: Mapping[str, str]


class Relay:
    """`port` until `close`; a thread of its own. `entrance` is asked for each connection, None where there is no way
    now: the connection is closed then.

    For protocols in which whoever ends one direction ends both, as in HTTP and gRPC: TLS knows no half-closed
    connection.
    """

    def __init__(self, entrance: Callable[[], Entrance | None]) -> None:
        self._entrance = entrance
        self._loop = asyncio.new_event_loop()
        self._port = 0
        self._joining: dict[asyncio.Task[None], socket.socket] = {}
        self._stopping = asyncio.Event()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[ready], name="relay", daemon=True)
        self._thread.start()
        ready.wait()
        if not self._port:
            raise ClusterError("No port of this machine's loopback can be opened", fix="ulimit -n; ss -ltn")

    @property
    def port(self) -> int:
        return self._port

    def close(self) -> None:
        """Connections that are open are closed."""
        with contextlib.suppress(RuntimeError):  # closed before
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self, ready: threading.Event) -> None:
        try:
            self._loop.run_until_complete(self._serve(ready))
        finally:
            ready.set()
            self._loop.close()

    async def _serve(self, ready: threading.Event) -> None:
        try:
            listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        except OSError:
            return
        with listener:
            listener.setblocking(False)
            self._port = listener.getsockname()[1]
            ready.set()
            accepting = asyncio.ensure_future(self._accept(listener))
            await self._stopping.wait()
            while left := asyncio.all_tasks() - {asyncio.current_task()}:
                for task in left & {accepting, *self._joining}:
                    task.cancel()
                # A peer that reads nothing would be waited for.
                await asyncio.wait(left, timeout=_OPEN_SECONDS)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = await self._loop.sock_accept(listener)
            except OSError:  # it hung up again, or this process has too many files open
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = asyncio.ensure_future(self._join(near))
            self._joining[task] = near
            # Also of one that was ended before it began.
            task.add_done_callback(lambda it: self._joining.pop(it).close())

    async def _join(self, accepted: socket.socket) -> None:
        near, back = await asyncio.open_connection(sock=accepted)
        try:
            with contextlib.suppress(OSError, asyncio.TimeoutError, asyncio.IncompleteReadError):
                far, forth = await asyncio.wait_for(self._open(), _OPEN_SECONDS)
                both = [asyncio.ensure_future(_pass_on(near, forth)), asyncio.ensure_future(_pass_on(far, back))]
                try:
                    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for one in both:
                        one.cancel()
                    # Nothing more is to be said, and TLS would wait for the other side to agree.
                    forth.transport.abort()
        finally:
            back.close()
            with contextlib.suppress(OSError):
                await back.wait_closed()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Raises `OSError` where there is no way."""
        found = await asyncio.to_thread(self._entrance)
        if found is None:
            raise ConnectionError
        reader, writer = await asyncio.open_connection(found.host, found.port, ssl=found.tls)
        head = [f"GET {found.path} HTTP/1.1", f"Host: {found.host}:{found.port}"]
        said = {**found.headers, "Connection": "Upgrade", "Upgrade": UPGRADE}
        writer.write("\r\n".join([*head, *(f"{name}: {value}" for name, value in said.items()), "", ""]).encode())
        try:
            accepted = (await reader.readuntil(b"\r\n\r\n")).split(b" ", 2)[1:2] == [b"101"]
        except BaseException:
            writer.transport.abort()
            raise
        if not accepted:
            writer.close()
            raise ConnectionError
        return reader, writer


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await source.read(_PIECE):
            target.write(piece)
            await target.drain()
