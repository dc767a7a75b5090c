"""Processes of this machine: their identity, their daemons, what the kernel counts of them, and signals.

A process is identified by its id together with its start time. A process id alone is no identity: ids are reused, and
ending a stranger's process is unforgivable.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

_LISTENING = "0A"
"""TCP_LISTEN, as proc(5) writes it."""
_CLIENT_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT = 10_240
_ENOUGH_PORTS = 4_096
"""So many that two who choose at the same moment hardly choose the same."""


@dataclass(frozen=True)
class ProcessId:
    """A process of this machine and this boot: its id and its start time in clock ticks since boot (proc(5))."""

    pid: int
    started: int

    def as_json(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> ProcessId:
        return ProcessId(int(value["pid"]), int(value["started"]))

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """The identity of a running process; None where there is none, or it is a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat.rpartition(")")[2].split()
        return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))

    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self


def start_daemon(
    command: Sequence[str],
    *,
    log: Path,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
    user: int | None = None,
) -> ProcessId:
    """Start `command` in a session of its own, its output appended to `log`; it outlives the caller.

    With `user` (a user id; needs root) it has that account's own group and none of the caller's.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment) if environment is not None else None,
            cwd=directory,
            start_new_session=True,
            close_fds=True,
            user=user,
            group=None if user is None else pwd.getpwuid(user).pw_gid,
            extra_groups=None if user is None else [],
        )
    identity = ProcessId.of(process.pid)
    # An instant exit leaves a zombie without a start time worth keeping; the caller's readiness check reports it.
    return identity or ProcessId(process.pid, -1)


def end_process(
    identity: ProcessId, *, grace_seconds: float, group: bool = False, ask: signal.Signals = signal.SIGTERM
) -> None:
    """Send `ask`, wait up to `grace_seconds`, then KILL; nothing happens where the process is already gone."""
    for sign, wait in ((ask, grace_seconds), (signal.SIGKILL, 5.0)):
        if not identity.alive():
            return
        try:
            (os.killpg if group else os.kill)(identity.pid, sign)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + wait
        while identity.alive() and time.monotonic() < deadline:
            _reap(identity.pid)
            time.sleep(0.02)


def process_in(directory: Path, pid: int) -> ProcessId | None:
    """The process of that id, where `directory` is its working directory and we may know it."""
    try:
        return ProcessId.of(pid) if Path(f"/proc/{pid}/cwd").samefile(directory) else None
    except OSError:  # ended, or another user's
        return None


def processes_in(directory: Path) -> list[ProcessId]:
    """All processes we may look into whose working directory is `directory`."""
    ids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [process for pid in ids if (process := process_in(directory, pid))]


def processes_below(directory: Path) -> list[ProcessId]:
    """All processes we may look into whose working directory is `directory` or below it."""
    top = directory.resolve()
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # ended, or another user's
            if path.readlink().is_relative_to(top) and (process := ProcessId.of(int(path.parent.name))):
                found.append(process)
    return found


def listening_ports(process: ProcessId) -> set[int]:
    """The TCP ports the process listens on; empty where it is gone, or not ours to look into."""
    root = Path(f"/proc/{process.pid}")
    sockets = set()
    try:
        for descriptor in (root / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                sockets.add(str(descriptor.readlink()))
        tables = [(root / "net" / name).read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    except OSError:
        return set()
    if not process.alive():  # its id may have been another's all along
        return set()
    ports = set()
    for line in (line.split() for table in tables for line in table):
        if line[3] == _LISTENING and f"socket:[{line[9]}]" in sockets:
            ports.add(int(line[1].rpartition(":")[2], 16))
    return ports


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


_PORTS_LINGER_SECONDS = 2.0


def is_free(port: int) -> bool:
    """Whether a server of ours could listen on this loopback TCP port now."""
    # As servers do: connections of an earlier one, still in TIME_WAIT, do not keep the port.
    return _can_bind(port, reuse=True)


def are_free_again(ports: Iterable[int]) -> bool:
    """`is_free` of all, for ports of a server that is gone: a killed process counts as gone when its first thread is,
    its ports go with the last, which takes milliseconds, or some hundred on a busy machine."""
    numbers = list(ports)
    return until(lambda: all(map(is_free, numbers)), _PORTS_LINGER_SECONDS)


def until(condition: Callable[[], bool], seconds: float, *, pause_seconds: float = 0.03) -> bool:
    """Whether the condition was met within that time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return met


class IdleDeadline:
    """Over when processes got less than `least_core_seconds` of work done in `seconds`.

    On a busy machine work takes longer and goes on; a process that waits for something that never comes does none.
    """

    def __init__(self, core_seconds: Callable[[], float], *, seconds: float, least_core_seconds: float) -> None:
        self._core_seconds = core_seconds
        self._seconds = seconds
        self._least = least_core_seconds
        self._done, self._since = core_seconds(), time.monotonic()

    def over(self) -> bool:
        done = self._core_seconds()
        if done - self._done >= self._least:
            self._done, self._since = done, time.monotonic()
        return time.monotonic() - self._since > self._seconds


def free_ports(count: int) -> list[int]:
    """`count` different loopback TCP ports that were free a moment ago.

    From below the range that the kernel gives to clients, where that leaves any: a server that is started again at
    its port would otherwise find, now and then, that somebody's connection has it.
    """
    below = _first_client_port()
    candidates = range(_FIRST_PORT, below) if below - _FIRST_PORT >= _ENOUGH_PORTS else ()
    chosen = list(itertools.islice(filter(_is_unused, random.sample(candidates, len(candidates))), count))
    return chosen + _ports_for_clients(count - len(chosen))


def _first_client_port() -> int:
    try:
        return int(_CLIENT_PORTS.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _is_unused(port: int) -> bool:
    """More than `is_free`: that no connection of an earlier server lingers at it either."""
    return _can_bind(port, reuse=False)


def _can_bind(port: int, *, reuse: bool) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _ports_for_clients(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]


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


Handler = Callable[[int, FrameType | None], None] | signal.Handlers


@contextlib.contextmanager
def handled(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Have `handler` answer these signals inside; afterwards, what did before does again. For the main thread."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Those that whoever started us did not have ignored, as nohup does with SIGHUP."""
    return tuple(number for number in numbers if signal.getsignal(number) != signal.SIG_IGN)


_SECONDS = 2.0


def answers(port: int, path: str) -> bool:
    """Whether `GET path` there is answered with 200 within two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
