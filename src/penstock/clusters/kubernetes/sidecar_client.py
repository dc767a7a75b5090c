"""Requests and tunnels to a pod's sidecar: through the API server from outside the cluster, directly from inside.

A tunnel forwards a port of this machine's loopback to a port of a driver's loopback. Only the pod's own processes reach
that loopback, so the driver opens no port to the cluster.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from penstock.clusters.kubernetes import layout
from penstock.clusters.kubernetes.client import Api, read_limited
from penstock.clusters.kubernetes.pod.sidecar import UPGRADE
from penstock.errors import ClusterError, PenstockError
from penstock.formats import url_host

_PIECE = 1 << 16
_OPEN_SECONDS = 15.0
_PAUSE_SECONDS = 0.1


@dataclass(frozen=True)
class TunnelEndpoint:
    """The address of a sidecar, and the request that opens a tunnel. `tls` is None for an unencrypted connection."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    path: str
    headers: Mapping[str, str]


class Relay:
    """A forwarded port of the loopback, served by a thread until `close`.

    `entrance` is called for each connection; where it returns None, the connection is closed. Raises `ClusterError`
    where no port can be opened.

    For protocols in which the end of one direction ends both, such as HTTP and gRPC: TLS has no half-closed connection.
    """

    def __init__(self, entrance: Callable[[], TunnelEndpoint | None]) -> None:
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
        """Close the port and its open connections."""
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
                # A peer that does not read would block this wait for ever.
                await asyncio.wait(left, timeout=_OPEN_SECONDS)

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                near, _ = await self._loop.sock_accept(listener)
            except OSError:  # the peer closed the connection, or this process has too many open files
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            task = asyncio.ensure_future(self._join(near))
            self._joining[task] = near
            # The callback also closes the socket of a task that was cancelled before it started.
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
                    # Both directions are done; a regular close would wait for the other side's TLS closure.
                    forth.transport.abort()
        finally:
            back.close()
            with contextlib.suppress(OSError):
                await back.wait_closed()

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a tunnel. Raises `OSError` where the sidecar does not accept it."""
        found = await asyncio.to_thread(self._entrance)
        if found is None:
            raise ConnectionError
        reader, writer = await asyncio.open_connection(found.host, found.port, ssl=found.tls)
        head = [f"GET {found.path} HTTP/1.1", f"Host: {found.host}:{found.port}"]
        headers = {**found.headers, "Connection": "Upgrade", "Upgrade": UPGRADE}
        writer.write("\r\n".join([*head, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode())
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


_SECONDS = 10.0
_MOST_STATUS_BYTES = 8 << 20
"""Progress and summary have at most 1 MiB each, before JSON escapes their letters."""
_MOST_FILE_BYTES = 1 << 20
_MOST_PORT = (1 << 16) - 1


class SidecarClient:
    """Requests to the sidecar of a pod, at an `address` that is None while it does not run.

    `token` is called when it is first needed. Every method returns None, or False, where the sidecar cannot be reached
    or its answer is not one of a sidecar: where a sidecar has died, submitted code may listen on its port.
    """

    def __init__(self, api: Api, namespace: str, pod: str, token: Callable[[], str | None]) -> None:
        self._api = api
        self._proxy = f"/api/v1/namespaces/{namespace}/pods/{pod}:{layout.SIDECAR_PORT}/proxy"
        self._read_token = token
        self._token: str | None = None

    def forget(self) -> None:
        """Discard the token: the pod, and with it the sidecar, is a new one."""
        self._token = None

    def status(self, address: str | None) -> Mapping[str, Any] | None:
        found = self._json(address, "/status", _MOST_STATUS_BYTES)
        return found if _is_status(found) else None

    def artifact(self, address: str | None, name: str, start: int, at_most: int) -> bytes | None:
        """Return at most `at_most` bytes of an artifact, from the offset `start`."""
        path = f"/artefacts/{quote(os.fsencode(name))}"
        return self._call("GET", address, path, at_most, start=str(start), at_most=str(at_most))

    def published(self, address: str | None, name: str) -> bytes | None:
        return self._call("GET", address, f"/published/{name}", _MOST_FILE_BYTES)

    def pages(self, address: str | None) -> tuple[int, str | None] | None:
        """Return the loopback port of Spark's web UI, and its key; None until the UI has started."""
        found = self._json(address, "/pages", _MOST_FILE_BYTES)
        port, key = found.get("port"), found.get("key")
        if isinstance(port, int) and 0 < port <= _MOST_PORT and (key is None or isinstance(key, str)):
            return port, key
        return None

    def entrance(self, address: str | None, port: int) -> TunnelEndpoint | None:
        """Return the entrance of a tunnel to that port of the driver's loopback."""
        access = self._api.access
        try:
            self._token = self._token or self._read_token()
            bearer = access.token()
        except PenstockError:
            return None
        if self._token is None:
            return None
        headers, path = {layout.TOKEN_HEADER: self._token}, f"/tunnel/{port}"
        if access.in_cluster:
            return None if address is None else TunnelEndpoint(address, layout.SIDECAR_PORT, None, path, headers)
        server = urlsplit(access.server)
        if bearer:
            headers["Authorization"] = f"Bearer {bearer}"
        port_of_server = server.port or (443 if server.scheme == "https" else 80)
        return TunnelEndpoint(
            server.hostname or "", port_of_server, access.tls, f"{server.path}{self._proxy}{path}", headers
        )

    def send(self, address: str | None, command: str) -> bool:
        """Send `stop`, `kill` or `release`; return whether the sidecar accepted it."""
        return self._call("POST", address, f"/{command}", _MOST_FILE_BYTES) is not None

    def _json(self, address: str | None, path: str, most: int) -> dict[str, Any]:
        """Return the object in the answer; an empty one where there is none."""
        answer = self._call("GET", address, path, most)
        try:
            found = None if answer is None else json.loads(answer)
        except (ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _call(self, method: str, address: str | None, path: str, most: int, **params: str) -> bytes | None:
        """Return the body of the answer; None where there is none, or it is longer than `most` bytes."""
        if address is None:
            return None
        try:
            self._token = self._token or self._read_token()
            if self._token is None:
                return None
            headers = {layout.TOKEN_HEADER: self._token, "Accept-Encoding": "identity"}
            if not self._api.access.in_cluster:
                return self._api.call(
                    method, self._proxy + path, headers=headers, params=params, at_most=most, seconds=_SECONDS
                )
            url = f"http://{url_host(address)}:{layout.SIDECAR_PORT}{path}"
            with httpx.stream(method, url, headers=headers, params=params, timeout=_SECONDS, trust_env=False) as answer:
                return read_limited(answer, most) if answer.is_success else None
        except (PenstockError, httpx.HTTPError):
            return None


def _is_status(found: Mapping[str, Any]) -> bool:
    """Return whether the object has the parts of a status whose form the engine relies on."""
    sizes, uploaded = found.get("artefacts"), found.get("in_lake")
    return (
        isinstance(found.get("finished"), bool)
        and isinstance(sizes, dict)
        and all(_is_file_name(name) and type(size) is int and size >= 0 for name, size in sizes.items())
        and isinstance(uploaded, list)
        and all(isinstance(name, str) for name in uploaded)
    )


def _is_file_name(name: str) -> bool:
    """Return whether a file can have that name: JSON can spell halves of characters that no file has."""
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True
