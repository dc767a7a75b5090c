"""Many clients follow one log as it grows: `python -m tests.load.followers HOME --clients 200`.

Each must get every byte. Prints one JSON object: bytes in all, the most memory the service had, its CPU time, and how
long after the application's end the last client (but the slow ones) had all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
from tests.load.followed_process import BYTES_PER_SECOND, LENGTH, SECONDS, Followed, content
from tests.load.pretended import specification

from penstock.client.connection import connect
from penstock.home import Home
from penstock.processes import free_ports

_TIMEOUT = httpx.Timeout(60.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("home", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--slow", type=int, default=20, help="so many of them read slower than it grows")
    chosen = parser.parse_args()
    home, (port,) = Home(chosen.home), free_ports(1)
    home.create()
    os.environ["PENSTOCK_HOME"] = str(home.root)
    with subprocess.Popen([sys.executable, "-m", "tests.load.followed_process", str(home.root), str(port)]) as service:
        try:
            print(json.dumps(_measured(home, f"http://127.0.0.1:{port}", service.pid, chosen.clients, chosen.slow)))
        finally:
            service.terminate()


def _measured(home: Home, address: str, pid: int, clients: int, slow: int) -> dict[str, Any]:
    _until_ready(address)
    idle = _memory(pid, "VmRSS")
    connection = connect(address)
    spec = specification(home, 0)
    # Straight into the records: over HTTP only files in a lake are taken.
    application = Followed(home).enqueue(spec).id
    token = str(connection._client.headers["Authorization"])
    began = time.monotonic()
    late = asyncio.run(_follow_all(address, token, application, clients, slow))
    return {
        "clients": clients,
        "slow": slow,
        "log_bytes": LENGTH,
        "bytes_in_all": LENGTH * clients,
        "seconds": round(time.monotonic() - began, 1),
        "last_after_seconds": round(late - began - SECONDS, 1),
        "memory_before_mib": idle >> 20,
        "memory_most_mib": _memory(pid, "VmHWM") >> 20,
        "cpu_seconds": _cpu_seconds(pid),
    }


async def _follow_all(address: str, token: str, application: str, clients: int, slow: int) -> float:
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=address, headers={"Authorization": token}, timeout=_TIMEOUT, limits=limits, trust_env=False
    ) as client:
        path = f"/v1/applications/{application}/logs/driver.log?follow=true"

        async def follow(*, slowly: bool) -> float:
            got = 0
            async with client.stream("GET", path) as answer:
                answer.raise_for_status()
                async for piece in answer.aiter_raw():
                    assert piece == content(got, got + len(piece))
                    got += len(piece)
                    if slowly:
                        await asyncio.sleep(len(piece) / (0.8 * BYTES_PER_SECOND))
            assert got == LENGTH, got
            return 0.0 if slowly else time.monotonic()

        return max(await asyncio.gather(*(follow(slowly=number < slow) for number in range(clients))))


def _until_ready(address: str) -> None:
    for _ in range(300):
        try:
            if httpx.get(f"{address}/health/ready", trust_env=False).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)
    raise SystemExit("the service does not start")


def _memory(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
