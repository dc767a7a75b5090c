"""The cost of a repetition besides its applications: the local store, the catalog, the shuffle disk, the machine.

All values are differences of kernel counters, except for the memory peaks, which are sampled once a second. Where
several runs are measured at once on one machine, each is charged with the whole.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock import processes
from penstock.catalog.database import Database
from penstock.home import Home
from penstock.lake import stores
from penstock.lake.model import Lake
from penstock.processes import Disk, ProcessId, calling_periodically

_MOST_POINTS = 1024
_DIGITS = 2
"""Decimal places of a second in records."""


class DiskHistory:
    """A device's counters over time, in at most 1,024 samples: a long block is sampled more coarsely.

    Counters only grow, so a skipped sample loses nothing but the position of its traffic within the longer interval.
    """

    def __init__(self) -> None:
        self._samples: list[tuple[float, Disk]] = []
        self._stride = 1
        self._skipped = 0

    def add(self, seconds: float, disk: Disk | None, *, last: bool = False) -> None:
        """Add a sample; `seconds` are of a monotonic clock. A device that cannot be read (None) adds none."""
        self._skipped += 1
        if disk is None or (self._skipped < self._stride and self._samples and not last):
            return
        self._skipped = 0
        if len(self._samples) > 1 and self._recorded(seconds) <= self._recorded(self._samples[-1][0]):
            # The last sample may follow another at once, and an interval that is recorded without a width has no rates.
            self._samples.pop()
        self._samples.append((seconds, disk))
        if len(self._samples) > _MOST_POINTS:
            self._samples = self._samples[::2]
            self._stride *= 2

    def over_time(self) -> dict[str, list[float]]:
        """Return `disk_use` of each interval, by its end in `second` since the first sample. Empty without any."""
        found: dict[str, list[float]] = {}
        for (start, before), (end, after) in zip(self._samples, self._samples[1:], strict=False):
            if before.name == after.name and self._recorded(end) > self._recorded(start):
                found.setdefault("second", []).append(self._recorded(end))
                for key, value in disk_use(before, after, (end - start) * 1000).items():
                    found.setdefault(key, []).append(value)
        return found

    def _recorded(self, seconds: float) -> float:
        return round(seconds - self._samples[0][0], _DIGITS)


def disk_use(start: Disk, end: Disk, elapsed_ms: float) -> dict[str, float]:
    """Return the use of one device between two readings. Pure.

    `busy_share` is the share of the time with a request in flight (iostat's %util): 1 is the limit only of a device
    that serves one request at a time. `queue` is the average number of requests, waiting or being served (aqu-sz).
    """
    if elapsed_ms <= 0:
        return {"busy_share": 0.0, "queue": 0.0, "read_bytes": 0, "written_bytes": 0}
    return {
        # The kernel's clock is coarser than the interval's.
        "busy_share": round(min(1.0, (end.busy_ms - start.busy_ms) / elapsed_ms), 4),
        "queue": round((end.queued_ms - start.queued_ms) / elapsed_ms, 3),
        "read_bytes": end.read_bytes - start.read_bytes,
        "written_bytes": end.written_bytes - start.written_bytes,
    }


def disk_uses(start: Mapping[str, Disk], end: Mapping[str, Disk], elapsed_ms: float) -> dict[str, Any]:
    """Return the use of the devices with any traffic, by name."""
    found = {name: disk_use(start[name], end[name], elapsed_ms) for name in sorted(start.keys() & end.keys())}
    return {name: used for name, used in found.items() if any(used.values())}


_SAMPLE_PEAKS_EVERY_SECONDS = 1.0
_SHORTEST_JUDGED_SECONDS = 1.0  # the kernel counts in hundredths of a second
_DISTURBING_SHARE = 0.1
"""The share of all cores. An idle machine's own work, the kernel's included, is below it."""

STORE, CATALOG = "store", "catalog"

Daemon = tuple[str, str]
"""A server of this machine and one of its processes: (`store`, `osd.0`)."""


@dataclass(frozen=True)
class DaemonCounters:
    """A daemon's counters at one moment. The bytes are those of block devices; None where they cannot be read."""

    core_seconds: float
    read_bytes: int | None = None
    written_bytes: int | None = None


@dataclass(frozen=True)
class CounterSnapshot:
    """The counters at one moment.

    `daemons` are those of the servers on this machine, `disk` is the shuffle's.
    """

    seconds: float
    machine_core_seconds: float
    lab_core_seconds: float
    """CPU time of this process and its descendants: applications, by either launcher, and load generators."""
    daemons: Mapping[Daemon, DaemonCounters]
    disk: processes.Disk | None
    loopback_bytes: int | None
    disks: Mapping[str, processes.Disk] = field(default_factory=dict)


@dataclass
class Usage:
    """The values of a `usage` sample, filled at the end of the metered block."""

    values: dict[str, Any] = field(default_factory=dict)


@contextmanager
def metering(home: Home, lake: Lake, scratch: Path | None = None) -> Iterator[Usage]:
    """Meter a block. Servers on other machines are unknown here, and unknown values are left out.

    `scratch` is a directory on the device that executors shuffle on, if that is not the home's.
    """
    shuffle = scratch or home.root
    watched = _daemons(home, lake)
    peaks = Peaks()
    track = DiskHistory()

    def look() -> None:
        track.add(time.monotonic(), processes.disk_under(shuffle))
        running = list(processes.processes())
        peaks.add(
            {
                name: processes.memory_bytes(processes.process_tree(daemon.pid, running))
                for name, daemon in watched.items()
            }
        )

    usage = Usage()
    start = _read(shuffle, watched)
    look()
    try:
        with calling_periodically(look, every_seconds=_SAMPLE_PEAKS_EVERY_SECONDS):
            yield usage
    finally:
        end = _read(shuffle, watched)
        track.add(end.seconds, end.disk, last=True)
        usage.values.update(usage_between(start, end))
        usage.values["disk_over_time"] = track.over_time()
        usage.values.update({f"{server}_peak_memory_bytes": peak for server, peak in peaks.servers.items()})
        for (server, name), peak in peaks.daemons.items():
            if server == STORE and name in usage.values.get("daemons", {}):
                usage.values["daemons"][name]["peak_memory_bytes"] = peak


@dataclass
class Peaks:
    """The peak memory of each daemon, and of each server's daemons together, which need not peak at once."""

    daemons: dict[Daemon, int] = field(default_factory=dict)
    servers: dict[str, int] = field(default_factory=dict)

    def add(self, seen: Mapping[Daemon, int]) -> None:
        together: dict[str, int] = {}
        for (server, name), size in seen.items():
            self.daemons[server, name] = max(size, self.daemons.get((server, name), 0))
            together[server] = together.get(server, 0) + size
        for server, size in together.items():
            self.servers[server] = max(size, self.servers.get(server, 0))


def usage_between(start: CounterSnapshot, end: CounterSnapshot) -> dict[str, Any]:
    """Return the use between two readings. Pure.

    A daemon that ended in between is left out, and so are the sums of its server, since its counters are lost.
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
        # The kernel's counters are not read at the same instant.
        used["other_core_seconds"] = round(max(0.0, used["machine_core_seconds"] - ours), 2)
    if start.disk is not None and end.disk is not None and start.disk.name == end.disk.name:
        used["disk"] = end.disk.name
        used.update({f"disk_{key}": value for key, value in disk_use(start.disk, end.disk, elapsed_ms).items()})
    used["devices"] = disk_uses(start.disks, end.disks, elapsed_ms)
    if start.loopback_bytes is not None and end.loopback_bytes is not None:
        used["loopback_bytes"] = end.loopback_bytes - start.loopback_bytes
    return used


def _effort(start: DaemonCounters, end: DaemonCounters) -> DaemonCounters:
    def grown(before: int | None, after: int | None) -> int | None:
        return None if before is None or after is None else after - before

    return DaemonCounters(
        end.core_seconds - start.core_seconds,
        grown(start.read_bytes, end.read_bytes),
        grown(start.written_bytes, end.written_bytes),
    )


def _summed(server: str, efforts: list[DaemonCounters]) -> dict[str, Any]:
    found: dict[str, Any] = {f"{server}_core_seconds": round(sum(one.core_seconds for one in efforts), 2)}
    for key in ("read_bytes", "written_bytes"):
        amounts = [getattr(one, key) for one in efforts]
        if None not in amounts:
            found[f"{server}_{key}"] = sum(amounts)
    return found


def _values(effort: DaemonCounters) -> dict[str, Any]:
    amounts = {"read_bytes": effort.read_bytes, "written_bytes": effort.written_bytes}
    return {
        "core_seconds": round(effort.core_seconds, 2),
        **{key: value for key, value in amounts.items() if value is not None},
    }


_QUIET_SECONDS = 1.0

ReadRequests = Callable[[], Mapping[str, int] | None]
"""Reads the requests at a store since its start, by kind; None where they are not counted."""


class RequestCounter:
    """Requests at the store while applications run, as it counts them itself, and so alike for every launcher.

    Overlapping applications count once, and the lab's own requests before and after them do not count. A store cannot
    distinguish clients: its counts are those of the applications where nothing else uses it.
    """

    def __init__(self, read: ReadRequests = lambda: None) -> None:
        self._read = read
        self._changing = threading.Lock()
        self._running = 0
        self._start: Mapping[str, int] | None = None
        self._counted: Counter[str] = Counter()
        self._complete = True

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the requests of a block, in which an application runs. May be entered by several threads at once."""
        with self._changing:
            if not self._running:
                self._start = self._read()
            self._running += 1
        try:
            yield
        finally:
            with self._changing:
                self._running -= 1
                if not self._running:
                    self._add(self._read())

    def counts(self) -> dict[str, int] | None:
        """The requests by kind; None where no application ran, or the store was not counting throughout."""
        return dict(self._counted) if self._complete and self._counted else None

    def foreign(self) -> int | None:
        """The requests in a second in which nothing of the lab uses the store; None where they are not counted."""
        if (start := self._read()) is None:
            return None
        time.sleep(_QUIET_SECONDS)
        end = self._read()
        return None if end is None else max(0, sum(end.values()) - sum(start.values()))

    def _add(self, end: Mapping[str, int] | None) -> None:
        start = self._start
        # A server that was restarted counts from zero.
        if start is None or end is None or any(end.get(kind, 0) < count for kind, count in start.items()):
            self._complete = False
        else:
            self._counted.update({kind: count - start.get(kind, 0) for kind, count in end.items()})


def disturbance_warning(usage: Mapping[str, Any], cores: int) -> str | None:
    """Return a warning where other programs used enough of the machine's cores to make a time doubtful. Pure."""
    seconds = usage["elapsed_ms"] / 1000
    if seconds < _SHORTEST_JUDGED_SECONDS:
        return None
    taken = usage.get("other_core_seconds", 0) / seconds
    if taken < _DISTURBING_SHARE * cores:
        return None
    return f"Other programs used {taken:.1f} of {cores} cores meanwhile: this time is doubtful."


def _daemons(home: Home, lake: Lake) -> dict[Daemon, ProcessId]:
    found = {(STORE, name): process for name, process in stores.daemons(home, lake).items()}
    catalog = Database(home).process()
    return {**found, (CATALOG, "postgres"): catalog} if catalog else found


def _read(shuffle: Path, watched: Mapping[Daemon, ProcessId]) -> CounterSnapshot:
    running = list(processes.processes())
    families = {name: processes.process_tree(daemon.pid, running) for name, daemon in watched.items() if daemon.alive()}
    # This process may have started a server itself.
    theirs = {process.pid for family in families.values() for process in family}
    ours = [process for process in processes.process_tree(os.getpid(), running) if process.pid not in theirs]
    return CounterSnapshot(
        seconds=time.monotonic(),
        machine_core_seconds=processes.machine_core_seconds(),
        lab_core_seconds=processes.core_seconds(ours),
        daemons={name: _counted(name, watched[name], family) for name, family in families.items()},
        disk=processes.disk_under(shuffle),
        loopback_bytes=processes.loopback_bytes(),
        disks=processes.disks(),
    )


def _counted(name: Daemon, process: ProcessId, family: list[processes.Process]) -> DaemonCounters:
    """Read a daemon's counters. A store's traffic is its daemon's; the catalog's is unknown, since its backends end."""
    moved = (processes.io(process.pid) if name[0] == STORE else None) or {}
    return DaemonCounters(processes.core_seconds(family), moved.get("read_bytes"), moved.get("write_bytes"))
