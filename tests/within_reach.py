"""This machine's own lake and database at an address that a Kubernetes' pods can reach, for the time of a test."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

from penstock.catalog.database import Database
from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake.base import Lake
from penstock.lake.registry import Lakes

LAKE = "within-reach"


@contextlib.contextmanager
def passed_on(host: str, port: int) -> Iterator[int]:
    """A port of `host` whose every byte goes to that port of 127.0.0.1."""
    listener = socket.create_server((host, 0), backlog=64)

    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(piece)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", port))
                for ends in ((near, far), (far, near)):
                    threading.Thread(target=pump, args=ends, daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield int(listener.getsockname()[1])
    listener.close()


@contextlib.contextmanager
def lake_and_database(home: Home, host: str) -> Iterator[dict[str, str]]:
    """`LAKE` is the embedded lake at `host`. Yields what the environment of an engine must say of the database."""
    own, database = Installation(home).lake_up(), Database(home).url("penstock")
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(passed_on(host, int(own.endpoints[0].rpartition(":")[2])))
        catalog = stack.enter_context(passed_on(host, database.port))
        credentials = Lakes(home).credentials_of(own)
        Lakes(home).add(Lake(LAKE, (f"http://{host}:{store}",), own.bucket, "environment"), credentials)
        stack.callback(Lakes(home).remove, LAKE)
        yield {"PENSTOCK_DATABASE_URL": f"postgresql://{database.user}:{database.password}@{host}:{catalog}/"}
