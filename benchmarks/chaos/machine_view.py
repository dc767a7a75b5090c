"""Leftovers of applications on the machine, as the kernel and the file system show them.

Penstock is used only to find its own long-lived services.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.home import Home
from penstock.processes import ProcessId, listening_ports, processes_below
from tests.support.waiting import processes_of

_PATIENCE_SECONDS = 20.0
_MEMORY = Path("/dev/shm")  # noqa: S108  holds scratch in memory


def left_of(home: Home, applications: Sequence[str]) -> list[str]:
    """Processes, ports, directories and files in memory that these applications leave, after twenty seconds at most."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while (found := _left_of(home, applications)) and time.monotonic() < deadline:
        time.sleep(0.5)
    return found


def supervisors(home: Home) -> list[tuple[str, ProcessId]]:
    """Supervisor processes of the engine, each with the id of its application."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            process = ProcessId.of(int(path.parent.name))
            ours = words[1:4] == [b"-m", b"penstock.engine.supervisor_process", str(home.root).encode()]
            if ours and words[4] and process is not None:
                found.append((words[4].decode(), process))
    return found


def _left_of(home: Home, applications: Sequence[str]) -> list[str]:
    found = []
    for application in applications:
        found += [f"process {pid} of {application} runs" for pid in processes_of(application)]
        if home.application(application).exists():
            found.append(f"the directory of {application} is there")
        found += [f"{path} is there" for path in _MEMORY.glob(f"*/*{application}*")]
    for process in _strangers(home):
        ports = sorted(listening_ports(process))
        found.append(f"process {process.pid} works in the home" + (f" and listens on {ports}" if ports else ""))
    return found


def _strangers(home: Home) -> list[ProcessId]:
    """Processes in this home that belong to none of its services."""
    services = [process for directory in (home.database, home.lake) for process in processes_below(directory)]
    return [process for process in processes_below(home.root) if process not in services]
