"""A client that sends each submission until it has an answer, always with the same idempotency key."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

_PATIENCE_SECONDS = 60.0
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Submitted:
    """An answered submission.

    `answered` is the time in seconds from the first byte of the answered request to the last byte of its answer, `took`
    the time since the first request, including those without an answer. `at` is the time of the answer by
    `time.perf_counter`.
    """

    id: str
    answered: float
    took: float
    at: float


class Submitters:
    """Several clients at once, each with a connection of its own."""

    def __init__(self, port: int, token: str, *, at_once: int) -> None:
        self._port = port
        self._token = token
        self._at_once = at_once
        self._own = threading.local()

    def submit(self, bodies: Sequence[dict[str, Any]]) -> list[tuple[Submitted, Submitted]]:
        """Submit each body twice in sequence, as a client does that has lost the first answer."""

        def twice(pair: tuple[int, dict[str, Any]]) -> tuple[Submitted, Submitted]:
            number, body = pair
            return self._one(f"load-{number}", body), self._one(f"load-{number}", body)

        with ThreadPoolExecutor(self._at_once) as pool:
            return list(pool.map(twice, enumerate(bodies)))

    def _one(self, key: str, body: dict[str, Any]) -> Submitted:
        first = time.perf_counter()
        while time.perf_counter() - first < _PATIENCE_SECONDS:
            began = time.perf_counter()
            if (found := self._tried(key, body)) is not None:
                ended = time.perf_counter()
                return Submitted(found, ended - began, ended - first, ended)
            time.sleep(_PAUSE_SECONDS)
        raise SystemExit(f"{key} had no answer for {_PATIENCE_SECONDS:g} s")

    def _tried(self, key: str, body: dict[str, Any]) -> str | None:
        """Send one request; None where it has no answer, or the status is 500 or 503."""
        connection = self._connection()
        try:
            headers = {
                "authorization": f"Bearer {self._token}",
                "content-type": "application/json",
                "idempotency-key": key,
            }
            connection.request("POST", "/v1/applications", json.dumps(body), headers)
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return None
        if answer.status == 202:
            return str(json.loads(content)["id"])
        if answer.status in (500, 503):
            return None
        raise SystemExit(f"{key} was answered with {answer.status}: {content[:500]!r}")

    def _connection(self) -> http.client.HTTPConnection:
        if not hasattr(self._own, "connection"):
            self._own.connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        found: http.client.HTTPConnection = self._own.connection
        return found
