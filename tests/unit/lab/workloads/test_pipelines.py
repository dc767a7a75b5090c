"""The suites over generated data refuse impossible options, generate data once, and remove their outputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab import launchers, runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.pipelines import Enrichment, Etl, KMeans, Merge
from penstock.lab.workloads.tpcds import Tpcds
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, State
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent
from tests.unit.lab.lab_world import SIZE

LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment")
SUITES: list[Suite] = [Etl(rows=1000), Enrichment(scale=0.1), KMeans(points=1000)]


class World:
    """A lake, and applications that leave a manifest, or output and a report of one measure and one check."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.engine = PretendingEngine(self.work)
        self.right = True
        self.leaves_manifest = True
        self.state = State.FINISHED
        monkeypatch.setattr(benches, "versions", dict)
        monkeypatch.setattr(Environment, "has_tables", lambda *_: True)
        monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        home = Home(tmp_path / "home")
        home.create()
        self.load_tpcds(web_sales=1000)
        self.bench = Environment(home, LAKE, self.store, self.engine)  # type: ignore[arg-type]

    def load_tpcds(self, *, web_sales: int) -> None:
        tables = [{"table": "web_sales", "rows": web_sales}]
        loaded = {"scale": 0.1, "object_size": 32 << 20, "tables": tables}
        self.store.put("tpcds/sf0p1/_manifest.json", json.dumps(loaded).encode())

    def measure(self, suite: Suite) -> Run:
        (run,) = runner.measure(lambda _: self.bench, [Arm("Penstock", suite, SIZE)], MeasurementPlan(), Silent())
        return run

    def work(self, spec: ApplicationSpec) -> State:
        arguments = dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True))
        places = {name: value.removeprefix("s3a://bucket/") for name, value in arguments.items()}
        if "--location" in arguments and self.leaves_manifest:
            self.store.put(f"{places['--location']}/_manifest.json", json.dumps(manifest(arguments)).encode())
        if "--output" in arguments:
            self.store.put(f"{places['--output']}/part-0", b"rows")
        measured = {"kind": "measure", "name": "work", "elapsed_ms": 5, "bytes": 1, "rows": 1}
        checked = {"kind": "check", "name": "rows", "right": self.right, "note": ""}
        self.store.put_lines(places["--report"], [measured, checked])
        return self.state

    def mains(self) -> list[str]:
        return [str(spec.main_class).rpartition(".")[2] for spec in self.engine.submitted]


def manifest(arguments: Mapping[str, str]) -> dict[str, Any]:
    """Return a manifest as the Scala generators write it: their own arguments, and the amounts of data."""
    found: dict[str, Any] = {"rows": 1000, "bytes": 5000, "order_lines": 1000}
    for option, value in arguments.items():
        if option == "--bad-share":
            found["bad_per_million"] = round(float(value) * 1e6)
        elif option == "--object-size":
            found["object_size"] = int(value.removesuffix("b"))
        elif value.isdigit():
            found[option.removeprefix("--").replace("-", "_")] = int(value)
    return found


def failure(run: Run) -> str:
    (sample,) = run.of_kind("repetition")
    assert (run.outcome, sample["status"]) == ("failed", "failed")
    return str(sample["error"])


def generations(world: World) -> int:
    return sum(main.startswith("Generate") for main in world.mains())


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.workload)
def test_the_second_run_uses_the_data_of_the_first(world: World, suite: Suite) -> None:
    assert world.measure(suite).outcome == "ok"
    assert world.measure(suite).outcome == "ok"
    assert generations(world) == 1
    assert len(world.mains()) == 3


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.workload)
def test_data_made_otherwise_is_made_again_and_reload_always_does(world: World, suite: Suite) -> None:
    world.measure(suite)
    (key,) = [key for key in world.store.objects if key.endswith("_manifest.json") and not key.startswith("tpcds")]
    changed = {**json.loads(world.store.objects[key]), "seed": 2}
    world.store.put(key, json.dumps(changed).encode())
    world.measure(suite)
    world.measure(type(suite)(**{**suite.options(), "reload": True}))
    assert generations(world) == 3


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.workload)
def test_a_wrong_check_makes_the_run_wrong_and_a_failure_makes_it_failed(world: World, suite: Suite) -> None:
    world.measure(suite)
    world.right = False
    assert world.measure(suite).outcome == "wrong"
    world.right, world.state = True, State.FAILED
    run = world.measure(suite)
    assert run.outcome == "failed"
    assert not run.of_kind("measure")


@pytest.mark.parametrize("state", [State.FINISHED, State.FAILED])
def test_output_does_not_stay_in_the_lake_also_where_the_application_failed(world: World, state: State) -> None:
    world.measure(Etl(rows=1000))
    world.state = state
    world.measure(Etl(rows=1000))
    assert not [key for key in world.store.objects if key.endswith("part-0")]


@pytest.mark.parametrize("state", [State.FINISHED, State.FAILED])
def test_a_table_that_is_merged_into_leaves_no_file_and_each_repetition_has_a_database_of_its_own(
    world: World, state: State
) -> None:
    world.state = state
    runs = [world.measure(Merge(rows=1000, mode="merge-on-read")) for _ in range(2)]
    assert {run.outcome for run in runs} == {"ok" if state is State.FINISHED else "failed"}
    assert not [key for key in world.store.objects if "/orders/" in key]
    arguments = [dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True)) for spec in world.engine.submitted]
    assert len({one["--database"] for one in arguments}) == 2
    assert all(one["--database"].replace("_", "").isalnum() for one in arguments)
    assert {one["--mode"] for one in arguments} == {"merge-on-read"}


def test_plain_spark_without_iceberg_is_refused(world: World) -> None:
    for suite in (Merge(rows=1000), Tpcds(layout="iceberg")):
        plain = Arm("plain Spark", suite, SIZE, launcher=launchers.PLAIN)
        with pytest.raises(InvalidInput, match=f"plain Spark cannot run {suite.title} here"):
            runner.measure(lambda _: world.bench, [plain], MeasurementPlan(), Silent())


def test_clicks_around_other_sales_are_made_again(world: World) -> None:
    world.measure(Enrichment(scale=0.1))
    world.load_tpcds(web_sales=999)
    assert failure(world.measure(Enrichment(scale=0.1)))  # the fake clicks are still around 1000
    assert generations(world) == 2


def test_a_generator_that_left_no_manifest_is_a_failure(world: World) -> None:
    world.leaves_manifest = False
    assert "is not in the lake" in failure(world.measure(Etl(rows=1000)))
    assert world.mains() == ["GenerateSales"]


def test_other_options_are_other_data_beside_the_first() -> None:
    etl, kmeans = Etl(rows=1000), KMeans(points=1000)
    others: list[Etl | KMeans] = [
        *(Etl(rows=1001), Etl(rows=1000, bad_share=0.5), Etl(rows=1000, seed=2)),
        *(KMeans(points=1001), KMeans(points=1000, dimensions=3), KMeans(points=1000, clusters=3)),
        *(Etl(rows=1000, object_size_bytes=1 << 20), KMeans(points=1000, object_size_bytes=1 << 20)),
    ]
    places = {suite.data.prefix for suite in (etl, kmeans, *others)}
    assert len(places) == len(others) + 2
    # These change the use of the data, not the data.
    assert Etl(rows=1000, formats=("orc",)).data == etl.data
    assert KMeans(points=1000, iterations=3).data == kmeans.data


@pytest.mark.parametrize(
    "suite",
    [
        Etl(rows=0),
        Etl(bad_share=1.5),
        Etl(bad_share=-0.1),
        Etl(formats=("parquet", "avro")),
        Etl(formats=()),
        Enrichment(scale=0),
        Enrichment(clicks_per_line=0),
        KMeans(points=19, clusters=10),
        KMeans(clusters=0),
        KMeans(dimensions=1),
        KMeans(iterations=0),
        KMeans(passes=0),
        Merge(mode="merge-on-write"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_starts(world: World, suite: Suite) -> None:
    with pytest.raises(InvalidInput):
        world.measure(suite)
    assert world.engine.submitted == []


def test_the_space_needed_grows_with_the_data() -> None:
    assert Etl(rows=10_000_000).needs_bytes() == 10 * Etl(rows=1_000_000).needs_bytes()
    assert Etl(rows=1_000_000).needs_bytes() > 3 * 60 * 1_000_000
    assert Enrichment(scale=10).needs_bytes() == 10 * Enrichment(scale=1).needs_bytes()
    assert KMeans(points=10_000_000).needs_bytes() > 10_000_000 * 20 * 4
