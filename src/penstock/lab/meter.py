"""What a repetition cost beside its applications: the local store, the catalog, the shuffle disk, the machine.

All of it is a difference of counters that the kernel keeps anyway, but for the peaks of memory, which are looked for
once a second. Where several runs are measured at once on one machine, each is charged with all of it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.database import Database
from penstock.home import Home
from penstock.lab import proc
from penstock.lab.usage import repeatedly
from penstock.lake.base import Lake
from penstock.lake.embedded import EmbeddedLake
from penstock.processes import ProcessId

_LOOK_FOR_PEAKS_EVERY_SECONDS = 1.0


@dataclass(frozen=True)
class Reading:
    """The counters at one moment. `servers` has the core-seconds of each server that runs on this machine."""

    seconds: float
    machine_core_seconds: float
    servers: Mapping[str, float]
    disk: proc.Disk | None
    loopback_bytes: int | None


@dataclass
class Usage:
    """Filled when the block that is metered ends; the values of a `usage` sample."""

    values: dict[str, Any] = field(default_factory=dict)


@contextmanager
def metering(home: Home, lake: Lake) -> Iterator[Usage]:
    """Meter a block. A server of somebody else's machine is not known here, and what is not known is left out."""
    watched = _servers(home, lake)
    peaks: dict[str, int] = {}

    def look() -> None:
        everybody = list(proc.processes())
        for name, server in watched.items():
            memory = proc.memory_bytes(proc.family(server.pid, everybody))
            peaks[name] = max(memory, peaks.get(name, 0))

    usage = Usage()
    look()
    start = _read(home, watched)
    try:
        with repeatedly(look, every_seconds=_LOOK_FOR_PEAKS_EVERY_SECONDS):
            yield usage
    finally:
        usage.values.update(between(start, _read(home, watched)))
        usage.values.update({f"{name}_peak_memory_bytes": peak for name, peak in peaks.items()})


def between(start: Reading, end: Reading) -> dict[str, Any]:
    """What was used from one reading to the other. Pure.

    A server that was started anew in between is left out: what the first one took is lost.
    """
    elapsed_ms = (end.seconds - start.seconds) * 1000
    used: dict[str, Any] = {
        "elapsed_ms": round(elapsed_ms),
        "machine_core_seconds": round(end.machine_core_seconds - start.machine_core_seconds, 2),
    }
    for name in start.servers.keys() & end.servers.keys():
        used[f"{name}_core_seconds"] = round(end.servers[name] - start.servers[name], 2)
    if start.disk is not None and end.disk is not None and start.disk.name == end.disk.name:
        busy_ms = end.disk.busy_ms - start.disk.busy_ms
        used["disk"] = end.disk.name
        # The kernel's clock is coarser than ours.
        used["disk_busy_share"] = round(min(1.0, busy_ms / elapsed_ms), 4) if elapsed_ms > 0 else 0.0
        used["disk_read_bytes"] = end.disk.read_bytes - start.disk.read_bytes
        used["disk_written_bytes"] = end.disk.written_bytes - start.disk.written_bytes
    if start.loopback_bytes is not None and end.loopback_bytes is not None:
        used["loopback_bytes"] = end.loopback_bytes - start.loopback_bytes
    return used


def _servers(home: Home, lake: Lake) -> dict[str, ProcessId]:
    store = EmbeddedLake(home).status().process_id if lake.kind == "embedded" else None
    found = {"store": ProcessId.of(store) if store else None, "catalog": Database(home).process()}
    return {name: server for name, server in found.items() if server is not None}


def _read(home: Home, watched: Mapping[str, ProcessId]) -> Reading:
    everybody = list(proc.processes())
    alive = {name: server for name, server in watched.items() if server.alive()}
    return Reading(
        seconds=time.monotonic(),
        machine_core_seconds=proc.machine_core_seconds(),
        servers={name: proc.core_seconds(proc.family(server.pid, everybody)) for name, server in alive.items()},
        # Executors shuffle below the home, with either launcher.
        disk=proc.disk_under(home.root),
        loopback_bytes=proc.loopback_bytes(),
    )
