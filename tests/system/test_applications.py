"""Applications through the command, on real clusters over a real lake and catalog."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.catalog.database import Database
from penstock.cli import statements
from penstock.cli.local import LocalEngine
from penstock.engine.application import State
from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.base import Credentials, Lake
from penstock.lake.registry import Lakes
from tests.support.command import SMALL, WAITS, Command, executors, named, nothing_is_left, pid_of, running
from tests.support.waiting import within


@pytest.fixture
def penstock(shared_home: Home) -> Command:
    return Command(shared_home)


@pytest.fixture
def engine(shared_home: Home) -> Engine:
    return Engine(shared_home)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    def write(source: str) -> str:
        path = tmp_path / "Prüfung 100%, #1.py"
        path.write_text(source, encoding="utf-8")
        return str(path)

    return write


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "go on, bitte"
    (tmp_path / "go on, bitte").touch()


def test_output_arguments_and_environment_pass_through_and_everything_is_kept(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    go.touch()
    code, out, err = penstock.run("run", *SMALL, "--name", "whole", script(WAITS), str(go), "--executors", 'ä "b" c')
    assert code == 0, err
    assert out == "counted 10 ['--executors', 'ä \"b\" c']\ncounted again 10\n"
    assert "a word to err" in err
    assert "finished in" in err
    ended = named(engine, "whole")[0]
    kept = list(engine.artefacts(ended.id))
    assert {"driver.log", "driver.out", "driver.err", "executor-1.log", "summary.json"} <= set(kept)
    assert any(name.startswith("events/") for name in kept)
    assert ended.summary is not None
    assert ended.summary["tasks"] == 4
    assert ended.summary["peak_rss_bytes"] > 0
    assert penstock.run("logs", ended.id, "--stream", "out")[1] == out
    assert json.loads(penstock.run("show", ended.id, "--json")[1])["id"] == ended.id
    nothing_is_left(penstock.home, ended)


def test_a_failing_application_returns_its_own_exit_code_and_the_reason(
    penstock: Command, script: Callable[[str], str]
) -> None:
    code, _, err = penstock.run("run", *SMALL, script("import importlib\nimportlib.import_module('no_such_part')\n"))
    assert code == 1
    assert "the Python module “no_such_part” is not there" in err
    assert "--py-files" in err


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


def test_the_time_limit_ends_a_detached_application(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    code, out, _ = penstock.run("run", *SMALL, "--detach", "--time-limit", "2s", script(WAITS), str(go))
    assert code == 0
    ended = engine.wait(out.strip(), timeout_seconds=120)
    assert ended.state is State.AUTO_TERMINATED
    assert ended.reason is not None
    assert ended.reason.code == "time_limit"
    nothing_is_left(penstock.home, ended)


def test_sql_answers_on_its_own_cluster_leaves_no_result_behind_and_keeps_its_statements_for_another_run(
    penstock: Command, engine: Engine
) -> None:
    text = "SELECT 1 AS eins, 'zwei; ß' AS b; SELECT nope"
    code, out, err = penstock.run("sql", *SMALL, "--format", "csv", text)
    assert code == 1
    assert out == "eins,b\n1,zwei; ß\n"
    assert "nope" in err
    assert "Traceback" not in err
    assert not list(engine.store(None).list("penstock/results/"))
    assert not list((penstock.home.root / "cache").glob("statements-*"))
    # By the newest application: `penstock sql` gives its own no name.
    assert statements.kept(LocalEngine(penstock.home), engine.list(limit=1)[0]) == text


def test_a_killed_driver_fails_the_application_with_its_output_kept(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    command = penstock.start("run", *SMALL, "--name", "without-driver", script(WAITS), str(go))
    application = running(engine, "without-driver")
    os.kill(pid_of(penstock.home, application, "driver"), signal.SIGKILL)
    ended = engine.wait(application.id, timeout_seconds=120)
    command.communicate(timeout=60)
    assert (ended.state, ended.reason.code if ended.reason else None) == (State.FAILED, "killed")
    assert b"counted 10" in engine.artefact(ended.id, "driver.out")
    nothing_is_left(penstock.home, ended)


def test_an_application_goes_on_without_an_executor_the_database_and_its_supervisor_in_turn(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    """Each of the three is gone in the middle of the same run, whose record comes true all the same."""
    command = penstock.start("run", *SMALL, "--name", "patient", script(WAITS), str(go))
    application = running(engine, "patient")
    os.kill(pid_of(penstock.home, application, "executors", "1"), signal.SIGKILL)
    within(lambda: executors(penstock.home, application) == {"1", "2"})

    database = Database(penstock.home)
    database.down()
    # Only the supervisor brings it back: nobody else needs it meanwhile.
    within(lambda: database.status().state == "up")
    assert engine.get(application.id).state is State.RUNNING
    assert command.poll() is None

    command.kill()
    command.communicate()
    within(lambda: application.id in engine.reconcile(), 10)
    go.touch()
    ended = engine.wait(application.id, timeout_seconds=120)
    assert (ended.state, ended.reason) == (State.FINISHED, None)
    printed = engine.artefact(ended.id, "driver.out")
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
    assert json.loads(engine.artefact(ended.id, "summary.json"))["processes"]
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
    assert engine.artefact(ended.id, "driver.out").count(b"counted 10") == 1
    nothing_is_left(penstock.home, ended)


def test_a_cluster_larger_than_the_machine_is_refused_with_one_that_fits(
    penstock: Command, script: Callable[[str], str]
) -> None:
    code, _, err = penstock.run("run", "--executors", "1000", "--executor-memory", "1g", script("print(1)"))
    assert code == 8
    assert "does not fit" in err
    assert "--executors" in err
