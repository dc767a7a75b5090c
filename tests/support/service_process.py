"""`penstock serve` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import httpx

from penstock.home import Home
from penstock.processes import free_ports


@dataclass(frozen=True)
class Served:
    url: str
    token: str
    home: Home

    def client(self) -> httpx.Client:
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=120)


@contextlib.contextmanager
def serving(home: Home) -> Iterator[Served]:
    """`penstock serve` over a home, as an administrator uses it.

    It looks after what nobody else does: no longer there than the tests that want it, for others kill supervisors.
    """
    port = free_ports(1)[0]
    process = subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", "serve", "--port", str(port)],
        env={**os.environ, "PENSTOCK_HOME": str(home.root)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 60
        while not _ready(url):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.2)
        yield Served(url, (home.root / "service" / "admin.token").read_text("utf-8").strip(), home)
    finally:
        process.terminate()
        process.wait(timeout=60)


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health/ready").status_code == 200
    except httpx.TransportError:
        return False
