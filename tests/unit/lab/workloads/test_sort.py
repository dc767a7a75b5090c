"""The TeraSort suite sorts its data, removes its output, and records the true outcome."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.lab import app
from penstock.errors import InvalidInput
from penstock.home import Home
from penstock.lab import environment as benches
from penstock.lab import launchers, runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Run
from penstock.lab.workloads import sort
from penstock.lab.workloads.registry import restore_suite
from penstock.lab.workloads.sort import TeraSort
from penstock.lake.model import Lake
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from tests.unit.lab.lab_fakes import MemoryStore, PretendingEngine, Silent

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment")
MIB = 1 << 20
SMALL = TeraSort(size_bytes=10 * MIB, object_size_bytes=MIB)


class World:
    """A lake, and fake applications that leave the objects of the real ones."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = MemoryStore()
        self.engine = PretendingEngine(self.work)
        self.right = True
        self.validator_leaves_a_report = True
        self.failing = ""
        self.sorting = threading.Barrier(1)
        monkeypatch.setattr(benches, "versions", lambda: {"spark": "4.1.2"})
        monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("penstock-workloads.jar"))
        self.bench = Environment(Home(tmp_path / "home"), LAKE, self.store, self.engine)  # type: ignore[arg-type]

    def measure(self, suite: TeraSort = SMALL, plan: MeasurementPlan = MeasurementPlan()) -> Run:  # noqa: B008 - frozen
        (run,) = runner.measure(lambda _: self.bench, [Arm("Penstock", suite, SIZE)], plan, Silent())
        return run

    def work(self, spec: ApplicationSpec) -> State:
        arguments = dict(zip(spec.arguments[::2], spec.arguments[1::2], strict=True))
        places = {name: value.removeprefix("s3a://bucket/") for name, value in arguments.items()}
        name = str(spec.main_class).rpartition(".")[2]
        if name == self.failing:
            return State.FAILED
        return {"TeraGen": self.generate, "Sort": self.sort, "Validate": self.validate}[name](places)

    def generate(self, arguments: dict[str, str]) -> State:
        records = int(arguments["--records"])
        manifest = {
            "records": records,
            "bytes": 100 * records,
            "checksum": "abc",
            "object_size": int(arguments["--object-size"].rstrip("b")),
            "skewed": arguments["--skewed"] == "true",
        }
        self.store.put(f"{arguments['--location']}/part-r-00000", b"records")
        self.store.put(f"{arguments['--location']}/_manifest.json", json.dumps(manifest).encode())
        self.store.put_lines(arguments["--report"], [measures_by_name("generate")])
        return State.FINISHED

    def sort(self, arguments: dict[str, str]) -> State:
        self.sorting.wait(timeout=10)
        self.store.put(f"{arguments['--output']}/part-r-00000", b"sorted")
        self.store.put_lines(arguments["--report"], [measures_by_name("sort")])
        return State.FINISHED

    def validate(self, arguments: dict[str, str]) -> State:
        assert self.store.get(f"{arguments['--output']}/part-r-00000") == b"sorted"
        if not self.validator_leaves_a_report:
            return State.FAILED
        check = {"kind": "check", "name": "checksum", "right": self.right, "note": "abc"}
        samples = [check, measures_by_name("validate")] if self.right else [check]
        self.store.put_lines(arguments["--report"], samples)
        return State.FINISHED if self.right else State.FAILED

    def mains(self) -> list[str]:
        return [str(spec.main_class).rpartition(".")[2] for spec in self.engine.submitted]

    def sorted_objects(self) -> list[str]:
        return [key for key, content in self.store.objects.items() if content == b"sorted"]


def measures_by_name(name: str) -> dict[str, Any]:
    return {"kind": "measure", "name": name, "elapsed_ms": 1000, "bytes": 10 * MIB, "rows": 104857}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_data_is_generated_once_and_every_repetition_sorts_and_validates(world: World) -> None:
    run = world.measure(plan=MeasurementPlan(repetitions=2))
    assert run.outcome == "ok"
    assert world.mains() == ["TeraGen", *["Sort", "Validate"] * 2]
    assert [sample["name"] for sample in run.of_kind("measure")] == ["generate", *["sort", "validate"] * 2]
    world.measure()
    assert world.mains()[5:] == ["Sort", "Validate"]


@pytest.mark.parametrize(
    "other",
    [
        replace(SMALL, skewed=True),
        replace(SMALL, object_size_bytes=2 * MIB),
        replace(SMALL, size_bytes=11 * MIB),
        replace(SMALL, reload=True),
    ],
)
def test_other_records_are_generated_and_so_are_those_asked_for_anew(world: World, other: TeraSort) -> None:
    world.measure()
    world.measure(other)
    assert world.mains() == ["TeraGen", "Sort", "Validate"] * 2


def test_records_whose_generation_was_cut_short_are_generated_again(world: World) -> None:
    world.measure()
    world.store.delete(f"{SMALL.data.prefix}/_manifest.json")
    world.measure()
    assert world.mains() == ["TeraGen", "Sort", "Validate"] * 2


def test_sorted_records_are_removed_once_they_are_validated(world: World) -> None:
    world.measure()
    assert world.sorted_objects() == []


def test_a_wrong_check_makes_the_run_wrong_and_hides_its_time(world: World) -> None:
    world.right = False
    run = world.measure()
    assert run.outcome == "wrong"
    assert "validate" not in [sample["name"] for sample in run.of_kind("measure")]
    assert world.sorted_objects() == []


def test_a_validation_that_could_not_be_done_is_a_failed_repetition(world: World) -> None:
    world.validator_leaves_a_report = False
    run = world.measure()
    assert run.outcome == "failed"
    assert "TeraValidate" in run.of_kind("repetition")[0]["error"]
    assert world.sorted_objects() == []


def test_a_failed_sort_is_a_failed_repetition(world: World) -> None:
    world.failing = "Sort"
    run = world.measure()
    assert run.outcome == "failed"
    assert world.mains() == ["TeraGen", "Sort"]


def test_concurrent_sorts_really_run_at_once_and_each_output_is_validated(world: World) -> None:
    world.sorting = threading.Barrier(3)
    run = world.measure(replace(SMALL, concurrent=3))
    assert run.outcome == "ok"
    assert world.mains() == ["TeraGen", *["Sort"] * 3, *["Validate"] * 3]
    validated = [spec.arguments[3] for spec in world.engine.submitted if "Validate" in str(spec.main_class)]
    assert len(set(validated)) == 3
    together = [sample for sample in run.of_kind("measure") if sample["name"] == "3 sorts at once, start to end"]
    assert [sample["bytes"] for sample in together] == [3 * SMALL.data.bytes]
    users = [sample["user"] for sample in run.of_kind("measure") if sample["name"] == "sort"]
    assert sorted(users) == [1, 2, 3]


def test_partitions_take_the_place_of_the_object_size(world: World) -> None:
    world.measure(replace(SMALL, partitions=7))
    (sort,) = [spec.arguments for spec in world.engine.submitted if str(spec.main_class).endswith(".Sort")]
    assert sort[-2:] == ("--partitions", "7")
    assert "--object-size" not in sort


def test_space_is_asked_for_input_shuffle_and_output_of_each_sort() -> None:
    data = SMALL.data.bytes
    assert SMALL.needs_bytes() == 3 * data
    assert replace(SMALL, concurrent=4).needs_bytes() == 9 * data
    assert replace(SMALL, limit=True).needs_bytes() == 5 * data


@pytest.mark.parametrize("size", [0, MIB - 1, MIB + 1])
def test_objects_are_of_whole_mebibytes(size: int) -> None:
    with pytest.raises(InvalidInput, match="The object size cannot be"):
        replace(SMALL, object_size_bytes=size).check_options()


def test_a_local_sort_that_memory_cannot_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sort, "machine", lambda: {"memory_bytes": 1 << 30})
    replace(SMALL, limit=True).check_options()
    with pytest.raises(InvalidInput, match="local sort"):
        TeraSort(size_bytes=1 << 30, limit=True).check_options()


def test_a_recorded_run_is_made_again_from_its_options() -> None:
    suite = replace(SMALL, skewed=True, concurrent=2, partitions=5, limit=True)
    assert restore_suite("terasort", json.loads(json.dumps(suite.options()))) == suite


def test_an_invalid_size_is_reported_with_the_option() -> None:
    result = CliRunner().invoke(app, ["terasort", "--size", "much"])
    assert isinstance(result.exception, InvalidInput)
    assert "--size much" in str(result.exception)
