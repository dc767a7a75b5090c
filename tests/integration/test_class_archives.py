"""The background build of class-data archives, with a program in Java's place that writes them on request."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from penstock.engine.class_archives import ClassArchives
from penstock.engine.installation import Installation
from penstock.home import Home, read_json
from penstock.processes import ProcessId, processes, processes_below
from tests.support.command import Command
from tests.support.database_template import DatabaseTemplate
from tests.support.waiting import within

JAVA = """#!/bin/sh
for word; do case $word in -XX:ArchiveClassesAtExit=*) target=${word#*=} ;; esac; done
printf half > "$target"
while [ ! -e "$ORDERS/write" ]; do
    [ ! -e "$ORDERS/fail" ] || { echo "no such class" >&2; exit 1; }
    sleep 0.05
done
printf whole > "$target"
"""


@dataclass
class World:
    home: Home
    orders: Path
    java: Path

    @property
    def penstock(self) -> Command:
        return Command(self.home)

    def process(self) -> ProcessId:
        return ProcessId.from_json(read_json(self.home.root / "class-archives.json")["process"])

    def programs(self) -> list[int]:
        """The processes that run in Java's place."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes()
            except OSError:
                continue
            if str(self.java).encode() in line and b"ArchiveClassesAtExit" in line:
                found.append(int(path.parent.name))
        return found

    def classes_of_servers(self) -> set[int]:
        """The scheduling classes of all processes in this home besides the session of the build."""
        build = self.process().pid
        found = {process.pid for process in processes_below(self.home.root)}
        servers = [one.pid for one in processes() if one.pid in found and one.session != build]
        assert servers
        return {os.sched_getscheduler(pid) for pid in servers}

    def hurry(self) -> None:
        """Give the build the usual priority, since on a busy machine it would outlast the test's patience."""
        build = self.process().pid
        for pid in {one.pid for one in processes() if one.session == build}:
            # A short-lived child may have ended; only root may raise a priority.
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.sched_setscheduler(pid, os.SCHED_OTHER, os.sched_param(0))
                os.setpriority(os.PRIO_PROCESS, pid, 0)
        with contextlib.suppress(OSError):
            Path(f"/proc/{build}/autogroup").write_text("0", "ascii")

    def archives(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self.home.cache / "classes").glob("*/*")}

    def training(self) -> list[Path]:
        return list(self.home.cache.glob("training-*"))

    def status(self) -> str:
        return str(json.loads(self.penstock.ok("status", "--json"))["class-data archives"])


@pytest.fixture
def world(tmp_path: Path, database_template: DatabaseTemplate, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    home, orders, java = Home(tmp_path / "home"), tmp_path / "orders", tmp_path / "java" / "bin" / "java"
    database_template.copy_to(home, metastore=True)
    orders.mkdir()
    java.parent.mkdir(parents=True)
    java.write_text(JAVA)
    java.chmod(0o755)
    (tmp_path / "java" / "release").write_text('JAVA_RUNTIME_VERSION="17.0.99+1"\n')
    monkeypatch.setenv("PENSTOCK_JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setenv("ORDERS", str(orders))
    yield World(home, orders, java)
    list(Installation(home).down())


def test_two_commands_at_a_time_start_one_process(world: World) -> None:
    both = [world.penstock.start("up") for _ in range(2)]
    for command in both:
        out, err = command.communicate(timeout=120)
        assert command.returncode == 0, err
        assert "class-data archives: being made since " in out
    process = world.process()
    within(lambda: len(world.programs()) == 2)
    assert world.classes_of_servers() == {os.SCHED_OTHER}, (
        "what the lake and the database inherit would slow every application"
    )
    assert os.sched_getscheduler(process.pid) == os.SCHED_IDLE
    assert {os.sched_getscheduler(pid) for pid in world.programs()} == {os.SCHED_IDLE}
    assert world.status().startswith("being made since ")
    assert world.status().endswith(", 0 of 2")
    assert world.archives() == {}, "a half-made archive can be seen"

    waiting = world.penstock.start("up", "--wait")
    world.hurry()
    (world.orders / "write").touch()
    out, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err
    assert "class-data archives: made (" in out
    assert world.archives() == {"driver.jsa": "whole", "executor.jsa": "whole"}
    assert world.status() == "made"
    within(lambda: not process.alive())
    assert world.penstock.ok("up").endswith("class-data archives: made\n")
    assert not ClassArchives(world.home).status().running


def test_a_killed_process_leaves_nothing_and_the_next_command_starts_another(world: World) -> None:
    world.penstock.ok("up")
    first = world.process()
    world.hurry()
    within(lambda: len(world.programs()) == 2)
    os.kill(first.pid, signal.SIGKILL)
    within(lambda: world.programs() == [], 10)
    assert world.archives() == {}
    assert world.status() == "not made: their build was interrupted; penstock up builds them again"

    world.penstock.ok("up")
    second = world.process()
    assert second != first
    world.hurry()
    within(lambda: len(world.programs()) == 2)
    assert len(world.training()) == 1, "the killed process's directory is still there"

    assert "build of class-data archives stopped" in world.penstock.ok("down")
    assert not second.alive()
    assert world.programs() == []
    assert world.training() == []
    assert world.status() == "not made: penstock up builds them"


def test_wipe_ends_the_process(world: World) -> None:
    world.penstock.ok("up")
    process = world.process()
    world.hurry()
    within(lambda: len(world.programs()) == 2)
    world.penstock.ok("wipe", "--yes")
    assert not process.alive()
    assert world.programs() == []
    assert not world.home.root.exists()


def test_a_build_that_a_command_waits_for_has_the_usual_priority(world: World) -> None:
    waiting = world.penstock.start("up", "--wait")
    within(lambda: len(world.programs()) == 2)
    assert {os.sched_getscheduler(pid) for pid in world.programs()} == {os.SCHED_OTHER}
    (world.orders / "write").touch()
    _, err = waiting.communicate(timeout=120)
    assert waiting.returncode == 0, err


def test_a_failure_is_explained_and_the_next_command_tries_again(world: World) -> None:
    (world.orders / "fail").touch()
    code, _, err = world.penstock.run("up", "--wait")
    assert code == 8
    assert "ended with exit code 1" in err
    assert "no such class" in err
    assert "class-archives.log" in err
    status = world.status()
    assert status.startswith("failed: the training ")
    assert status.endswith("; penstock up builds them again")
    (world.orders / "fail").unlink()
    (world.orders / "write").touch()
    assert "class-data archives: made (" in world.penstock.ok("up", "--wait")


def test_waiting_for_archives_that_are_not_wanted_is_refused(world: World) -> None:
    code, _, err = world.penstock.run("up", "--wait", "--no-archives")
    assert code == 2
    assert "--wait" in err
