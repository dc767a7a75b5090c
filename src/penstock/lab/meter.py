"""What a repetition cost beside its applications: the local store, the catalog, the shuffle disk, the machine.

All of it is a difference of counters that the kernel keeps anyway, but for the peaks of memory, which are looked for
once a second. Where several runs are measured at once on one machine, each is charged with all of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from penstock.catalog.database import Database
from penstock.home import Home
from penstock.lab import devices, proc
from penstock.lab.usage import repeatedly
from penstock.lake.base import Lake
from penstock.lake.embedded import EmbeddedLake
from penstock.processes import ProcessId

_LOOK_FOR_PEAKS_EVERY_SECONDS = 1.0
_SHORTEST_JUDGED_SECONDS = 1.0  # the kernel counts in hundredths
_DISTURBING_SHARE = 0.1
"""Of all cores. An idle machine's own work, the kernel's included, is below it."""


@dataclass(frozen=True)
class Reading:
    """The counters at one moment. `servers` has the core-seconds of each server that runs on this machine, `disk` is
    the shuffle's."""

    seconds: float
    machine_core_seconds: float
    lab_core_seconds: float
    """Of this process and all that it started: applications, with either launcher, and load generators."""
    servers: Mapping[str, float]
    disk: proc.Disk | None
    loopback_bytes: int | None
    disks: Mapping[str, proc.Disk] = field(default_factory=dict)


@dataclass
class Usage:
    """Filled when the block that is metered ends; the values of a `usage` sample."""

    values: dict[str, Any] = field(default_factory=dict)


@contextmanager
def metering(home: Home, lake: Lake) -> Iterator[Usage]:
    """Meter a block. A server of somebody else's machine is not known here, and what is not known is left out."""
    watched = _servers(home, lake)
    peaks: dict[str, int] = {}
    track = devices.Track()

    def look() -> None:
        track.add(time.monotonic(), proc.disk_under(home.root))
        everybody = list(proc.processes())
        for name, server in watched.items():
            memory = proc.memory_bytes(proc.family(server.pid, everybody))
            peaks[name] = max(memory, peaks.get(name, 0))

    usage = Usage()
    start = _read(home, watched)
    look()
    try:
        with repeatedly(look, every_seconds=_LOOK_FOR_PEAKS_EVERY_SECONDS):
            yield usage
    finally:
        end = _read(home, watched)
        track.add(end.seconds, end.disk, last=True)
        usage.values.update(between(start, end))
        usage.values["disk_over_time"] = track.over_time()
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
    for name in sorted(start.servers.keys() & end.servers.keys()):
        used[f"{name}_core_seconds"] = round(end.servers[name] - start.servers[name], 2)
    if start.servers.keys() == end.servers.keys():
        ours = end.lab_core_seconds - start.lab_core_seconds + sum(end.servers.values()) - sum(start.servers.values())
        # The kernel's counters are not read at one instant.
        used["other_core_seconds"] = round(max(0.0, used["machine_core_seconds"] - ours), 2)
    if start.disk is not None and end.disk is not None and start.disk.name == end.disk.name:
        used["disk"] = end.disk.name
        used.update({f"disk_{key}": value for key, value in devices.between(start.disk, end.disk, elapsed_ms).items()})
    used["devices"] = devices.all_between(start.disks, end.disks, elapsed_ms)
    if start.loopback_bytes is not None and end.loopback_bytes is not None:
        used["loopback_bytes"] = end.loopback_bytes - start.loopback_bytes
    return used


def disturbance(usage: Mapping[str, Any], cores: int) -> str | None:
    """What to tell of other programs that took enough of the machine's cores to make a time doubtful. Pure."""
    seconds = usage["elapsed_ms"] / 1000
    if seconds < _SHORTEST_JUDGED_SECONDS:
        return None
    taken = usage.get("other_core_seconds", 0) / seconds
    if taken < _DISTURBING_SHARE * cores:
        return None
    return f"Other programs took {taken:.1f} of {cores} cores meanwhile: this time is doubtful."


def _servers(home: Home, lake: Lake) -> dict[str, ProcessId]:
    store = EmbeddedLake(home).status().process_id if lake.kind == "embedded" else None
    found = {"store": ProcessId.of(store) if store else None, "catalog": Database(home).process()}
    return {name: server for name, server in found.items() if server is not None}


def _read(home: Home, watched: Mapping[str, ProcessId]) -> Reading:
    everybody = list(proc.processes())
    servers = {name: proc.family(server.pid, everybody) for name, server in watched.items() if server.alive()}
    # A server may have been started by this very process.
    theirs = {process.pid for family in servers.values() for process in family}
    ours = [process for process in proc.family(os.getpid(), everybody) if process.pid not in theirs]
    return Reading(
        seconds=time.monotonic(),
        machine_core_seconds=proc.machine_core_seconds(),
        lab_core_seconds=proc.core_seconds(ours),
        servers={name: proc.core_seconds(family) for name, family in servers.items()},
        # Executors shuffle below the home, with either launcher.
        disk=proc.disk_under(home.root),
        loopback_bytes=proc.loopback_bytes(),
        disks=proc.disks(),
    )
