"""The process supervisor ends a cluster's remaining processes, and knows the CPU time of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.clusters import shim
from penstock.clusters.local import LocalBackend
from penstock.home import Home
from penstock.processes import ProcessId, end_process
from tests.conftest import PRIVILEGE
from tests.support.waiting import within

# The kernel shows less and less of an exiting process: the supervisor may have nothing to find it by.
_OUT_OF_SIGHT = """
import pathlib, sys
from penstock.clusters import shim
shim.ProcessSupervisor.left = lambda _: set()
shim.main(pathlib.Path(sys.argv[1]))
"""


def test_an_executor_that_takes_its_time_to_die_still_tells_what_it_cost(tmp_path: Path) -> None:
    for name in ("artefacts", "cluster", "private", "scratch"):
        (tmp_path / name).mkdir()
    plan = {
        "application_id": tmp_path.name,
        "driver": ["/bin/true"],
        "executor": ["/bin/sleep", "2"],
        "executors": 1,
        "lost_executors_limit": 0,
        "environment": {shim.APPLICATION_VARIABLE: tmp_path.name, "PATH": os.defpath},
    }
    (tmp_path / "private" / "plan.json").write_text(json.dumps(plan))
    subprocess.run([sys.executable, "-c", _OUT_OF_SIGHT, str(tmp_path)], check=True, timeout=60)
    status = json.loads((tmp_path / "cluster" / "status.json").read_text())
    assert status["ended"]
    assert status["executors"]["1"]["exit_code"] == 0
    assert status["executors"]["1"]["cpu_seconds"] is not None


def test_the_supervisor_frees_the_memory_of_a_lost_executor_and_all_of_it_at_the_end(tmp_path: Path) -> None:
    """The executor leaves a file and fails; the driver lists the remains once the next executor has started."""
    for name in ("artefacts", "cluster", "private", "scratch", "memory"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster" / "endpoint").write_text("")
    seen, place = tmp_path / "seen", tmp_path / "memory"
    executor = f"mkdir {place}/{shim.EXECUTOR_TOKEN} && touch {place}/{shim.EXECUTOR_TOKEN}/spilt && "
    executor += f"if [ {shim.EXECUTOR_TOKEN} = 1 ]; then exit 9; else sleep 60; fi"
    driver = f"while [ ! -e {place}/2/spilt ]; do sleep 0.05; done; ls {place} > {seen}"
    plan = {
        "application_id": tmp_path.name,
        "driver": ["/bin/sh", "-c", driver],
        "executor": ["/bin/sh", "-c", executor],
        "executors": 1,
        "lost_executors_limit": 3,
        "environment": {shim.APPLICATION_VARIABLE: tmp_path.name, "PATH": os.defpath},
        "memory": str(place),
    }
    (tmp_path / "private" / "plan.json").write_text(json.dumps(plan))
    subprocess.run([sys.executable, shim.__file__, str(tmp_path)], check=True, timeout=60)
    assert seen.read_text().split() == ["2"]
    assert not place.exists()


# No executor finds a free process for a while, then the replacement does.
_WITHOUT_PROCESSES = """
import pathlib, sys
from penstock.clusters import shim
shim._RESTART_SECONDS = 0.1
start = shim.ProcessSupervisor.start
def start_some(self, role, *more):
    if role in ("executor-1", "executor-2"):
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return start(self, role, *more)
shim.ProcessSupervisor.start = start_some
shim.main(pathlib.Path(sys.argv[1]))
"""


def test_an_executor_that_cannot_be_started_is_a_lost_one_and_is_replaced(tmp_path: Path) -> None:
    for name in ("artefacts", "cluster", "private", "scratch"):
        (tmp_path / name).mkdir()
    (tmp_path / "cluster" / "endpoint").write_text("")
    place = tmp_path / "started"
    plan = {
        "application_id": tmp_path.name,
        "driver": ["/bin/sh", "-c", f"while [ ! -e {place} ]; do sleep 0.05; done"],
        "executor": ["/bin/sh", "-c", f"echo {shim.EXECUTOR_TOKEN} > {place}; exec sleep 60"],
        "executors": 1,
        "lost_executors_limit": 3,
        "environment": {shim.APPLICATION_VARIABLE: tmp_path.name, "PATH": os.defpath},
    }
    (tmp_path / "private" / "plan.json").write_text(json.dumps(plan))
    command = [sys.executable, "-c", _WITHOUT_PROCESSES, str(tmp_path)]
    log = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True).stderr
    status = json.loads((tmp_path / "cluster" / "status.json").read_text())
    assert status["driver"]["exit_code"] == 0
    assert status["lost_executors"] >= 2
    assert [status["executors"][number]["exit_code"] for number in "12"] == [127, 127]
    assert place.read_text() == "3\n"
    assert "executor 1 cannot be started: [Errno 11] Resource temporarily unavailable" in log
    assert "Resource temporarily unavailable" in (tmp_path / "artefacts" / "executor-2.log").read_text()


_STRAY = """
import os, pathlib, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
        os.chdir("/")
        os.execve("/bin/sleep", ["sleep", "300"], {})
    os._exit(0)
os.wait()
"""
"""The script of a process in its own session, without environment or parent of the application."""


def planned(directory: Path, driver: str) -> Path:
    """Plan a cluster whose driver is the shell command `driver`; return the file with the stray process's id."""
    for name in ("artefacts", "cluster", "private", "scratch"):
        (directory / name).mkdir(parents=True)
    pid_file, script = directory / "stray", directory / "stray.py"
    script.write_text(_STRAY)
    plan = {
        "application_id": directory.name,
        "driver": ["/bin/sh", "-c", f"{sys.executable} {script} {pid_file}; {driver}"],
        "executor": ["/bin/true"],
        "executors": 0,
        "lost_executors_limit": 0,
        "environment": {shim.APPLICATION_VARIABLE: directory.name, "PATH": os.defpath},
    }
    (directory / "private" / "plan.json").write_text(json.dumps(plan))
    return pid_file


def stray_of(pid_file: Path) -> ProcessId:
    within(lambda: pid_file.exists() and pid_file.read_text() != "")
    found = ProcessId.of(int(pid_file.read_text()))
    assert found is not None
    return found


def test_a_process_that_hides_from_its_application_ends_with_it(tmp_path: Path) -> None:
    pid_file = planned(tmp_path, "sleep 0.3")
    with subprocess.Popen([sys.executable, shim.__file__, str(tmp_path)]) as running:
        stray = stray_of(pid_file)
        assert running.wait(60) == 0
    try:
        assert not stray.alive()
    finally:
        end_process(stray, grace_seconds=0)


def test_a_daemonized_process_ends_with_its_application_after_the_supervisor_was_killed(tmp_path: Path) -> None:
    if not shim.can_create_control_groups():
        pytest.skip(f"{PRIVILEGE}control groups that can be written")
    home = Home(tmp_path)
    directory = home.application("app-hidden")
    pid_file = planned(directory, "sleep 300")
    with subprocess.Popen([sys.executable, shim.__file__, str(directory)]) as running:
        stray = stray_of(pid_file)
        running.kill()
        running.wait()
    try:
        assert stray.alive()
        LocalBackend(home).stop({"application_id": "app-hidden"}, grace_seconds=0)
        assert not stray.alive()
    finally:
        end_process(stray, grace_seconds=0)
    group = shim.control_group_root()
    assert group is not None
    assert not list(group.rglob("*app-hidden*"))
