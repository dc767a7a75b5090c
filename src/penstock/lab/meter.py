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
from pathlib import Path
from typing import Any

from penstock import processes
from penstock.catalog.database import Database
from penstock.home import Home
from penstock.lab import devices
from penstock.lab.usage import repeatedly
from penstock.lake import stores
from penstock.lake.model import Lake
from penstock.processes import ProcessId

_LOOK_FOR_PEAKS_EVERY_SECONDS = 1.0
_SHORTEST_JUDGED_SECONDS = 1.0  # the kernel counts in hundredths
_DISTURBING_SHARE = 0.1
"""Of all cores. An idle machine's own work, the kernel's included, is below it."""

STORE, CATALOG = "store", "catalog"

Daemon = tuple[str, str]
"""A server of this machine and which of its processes: (`store`, `osd.0`)."""


@dataclass(frozen=True)
class Effort:
    """A daemon's counters at one moment. The bytes are those of block devices; None where they cannot be read."""

    core_seconds: float
    read_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True)
class Reading:
    """The counters at one moment. `daemons` are those of the servers that run on this machine, `disk` is the
    shuffle's."""

    seconds: float
    machine_core_seconds: float
    lab_core_seconds: float
    """Of this process and all that it started: applications, with either launcher, and load generators."""
    daemons: Mapping[Daemon, Effort]
    disk: processes.Disk | None
    loopback_bytes: int | None
    disks: Mapping[str, processes.Disk] = field(default_factory=dict)


@dataclass
class Usage:
    """Filled when the block that is metered ends; the values of a `usage` sample."""

    values: dict[str, Any] = field(default_factory=dict)


@contextmanager
def metering(home: Home, lake: Lake, scratch: Path | None = None) -> Iterator[Usage]:
    """Meter a block. A server of somebody else's machine is not known here, and what is not known is left out.

    `scratch` is a directory on the device that executors shuffle on, where that is not the home's.
    """
    shuffle = scratch or home.root
    watched = _daemons(home, lake)
    peaks = Peaks()
    track = devices.Track()

    def look() -> None:
        track.add(time.monotonic(), processes.disk_under(shuffle))
        everybody = list(processes.processes())
        peaks.add(
            {name: processes.memory_bytes(processes.family(daemon.pid, everybody)) for name, daemon in watched.items()}
        )

    usage = Usage()
    start = _read(shuffle, watched)
    look()
    try:
        with repeatedly(look, every_seconds=_LOOK_FOR_PEAKS_EVERY_SECONDS):
            yield usage
    finally:
        end = _read(shuffle, watched)
        track.add(end.seconds, end.disk, last=True)
        usage.values.update(between(start, end))
        usage.values["disk_over_time"] = track.over_time()
        usage.values.update({f"{server}_peak_memory_bytes": peak for server, peak in peaks.servers.items()})
        for (server, name), peak in peaks.daemons.items():
            if server == STORE and name in usage.values.get("daemons", {}):
                usage.values["daemons"][name]["peak_memory_bytes"] = peak


@dataclass
class Peaks:
    """The most memory seen: of each daemon, and of each server's daemons together, which need not peak at once."""

    daemons: dict[Daemon, int] = field(default_factory=dict)
    servers: dict[str, int] = field(default_factory=dict)

    def add(self, seen: Mapping[Daemon, int]) -> None:
        together: dict[str, int] = {}
        for (server, name), size in seen.items():
            self.daemons[server, name] = max(size, self.daemons.get((server, name), 0))
            together[server] = together.get(server, 0) + size
        for server, size in together.items():
            self.servers[server] = max(size, self.servers.get(server, 0))


def between(start: Reading, end: Reading) -> dict[str, Any]:
    """What was used from one reading to the other. Pure.

    A daemon that ended in between is left out, and so are the sums of its server: what it took is lost.
    """
    elapsed_ms = (end.seconds - start.seconds) * 1000
    used: dict[str, Any] = {
        "elapsed_ms": round(elapsed_ms),
        "machine_core_seconds": round(end.machine_core_seconds - start.machine_core_seconds, 2),
    }
    efforts = {name: _effort(start.daemons[name], end.daemons[name]) for name in start.daemons if name in end.daemons}
    for server in dict.fromkeys(server for server, _ in start.daemons):
        if all(name in efforts for name in start.daemons if name[0] == server):
            used.update(_summed(server, [effort for name, effort in efforts.items() if name[0] == server]))
    if own := {name: _values(effort) for (server, name), effort in efforts.items() if server == STORE}:
        used["daemons"] = own
    if start.daemons.keys() == end.daemons.keys():
        servers = sum(effort.core_seconds for effort in efforts.values())
        ours = end.lab_core_seconds - start.lab_core_seconds + servers
        # The kernel's counters are not read at one instant.
        used["other_core_seconds"] = round(max(0.0, used["machine_core_seconds"] - ours), 2)
    if start.disk is not None and end.disk is not None and start.disk.name == end.disk.name:
        used["disk"] = end.disk.name
        used.update({f"disk_{key}": value for key, value in devices.between(start.disk, end.disk, elapsed_ms).items()})
    used["devices"] = devices.all_between(start.disks, end.disks, elapsed_ms)
    if start.loopback_bytes is not None and end.loopback_bytes is not None:
        used["loopback_bytes"] = end.loopback_bytes - start.loopback_bytes
    return used


def _effort(start: Effort, end: Effort) -> Effort:
    def grown(before: int | None, after: int | None) -> int | None:
        return None if before is None or after is None else after - before

    return Effort(
        end.core_seconds - start.core_seconds,
        grown(start.read_bytes, end.read_bytes),
        grown(start.written_bytes, end.written_bytes),
    )


def _summed(server: str, efforts: list[Effort]) -> dict[str, Any]:
    found: dict[str, Any] = {f"{server}_core_seconds": round(sum(one.core_seconds for one in efforts), 2)}
    for key in ("read_bytes", "written_bytes"):
        amounts = [getattr(one, key) for one in efforts]
        if None not in amounts:
            found[f"{server}_{key}"] = sum(amounts)
    return found


def _values(effort: Effort) -> dict[str, Any]:
    told = {"read_bytes": effort.read_bytes, "written_bytes": effort.written_bytes}
    return {
        "core_seconds": round(effort.core_seconds, 2),
        **{key: value for key, value in told.items() if value is not None},
    }


def disturbance(usage: Mapping[str, Any], cores: int) -> str | None:
    """What to tell of other programs that took enough of the machine's cores to make a time doubtful. Pure."""
    seconds = usage["elapsed_ms"] / 1000
    if seconds < _SHORTEST_JUDGED_SECONDS:
        return None
    taken = usage.get("other_core_seconds", 0) / seconds
    if taken < _DISTURBING_SHARE * cores:
        return None
    return f"Other programs took {taken:.1f} of {cores} cores meanwhile: this time is doubtful."


def _daemons(home: Home, lake: Lake) -> dict[Daemon, ProcessId]:
    found = {(STORE, name): process for name, process in stores.daemons(home, lake).items()}
    catalog = Database(home).process()
    return {**found, (CATALOG, "postgres"): catalog} if catalog else found


def _read(shuffle: Path, watched: Mapping[Daemon, ProcessId]) -> Reading:
    everybody = list(processes.processes())
    families = {name: processes.family(daemon.pid, everybody) for name, daemon in watched.items() if daemon.alive()}
    # A server may have been started by this very process.
    theirs = {process.pid for family in families.values() for process in family}
    ours = [process for process in processes.family(os.getpid(), everybody) if process.pid not in theirs]
    return Reading(
        seconds=time.monotonic(),
        machine_core_seconds=processes.machine_core_seconds(),
        lab_core_seconds=processes.core_seconds(ours),
        daemons={name: _counted(name, watched[name], family) for name, family in families.items()},
        disk=processes.disk_under(shuffle),
        loopback_bytes=processes.loopback_bytes(),
        disks=processes.disks(),
    )


def _counted(name: Daemon, process: ProcessId, family: list[processes.Process]) -> Effort:
    """A store's traffic is its daemon's own; the catalog's is that of connections that come and go: not known."""
    moved = (processes.io(process.pid) if name[0] == STORE else None) or {}
    return Effort(processes.core_seconds(family), moved.get("read_bytes"), moved.get("write_bytes"))
