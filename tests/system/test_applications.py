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
from penstock.engine.application import State
from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.base import Credentials, Lake
from penstock.lake.registry import Lakes
from tests.support.command import SMALL, WAITS, Command, named, nothing_is_left, pid_of, running
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
    assert json.loads(penstock.run("show", "last", "--json")[1])["id"] == ended.id
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


def test_sql_answers_on_its_own_cluster_leaves_no_result_behind_and_can_be_run_again(
    penstock: Command, engine: Engine
) -> None:
    size = ["--driver-memory", "512m", "--executor-cores", "1", "--executor-memory", "512m"]
    code, out, err = penstock.run("sql", *size, "--format", "csv", "SELECT 1 AS eins, 'zwei; ß' AS b; SELECT nope")
    assert code == 1
    assert out == "eins,b\n1,zwei; ß\n"
    assert "nope" in err
    assert "Traceback" not in err
    assert not list(engine.store(None).list("penstock/results/"))

    code, out, err = penstock.run("rerun", "last", "--json")
    assert code == 1, err
    assert json.loads(out)[0]["rows"] == [[1, "zwei; ß"]]
    assert not list(engine.store(None).list("penstock/results/"))
    assert not list((penstock.home.root / "cache").glob("statements-*"))


@pytest.mark.parametrize(
    ("victim", "state", "reason"),
    [
        ("supervisor", State.FINISHED, None),
        ("keeper", State.FAILED, "driver_lost"),
        ("driver", State.FAILED, "killed"),
        ("executor", State.FINISHED, None),
    ],
)
def test_whoever_is_killed_the_record_is_true_and_nothing_is_left(
    penstock: Command,
    engine: Engine,
    script: Callable[[str], str],
    go: Path,
    *,
    victim: str,
    state: State,
    reason: str | None,
) -> None:
    command = penstock.start("run", *SMALL, "--name", f"without-{victim}", script(WAITS), str(go))
    application = running(engine, f"without-{victim}")
    path = {"keeper": ["keeper"], "driver": ["driver"], "executor": ["executors", "1"]}.get(victim)
    os.kill(command.pid if path is None else pid_of(penstock.home, application, *path), signal.SIGKILL)
    go.touch()
    if victim == "supervisor":
        command.wait()
        within(lambda: application.id in engine.reconcile(), 10)
    ended = engine.wait(application.id, timeout_seconds=120)
    command.communicate(timeout=60)
    assert ended.state is state
    assert (ended.reason.code if ended.reason else None) == reason
    assert b"counted 10" in engine.artefact(ended.id, "driver.out")
    nothing_is_left(penstock.home, ended)


def test_a_database_that_goes_away_for_a_while_delays_the_record_and_no_more(
    penstock: Command, engine: Engine, script: Callable[[str], str], go: Path
) -> None:
    command = penstock.start("run", *SMALL, "--name", "patient", script(WAITS), str(go))
    application = running(engine, "patient")
    Database(penstock.home).down()
    go.touch()
    _, err = command.communicate(timeout=120)
    assert command.returncode == 0, err
    assert engine.get(application.id).state is State.FINISHED
    nothing_is_left(penstock.home, application)


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
