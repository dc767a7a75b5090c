"""What the kernel counts, from proc(5): reading it is kept apart from making sense of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SECTOR_BYTES = 512  # whatever the device's own


@dataclass(frozen=True)
class Process:
    """One process at one moment. `started` tells it from another one that had its id, in clock ticks since boot."""

    pid: int
    parent: int
    session: int
    started: int
    core_seconds: float
    ended_children_core_seconds: float
    """Of the children it had and has waited for, and of theirs."""
    resident_bytes: int

    @staticmethod
    def parse(stat: str) -> Process:
        """The content of `/proc/<pid>/stat`. The name in it may hold blanks and brackets."""
        pid, _, _ = stat.partition(" ")
        fields = stat.rpartition(")")[2].split()
        return Process(
            pid=int(pid),
            parent=int(fields[1]),
            session=int(fields[3]),
            started=int(fields[19]),
            core_seconds=(int(fields[11]) + int(fields[12])) / _TICKS,
            ended_children_core_seconds=(int(fields[13]) + int(fields[14])) / _TICKS,
            resident_bytes=int(fields[21]) * _PAGE,
        )


@dataclass(frozen=True)
class Disk:
    """A block device since boot. `busy_ms` is the time in which it had at least one request, `queued_ms` the sum of the
    times that all its requests were there, waiting or being served."""

    name: str
    read_bytes: int
    written_bytes: int
    busy_ms: int
    queued_ms: int = 0

    @staticmethod
    def parse(name: str, stat: str) -> Disk:
        """The content of `/sys/block/<name>/stat`, or that of a partition."""
        fields = [int(field) for field in stat.split()]
        return Disk(name, fields[2] * _SECTOR_BYTES, fields[6] * _SECTOR_BYTES, fields[9], fields[10])


def processes() -> Iterator[Process]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended between the listing and the reading
            yield Process.parse(stat.read_text(encoding="utf-8", errors="replace"))


def family(pid: int, everybody: Iterable[Process]) -> list[Process]:
    """A process and all that descend from it; empty where it is gone."""
    known = list(everybody)
    found = [process for process in known if process.pid == pid]
    for process in found:  # grows while it is walked
        found += [child for child in known if child.parent == process.pid]
    return found


def core_seconds(family: Sequence[Process]) -> float:
    """Of the living and of those they have waited for: what a child took moves to its parent when it ends."""
    return sum(process.core_seconds + process.ended_children_core_seconds for process in family)


def core_seconds_of(pid: int) -> float:
    """Processor time of one process and the children it has waited for; 0 where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return core_seconds([Process.parse(stat)])


def memory_bytes(family: Iterable[Process]) -> int:
    """What they have to themselves, and once the largest share that they have in common with others."""
    private = shared = 0
    for process in family:
        try:
            statm = Path(f"/proc/{process.pid}/statm").read_text(encoding="ascii").split()
        except OSError:
            continue
        common = int(statm[2]) * _PAGE
        private += int(statm[1]) * _PAGE - common
        shared = max(shared, common)
    return private + shared


def io(pid: int) -> dict[str, int] | None:
    """What a process has read and written so far (`/proc/<pid>/io`): `rchar` and `wchar` through any call, `read_bytes`
    and `write_bytes` from and to block devices. None where it has ended, or is another user's."""
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return None
    return {name: int(value) for name, value in (line.split(": ") for line in text.splitlines())}


def disk_under(directory: Path) -> Disk | None:
    """The device that a directory is on; None where it is on none (a memory file system), on several (btrfs), or not
    there."""
    try:
        device = directory.stat().st_dev
        entry = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        return Disk.parse(entry.resolve().name, (entry / "stat").read_text(encoding="ascii"))
    except OSError:
        return None


def disks() -> dict[str, Disk]:
    """Every block device of this machine that is neither a part of another, nor a file, nor memory, by name."""
    found = {}
    for entry in Path("/sys/block").iterdir():
        if not entry.name.startswith(("loop", "ram", "zram")):
            with contextlib.suppress(OSError):  # it was taken away
                found[entry.name] = Disk.parse(entry.name, (entry / "stat").read_text(encoding="ascii"))
    return found


def loopback_bytes() -> int | None:
    """What was sent over the loopback interface since boot."""
    try:
        return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text(encoding="ascii"))
    except OSError:
        return None


def machine_core_seconds() -> float:
    """What all processors of this machine have worked since boot, for whomever: neither idle nor waiting for a disk."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    user, nice, system, _idle, _waiting, *interrupts = (int(field) for field in first.split()[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS
