"""DFSIO and the ingest refuse impossible options, pass the others to the application, and leave no objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.lab import app
from penstock.errors import InvalidInput, PenstockError
from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab import launchers, runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.workloads import base
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.options import parse_numbers, parse_whole_seconds
from penstock.lab.workloads.registry import restore_suite
from penstock.lab.workloads.throughput import Dfsio, Ingest
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, State
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent
from tests.unit.lab.lab_world import SIZE

LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment")
MIB = 1 << 20
SUITES: list[Suite] = [Dfsio(clients=(1, 2)), Ingest(seconds=2)]


class World:
    """A lake, and an application that leaves objects, like a killed one, and a report."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.engine = PretendingEngine(self.work)
        self.right = True
        self.reports = True
        self.state = State.FINISHED
        monkeypatch.setattr(benches, "versions", dict)
        monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        home = Home(tmp_path / "home")
        home.create()
        self.bench = Environment(home, LAKE, self.store, self.engine)  # type: ignore[arg-type]

    def measure(self, suite: Suite, settings: dict[str, str] | None = None, repetitions: int = 1) -> Run:
        arm = Arm("Penstock", suite, SIZE, settings=settings or {})
        (run,) = runner.measure(lambda _: self.bench, [arm], MeasurementPlan(repetitions), Silent())
        return run

    def arguments(self, number: int = 0) -> dict[str, str]:
        found = self.engine.submitted[number].arguments
        return dict(zip(found[::2], found[1::2], strict=True))

    def work(self, spec: ApplicationSpec) -> State:
        arguments = dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True))
        place, report = (arguments[name].removeprefix("s3a://bucket/") for name in ("--location", "--report"))
        self.store.put(f"{place}/file-0", b"written")
        if self.reports:
            measure = {"kind": "measure", "name": "write, 1 client", "clients": 1, "elapsed_ms": 5, "bytes": 7}
            check = {"kind": "check", "name": "contents", "right": self.right, "note": "file-0"}
            self.store.put_lines(report, [measure, check])
        return self.state


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def left(world: World) -> list[str]:
    return [key for key in world.store.objects if key.endswith("/file-0")]


@pytest.mark.parametrize("suite", SUITES)
def test_what_the_application_recorded_is_recorded_and_what_it_left_is_removed(suite: Suite, world: World) -> None:
    run = world.measure(suite)
    assert run.outcome == "ok"
    assert [sample["bytes"] for sample in run.of_kind("measure")] == [7]
    assert not left(world)


@pytest.mark.parametrize("suite", SUITES)
def test_a_wrong_check_is_a_wrong_run_although_its_application_says_failed(suite: Suite, world: World) -> None:
    world.right, world.state = False, State.FAILED
    assert world.measure(suite).outcome == "wrong"


@pytest.mark.parametrize("reports", [True, False])
@pytest.mark.parametrize("suite", SUITES)
def test_an_application_that_failed_is_a_failed_repetition_and_leaves_nothing(
    suite: Suite, world: World, reports: bool
) -> None:
    world.reports, world.state = reports, State.FAILED
    run = world.measure(suite)
    assert run.outcome == "failed"
    assert "ended as “failed”" in run.of_kind("repetition")[0]["error"]
    assert not left(world)


def test_objects_to_be_kept_are_kept(world: World) -> None:
    world.measure(Ingest(keep=True))
    assert world.arguments()["--keep"] == "true"
    assert left(world)


def test_the_order_of_clients_is_each_repetitions_own_recorded_and_the_same_for_the_same_seed(world: World) -> None:
    suite = Dfsio(clients=(1, 2, 3, 4, 5, 6, 7, 8), shuffle=True, seed=3)
    run = world.measure(suite, repetitions=2)
    orders = [sample["order"] for sample in run.of_kind("application")]
    assert [world.arguments(number)["--clients"] for number in (0, 1)] == [
        ",".join(str(count) for count in order) for order in orders
    ]
    assert orders[0] != orders[1]
    assert all(sorted(order) == list(suite.clients) for order in orders)
    assert [list(suite.order(repetition)) for repetition in (1, 2)] == orders
    assert replace(suite, shuffle=False).order(1) == suite.clients


def test_only_what_is_to_be_measured_is_asked_for(world: World) -> None:
    world.measure(Dfsio(clients=(2,), files=6, file_size_bytes=MIB, read=False, seed=9))
    asked = world.arguments()
    assert (asked["--measure"], asked["--files"], asked["--file-size"]) == ("write", "6", "1048576b")
    assert asked["--seed"] == "9"


def test_an_ingest_without_a_rate_asks_for_none(world: World) -> None:
    world.measure(Ingest(seconds=7, writers=3))
    world.measure(Ingest(seconds=7, writers=3, bytes_per_second=100 * MIB))
    assert "--rate" not in world.arguments(0)
    assert world.arguments(1)["--rate"] == f"{100 * MIB}b"


def test_more_clients_than_threads_get_threads_and_connections_but_not_over_the_users_head(world: World) -> None:
    world.measure(Dfsio(clients=(64,)), {"spark.hadoop.fs.s3a.threads.max": "7"})
    settings = world.engine.submitted[0].settings
    assert settings["spark.hadoop.fs.s3a.threads.max"] == "7"
    assert settings["spark.hadoop.fs.s3a.connection.maximum"] == "512"
    assert not [key for key in base.client_settings(8, SIZE) if "s3a" in key]
    assert base.client_settings(64, replace(SIZE, executors=4))["spark.hadoop.fs.s3a.threads.max"] == "64"


@pytest.mark.parametrize(
    ("suite", "problem"),
    [
        (Dfsio(clients=()), "each given once"),
        (Dfsio(clients=(0, 1)), "each given once"),
        (Dfsio(clients=(2, 2)), "each given once"),
        (Dfsio(clients=(1, 8), files=4), "8 clients need more than 4 files"),
        (Dfsio(file_size_bytes=0), "negative"),
        (Dfsio(write=False, read=False), "Nothing is left"),
        (Ingest(seconds=0), "needs time"),
        (Ingest(writers=0), "needs time"),
        (Ingest(bytes_per_second=-1), "negative"),
        (Ingest(seconds=10, writers=8, bytes_per_second=MIB), "some writers write no object"),
    ],
)
def test_what_could_never_be_measured_is_refused(suite: Suite, problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        suite.check_options()


def test_the_space_needed_is_that_of_all_rounds_and_of_the_whole_time() -> None:
    assert Dfsio(clients=(1, 4), file_size_bytes=MIB).needs_bytes() == 2 * 4 * MIB
    assert Dfsio(clients=(1, 4), file_size_bytes=MIB, files=8, write=False).needs_bytes() == 8 * MIB
    assert Ingest(seconds=100, bytes_per_second=MIB).needs_bytes() == 100 * MIB
    assert Ingest(seconds=24 * 3600).needs_bytes() > 10 << 40


@pytest.mark.parametrize("suite", [Dfsio(clients=(1, 3), shuffle=True), Ingest(bytes_per_second=5)])
def test_a_recorded_run_gives_the_suite_again(suite: Suite) -> None:
    listed: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in suite.options().items()
    }
    assert restore_suite(suite.workload, listed) == suite


def test_progress_of_an_ingest_follows_from_its_start() -> None:
    lines: list[str] = []
    moments = iter((100.0, 100.0, 112.0, 190.0))
    doing = Ingest(seconds=60).progress(lines.append, lambda: next(moments))
    for description in ("starting", "ingest for 60 s", "ingest for 60 s", "ingest for 60 s", "reading back"):
        doing(description)
    assert lines == [
        "starting",
        "ingest (0.00 s of 1 min 00 s)",
        "ingest (12.0 s of 1 min 00 s)",
        "ingest (1 min 00 s of 1 min 00 s)",
        "reading back",
    ]


@pytest.mark.parametrize(("text", "seconds"), [("60s", 60), ("30m", 1800), ("24h", 86400)])
def test_durations_are_seconds_minutes_and_hours(text: str, seconds: int) -> None:
    assert parse_whole_seconds(text, "--duration") == seconds


@pytest.mark.parametrize("text", ["", "60", "0s", "-5s", "1.5h", "1d", "²s"])
def test_what_is_no_duration_is_refused_with_the_option_named(text: str) -> None:
    with pytest.raises(InvalidInput, match="--duration"):
        parse_whole_seconds(text, "--duration")


@pytest.mark.parametrize(
    "command",
    [
        ["dfsio", "--clients", "1,x"],
        ["dfsio", "--clients", ""],
        ["dfsio", "--file-size", "0m"],
        ["ingest", "--duration", "never"],
        ["ingest", "--rate", "fast"],
    ],
)
def test_the_commands_refuse_what_cannot_be_read(command: list[str]) -> None:
    error = CliRunner().invoke(app, command).exception
    assert isinstance(error, PenstockError)
    assert error.exit_code == 2


def test_numbers_of_clients_are_read_with_or_without_spaces() -> None:
    assert parse_numbers("1, 2,16", "--clients", "of clients") == (1, 2, 16)
