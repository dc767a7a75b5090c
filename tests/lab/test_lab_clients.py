"""DFSIO and ingest on a real cluster and lake: measured, verified, and nothing is left even after kills."""

from __future__ import annotations

import functools

from penstock.home import Home
from penstock.lab import records, runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.progress import TerminalProgress
from penstock.lab.records import Run
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.throughput import Dfsio, Gateways, Ingest
from penstock.model import ClusterSize, ProcessSize

MIB = 1 << 20
SIZE = ClusterSize(ProcessSize(1, 512 * MIB), ProcessSize(1, 768 * MIB), 1)


def measured(home: Home, suite: Suite) -> Run:
    from rich.console import Console

    open_bench = functools.partial(Environment.open, home)
    (run,) = runner.measure(open_bench, [Arm("Penstock", suite, SIZE)], MeasurementPlan(), TerminalProgress(Console()))
    assert [sample.get("error") for sample in run.of_kind("repetition")] == [None]
    assert [sample["note"] for sample in run.of_kind("check") if not sample["right"]] == []
    assert run.outcome == "ok"
    left = [found.key for found in Environment.open(home).store.list(f"{records.LAKE_PREFIX}/{run.description.id}/")]
    assert not [key for key in left if "/file-" in key or "/writer-" in key]
    return run


def test_more_clients_than_cores_write_and_read_the_same_files(shared_home: Home) -> None:
    run = measured(shared_home, Dfsio(clients=(1, 3), file_size_bytes=MIB, files=3))
    found = {sample["name"]: sample for sample in run.of_kind("measure")}
    assert list(found) == ["write, 1 client", "read, 1 client", "write, 3 clients", "read, 3 clients"]
    assert {sample["bytes"] for sample in found.values()} == {3 * MIB}
    points = [sample for sample in run.of_kind("point") if sample["series"] == "write, 3 clients"]
    assert sum(sample["bytes"] for sample in points) == 3 * MIB


def test_no_task_fails_when_one_of_two_gateways_is_killed_under_load(shared_home: Home) -> None:
    run = measured(
        shared_home, Gateways(gateways=2, kill=True, rate=16 * MIB, clients=2, file_size_bytes=4 * MIB, files=6)
    )
    checks = {sample["name"]: sample["right"] for sample in run.of_kind("check")}
    assert checks["one gateway was killed"]
    assert checks["no task failed"]
    (application,) = run.of_kind("application")
    lake = application["summary"]["lake"]
    assert lake["gateways_ejected"] >= 1
    assert lake["gateway_failovers"] >= 1


def test_every_object_of_an_ingest_is_read_back(shared_home: Home) -> None:
    run = measured(shared_home, Ingest(seconds=2, writers=3, object_size_bytes=MIB, bytes_per_second=20 * MIB))
    found = {sample["name"]: sample for sample in run.of_kind("measure")}
    assert found["ingest"]["operations"] == found["read back"]["operations"] > 0
    assert found["ingest"]["bytes"] == found["read back"]["bytes"] == found["ingest"]["operations"] * MIB
    (latency,) = run.of_kind("latency")
    assert sum(count for _, count in latency["histogram"]) == found["ingest"]["operations"]
