"""A pytest run that leaves something behind fails, and names it and the test that left it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.leaks import MARK

ROOT = Path(__file__).parents[2]
LEAVING = """
import socket, subprocess, time
from pathlib import Path
import pytest

KEPT = []

@pytest.fixture(autouse=True)
def a_tick_apart(request):
    if {apart}:
        time.sleep(0.02)
    yield
    if {apart}:
        time.sleep(0.02)

def test_that_leaves_a_process():
    process = subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)
    Path("{directory}", "pid").write_text(str(process.pid))

def test_that_leaves_a_port():
    KEPT.append(socket.create_server(("127.0.0.1", 0)))
    Path("{directory}", "port").write_text(str(KEPT[0].getsockname()[1]))

def test_that_tidies_up():
    process = subprocess.Popen(["sleep", "{seconds}"])
    process.kill()
    process.wait()
"""


def run(directory: Path, *chosen: str, apart: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a separate pytest over these tests, outside of the current run."""
    file = directory / "test_leaving.py"
    file.write_text(LEAVING.format(directory=directory, seconds=600, apart=apart), encoding="utf-8")
    (directory / "pytest.ini").touch()
    plugins = ["-p", "tests.support.leaks", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:schemathesis"]
    base = ["--basetemp", str(directory / "base")]
    environment = {name: value for name, value in os.environ.items() if name not in (MARK, "PYTEST_ADDOPTS")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, *base, *(f"{file}::{name}" for name in chosen)],
        env={**environment, "PYTHONPATH": str(ROOT), "PENSTOCK_TEST_LEAK_GRACE_SECONDS": "0.5"},
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_process_is_named_with_the_test_that_left_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "test_that_leaves_a_process", "test_that_tidies_up")
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid, signal.SIGKILL)
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    assert f"process {pid}, sleep 600 (test_leaving.py::test_that_leaves_a_process)" in ran.stdout
    assert "2 passed" in ran.stdout


def test_of_tests_too_short_to_be_told_apart_each_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, "test_that_leaves_a_process", "test_that_tidies_up", apart=False)
    os.kill(pid := int((tmp_path / "pid").read_text()), signal.SIGKILL)
    (named,) = [line for line in ran.stdout.splitlines() if f"process {pid}" in line]
    assert "test_leaving.py::test_that_leaves_a_process" in named


def test_a_port_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, "test_that_leaves_a_port")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED, ran.stdout
    assert f"listens on port {(tmp_path / 'port').read_text()} (test_leaving.py::test_that_leaves_a_port)" in ran.stdout


def test_nothing_is_said_of_a_test_that_tidies_up(tmp_path: Path) -> None:
    ran = run(tmp_path, "test_that_tidies_up")
    assert ran.returncode == 0, ran.stdout
    assert "left behind" not in ran.stdout
    assert "Java machines started: 0" in ran.stdout
