"""Reads on a real store: every client returns the right bytes, and a warm cache sends no requests."""

from __future__ import annotations

from penstock.home import Home
from penstock.lab import runner
from penstock.lab.environment import Environment
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.progress import ProgressListener
from penstock.lab.records import Run
from penstock.lab.workloads.overhead import Reads
from penstock.model import ClusterSize, ProcessSize

MIB = 1 << 20
PAGES = {
    "spark.hadoop.fs.s3a.input.stream.type": "custom",
    "spark.hadoop.fs.s3a.input.stream.custom.factory": "io.penstock.fs.read.PageStreamFactory",
}
SIZE = ClusterSize(ProcessSize(1, 512 * MIB), ProcessSize(2, 512 * MIB), executors=1)


class Quiet(ProgressListener):
    def step(self, title: str) -> None: ...

    def now(self, text: str) -> None: ...

    def note(self, text: str) -> None: ...

    def elapsed(self) -> float:
        return 0.0


def reads(cache: str = "warm", source: str = "lake") -> Reads:
    return Reads(
        size_bytes=16 * MIB, small_objects=2, small_size_bytes=5000, threads=(2,), passes=1, cache=cache, source=source
    )


def requests(run: Run) -> dict[str, int]:
    return {str(s["name"]): sum(s["s3_requests"].values()) for s in run.of_kind("measure")}


def test_every_client_reads_the_right_bytes_and_a_warm_cache_asks_the_store_for_none(shared_home: Home) -> None:
    bench = Environment.open(shared_home)
    arms = [
        Arm("warm", reads(), SIZE, settings=PAGES),
        Arm("cold", reads(cache="cold"), SIZE, settings=PAGES),
        Arm("analytics", reads(), SIZE, profile="default+s3a-analytics"),
        Arm("local", reads(source="local"), SIZE),
    ]
    warm, cold, analytics, local = runs = runner.measure(lambda _: bench, arms, MeasurementPlan(), Quiet())
    assert [run.outcome for run in runs] == ["ok"] * 4, [run.of_kind("repetition") for run in runs]
    assert len({tuple(requests(run)) for run in runs}) == 1
    assert all(sent > 0 for run in (cold, analytics) for sent in requests(run).values())
    assert set(requests(warm).values()) == set(requests(local).values()) == {0}
