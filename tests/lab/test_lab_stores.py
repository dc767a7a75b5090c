"""Two lakes of one home are two stores: measured in turns, each with its own processes' usage, on one page."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import pytest
from rich.console import Console

from penstock.home import Home
from penstock.lab import runner
from penstock.lab.analysis import stores
from penstock.lab.analysis.resources import daemons
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, Experiment, MeasurementPlan
from penstock.lab.progress import TerminalProgress
from penstock.lab.report import report
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.objects import Objects
from penstock.lab.workloads.throughput import Dfsio
from penstock.lake.embedded import EmbeddedLake
from penstock.lake.registry import Lakes
from penstock.lake.s3 import S3ObjectStore
from penstock.model import ClusterSize, ProcessSize

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 768 << 20), 1)


@pytest.fixture
def second(shared_home: Home) -> Iterator[str]:
    """Another bucket of the embedded store, as a lake that Penstock did not start."""
    lakes, embedded = Lakes(shared_home), EmbeddedLake(shared_home).ensure()
    credentials = lakes.credentials_of(embedded)
    lake = replace(embedded, name="second", bucket="second", kind="external")
    S3ObjectStore(lake, credentials).create_bucket()
    lakes.add(lake, credentials)
    yield lake.name
    lakes.remove(lake.name)


def test_workloads_on_two_lakes_take_turns_and_make_one_page(shared_home: Home, second: str) -> None:
    def on_both(suite: Suite) -> Experiment:
        return Experiment([Arm(lake, suite, SIZE, lake) for lake in ("embedded", second)], MeasurementPlan())

    experiments = [
        on_both(Dfsio(clients=(2,), file_size_bytes=1 << 20, files=2)),
        on_both(Objects(mixes=("put",), size="64k", seconds=2, workers=(2,), objects=10)),
    ]
    measured = runner.measure_all(
        functools.partial(Environment.open, shared_home), experiments, TerminalProgress(Console())
    )
    runs = [run for ones in measured for run in ones]
    assert [run.outcome for run in runs] == ["ok"] * 4, [run.of_kind("repetition") for run in runs]

    for run, store in zip(runs, ("SeaweedFS", "external") * 2, strict=True):
        assert run.description.lake["store"]["software"] == store
    used = daemons(runs[0])["weed"]
    assert used.core_seconds > 0
    assert used.peak_memory_bytes
    assert daemons(runs[1]) == {}, "of somebody else's store no process is known"

    table = stores.store_matrix(runs)
    assert [row.series for row in table.rows] == ["write", "read", ""]
    assert all(len(row.cells) == 2 for row in table.rows)
    assert "Over 3 workloads, against embedded: second takes" in report.as_html(runs)
