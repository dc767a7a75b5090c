"""Many clients follow one log as it grows: `python -m benchmarks.service.followers HOME --clients 200`.

Each client must get every byte: the exit code is 1 where one does not, and 2 where the service took more than 300 MB.
The result has the total of bytes, the service's peak memory and CPU time, and how long after the application's end the
last client (except the slow ones) had the whole log.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.service.followed_process import BYTES_PER_SECOND, LENGTH, SECONDS, Followed, content
from benchmarks.service.reporting import progress, report_result
from benchmarks.service.served import Service
from penstock.client.connection import connect
from penstock.home import Home
from penstock.processes import core_seconds_of
from tests.support.fake_engine import specification

_MOST_MEMORY = 300_000_000
_TIMEOUT = httpx.Timeout(60.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("home", type=Path)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument(
        "--slow", type=int, default=20, help="number of clients that read more slowly than the log grows"
    )
    chosen = parser.parse_args()
    home = Home(chosen.home.absolute())
    home.create()
    os.environ["PENSTOCK_HOME"] = str(home.root)
    with Service(home, instead="benchmarks.service.followed_process") as service:
        result = _measured(home, service.url, service.pid, chosen.clients, chosen.slow)
    return report_result(home, "followers", result)


def _measured(home: Home, address: str, pid: int, clients: int, slow: int) -> dict[str, Any]:
    idle = _memory(pid, "VmRSS")
    connection = connect(address)
    spec = specification(home, 0)
    # Enqueued without HTTP, where only files in a lake are accepted.
    application = Followed(home).enqueue(spec).id
    token = str(connection._client.headers["Authorization"])
    progress(f"{clients} clients follow a log that grows for {SECONDS:g} s, {slow} of them slowly")
    began = time.monotonic()
    late, lacking = asyncio.run(_follow_all(address, token, application, clients, slow))
    most = _memory(pid, "VmHWM")
    return {
        "clients": clients,
        "slow": slow,
        "log_bytes": LENGTH,
        "bytes_in_all": LENGTH * clients,
        "seconds": round(time.monotonic() - began, 1),
        "last_after_seconds": round(late - began - SECONDS, 1),
        "memory_before_mib": idle >> 20,
        "memory_most_mib": most >> 20,
        "cpu_seconds": core_seconds_of(pid),
        "broken": [f"{lacking} clients did not get the exact log"] if lacking else [],
        "missed": [f"the service had {most >> 20} MiB"] if most > _MOST_MEMORY else [],
    }


async def _follow_all(address: str, token: str, application: str, clients: int, slow: int) -> tuple[float, int]:
    """Return when the last client that is not slow had the whole log, and how many clients did not get every byte."""
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=address, headers={"Authorization": token}, timeout=_TIMEOUT, limits=limits, trust_env=False
    ) as client:
        path = f"/v1/applications/{application}/logs/driver.log?follow=true"

        async def follow(*, slowly: bool) -> float | None:
            got = 0
            async with client.stream("GET", path) as answer:
                answer.raise_for_status()
                async for piece in answer.aiter_raw():
                    if piece != content(got, got + len(piece)):
                        return None
                    got += len(piece)
                    if slowly:
                        await asyncio.sleep(len(piece) / (0.8 * BYTES_PER_SECOND))
            if got != LENGTH:
                return None
            return 0.0 if slowly else time.monotonic()

        ended = await asyncio.gather(*(follow(slowly=number < slow) for number in range(clients)))
        whole = [at for at in ended if at is not None]
        return max(whole, default=0.0), clients - len(whole)


def _memory(pid: int, what: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(what))


if __name__ == "__main__":
    raise SystemExit(main())
