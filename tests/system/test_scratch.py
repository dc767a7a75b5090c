"""Shuffle and spill in memory: a memory directory that is really full, and processes killed with files in it."""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters.base import Launch, Phase
from penstock.clusters.local import LocalBackend
from penstock.engine.application import ApplicationSpec
from penstock.home import Home, read_json
from tests.support.cluster_backend_contract import SIZE, until
from tests.support.waiting import within

SHUFFLES_MORE_THAN_FITS = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 600000, 1, 1).withColumn("text", F.sha2(F.col("id").cast("string"), 256))
counted = rows.repartition(2, "text").agg(F.count("text"), F.sum("id")).collect()[0]
assert tuple(counted) == (600000, 600000 * 599999 // 2), counted
"""
SHUFFLES_AND_WAITS = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
pairs = spark.sparkContext.parallelize(range(10000), 2).map(lambda n: (n % 100, n)).groupByKey(2)
print("grouped", pairs.count(), flush=True)
time.sleep(600)
"""


class Cluster:
    """One application of the local backend, whose directory in memory is below `root`."""

    def __init__(self, tmp_path: Path, root: Path, source: str, **settings: str) -> None:
        home = Home(tmp_path / "home")
        script = tmp_path / "application.py"
        script.write_text(source, encoding="utf-8")
        spec = ApplicationSpec(str(script), replace(SIZE, scratch_memory_bytes=1 << 30), "scratch")
        launch = Launch(f"app-test-{uuid.uuid4().hex[:8]}", spec, settings)
        self.directory = home.application(launch.application_id)
        self.backend = LocalBackend(home)
        self.handle = self.backend.handle(launch.application_id)
        self.root = root
        self.backend.launch(launch)

    @property
    def files(self) -> list[str]:
        """Everything in memory that is no directory, by the name of the executor whose it is."""
        return [path.relative_to(self.root).parts[3] for path in self.root.rglob("*") if path.is_file()]

    @property
    def status(self) -> dict:  # type: ignore[type-arg]
        return read_json(self.directory / "cluster" / "status.json")  # type: ignore[no-any-return]

    def printed(self) -> str:
        return self.backend.read(self.handle, "driver.out", 0).decode()


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "memory"
    root.mkdir()
    monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", str(root))
    return root


@pytest.fixture
def small_memory(memory: Path) -> Iterator[Path]:
    if os.getuid() != 0:
        pytest.skip("only root may mount a file system")
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(memory)], check=False)
    if mounted.returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield memory
    subprocess.run(["umount", str(memory)], check=True)


def test_a_file_that_does_not_fit_into_memory_is_written_again_on_disk(tmp_path: Path, small_memory: Path) -> None:
    """Two attempts suffice: the first finds out that memory is full, and from then on nobody tries it."""
    cluster = Cluster(tmp_path, small_memory, SHUFFLES_MORE_THAN_FITS, **{"spark.task.maxFailures": "2"})
    assert until(cluster.backend, cluster.handle, Phase.ENDED).exit_code == 0
    summary = read_json(cluster.backend.collect(cluster.handle) / "summary.json")
    assert summary["tasks_failed"] == 1
    assert summary["scratch_fell_over"] == "a task failed by “No space left on device”"
    assert summary["scratch_disk_bytes"] > 16 << 20
    cluster.backend.release(cluster.handle)
    assert list(small_memory.iterdir()) == []


def test_what_killed_processes_had_in_memory_is_given_back(tmp_path: Path, memory: Path) -> None:
    """An executor's when it is killed, everything when the keeper is killed and the cluster stopped."""
    cluster = Cluster(tmp_path, memory, SHUFFLES_AND_WAITS)
    within(lambda: "grouped 100" in cluster.printed())
    assert "1" in cluster.files
    os.kill(cluster.status["executors"]["1"]["pid"], signal.SIGKILL)
    within(lambda: "2" in cluster.status["executors"])
    assert "1" not in cluster.files

    within(lambda: (cluster.directory / "scratch-memory").readlink().joinpath("2").is_dir())
    os.kill(cluster.status["keeper"]["pid"], signal.SIGKILL)
    within(lambda: cluster.backend.observe(cluster.handle).phase is Phase.LOST)
    cluster.backend.stop(cluster.handle, grace_seconds=5)
    assert list(memory.iterdir()) == []
    cluster.backend.release(cluster.handle)
