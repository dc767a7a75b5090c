"""Processes that look after applications: one is ready when it is needed, and none is left when nobody needs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.engine.attendants import Attendants
from penstock.home import Home

pytestmark = pytest.mark.integration


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def waiting(home: Home) -> list[int]:
    """Processes of this home that wait for an id."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[1:5] == [b"-m", b"penstock.engine.background", str(home.root).encode(), b"-"]:
            found.append(int(path.parent.name))
    return found


def complaints(home: Home) -> str:
    log = home.root / "supervisors.log"
    return log.read_text(encoding="utf-8") if log.exists() else ""


def test_what_is_given_to_the_spare_is_looked_after_and_another_one_is_ready(records_home: Home) -> None:
    attendants = Attendants(records_home)
    attendants.keep_spare()
    (first,) = waiting(records_home)
    attendants.start("app-unknown-1")
    until(lambda: "app-unknown-1: There is no application" in complaints(records_home))
    until(lambda: waiting(records_home) != [] and first not in waiting(records_home))
    attendants.close()
    until(lambda: waiting(records_home) == [])


def test_a_spare_that_was_killed_costs_nobody_an_attendant(records_home: Home) -> None:
    attendants = Attendants(records_home)
    attendants.keep_spare()
    (spare,) = waiting(records_home)
    os.kill(spare, signal.SIGKILL)
    until(lambda: waiting(records_home) == [])
    attendants.start("app-unknown-2")
    until(lambda: "app-unknown-2: There is no application" in complaints(records_home))
    attendants.close()


def test_a_spare_does_not_outlive_who_kept_it(tmp_path: Path) -> None:
    home = Home(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; from penstock.home import Home\n"
        "from penstock.engine.attendants import Attendants\n"
        "Attendants(Home(Path(sys.argv[1]))).keep_spare(); time.sleep(60)"
    )
    keeper = subprocess.Popen([sys.executable, "-c", code, str(home.root)])
    until(lambda: waiting(home) != [])
    keeper.kill()
    keeper.wait()
    until(lambda: waiting(home) == [])
