"""A gateway in front of a server that records clients' requests, for tests of which requests were sent."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlparse

from penstock.lake.model import Lake


def first_endpoint(lake: Lake) -> tuple[str, int]:
    address = urlparse(lake.endpoints[0])
    return str(address.hostname), int(address.port or 80)


class RecordingGateway:
    """A listener on a port of `host` that passes every byte on to `upstream`, over plain TCP.

    The `Host` header, which an S3 client signs, passes unchanged.
    """

    def __init__(self, upstream: tuple[str, int], host: str = "127.0.0.1") -> None:
        self._upstream = upstream
        self._listener = socket.create_server((host, 0), backlog=64)
        self.port = int(self._listener.getsockname()[1])
        self.endpoint = f"http://{host}:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def received(self, data: bytes) -> None:
        """Record a piece that a client sent, before it is passed on.

        S3A's clients send a request once the previous one is answered, so each request begins with such a piece.
        """

    def passes(self) -> bool:
        """Whether bytes still pass; a connection on which they do not goes silent for good."""
        return True

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                try:
                    store = socket.create_connection(self._upstream)
                except OSError:
                    client.close()
                    continue
                threading.Thread(target=self._pass, args=(client, store, True), daemon=True).start()
                threading.Thread(target=self._pass, args=(store, client, False), daemon=True).start()

    def _pass(self, source: socket.socket, target: socket.socket, asks: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if asks:
                    self.received(data)
                if not self.passes():
                    return
                target.sendall(data)
        # Also after one side broke off: the other would wait for it, and this process would keep both connections.
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
