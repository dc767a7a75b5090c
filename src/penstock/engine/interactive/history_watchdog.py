"""The process that ends an idle history server: `python -m penstock.engine.interactive.history_watchdog DIRECTORY`.

The watchdog, not the service, measures the idle time, so that a killed service leaves no server running for long. The
server dies with the watchdog. In the directory, `plan.json` has the command and the files to remove afterwards, `used`
was touched at the last use, and `state.json` has the processes, the port once all pages are ready, and the end.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.home import read_json, write_json
from penstock.processes import ProcessId, die_with_parent, listening_ports

PLAN, STATE, USED = "plan.json", "state.json", "used"

_LOOK_SECONDS = 1.0
_LOOK_SECONDS_AT_START = 0.1
_ANSWER_SECONDS = 5.0
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
        "port": None,
        "ended_at": None,
    }
    # The start does not count as idle: on a busy machine it takes longer than a short limit.
    with contextlib.suppress(FileNotFoundError):
        os.utime(directory / USED, (state["started_at"], state["started_at"]))
    write_json(directory / STATE, state)
    while server.poll() is None and _wanted(directory, plan["idle_seconds"]):
        if state["port"] is None and (port := _ready_at(ProcessId.from_json(state["server"]))) is not None:
            state["port"] = port
            write_json(directory / STATE, state)
        look = _LOOK_SECONDS if state["port"] else _LOOK_SECONDS_AT_START
        received = signal.sigtimedwait(_AWAITED, look)
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
        die_with_parent(parent)

    return subprocess.Popen(
        plan["command"],
        stdin=subprocess.DEVNULL,
        env=plan["environment"],
        preexec_fn=in_child,  # noqa: PLW1509  this process has one thread
    )


def _ready_at(server: ProcessId) -> int | None:
    """The port of the server's pages; None until all of them are ready.

    The server listens before it has pages, and its first page answers for all missing ones: an application would be
    shown as the list of all. The applications' pages come last, and only their address redirects.
    """
    port = min(listening_ports(server), default=None)
    if port is None:
        return None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_ANSWER_SECONDS)
    try:
        connection.request("GET", "/history/")
        return port if connection.getresponse().status == http.HTTPStatus.FOUND else None
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


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
    return (ProcessId.of(pid) or ProcessId(pid, -1)).to_json()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
