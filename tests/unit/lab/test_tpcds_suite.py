"""The TPC-DS suite does the work that is needed, no more, and records truthfully what came of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest
from lab_fakes import MemoryStore, PretendingEngine, Silent

from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.home import Home
from penstock.lab import bench as benches
from penstock.lab import launcher, runner
from penstock.lab.bench import Bench
from penstock.lab.records import Run
from penstock.lab.runner import Arm, Plan
from penstock.lab.suites import queries, tpcds
from penstock.lake.base import Lake

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment")
SUITE = tpcds.Tpcds(scale=0.1, queries=("q1", "q2"))
TEXTS = {"q1": "SELECT count(*) AS n FROM item", "q2": "SELECT max(i_price) AS most FROM item"}


class World:
    """A lake, and applications that load one small table and answer the two queries."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.engine = PretendingEngine(self.work)
        self.answers: dict[str, list[list[Any]]] = {"q1": [[3]], "q2": [["2.50"]]}
        self.failing: set[str] = set()
        self.leaves_samples = True
        self.tables: set[str] = set()
        self.home = Home(tmp_path / "home")
        self.scratch = tmp_path
        monkeypatch.setattr(Bench, "has_tables", lambda bench, database: database in self.tables)
        monkeypatch.setattr(tpcds, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        monkeypatch.setattr(queries, "texts", lambda jar, names: {name: TEXTS[name] for name in names})
        monkeypatch.setattr(benches, "versions", lambda: {"spark": "4.1.2"})
        monkeypatch.setattr(launcher, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        self.bench = Bench(self.home, LAKE, self.store, self.engine)  # type: ignore[arg-type]

    def measure(self) -> Run:
        (run,) = runner.measure(lambda _: self.bench, [Arm("Penstock", SUITE, SIZE)], Plan(), Silent())
        return run

    def work(self, spec: ApplicationSpec) -> State:
        arguments = dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True))
        if str(spec.main_class).endswith("Load"):
            return self.load(arguments)
        if not self.leaves_samples:
            return State.FAILED
        prefix = arguments["--output"].removeprefix("s3a://bucket/")
        names = arguments["--queries"].split(",")
        samples = [
            {
                "query": name,
                "iteration": 1,
                "started_ms": 0,
                "elapsed_ms": 100,
                "rows": 1,
                **({"status": "failed", "error": "boom"} if name in self.failing else {"status": "ok"}),
            }
            for name in names
        ]
        answers = [
            {"query": name, "columns": ["x"], "types": ["bigint" if name == "q1" else "decimal(7,2)"], "rows": rows}
            for name, rows in self.answers.items()
            if name in names and name not in self.failing
        ]
        self.store.put_lines(f"{prefix}/samples.jsonl", samples)
        self.store.put_lines(f"{prefix}/answers.jsonl", answers)
        return State.FAILED if self.failing else State.FINISHED

    def load(self, arguments: dict[str, str]) -> State:
        prefix = arguments["--location"].removeprefix("s3a://bucket/")
        file = self.scratch / "item.parquet"
        duckdb.sql("SELECT * FROM (VALUES (1.5), (2.5), (0.5)) t(i_price)").write_parquet(str(file))
        self.store.put(f"{prefix}/item/part-0.parquet", file)
        table = {"table": "item", "rows": 3, "bytes": 100, "files": 1, "partitions": 0, "layout": "plain"}
        manifest = {"scale": float(arguments["--scale"]), "object_size": 32 << 20, "tables": [table]}
        self.store.put(f"{prefix}/_manifest.json", json.dumps(manifest).encode())
        self.tables.add(arguments["--database"])
        return State.FINISHED

    def mains(self) -> list[str]:
        return [str(spec.main_class).rpartition(".")[2] for spec in self.engine.submitted]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_the_first_run_loads_and_the_second_does_not(world: World) -> None:
    assert world.measure().outcome == "ok"
    assert world.measure().outcome == "ok"
    assert world.mains() == ["Load", "PowerRun", "PowerRun"]


def test_data_whose_load_was_cut_short_is_loaded_again(world: World) -> None:
    world.measure()
    world.store.delete("tpcds/sf0p1/_manifest.json")
    world.measure()
    assert world.mains() == ["Load", "PowerRun"] * 2


def test_a_catalog_that_lost_its_tables_gets_them_back(world: World) -> None:
    world.measure()
    world.tables.clear()
    world.measure()
    assert world.mains() == ["Load", "PowerRun"] * 2


def test_another_object_size_is_another_data_set_beside_the_first() -> None:
    small, large = tpcds.DataSet(1), tpcds.DataSet(1, 128 << 20)
    assert (small.prefix, large.prefix) == ("tpcds/sf1", "tpcds/sf1_128m")
    assert small.database != large.database


def test_a_wrong_answer_is_a_failure_that_shows_the_rows(world: World) -> None:
    world.answers["q2"] = [["2.60"]]
    run = world.measure()
    assert run.outcome == "wrong"
    (wrong,) = [sample for sample in run.of_kind("answer") if sample["verdict"] == "different"]
    assert wrong["query"] == "q2"
    assert wrong["lines"][2:] == ["  - 2.5", "  + 2.6"]


def test_a_failed_query_is_recorded_and_the_others_are_still_checked(world: World) -> None:
    world.failing = {"q1"}
    run = world.measure()
    assert run.outcome == "failed"
    assert [sample["query"] for sample in run.of_kind("answer")] == ["q2"]


def test_an_application_that_left_nothing_is_a_failed_repetition_that_says_why(world: World) -> None:
    world.leaves_samples = False
    run = world.measure()
    assert run.outcome == "failed"
    (repetition,) = run.of_kind("repetition")
    assert "queries, scale 0.1 ended as" in repetition["error"]


def test_the_independent_engine_is_asked_once_per_data_set(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.measure()
    world.store.reads.clear()
    world.measure()
    assert not [key for key in world.store.reads if key.endswith(".parquet")]


def test_the_run_is_in_the_lake_too(world: World) -> None:
    run = world.measure()
    kept = world.store.objects[f"penstock/lab/{run.description.id}/samples.jsonl"]
    assert len(kept.splitlines()) == len(run.samples)


def test_interrupted_it_stops_the_application(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world.engine, "supervise", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.measure()
    assert world.engine.stopped == ["app-1"]
