"""Shuffle and spill in memory, with a memory directory that is really full."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters.backend import Launch, Phase
from penstock.clusters.local import LocalBackend
from penstock.home import Home, read_json
from penstock.model import ApplicationSpec
from tests.support.cluster_backend_contract import SIZE, until

SHUFFLES_MORE_THAN_FITS = """
from pyspark.sql import SparkSession, functions as F
spark = SparkSession.builder.getOrCreate()
rows = spark.range(0, 600000, 1, 1).withColumn("text", F.sha2(F.col("id").cast("string"), 256))
counted = rows.repartition(2, "text").agg(F.count("text"), F.sum("id")).collect()[0]
assert tuple(counted) == (600000, 600000 * 599999 // 2), counted
"""


@pytest.fixture
def small_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    memory = tmp_path / "memory"
    memory.mkdir()
    monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", str(memory))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(memory)], check=False)
    if mounted.returncode != 0:
        pytest.skip("needs a privilege: to mount a file system")
    yield memory
    subprocess.run(["umount", str(memory)], check=True)


@pytest.mark.root
def test_a_file_that_does_not_fit_into_memory_is_written_again_on_disk(
    tmp_path: Path, small_memory: Path, bare_home: Home
) -> None:
    """Two attempts suffice: the first finds the memory full, after which no task tries it."""
    script = tmp_path / "application.py"
    script.write_text(SHUFFLES_MORE_THAN_FITS, encoding="utf-8")
    spec = ApplicationSpec(str(script), replace(SIZE, scratch_memory_bytes=1 << 30), "scratch")
    launch = Launch(f"app-test-{uuid.uuid4().hex[:8]}", spec, {"spark.task.maxFailures": "2"})
    backend = LocalBackend(bare_home)
    handle = backend.handle(launch.application_id)
    backend.launch(launch)
    assert until(backend, handle, Phase.ENDED).exit_code == 0
    summary = read_json(backend.collect(handle) / "summary.json")
    assert summary["tasks_failed"] == 1
    assert summary["scratch_fell_over"] == "a task failed by “No space left on device”"
    assert summary["scratch_disk_bytes"] > 16 << 20
    backend.release(handle)
    assert list(small_memory.iterdir()) == []
