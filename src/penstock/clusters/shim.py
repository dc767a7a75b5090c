"""The process supervisor: parent of a local cluster's driver and executors, which alone learns their exit codes.

Run as `python -I shim.py <directory of the application>`, with the standard library alone, so that it starts in
milliseconds and stays small. It executes `private/plan.json`, records its observations in `cluster/status.json`, and
decides nothing: it replaces lost executors up to the plan's limit; the engine decides whether the application goes on
without them.

- It starts at most one driver, however often and by whichever process it is run: the status file, which exists before
  the driver starts, means that the driver was started.
- Everything it starts dies with it (`PR_SET_PDEATHSIG`), and it ends itself when the driver has ended and nothing of
  the cluster is left.
- Nothing of the cluster outlives its driver, not even a process that left its session and cleared its environment: such
  a process becomes a child of the supervisor (`PR_SET_CHILD_SUBREAPER`). Where control groups (cgroup v2) are writable,
  the cluster is one, so that such a process is found even after the supervisor was killed.
- SIGTERM requests the driver's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

APPLICATION_VARIABLE = "PENSTOCK_APPLICATION"
"""A variable of every process of a cluster, inherited by all that they start; it identifies stray processes."""

EXECUTOR_TOKEN = "{executor}"  # noqa: S105  a placeholder in the plan's command, not a secret

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)
_POLL_SECONDS = 0.25
_RESTART_SECONDS = 5.0
"""The pause after an executor that could not be started: a lack of memory, processes or disk space may pass."""
_FAREWELL_SECONDS = 1.0
"""The time that executors have for their last lines once the driver has ended."""
_DEATH_SECONDS = 30.0
"""The time that the kernel may take to end a killed process, whose gigabytes of memory and open files it frees first.
"""

_libc = ctypes.CDLL(None, use_errno=True)


def main(directory: Path) -> None:
    lock = os.open(directory / "cluster" / "keeper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    if (directory / "cluster" / "status.json").exists():
        return
    plan = json.loads((directory / "private" / "plan.json").read_text(encoding="utf-8"))
    ProcessSupervisor(directory, plan).run()


class ProcessSupervisor:
    """The supervisor of one cluster. `run` returns when the cluster has ended and its end is recorded."""

    def __init__(self, directory: Path, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.artifacts = directory / "artefacts"
        self.scratch = directory / "scratch"
        self.memory = Path(plan["memory"]) if plan.get("memory") else None
        self.endpoint = directory / "cluster" / "endpoint"
        self.status_file = directory / "cluster" / "status.json"
        self.driver: subprocess.Popen[bytes] | None = None
        self.executors: dict[int, subprocess.Popen[bytes]] = {}
        self.last_executor = 0
        self.restart_at = 0.0
        self.status: dict[str, Any] = {
            "keeper": {"pid": os.getpid(), "started": start_ticks(os.getpid())},
            "driver": None,
            "executors": {},
            "lost_executors": 0,
            "executors_failed": False,
            "strays_cpu_seconds": 0.0,
            "ended": False,
        }
        self.group: Path | None = None

    def run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
        # A Python worker whose executor died becomes a child of this process, which reaps and ends it.
        adopt_orphans()
        self.group = enter_control_group(self.plan["application_id"])
        self.status["group"] = self.group and str(self.group)
        if not self.record():
            raise SystemExit("the status file cannot be written: the disk is full, or not writable")
        try:
            self.driver, born = self.start("driver", self.plan["driver"], "driver.out", "driver.err")
        except OSError as error:
            (self.artifacts / "driver.err").write_text(f"The driver cannot be started: {error}\n", encoding="utf-8")
            self.status["driver"] = {"pid": 0, "started": -1, "exit_code": 127}
        else:
            self.status["driver"] = born
            for _ in range(self.plan["executors"]):
                self.start_executor()
        self.record()
        while self.status["driver"].get("exit_code") is None:
            self.wait()
            self.restore_executors()
        self.sweep()
        leave_control_group(self.group)
        self.free_memory()
        self.status["ended"] = True
        # The exit code exists only here: on a full disk, wait until it can be recorded.
        while not self.record():
            time.sleep(1)

    def start(
        self, role: str, command: list[str], out: str, err: str
    ) -> tuple[subprocess.Popen[bytes], dict[str, Any]]:
        """Return the process and its record."""
        directory = self.scratch / role
        directory.mkdir(parents=True, exist_ok=True)
        supervisor = os.getpid()

        def in_child() -> None:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
            die_with_parent(supervisor)

        with (self.artifacts / out).open("ab") as stdout, (self.artifacts / err).open("ab") as stderr:
            # Before the start, or a process that this one does not see at once would have begun after its first work.
            started_ms = now_ms()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                cwd=directory,
                env=self.plan["environment"],
                preexec_fn=in_child,  # noqa: PLW1509  this process has one thread
            )
        return process, {"pid": process.pid, "started": start_ticks(process.pid), "started_ms": started_ms}

    def start_executor(self) -> None:
        self.last_executor += 1
        number = self.last_executor
        command = [part.replace(EXECUTOR_TOKEN, str(number)) for part in self.plan["executor"]]
        log = f"executor-{number}.log"
        try:
            process, born = self.start(f"executor-{number}", command, log, log)
        except OSError as error:
            self.not_started(number, log, error)
        else:
            self.executors[number], self.status["executors"][str(number)] = process, born

    def not_started(self, number: int, log: str, error: OSError) -> None:
        """Count the executor as lost: the driver and the other executors go on, and a later one replaces it."""
        print(f"executor {number} cannot be started: {error}", file=sys.stderr, flush=True)
        with contextlib.suppress(OSError), (self.artifacts / log).open("a", encoding="utf-8") as file:
            file.write(f"The executor cannot be started: {error}\n")
        end = {"exit_code": 127, "ended_ms": now_ms(), "peak_rss_bytes": 0, "cpu_seconds": 0.0}
        self.status["executors"][str(number)] = {"pid": 0, "started": -1, "started_ms": now_ms(), **end}
        self.status["lost_executors"] += 1
        self.restart_at = time.monotonic() + _RESTART_SECONDS

    def wait(self) -> None:
        """Wait for the end of a child, a stop request, or a quarter of a second: a new driver endpoint may appear."""
        received = signal.sigtimedwait(_AWAITED, _POLL_SECONDS)
        if received is not None and received.si_signo == signal.SIGTERM and self.driver is not None:
            self.status["stop_requested"] = True
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.driver.pid, signal.SIGTERM)
        self.reap()

    def reap(self) -> None:
        changed = False
        while True:
            try:
                pid, state, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            changed |= self.ended(pid, state, usage)
        if changed:
            self.record()

    def ended(self, pid: int, state: int, usage: Any) -> bool:
        end = {
            "exit_code": exit_code(state),
            "ended_ms": now_ms(),
            "peak_rss_bytes": usage.ru_maxrss * 1024,
            "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 3),
        }
        if self.driver is not None and pid == self.driver.pid:
            self.status["driver"].update(end)
            return True
        for number, process in list(self.executors.items()):
            if process.pid == pid:
                del self.executors[number]
                self.status["executors"][str(number)].update(end)
                self.free_memory(str(number))
                # Without an endpoint the driver has no Spark context, and executors end with their context.
                if self.endpoint.exists() or end["exit_code"] not in (0, 3):
                    self.status["lost_executors"] += 1
                return True
        # A process that outlived its parent: no process but this one waits for it, so nothing else counts its time.
        self.status["strays_cpu_seconds"] = round(self.status["strays_cpu_seconds"] + end["cpu_seconds"], 3)
        return False

    def free_memory(self, executor: str = "") -> None:
        """Remove the files in memory of one executor, or of all: the files of a killed process still occupy memory."""
        if self.memory is not None:
            shutil.rmtree(self.memory / executor, ignore_errors=True)

    def restore_executors(self) -> None:
        missing = self.plan["executors"] - len(self.executors)
        if missing <= 0 or self.status["executors_failed"] or self.status.get("stop_requested"):
            return
        if time.monotonic() < self.restart_at:
            return
        if self.status["lost_executors"] > self.plan["lost_executors_limit"]:
            self.status["executors_failed"] = True
            self.record()
        # A second context of the same driver publishes a new endpoint; until then executors are of no use.
        elif self.status["driver"].get("exit_code") is None and self.endpoint.exists():
            for _ in range(missing):
                self.start_executor()
            self.record()

    def sweep(self) -> None:
        """End every other process of the cluster."""
        deadline = time.monotonic() + _FAREWELL_SECONDS
        while self.executors and time.monotonic() < deadline:
            signal.sigtimedwait(_AWAITED, 0.05)
            self.reap()
        deadline = time.monotonic() + 5
        while (left := self.left()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            signal.sigtimedwait(_AWAITED, 0.02)
            self.reap()
        # A killed executor's resource usage is known only once it has been reaped.
        deadline = time.monotonic() + _DEATH_SECONDS
        while self.executors and time.monotonic() < deadline:
            signal.sigtimedwait(_AWAITED, 0.05)
            self.reap()
        self.reap()

    def left(self) -> set[int]:
        """Return every other process of the cluster: by its variable, its parents, or its control group."""
        found = {
            *application_processes(self.plan["application_id"]),
            *descendants(os.getpid()),
            *control_group_processes(self.group),
        }
        return found - {os.getpid()}

    def record(self) -> bool:
        """Replace the status file; return False where that fails: the previous content stays."""
        temporary = self.status_file.with_name(".status.json.new")
        try:
            temporary.write_text(json.dumps(self.status), encoding="utf-8")
            temporary.replace(self.status_file)
        except OSError:
            return False
        return True


def adopt_orphans() -> None:
    """Make this process the parent of each descendant whose own parent ends, so that it can count and end them."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process, a child just forked, when its parent ends, however that ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # the parent died before the line above
        os._exit(1)


def application_processes(application_id: str) -> list[int]:
    """Return every running process of the application, wherever it is in the process tree."""
    mark = f"{APPLICATION_VARIABLE}={application_id}".encode()
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
    return found


def descendants(ancestor: int) -> list[int]:
    """Return the running descendants of a process, without zombies, which cannot be killed."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if fields[0] not in "ZX":
                children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found, unseen = [], [ancestor]
    while unseen:
        new = children.get(unseen.pop(), [])
        found += new
        unseen += new
    return found


def control_group_root() -> Path | None:
    """Return the directory of this machine's control groups (version 2); None where it has none."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
            fields, _, kind = line.partition(" - ")
            if kind.startswith("cgroup2 "):
                return Path(fields.split()[4])
    return None


def own_control_group() -> Path | None:
    """Return the control group of this process; None where the machine has none."""
    root = control_group_root()
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines():
            if root is not None and line.startswith("0::/") and ".." not in line:
                return root / line.removeprefix("0::/")
    return None


def can_create_control_groups() -> bool:
    group = own_control_group()
    return group is not None and os.access(group, os.W_OK) and os.access(group / "cgroup.procs", os.W_OK)


def enter_control_group(application_id: str) -> Path | None:
    """Move this process to a control group of the application, which its future children inherit.

    Returns the group; None where it cannot be created.
    """
    if not can_create_control_groups() or (parent := own_control_group()) is None:
        return None
    group = parent / control_group_name(application_id)
    try:
        group.mkdir(exist_ok=True)
        (group / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None
    return group


def leave_control_group(group: Path | None) -> None:
    """Return to the parent group, and remove the application's group if it is empty."""
    if group is not None:
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
        remove_control_group(group)


def remove_control_group(group: Path) -> None:
    with contextlib.suppress(OSError):
        group.rmdir()


def control_group_name(application_id: str) -> str:
    return f"penstock-{application_id}"


def control_group_processes(group: Path | None) -> list[int]:
    if group is not None:
        with contextlib.suppress(OSError, ValueError):
            return [int(pid) for pid in (group / "cgroup.procs").read_text(encoding="ascii").split()]
    return []


def start_ticks(pid: int) -> int:
    """Return the start time of a process, in clock ticks since boot (proc(5)); -1 where it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    return int(stat.rpartition(")")[2].split()[19])


def exit_code(state: int) -> int:
    """Return the exit code as a shell reports it: 128 + n for signal n."""
    return 128 + os.WTERMSIG(state) if os.WIFSIGNALED(state) else os.WEXITSTATUS(state)


def now_ms() -> int:
    return int(time.time() * 1000)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
