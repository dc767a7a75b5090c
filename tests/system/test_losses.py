"""Applications that lose a process, the database or the lake: the record is correct and nothing is left."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from penstock.catalog.database import Database
from penstock.engine.engine import Engine
from penstock.lake.model import Credentials, Lake
from penstock.lake.registry import Lakes
from penstock.model import State
from tests.support.command import SMALL, WAITS, Command, executors, named, nothing_is_left, pid_of, running
from tests.support.waiting import within


def test_an_interrupt_stops_the_application_and_cleans_up(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    command = penstock.start("run", *SMALL, "--name", "interrupted", script(WAITS), str(go))
    application = running(engine, "interrupted")
    command.send_signal(signal.SIGINT)
    _, err = command.communicate(timeout=60)
    assert command.returncode == 130, err
    assert engine.get(application.id).state is State.STOPPED
    nothing_is_left(penstock.home, application)


def test_a_killed_driver_fails_the_application_with_its_output_kept(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    command = penstock.start("run", *SMALL, "--name", "without-driver", script(WAITS), str(go))
    application = running(engine, "without-driver")
    os.kill(pid_of(penstock.home, application, "driver"), signal.SIGKILL)
    ended = engine.wait(application.id, timeout_seconds=120)
    command.communicate(timeout=60)
    assert (ended.state, ended.reason.code if ended.reason else None) == (State.FAILED, "killed")
    assert b"counted 10" in engine.artifacts.load(ended.id, "driver.out")
    nothing_is_left(penstock.home, ended)


def test_an_application_goes_on_without_an_executor_the_database_and_its_supervisor_in_turn(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    """Each of the three is lost in the middle of the same run, whose record is still correct."""
    command = penstock.start("run", *SMALL, "--name", "patient", script(WAITS), str(go))
    application = running(engine, "patient")
    os.kill(pid_of(penstock.home, application, "executors", "1"), signal.SIGKILL)
    within(lambda: executors(penstock.home, application) == {"1", "2"})

    database = Database(penstock.home)
    database.down()
    # Only the supervisor restarts the database: no other process needs it meanwhile.
    within(lambda: database.status().state == "up")
    assert engine.get(application.id).state is State.RUNNING
    assert command.poll() is None

    command.kill()
    command.communicate()
    within(lambda: application.id in engine.reconcile(), 10)
    go.touch()
    ended = engine.wait(application.id, timeout_seconds=120)
    assert (ended.state, ended.reason) == (State.FINISHED, None)
    printed = engine.artifacts.load(ended.id, "driver.out")
    assert (printed.count(b"counted 10"), printed.count(b"counted again 10")) == (1, 1)
    nothing_is_left(penstock.home, ended)


def test_a_lake_out_of_reach_is_said_at_once_and_costs_no_logs(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    away = Lake("away", ("http://127.0.0.1:9",), "bucket", "")
    Lakes(penstock.home).add(away, Credentials("nobody", "nothing"))
    code, _, err = penstock.run("run", *SMALL, "--lake", "away", "--name", "away", script(WAITS), str(go))
    Lakes(penstock.home).remove("away")
    assert code != 0
    assert "127.0.0.1:9" in err
    ended = named(engine, "away")[0]
    assert ended.state is State.FAILED
    assert json.loads(engine.artifacts.load(ended.id, "summary.json"))["processes"]
    nothing_is_left(penstock.home, ended)


def test_killed_before_the_cluster_is_up_the_application_still_comes_to_its_end(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    go.touch()
    command = penstock.start("run", *SMALL, "--name", "early", script(WAITS), str(go))
    within(lambda: bool(named(engine, "early")))
    time.sleep(0.05)
    command.kill()
    command.communicate()
    ended = engine.wait(named(engine, "early")[0].id, timeout_seconds=120)
    assert ended.state is State.FINISHED
    assert engine.artifacts.load(ended.id, "driver.out").count(b"counted 10") == 1
    nothing_is_left(penstock.home, ended)
