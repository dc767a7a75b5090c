"""A store that stores nothing, for measuring the generator's own ceiling.

It responds to PUT, GET, range GET, LIST and DELETE on the loopback with as little work in Python as possible: bodies of
PUT are dropped inside the kernel (MSG_TRUNC), bodies of GET are sent from memory by sendfile(2). An object's size
follows from its name, so there is no state and any number of processes can serve at once. Signatures are not checked.

It uses CPU that the generator lacks where both share a machine, so the ceiling found is a lower bound.
"""

from __future__ import annotations

import os
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from urllib.parse import unquote

from penstock.lab.loadgen.processes import ChildProcess, end_children
from penstock.lab.loadgen.workload import PERIOD, Content, OperationKind, Sizes, Targets, Workload
from penstock.lake.model import Lake

_DROPPED_AT_ONCE = 1 << 20
_UNKNOWN_SIZE = 64 * 1024
_DATE = b"Last-Modified: Sat, 21 Nov 2026 12:00:00 GMT\r\n"
_RANGE = re.compile(rb"\r\nrange:\s*bytes=(\d+)-(\d+)", re.IGNORECASE)
_LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)
_ENTRY = (
    "<Contents><Key>{name}</Key><LastModified>2026-11-21T12:00:00.000Z</LastModified>"
    '<ETag>"0123456789abcdef0123456789abcdef"</ETag><Size>65536</Size><StorageClass>STANDARD</StorageClass></Contents>'
)


@dataclass(frozen=True)
class NullStoreConfig:
    """The basis of responses: object sizes by a pattern of their names, and the number of keys in a listing."""

    seed: int
    bucket: str
    prefix: str
    sizes: tuple[tuple[str, Sizes], ...]
    listed: int

    @staticmethod
    def of(workload: Workload, *, seed: int, bucket: str, prefix: str) -> NullStoreConfig:
        operations = [op for stage in workload.stages for work in stage.works for op in work.operations]
        sizes = {_pattern(op.targets): op.sizes for op in operations if op.sizes}
        lists = [len(op.targets.objects) for op in operations if op.kind is OperationKind.LIST]
        # The longest first: “b2” before “b” followed by a number.
        longest_first = sorted(sizes.items(), key=lambda pair: -len(pair[0]))
        return NullStoreConfig(seed, bucket, prefix, tuple(longest_first), min(1000, max(lists, default=0)))

    def size_of(self, name: str) -> int:
        found = next((sizes for pattern, sizes in self.sizes if re.fullmatch(pattern, name)), None)
        return found.of(self.seed, name) if found else _UNKNOWN_SIZE


def _pattern(targets: Targets) -> str:
    container = f"{re.escape(targets.container_prefix)}[0-9]+{re.escape(targets.container_suffix)}"
    return f"{container}/{re.escape(targets.object_prefix)}[0-9]+{re.escape(targets.object_suffix)}"


@contextmanager
def null_store_gateways(lake: Lake, canned: NullStoreConfig, *, processes: int) -> Iterator[Lake]:
    """Yield the lake with null servers as its gateways, one for each process; they end with the block."""
    servers = [ChildProcess.start(serve, canned, f"null-store-{number}") for number in range(processes)]
    try:
        endpoints = tuple(f"http://127.0.0.1:{server.receive()}" for server in servers)
        yield replace(lake, kind="null", endpoints=endpoints, path_style=True)
    finally:
        end_children(servers)


def serve(pipe: Connection, canned: NullStoreConfig) -> None:
    """Send the port, then serve until the other end of the pipe is closed."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    server = _Server(canned)
    threading.Thread(target=server.accept_all, args=(listener,), daemon=True).start()
    pipe.send(listener.getsockname()[1])
    try:
        pipe.recv()
    except (EOFError, ConnectionResetError):
        os._exit(0)


class _Server:
    def __init__(self, canned: NullStoreConfig) -> None:
        self._canned = canned
        content = Content(canned.seed)
        self._place = content.place
        self._block = os.memfd_create("block")
        os.write(self._block, content.block)
        keys: Sequence[str] = [f"{canned.prefix}/c1/o{number}" for number in range(1, canned.listed + 1)]
        self._listing = (
            "<?xml version='1.0'?><ListBucketResult><IsTruncated>false</IsTruncated>"
            + "".join(_ENTRY.format(name=key) for key in keys)
            + "</ListBucketResult>"
        ).encode()

    def accept_all(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve_one, args=(connection,), daemon=True).start()

    def _serve_one(self, connection: socket.socket) -> None:
        dropped = bytearray(_DROPPED_AT_ONCE)
        pending = b""
        with connection:
            try:
                while True:
                    while (end := pending.find(b"\r\n\r\n")) < 0:
                        got = connection.recv(65536)
                        if not got:
                            return
                        pending += got
                    head, pending = pending[:end], pending[end + 4 :]
                    if found := _LENGTH.search(head):
                        left = int(found[1]) - len(pending)
                        pending = b""
                        while left > 0:
                            left -= connection.recv_into(dropped, min(left, _DROPPED_AT_ONCE), socket.MSG_TRUNC)
                    self._answer(connection, head)
            except OSError:  # the generator cancelled the request
                return

    def _answer(self, connection: socket.socket, head: bytes) -> None:
        method, target, _ = head.split(b" ", 2)
        path, _, query = target.partition(b"?")
        if method == b"PUT":
            connection.sendall(b'HTTP/1.1 200 OK\r\nETag: "0"\r\nContent-Length: 0\r\n\r\n')
        elif method == b"DELETE":
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        elif b"list-type=2" in query:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(self._listing) + self._listing)
        else:
            self._send_object(connection, unquote(path.decode("ascii")), _RANGE.search(head))

    def _send_object(self, connection: socket.socket, path: str, part: re.Match[bytes] | None) -> None:
        name = path.removeprefix(f"/{self._canned.bucket}/{self._canned.prefix}/")
        size = self._canned.size_of(name)
        start, end = (int(part[1]), min(int(part[2]), size - 1)) if part else (0, size - 1)
        left = end - start + 1
        status = b"200 OK"
        content_range = b""
        if part:
            status = b"206 Partial Content"
            content_range = b"Content-Range: bytes %d-%d/%d\r\n" % (start, end, size)
        head = b'HTTP/1.1 %s\r\n%sETag: "0"\r\n%sContent-Length: %d\r\n\r\n' % (status, _DATE, content_range, left)
        connection.sendall(head, socket.MSG_MORE)
        place = (self._place(name, size) + start) % PERIOD
        while left > 0:
            sent = os.sendfile(connection.fileno(), self._block, place, min(left, 2 * PERIOD - place))
            place = (place + sent) % PERIOD
            left -= sent
