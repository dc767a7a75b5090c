"""TeraSort end to end: real clusters, a real lake, and the commit that makes the output appear."""

from __future__ import annotations

from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.progress import ProgressListener
from penstock.lab.workloads.sort import TeraSort
from penstock.model import ClusterSize, ProcessSize

MIB = 1 << 20
SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), executors=1)


class Quiet(ProgressListener):
    def step(self, title: str) -> None: ...

    def now(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def elapsed(self) -> float:
        return 0.0


def test_skewed_records_are_generated_sorted_and_found_right_by_every_check(shared_home: Home) -> None:
    suite = TeraSort(size_bytes=3 * MIB, object_size_bytes=MIB, partitions=5, skewed=True, limit=True)
    bench = Environment.open(shared_home)
    (run,) = runner.measure(lambda _: bench, [Arm("Penstock", suite, SIZE)], MeasurementPlan(), Quiet())
    assert run.outcome == "ok", run.of_kind("repetition")
    measured = {sample["name"]: sample for sample in run.of_kind("measure")}
    assert list(measured) == ["generate", "sort", "validate", "sort, single process"]
    assert {sample["rows"] for sample in measured.values()} == {suite.data.records}
    assert (measured["sort"]["objects"], measured["sort"]["partitions"]) == (4, 5)
    checks = {str(sample["name"]): sample["right"] for sample in run.of_kind("check")}
    assert checks == {
        f"{where}{name}": True for where in ("", "single process: ") for name in ("order", "count", "checksum")
    }
    left = {found.key.rpartition("/")[2] for found in bench.store.list(f"penstock/lab/{run.description.id}/")}
    assert not [name for name in left if name.startswith("part-")]
