"""Runs one history server and ends it when nobody looks at it: `python -m penstock.engine.historykeeper DIRECTORY`.

It, not the service, watches the idle time: a killed service leaves nothing running for long. What it starts dies
with it. In the directory: `plan.json` says what to start and which files to remove after it, `used` was last touched
when somebody looked, `state.json` tells what runs, and when it ended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.clusters.keeper import tie_to
from penstock.home import read_json, write_json
from penstock.processes import ProcessId

PLAN, STATE, USED = "plan.json", "state.json", "used"

_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 5.0
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)


def idle_ends_at(last_used: float, idle_seconds: float) -> float:
    return last_used + idle_seconds


def main(directory: Path) -> None:
    plan = read_json(directory / PLAN)
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    server = _start(plan)
    state: dict[str, Any] = {
        "keeper": _identity(os.getpid()),
        "server": _identity(server.pid),
        "started_at": time.time(),
        "ended_at": None,
    }
    write_json(directory / STATE, state)
    while server.poll() is None and _wanted(directory, plan["idle_seconds"]):
        received = signal.sigtimedwait(_AWAITED, _LOOK_SECONDS)
        if received is not None and received.si_signo == signal.SIGTERM:
            break
    _end(server)
    for name in plan["private"]:
        (directory / name).unlink(missing_ok=True)
    write_json(directory / STATE, {**state, "ended_at": time.time()})


def _start(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    parent = os.getpid()

    def in_child() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
        tie_to(parent)

    return subprocess.Popen(
        plan["command"],
        stdin=subprocess.DEVNULL,
        env=plan["environment"],
        preexec_fn=in_child,  # noqa: PLW1509  this process has one thread
    )


def _wanted(directory: Path, idle_seconds: float) -> bool:
    try:
        last_used = (directory / USED).stat().st_mtime
    except FileNotFoundError:  # the home was removed
        return False
    return time.time() < idle_ends_at(last_used, idle_seconds)


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(_GRACE_SECONDS)
        return
    server.kill()
    server.wait()


def _identity(pid: int) -> dict[str, int]:
    return (ProcessId.of(pid) or ProcessId(pid, -1)).as_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
