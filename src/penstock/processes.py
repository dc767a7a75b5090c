"""Processes of this machine: identities, daemons, the kernel's counters, ports, signals and periodic looks.

A process is identified by its id together with its start time. An id alone is not enough, since ids are reused and an
unrelated process must never be ended.
"""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import itertools
import os
import pwd
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

LISTENS, ESTABLISHED = "0A", "01"
"""States of TCP sockets, as the kernel writes them."""
"""TCP_LISTEN, as proc(5) writes it."""
_CLIENT_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_FIRST_PORT = 10_240
_ENOUGH_PORTS = 4_096
"""Enough candidates that two concurrent choices hardly collide."""
_TAIL_BYTES = 16_384


@dataclass(frozen=True)
class ProcessId:
    """A process of this machine and this boot: its id and its start time in clock ticks since boot (proc(5))."""

    pid: int
    started: int

    def to_json(self) -> dict[str, int]:
        return asdict(self)

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> ProcessId:
        return ProcessId(int(value["pid"]), int(value["started"]))

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """The identity of a running process; None where it does not exist or is a zombie."""
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
    """Start `command` in its own session, with its output appended to `log`; it outlives the caller.

    With `user` (a user id; needs root) it runs in that account's own group and in none of the caller's.
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
    # After an instant exit there is no identity to return; the caller's readiness check reports the failure.
    return identity or ProcessId(process.pid, -1)


def tail(log: Path, lines: int) -> str:
    """The last lines of a log, without blank ones; empty if the log is missing or unreadable.

    Only the end of the file is read, so that a log of any size is cheap. Invalid UTF-8 is replaced.
    """
    content, wanted = b"", _TAIL_BYTES
    with contextlib.suppress(OSError), log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        while True:
            start = max(0, size - wanted)
            file.seek(start)
            content = file.read(size - start)
            # The first line is cut unless the whole file was read, so one more than `lines` is needed.
            if start == 0 or sum(map(bool, map(bytes.strip, content.splitlines()))) > lines:
                break
            wanted *= 8
    return last_lines(content.decode(errors="replace"), lines)


def last_lines(text: str, lines: int) -> str:
    """The last lines of a program's output, without blank ones."""
    return "\n".join([line for line in text.splitlines() if line.strip()][-lines:])


_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent(parent: int) -> None:
    """In a child that was just forked: die with the parent process, however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def lower_priority() -> None:
    """Give this process and its later children the lowest priority for processor and disk.

    They are the first that the kernel ends when memory runs out. A priority that the system refuses to change stays.
    """
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)
    with contextlib.suppress(OSError, AttributeError):
        # The kernel gives a process of this class the idle class of disk scheduling, too.
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    if os.getsid(0) == os.getpid():
        # With autogroups (sched(7)) sessions share processors equally, whatever the priorities of their processes.
        with contextlib.suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(_LOWEST_PRIORITY), encoding="ascii")


_LOWEST_PRIORITY = 19


def end_process(identity: ProcessId, *, grace_seconds: float, ask: signal.Signals = signal.SIGTERM) -> None:
    """Send the signal `ask`, wait up to `grace_seconds`, then kill; does nothing where the process has ended."""
    for sign, wait in ((ask, grace_seconds), (signal.SIGKILL, 5.0)):
        if not identity.alive():
            return
        try:
            os.kill(identity.pid, sign)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + wait
        while identity.alive() and time.monotonic() < deadline:
            _reap(identity.pid)
            time.sleep(0.02)


def end_group(leader: int, *, seconds: float) -> None:
    """Kill the process group of a session's leader, and wait up to `seconds` for the end of the whole session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)

    def ended() -> bool:
        _reap(leader)
        return not any(found.session == leader and ProcessId.of(found.pid) for found in processes())

    wait_until(ended, seconds)


def process_in(directory: Path, pid: int) -> ProcessId | None:
    """The process of that id, if its working directory is `directory` and readable for this account."""
    try:
        return ProcessId.of(pid) if Path(f"/proc/{pid}/cwd").samefile(directory) else None
    except OSError:  # ended, or owned by another user
        return None


def processes_in(directory: Path) -> list[ProcessId]:
    """All processes, readable for this account, whose working directory is `directory`."""
    ids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    return [process for pid in ids if (process := process_in(directory, pid))]


def processes_below(directory: Path) -> list[ProcessId]:
    """All processes, readable for this account, whose working directory is `directory` or below it."""
    top = directory.resolve()
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # ended, or owned by another user
            if path.readlink().is_relative_to(top) and (process := ProcessId.of(int(path.parent.name))):
                found.append(process)
    return found


@dataclass(frozen=True)
class TcpSocket:
    """A TCP socket of this machine, by its ports; `descriptor` is that of the process which was asked for, if any."""

    local: int
    remote: int
    state: str
    descriptor: int | None


def tcp_sockets(pid: int) -> list[TcpSocket]:
    """All TCP sockets, as a process sees them. Raises `OSError` where it has ended, or is another account's."""
    root, descriptors = Path(f"/proc/{pid}"), {}
    for entry in (root / "fd").iterdir():
        with contextlib.suppress(OSError):  # the descriptor was closed meanwhile
            descriptors[str(entry.readlink())] = int(entry.name)
    tables = [(root / "net" / name).read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    return [
        TcpSocket(
            int(line[1].rpartition(":")[2], 16),
            int(line[2].rpartition(":")[2], 16),
            line[3],
            descriptors.get(f"socket:[{line[9]}]"),
        )
        for line in (line.split() for table in tables for line in table)
    ]


def listening_ports(process: ProcessId) -> set[int]:
    """The TCP ports on which the process listens; empty where it has ended or is not readable for this account."""
    try:
        found = tcp_sockets(process.pid)
    except OSError:
        return set()
    if not process.alive():  # its id may already belong to another process
        return set()
    return {one.local for one in found if one.state == LISTENS and one.descriptor is not None}


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


_PORTS_LINGER_SECONDS = 2.0


def is_free(port: int) -> bool:
    """Return whether a server could listen on this loopback TCP port now."""
    # SO_REUSEADDR, as servers set it, ignores an earlier server's connections in TIME_WAIT.
    return _can_bind(port, reuse=True)


def await_free_ports(ports: Iterable[int]) -> bool:
    """Wait until the ports of an ended server are free; return whether they are.

    A killed process counts as ended with its first thread, but its ports are released with the last one, which takes
    milliseconds, or some hundred on a busy machine.
    """
    numbers = list(ports)
    return wait_until(lambda: all(map(is_free, numbers)), _PORTS_LINGER_SECONDS)


def wait_until(condition: Callable[[], bool], seconds: float, *, pause_seconds: float = 0.03) -> bool:
    """Poll `condition` until it is true or `seconds` are over; return its last value."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return met


class IdleDeadline:
    """A deadline that is over when processes used less than `least_core_seconds` of processor time in `seconds`.

    On a busy machine work takes longer but goes on, while a process that waits in vain uses no processor time.
    """

    def __init__(
        self,
        core_seconds: Callable[[], float],
        *,
        seconds: float,
        least_core_seconds: float,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`clock` replaces the machine's clock: `SpareTime` for processes that run only when no other wants to."""
        self._core_seconds = core_seconds
        self._seconds = seconds
        self._least = least_core_seconds
        self._clock = clock or time.monotonic
        self._done, self._since = core_seconds(), self._clock()

    def expired(self) -> bool:
        done = self._core_seconds()
        if done - self._done >= self._least:
            self._done, self._since = done, self._clock()
        return self._clock() - self._since > self._seconds


class SpareTime:
    """A clock that stands still while all processors of this machine are busy."""

    def __init__(
        self, idle: Callable[[], float] | None = None, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        """`idle` returns the idle core-seconds since boot."""
        self._idle, self._monotonic = idle or machine_idle_core_seconds, monotonic
        self._before = self._idle(), self._monotonic()
        self._passed = 0.0

    def __call__(self) -> float:
        idle, now = self._idle(), self._monotonic()
        # Over shorter times the kernel's ticks of 10 ms would count as idle what is not.
        if now - self._before[1] >= _SPARE_SECONDS:
            self._passed += min(idle - self._before[0], now - self._before[1])
            self._before = idle, now
        return self._passed


_SPARE_SECONDS = 1.0


def free_ports(count: int) -> list[int]:
    """`count` different loopback TCP ports that were free a moment ago.

    The ports are below the kernel's ephemeral range, if that leaves any: otherwise a client's connection could
    occasionally hold the port of a server that restarts.
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
    """Return whether the port is free and no connection of an earlier server lingers on it."""
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
_SECTOR_BYTES = 512  # the kernel's unit, whatever the device's sector size


@dataclass(frozen=True)
class Process:
    """A snapshot of one process. `started`, in clock ticks since boot, distinguishes it from earlier ones of its id."""

    pid: int
    parent: int
    session: int
    started: int
    core_seconds: float
    ended_children_core_seconds: float
    """The processor time of ended children that it has waited for, and of their descendants."""
    resident_bytes: int

    @staticmethod
    def parse(stat: str) -> Process:
        """Parse `/proc/<pid>/stat`, in which the name may contain spaces and parentheses."""
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
    """Counters of a block device since boot.

    `busy_ms` is the time with at least one request in flight, `queued_ms` the sum of the times that all requests spent
    in flight, waiting or being served.
    """

    name: str
    read_bytes: int
    written_bytes: int
    busy_ms: int
    queued_ms: int = 0

    @staticmethod
    def parse(name: str, stat: str) -> Disk:
        """Parse `/sys/block/<name>/stat`, or that of a partition."""
        fields = [int(field) for field in stat.split()]
        return Disk(name, fields[2] * _SECTOR_BYTES, fields[6] * _SECTOR_BYTES, fields[9], fields[10])


def processes() -> Iterator[Process]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # the process ended between the listing and the reading
            yield Process.parse(stat.read_text(encoding="utf-8", errors="replace"))


def process_tree(pid: int, running: Iterable[Process]) -> list[Process]:
    """A process and all its descendants; empty where it has ended."""
    known = list(running)
    found = [process for process in known if process.pid == pid]
    for process in found:  # the list grows during the iteration
        found += [child for child in known if child.parent == process.pid]
    return found


def core_seconds(family: Sequence[Process]) -> float:
    """The processor time of the processes and of the children that they have waited for."""
    return sum(process.core_seconds + process.ended_children_core_seconds for process in family)


def core_seconds_of(pid: int) -> float:
    """The processor time of one process and of the children that it has waited for; 0 where it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0.0
    return core_seconds([Process.parse(stat)])


def memory_bytes(family: Iterable[Process]) -> int:
    """The private memory of the processes, plus the largest shared memory of one of them, counted once."""
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


def peak_resident_bytes(pid: int) -> int:
    """The peak of a process's resident memory since it was started or replaced its program; 0 where it has ended."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def io(pid: int) -> dict[str, int] | None:
    """The I/O counters of a process (`/proc/<pid>/io`); None where it has ended or belongs to another user.

    `rchar` and `wchar` count all calls, `read_bytes` and `write_bytes` block devices.
    """
    try:
        text = Path(f"/proc/{pid}/io").read_text(encoding="ascii")
    except OSError:
        return None
    return {name: int(value) for name, value in (line.split(": ") for line in text.splitlines())}


def disk_under(directory: Path) -> Disk | None:
    """The device of a directory; None where it has none (a memory file system) or several (btrfs), or is missing."""
    try:
        device = directory.stat().st_dev
        entry = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
        return Disk.parse(entry.resolve().name, (entry / "stat").read_text(encoding="ascii"))
    except OSError:
        return None


def disks() -> dict[str, Disk]:
    """All block devices of this machine by name, except partitions, loop devices and memory."""
    found = {}
    for entry in Path("/sys/block").iterdir():
        if not entry.name.startswith(("loop", "ram", "zram")):
            with contextlib.suppress(OSError):  # the device was removed
                found[entry.name] = Disk.parse(entry.name, (entry / "stat").read_text(encoding="ascii"))
    return found


def loopback_bytes() -> int | None:
    """The bytes sent over the loopback interface since boot; None where unknown."""
    try:
        return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text(encoding="ascii"))
    except OSError:
        return None


def machine_core_seconds() -> float:
    """The busy time of all processors of this machine since boot: neither idle nor waiting for a disk."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    user, nice, system, _idle, _waiting, *interrupts = (int(field) for field in first.split()[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS


def machine_idle_core_seconds() -> float:
    """The time since boot in which processors of this machine were idle or waited for a disk, summed over all."""
    first = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    return sum(int(field) for field in first.split()[4:6]) / _TICKS


def load_average() -> float | None:
    """The number of runnable and disk-bound processes of this machine, averaged over a minute; None where unknown."""
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


Handler = Callable[[int, FrameType | None], None] | signal.Handlers


@contextlib.contextmanager
def handling_signals(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Handle these signals with `handler` within the block, then restore the former handlers. Main thread only."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def not_ignored(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """The signals that the parent process did not set to be ignored, as nohup does with SIGHUP."""
    return tuple(number for number in numbers if signal.getsignal(number) != signal.SIG_IGN)


@contextlib.contextmanager
def calling_periodically(look: Callable[[], None], *, every_seconds: float) -> Iterator[None]:
    """Call `look` periodically from another thread, until the block ends."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(every_seconds):
            look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


_SECONDS = 2.0


def responds(port: int, path: str) -> bool:
    """Return whether `GET path` on the loopback port returns 200 within two seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
