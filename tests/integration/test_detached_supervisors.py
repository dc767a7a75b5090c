"""Supervisor processes are forked by a prefork server, and none is left when no application needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.engine.supervision.detached import DetachedSupervisors
from penstock.home import Home


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ready(home: Home) -> list[int]:
    """Return the prefork servers of this home, and the processes they forked."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:] == [b"-m", b"penstock.engine.supervisor_process", str(home.root).encode(), b""]:
            found.append(int(path.parent.name))
    return found


def is_dead(process: int) -> bool:
    """Return whether the process has ended: an exiting one already has no arguments, and loses what it is sent."""
    try:
        return Path(f"/proc/{process}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def complaints(home: Home) -> str:
    log = home.root / "supervisors.log"
    return log.read_text(encoding="utf-8") if log.exists() else ""


@pytest.fixture
def supervisors(records_home: Home) -> Iterator[DetachedSupervisors]:
    supervisors = DetachedSupervisors(records_home)
    supervisors.keep_ready()
    until(lambda: ready(records_home) != [])  # a new process has no arguments for a moment
    yield supervisors
    supervisors.close()
    until(lambda: ready(records_home) == [])


def test_each_application_has_a_process_of_its_own(records_home: Home, supervisors: DetachedSupervisors) -> None:
    (forking,) = ready(records_home)
    for name in ("app-unknown-1", "app-unknown-2"):
        supervisors.start(name)
    for name in ("app-unknown-1", "app-unknown-2"):
        until(lambda name=name: f"{name}: There is no application" in complaints(records_home))  # type: ignore[misc]
    until(lambda: ready(records_home) == [forking])


def test_every_application_gets_a_supervisor_after_the_prefork_server_was_killed(
    records_home: Home, supervisors: DetachedSupervisors
) -> None:
    (killed,) = ready(records_home)
    os.kill(killed, signal.SIGKILL)
    until(lambda: is_dead(killed))
    supervisors.start("app-unknown-3")
    until(lambda: "app-unknown-3: There is no application" in complaints(records_home))
    until(lambda: ready(records_home) not in ([], [killed]))


def test_what_is_kept_ready_does_not_outlive_who_kept_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from penstock.home import Home\n"
        "from penstock.engine.supervision.detached import DetachedSupervisors\n"
        "DetachedSupervisors(Home(Path(sys.argv[1]))).keep_ready(); time.sleep(60)"
    )
    keeper = subprocess.Popen([sys.executable, "-c", code, str(home.root)])
    until(lambda: ready(home) != [])
    keeper.kill()
    keeper.wait()
    until(lambda: ready(home) == [])
