"""A pytest plugin that counts the JVMs a run starts and fails a run that leaves something behind.

A watcher thread in every pytest process lists the processes of the machine a few times a second. A process belongs to
the run when its environment, arguments or working directory name the run's temporary directory or the run's mark. At
the end of the session, when every fixture is torn down, none of them may be alive, no socket of the pytest process may
listen, and no directory of Penstock in shared memory may be left. Whatever is left is named together with the test
during which it appeared, and the run fails.
"""

from __future__ import annotations

import bisect
import contextlib
import os
import socket
import stat
import threading
import time
import uuid
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from penstock.processes import ProcessId

MARK = "PENSTOCK_TEST_RUN"
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - only listed
_INTERVAL_SECONDS = 0.2
_SETTLED_SECONDS = 10.0
"""The age in seconds beyond which a process is inspected again only at the end: `exec` follows soon after a fork."""
_GRACE_SECONDS = float(os.environ.get("PENSTOCK_TEST_LEAK_GRACE_SECONDS", "10"))
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass
class SeenProcess:
    """A process of the run. `test` is the id of the test during which it started."""

    process: ProcessId
    test: str
    java: bool


@dataclass
class Watcher:
    """The processes of one run. `marks` are byte strings; every process of the run contains one of them."""

    marks: tuple[bytes, ...]
    _tests: list[tuple[float, str]] = field(default_factory=lambda: [(0.0, "before the first test")])
    """The start times of the tests, in seconds since the machine's boot, in order."""
    seen: dict[ProcessId, SeenProcess] = field(default_factory=dict)
    _young: dict[int, tuple[ProcessId, float]] = field(default_factory=dict)
    """Processes by id, with the time until which they are inspected, by the monotonic clock."""
    _settled: set[int] = field(default_factory=set)
    """The ids of processes that are no longer inspected."""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    _end: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._watch, daemon=True, name="leak-watcher")
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread:
            self._thread.join()
        self.look(again=True)

    def begins(self, test: str) -> None:
        self._tests.append((time.clock_gettime(time.CLOCK_BOOTTIME), test))

    def test_at(self, started: int) -> str:
        """Return the test that ran when a process started; the watcher may first see the process during a later one.

        The kernel tells the start in ticks of a hundredth of a second: several short tests may have run in one.
        """
        first, last = (
            max(bisect.bisect(self._tests, (tick / _TICKS_PER_SECOND, "")) - 1, 0) for tick in (started, started + 1)
        )
        return " or ".join(test for _, test in self._tests[first : last + 1])

    @property
    def java_machines(self) -> int:
        return sum(one.java for one in self.seen.values())

    def alive(self) -> list[SeenProcess]:
        """Return the run's processes that still live; zombies do not count."""
        return [one for one in self.seen.values() if one.process.alive()]

    def _watch(self) -> None:
        while not self._end.wait(_INTERVAL_SECONDS):
            self.look()

    def look(self, *, again: bool = False) -> None:
        """List the machine's processes once.

        A young process is inspected again, since it may yet call `exec`; with `again` every process is. No id is reused
        between two scans: the machine would have to start thousands of processes.
        """
        with self._looking:
            # A Path for each of the machine's processes would be slow.
            running = {int(name) for name in os.listdir("/proc") if name.isdigit()} - {os.getpid()}  # noqa: PTH208
            self._settled = set() if again else self._settled & running
            self._young = {pid: young for pid, young in self._young.items() if pid in running and not again}
            for pid in running - self._settled:
                self._look_at(pid)

    def _look_at(self, pid: int) -> None:
        now = time.monotonic()
        process, until = self._young.get(pid) or (ProcessId.of(pid), now + _SETTLED_SECONDS)
        if process is None:
            return
        known = self.seen.get(process)
        if known is None and self._ours(pid):
            known = self.seen[process] = SeenProcess(process, self.test_at(process.started), java=False)
        if known is not None and not known.java:
            known.java = _is_java(pid)
        if now < until and not (known and known.java):
            self._young[pid] = process, until
        else:
            self._young.pop(pid, None)
            self._settled.add(pid)

    def _ours(self, pid: int) -> bool:
        text = _read(pid, "environ") + _read(pid, "cmdline")
        with contextlib.suppress(OSError):
            text += os.fsencode(Path(f"/proc/{pid}/cwd").readlink())
        return any(mark in text for mark in self.marks)


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def _command(pid: int) -> str:
    return _read(pid, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()[:200]


def _is_java(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name == "java"
    except OSError:
        return False


def in_shared_memory() -> set[Path]:
    """Return Penstock's directories in shared memory, of any home."""
    return set(SHARED_MEMORY.glob("penstock*")) if SHARED_MEMORY.is_dir() else set()


class LeakCheck:
    """The plugin itself; one in the controlling process and in each worker."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._worker = hasattr(config, "workerinput")
        if MARK not in os.environ:
            os.environ[MARK] = uuid.uuid4().hex
        self._watcher: Watcher | None = None
        self._before_memory = in_shared_memory()
        self._before_ports = self._ports()
        self._ports_of_tests: dict[int, str] = {}
        self._java_machines = 0
        self.left: list[str] = []

    @staticmethod
    def _ports() -> set[int]:
        """Return the ports on which this pytest process listens.

        The sockets themselves are asked, after every test; the kernel's table of all takes it ten milliseconds.
        """
        ports = set()
        for descriptor in os.listdir("/proc/self/fd"):  # noqa: PTH208 - a Path for each would be slow
            with contextlib.suppress(OSError):  # closed meanwhile, or no socket
                if stat.S_ISSOCK(os.fstat(int(descriptor)).st_mode):
                    with socket.socket(fileno=os.dup(int(descriptor))) as one:
                        internet = one.family in {socket.AF_INET, socket.AF_INET6}
                        if internet and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                            ports.add(one.getsockname()[1])
        return ports

    @property
    def _distributing(self) -> bool:
        return not self._worker and bool(self._config.getoption("dist", "no") != "no")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        if not self._distributing:
            base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
            self._watcher = Watcher((f"{MARK}={os.environ[MARK]}.{base.name}".encode(), os.fsencode(base)))
            os.environ[MARK] = f"{os.environ[MARK]}.{base.name}"
            self._watcher.start()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self, nodeid: str) -> None:
        if self._watcher:
            self._watcher.begins(nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        if self._watcher:
            for port in self._ports() - self._before_ports:
                self._ports_of_tests.setdefault(port, nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._watcher is None:
            return
        # A helper of this process, started with its first child; it ends with this process.
        resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]
        deadline = time.monotonic() + _GRACE_SECONDS
        while (left := self._found()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self._watcher.stop()
        self.left += left
        self._java_machines += self._watcher.java_machines
        if self._worker:
            self._config.workeroutput["penstock"] = {  # type: ignore[attr-defined]
                "left": left,
                "java_machines": self._watcher.java_machines,
            }
        if left:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _found(self) -> list[str]:
        assert self._watcher is not None
        self._watcher.look(again=True)
        alive = [(one.process.pid, one.test) for one in self._watcher.alive()]
        # The command is read again: when the process was first seen, it may not yet have called `exec`.
        processes = [f"process {pid}, {_command(pid)} ({test})" for pid, test in alive]
        ports = [
            f"the pytest process listens on port {port} ({self._ports_of_tests.get(port, 'outside of tests')})"
            for port in self._ports() - self._before_ports
        ]
        base = self._watcher.marks[-1]
        memory = [f"directory {path}" for path in in_shared_memory() - self._before_memory if _belongs(path, base)]
        return processes + ports + memory

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        reported = getattr(node, "workeroutput", {}).get("penstock")
        if reported:
            self.left += reported["left"]
            self._java_machines += reported["java_machines"]

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.line(f"Java machines started: {self._java_machines}")
        if self.left:
            terminalreporter.section("left behind", sep="=", red=True, bold=True)
            for one in self.left:
                terminalreporter.line(one)


def _belongs(directory: Path, base: bytes) -> bool:
    """Return whether a directory in shared memory belongs to a home below `base`, by the owner file in it."""
    with contextlib.suppress(OSError):
        return any(base in file.read_bytes()[:4096] for file in directory.iterdir() if file.name == "home")
    return False


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(LeakCheck(config), "penstock-leaks")
