"""Waiting for a service that was just started."""

from __future__ import annotations

import contextlib
import time

import httpx

_PATIENCE_SECONDS = 60.0


def until_ready(address: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/health/ready", trust_env=False).status_code == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the service does not start")
