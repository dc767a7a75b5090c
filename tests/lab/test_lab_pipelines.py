"""Pipelines on a real cluster and store, which the unit tests fake.

ETL stands for all workloads over generated data. MERGE changes rows of Iceberg tables.
"""

from __future__ import annotations

import pytest

from penstock.catalog.database import Database
from penstock.catalog.metastore import Metastore
from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.workloads.pipelines import Etl, Merge
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


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_each_row_is_right_after_changes_were_merged_and_neither_table_nor_file_stays(
    shared_home: Home, mode: str
) -> None:
    (run,) = runner.measure(
        lambda name: Environment.open(shared_home, name),
        [Arm("Penstock", Merge(rows=20_000, mode=mode), SMALL)],
        MeasurementPlan(),
        Silent(),
    )
    assert run.outcome == "ok", run.samples
    assert [check["name"] for check in run.of_kind("check")] == [
        f"rows after {step}" for step in ("load", "small", "wide", "late")
    ]
    measured = {sample["name"]: sample for sample in run.of_kind("measure")}
    assert list(measured) == ["load", "small", "wide", "late", "read"]
    # Files of deletes instead of whole files again.
    written = {name: sample["written_bytes"] for name, sample in measured.items() if name != "read"}
    assert (written["wide"] < written["load"] / 2) == (mode == "merge-on-read")
    store = Environment.open(shared_home).store
    assert not [found.key for found in store.list(f"penstock/lab/{run.description.id}/") if "/orders/" in found.key]
    assert not [table for table in Metastore(Database(shared_home)).tables() if table.database.startswith("lab_")]
