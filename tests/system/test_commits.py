"""Commits on the embedded lake by real applications: a driver or an executor killed in the middle of one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.base import Lake
from penstock.lake.objects import S3ObjectStore, open_store
from penstock.lake.registry import Lakes
from tests.support.recording_gateway import PassingGateway, first_endpoint
from tests.support.waiting import processes_of, within

SMALL = ["--driver-memory", "512m", "--executors", "1", "--executor-cores", "1", "--executor-memory", "512m"]
DYNAMIC = ["--conf", "spark.sql.sources.partitionOverwriteMode=dynamic"]

WRITES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
first, last, mode, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rows = spark.range(first, last, 1, 1).selectExpr("id", "id % 4 as part")
rows.write.mode(mode).partitionBy("part").parquet(path)
"""


class Stalling(PassingGateway):
    """Passes everything on until the second request of the awaited kind: then nothing, until `resume`."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.stalled = threading.Event()
        self._kind = (b"", b"")
        self._seen = 0
        self._lock = threading.Lock()
        super().__init__(upstream)

    def await_request(self, method: str, parameter: str) -> None:
        self._kind, self._seen = (f"{method} ".encode(), f"{parameter}=".encode()), 0

    def resume(self) -> None:
        self.stalled.clear()

    def heard(self, data: bytes) -> None:
        method, parameter = self._kind
        if not (data.startswith(method) and parameter in data.split(b"\r\n", 1)[0]):
            return
        with self._lock:
            self._seen += 1
            if self._seen == 2:
                self.stalled.set()

    def passes(self) -> bool:
        return not self.stalled.is_set()


@pytest.fixture
def stalling(shared_home: Home) -> Iterator[Stalling]:
    lakes = Lakes(shared_home)
    lake = lakes.get()
    gateway = Stalling(first_endpoint(lake))
    lakes.add(
        replace(lake, name="stalling", kind="external", endpoints=(gateway.endpoint,), credentials="file:stalling"),
        lakes.credentials_of(lake),
    )
    yield gateway
    lakes.remove("stalling")
    gateway.close()


def start(home: Home, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penstock.cli.main", *arguments],
        env={**os.environ, "PENSTOCK_HOME": str(home.root)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(home: Home, *arguments: str) -> str:
    process = start(home, *arguments)
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out
    return out


def files(store: S3ObjectStore, lake: Lake, table: str) -> dict[str, set[str]]:
    """Names of files by partition."""
    found: dict[str, set[str]] = {}
    for listed in store.list(table + "/part="):
        _, partition, name = listed.key.rsplit("/", 2)
        found.setdefault(partition, set()).add(name)
    return found


def test_a_driver_killed_in_its_commit_is_finished_by_the_sweep(
    shared_home: Home, stalling: Stalling, tmp_path: Path
) -> None:
    lake = Lakes(shared_home).get()
    store = open_store(shared_home, lake)
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    table = "commits/killed"
    run(shared_home, "run", *SMALL, str(script), "0", "12", "append", f"{lake.root}/{table}")
    old = files(store, lake, table)
    assert set(old) == {"part=0", "part=1", "part=2", "part=3"}

    # Three of the four partitions: uploads of 100, 101 and 102. The driver completes them.
    stalling.await_request("POST", "uploadId")
    overwrite = ["100", "103", "overwrite", f"{lake.root}/{table}"]
    command = start(
        shared_home, "run", *SMALL, *DYNAMIC, "--lake", "stalling", "--name", "killed", str(script), *overwrite
    )
    assert stalling.stalled.wait(180)
    (application,) = [found for found in Engine(shared_home).list() if found.spec.name == "killed"]
    for process in processes_of(application.id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    stalling.resume()
    command.communicate(timeout=120)
    within(lambda: Engine(shared_home).get(application.id).state.final, 120)

    decided = [entry for entry in store.list(f"{table}/_penstock_commit/") if entry.size]
    assert len(decided) == 1
    assert all(old[partition] <= names for partition, names in files(store, lake, table).items())

    report = json.loads(run(shared_home, "lake", "sweep", table + "/", "--json"))
    assert [(found["kind"], found["files"], found["action"]) for found in report["found"]] == [
        ("commit", 3, "finished")
    ]
    new = files(store, lake, table)
    assert new["part=3"] == old["part=3"]
    for partition in ("part=0", "part=1", "part=2"):
        assert len(new[partition]) == 1
        assert not new[partition] & old[partition]
    assert json.loads(run(shared_home, "lake", "sweep", table + "/", "--json"))["found"] == []


def test_an_executor_killed_while_it_writes_leaves_no_trace_in_the_table(
    shared_home: Home, stalling: Stalling, tmp_path: Path
) -> None:
    lake = Lakes(shared_home).get()
    store = open_store(shared_home, lake)
    script = tmp_path / "writes.py"
    script.write_text(WRITES)
    table = "commits/lost"
    # The second of the four files that the task sends, one for each partition.
    stalling.await_request("PUT", "partNumber")
    command = start(
        shared_home, "run", *SMALL, "--lake", "stalling", "--name", "lost", str(script), "0", "12", "append",
        f"{lake.root}/{table}",
    )  # fmt: skip
    assert stalling.stalled.wait(180)
    (application,) = [found for found in Engine(shared_home).list() if found.spec.name == "lost"]
    killed = [process for process in processes_of(application.id) if b"--executor-id" in command_line(process)]
    for process in killed:
        os.kill(process, signal.SIGKILL)
    stalling.resume()
    out, _ = command.communicate(timeout=240)

    assert killed
    assert command.returncode == 0, out
    assert all(len(names) == 1 for names in files(store, lake, table).values())
    query = f"SELECT count(*), sum(id) FROM parquet.`{lake.root}/{table}`"  # noqa: S608 - an address of ours
    counted = run(shared_home, "sql", query, "--format", "csv")
    assert counted.splitlines()[-1] == "12,66"
    assert not [entry.key for entry in store.list(table + "/") if "__magic" in entry.key]
    swept = json.loads(run(shared_home, "lake", "sweep", table + "/", "--json", "--older-than", "0s"))
    assert swept["found"] == []


def command_line(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
