"""From an executor to the driver's keeper: what it says, in order, each byte once, within a second."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Mapping
from typing import Any

from penstock.clusters.kubernetes.places import TOKEN_HEADER

_EVERY_SECONDS = 0.5
_MOST_HELD = 8 << 20
_PIECE = 1 << 20
_INSISTING_SECONDS = 5.0
_TIMEOUT_SECONDS = 5.0


class Shipper:
    """A thread of its own until `close`. A keeper that does not answer costs what is said beyond 8 MiB meanwhile, never
    the executor."""

    def __init__(self, host: str, port: int, executor_id: str, token: str) -> None:
        self._host, self._port = host, port
        self._path = f"/executors/{executor_id}"
        self._headers = {TOKEN_HEADER: token}
        self._held = bytearray()
        self._shipped = 0
        self._lost = 0
        self._changing = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def add(self, piece: bytes) -> None:
        with self._changing:
            if len(self._held) + len(piece) > _MOST_HELD:
                self._lost += len(piece)
                return
            if self._lost:
                self._held += f"\n… {self._lost} bytes are missing: the driver did not take them in time …\n".encode()
                self._lost = 0
            self._held += piece

    def tell(self, path: str, body: bytes) -> bool:
        """Whether the keeper took it. Tried for some seconds."""
        deadline = time.monotonic() + _INSISTING_SECONDS
        while not (taken := self._post(path, body)) and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)
        return taken

    def close(self, end: Mapping[str, Any]) -> None:
        """Bring what is left, and how the executor ended; give up after some seconds."""
        self._closing.set()
        self._thread.join(timeout=_INSISTING_SECONDS + _TIMEOUT_SECONDS)
        self._post(f"{self._path}/end", json.dumps(end).encode())

    def _run(self) -> None:
        while not self._closing.wait(_EVERY_SECONDS):
            self._ship()
        deadline = time.monotonic() + _INSISTING_SECONDS
        while not self._ship() and time.monotonic() < deadline:
            time.sleep(_EVERY_SECONDS)

    def _ship(self) -> bool:
        """Whether nothing is left."""
        while True:
            with self._changing:
                piece = bytes(self._held[:_PIECE])
            if not piece:
                return True
            # The keeper knows by the offset what it has already: an answer may be lost.
            if not self._post(f"{self._path}/log?offset={self._shipped}", piece):
                return False
            with self._changing:
                del self._held[: len(piece)]
            self._shipped += len(piece)

    def _post(self, path: str, body: bytes) -> bool:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT_SECONDS)
        try:
            connection.request("POST", path, body=body, headers=self._headers)
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()
