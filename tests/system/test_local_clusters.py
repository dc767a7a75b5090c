"""The local backend: the contract, and processes killed at the worst moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.clusters.backend import Launch, Phase
from penstock.clusters.local import LocalBackend
from penstock.home import Home, read_json
from tests.support.cluster_backend_contract import ClusterBackendContract, until
from tests.support.waiting import processes_of, within

SHUFFLES_AND_WAITS = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
pairs = spark.sparkContext.parallelize(range(10000), 2).map(lambda n: (n % 100, n)).groupByKey(2)
print("grouped", pairs.count(), flush=True)
time.sleep(600)
"""


class TestLocalBackend(ClusterBackendContract):
    @pytest.fixture
    def backend(self, bare_home: Home) -> LocalBackend:
        return LocalBackend(bare_home)

    @pytest.fixture
    def memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        root = tmp_path / "memory"
        root.mkdir()
        monkeypatch.setenv("PENSTOCK_MEMORY_DIRECTORY", str(root))
        return root

    def test_killed_processes_are_distinguished_and_their_memory_is_freed(
        self, backend: LocalBackend, launch: Callable[..., Launch], memory: Path, bare_home: Home
    ) -> None:
        """A lost executor is replaced; without its process supervisor a cluster is lost, with everything in it."""
        wanted = launch(SHUFFLES_AND_WAITS)
        wanted = replace(
            wanted, spec=replace(wanted.spec, size=replace(wanted.spec.size, scratch_memory_bytes=1 << 30))
        )
        handle = backend.handle(wanted.application_id)
        directory = bare_home.application(wanted.application_id)
        backend.launch(wanted)
        until(backend, handle, Phase.RUNNING)
        assert (directory / "private" / "keys").read_text(encoding="utf-8") == "open sesame"
        assert directory.stat().st_mode & 0o077 == 0
        within(lambda: b"grouped 100" in backend.read(handle, "driver.out", 0))
        assert "1" in in_memory(memory)

        os.kill(status(directory)["executors"]["1"]["pid"], signal.SIGKILL)
        within(lambda: "2" in status(directory)["executors"])
        assert "1" not in in_memory(memory)
        within(lambda: backend.observe(handle).lost_executors == 1)
        assert backend.observe(handle).phase is Phase.RUNNING

        within(lambda: (directory / "scratch-memory").readlink().joinpath("2").is_dir())
        os.kill(status(directory)["keeper"]["pid"], signal.SIGKILL)
        within(lambda: backend.observe(handle).phase is Phase.LOST)
        backend.stop(handle, grace_seconds=5)
        assert processes_of(wanted.application_id) == []
        assert list(memory.iterdir()) == []
        assert b"grouped 100" in (backend.collect(handle) / "driver.out").read_bytes()
        backend.release(handle)
        assert not directory.exists()


def in_memory(root: Path) -> list[str]:
    """Return the owning executor's name for each file in memory."""
    return [path.relative_to(root).parts[3] for path in root.rglob("*") if path.is_file()]


def status(directory: Path) -> dict:  # type: ignore[type-arg]
    return read_json(directory / "cluster" / "status.json")  # type: ignore[no-any-return]
