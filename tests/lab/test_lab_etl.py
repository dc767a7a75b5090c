"""ETL on a real cluster and store, which the unit tests fake; it stands for all workloads over generated data."""

from __future__ import annotations

from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.workloads.pipelines import Etl
from penstock.model import ClusterSize, ProcessSize
from tests.unit.lab.lab_fakes import Silent

_MIB = 1 << 20
SMALL = ClusterSize(ProcessSize(1, 512 * _MIB), ProcessSize(1, 512 * _MIB), 1)


def test_text_becomes_tables_bad_lines_are_kept_and_only_the_input_stays_in_the_lake(shared_home: Home) -> None:
    suite = Etl(rows=2000, bad_share=0.01, object_size_bytes=_MIB)
    (run,) = runner.measure(
        lambda name: Environment.open(shared_home, name), [Arm("Penstock", suite, SMALL)], MeasurementPlan(), Silent()
    )
    assert run.outcome == "ok", run.samples
    assert [sample["name"] for sample in run.of_kind("measure")] == ["generate", "parquet", "orc", "bad records"]
    assert any("20 kept, each as it was" in check["note"] for check in run.of_kind("check"))
    store = Environment.open(shared_home).store
    assert [found.key.rpartition("/")[2] for found in store.list(f"{suite.data.prefix}/_")] == ["_manifest.json"]
    assert not [found.key for found in store.list(f"penstock/lab/{run.description.id}/") if "/tables/" in found.key]
