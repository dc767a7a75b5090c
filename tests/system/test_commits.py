"""Commits on the embedded lake by real applications: a driver or an executor killed in the middle of one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.model import Lake, ObjectStore
from penstock.lake.registry import Lakes
from penstock.lake.s3 import open_store
from tests.support.command import SMALL, Command, named
from tests.support.recording_gateway import RecordingGateway, first_endpoint
from tests.support.waiting import processes_of, within

DYNAMIC = ["--conf", "spark.sql.sources.partitionOverwriteMode=dynamic"]

WRITES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
first, last, mode, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
rows = spark.range(first, last, 1, 1).selectExpr("id", "id % 4 as part")
rows.write.mode(mode).partitionBy("part").parquet(path)
"""

SAVES = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
first, last, mode, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
spark.sparkContext.parallelize(range(first, last), 1).saveAsTextFile(path)
"""

# A table of the catalog is overwritten: by a query that fails, by one like it, and by one with other columns.
REPLACES = """
import json
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
external = sys.argv[1]
spark.sql("CREATE DATABASE replaced")

def rows(first, last):
    return spark.range(first, last, 1, 2).selectExpr("id", "id % 2 AS part")

def save(rows, table, *by):
    write = rows.write.mode("overwrite").partitionBy(*by)
    (write.option("path", external) if table == "external" else write).saveAsTable("replaced." + table)

def ids(table):
    return [row.id for row in spark.table("replaced." + table).orderBy("id").collect()]

def partitions(table):
    return [row.partition for row in spark.sql("SHOW PARTITIONS replaced." + table).collect()]

def created(table):
    described = spark.sql("DESCRIBE TABLE EXTENDED replaced." + table).collect()
    return next(row.data_type for row in described if row.col_name == "Created Time")

outcome = {}
for table in ("managed", "external"):
    seen = outcome[table] = {}
    save(rows(0, 4), table, "part")
    try:
        save(rows(10, 14).selectExpr("id", "CAST(raise_error('this row fails') AS BIGINT) AS part"), table, "part")
    except Exception as error:
        seen["failed"] = "this row fails" in str(error)
    seen["kept"] = ids(table)
    before = created(table)
    save(rows(20, 23), table, "part")
    seen["alike"] = ids(table), partitions(table), created(table) == before
    save(rows(30, 33).selectExpr("id", "CAST(id AS STRING) AS day", "1.5D AS price"), table, "day")
    seen["other"] = ids(table), partitions(table), spark.table("replaced." + table).columns
    seen["filtered"] = spark.sql(f"SELECT price FROM replaced.{table} WHERE day = '31'").first()[0]
print("RESULT", json.dumps(outcome))
"""


class Stalling(RecordingGateway):
    """A gateway that passes everything on until the awaited request, then nothing until `resume`."""

    def __init__(self, upstream: tuple[str, int]) -> None:
        self.stalled = threading.Event()
        self._kind = (b"", b"")
        self._left = 0
        self._lock = threading.Lock()
        super().__init__(upstream)

    def await_request(self, number: int, method: str, parameter: str) -> None:
        self._kind, self._left = (f"{method} ".encode(), f"{parameter}=".encode()), number

    def resume(self) -> None:
        self.stalled.clear()

    def received(self, data: bytes) -> None:
        method, parameter = self._kind
        if not (data.startswith(method) and parameter in data.split(b"\r\n", 1)[0]):
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                self.stalled.set()

    def passes(self) -> bool:
        return not self.stalled.is_set()


@pytest.fixture
def lake(shared_home: Home) -> Lake:
    return Lakes(shared_home).get()


@pytest.fixture
def store(shared_home: Home, lake: Lake) -> ObjectStore:
    return open_store(shared_home, lake)


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The application that writes a query's rows, or, as `rdd`, that writes an RDD as text."""
    kind = getattr(request, "param", "query")
    path = tmp_path / f"{kind}.py"
    path.write_text({"query": WRITES, "rdd": SAVES}[kind])
    return path


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


def files(store: ObjectStore, table: str) -> dict[str, set[str]]:
    """Return the names of files by partition."""
    found: dict[str, set[str]] = {}
    for listed in store.list(table + "/part="):
        _, partition, name = listed.key.rsplit("/", 2)
        found.setdefault(partition, set()).add(name)
    return found


def test_a_driver_killed_in_its_commit_is_finished_by_the_sweep(
    shared_home: Home, lake: Lake, store: ObjectStore, stalling: Stalling, script: Path
) -> None:
    table = "commits/killed"
    # A commit that replaces partitions lists their files, and reads none.
    old = {f"part={part}": {f"part-00000-{uuid.uuid4()}-c000.snappy.parquet"} for part in range(4)}
    for partition, names in old.items():
        for name in names:
            store.put(f"{table}/{partition}/{name}", b"of an earlier job")

    # Three of the four partitions: uploads of 100, 101 and 102. The driver completes them.
    stalling.await_request(2, "POST", "uploadId")
    overwrite = ["100", "103", "overwrite", f"{lake.root}/{table}"]
    command = Command(shared_home).start(
        "run", *SMALL, *DYNAMIC, "--lake", "stalling", "--name", "killed", str(script), *overwrite
    )
    assert stalling.stalled.wait(180)
    (application,) = named(Engine(shared_home), "killed")
    for process in processes_of(application.id):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    stalling.resume()
    command.communicate(timeout=120)
    within(lambda: Engine(shared_home).get(application.id).state.final, 120)

    decided = [entry for entry in store.list(f"{table}/_penstock_commit/") if entry.size]
    assert len(decided) == 1
    assert all(old[partition] <= names for partition, names in files(store, table).items())

    assert swept(shared_home, table) == [("commit", 3, "finished")]
    new = files(store, table)
    assert new["part=3"] == old["part=3"]
    for partition in ("part=0", "part=1", "part=2"):
        assert len(new[partition]) == 1
        assert not new[partition] & old[partition]
    # The record of the landed commit is kept a day for its driver, which will not ask for it here.
    assert swept(shared_home, table) == [("journal", 1, "kept")]


def test_an_executor_killed_while_it_writes_leaves_no_trace_in_the_table(
    shared_home: Home, lake: Lake, store: ObjectStore, stalling: Stalling, script: Path
) -> None:
    table = "commits/lost"
    # The second of the task's four files, one for each partition.
    stalling.await_request(2, "PUT", "partNumber")
    code, err = run_and_lose_executors(
        shared_home, stalling, "lost", [str(script), "0", "12", "append", f"{lake.root}/{table}"]
    )

    assert code == 0, err
    assert all(len(names) == 1 for names in files(store, table).values())
    assert sorted(ids(store, table, script.parent)) == list(range(12))
    assert not [entry.key for entry in store.list(table + "/") if "__magic" in entry.key]
    assert swept(shared_home, table, "--older-than", "0s") == []


@pytest.mark.parametrize("script", ["rdd"], indirect=True)
def test_an_executor_killed_while_it_writes_an_rdd_leaves_no_trace_in_the_output(
    shared_home: Home, lake: Lake, store: ObjectStore, stalling: Stalling, script: Path
) -> None:
    output = "commits/lost-rdd"
    stalling.await_request(1, "PUT", "partNumber")
    code, err = run_and_lose_executors(
        shared_home, stalling, "lost-rdd", [str(script), "0", "12", "", f"{lake.root}/{output}"]
    )

    assert code == 0, err
    # Both attempts had this name; the upload of the first is gone.
    assert [entry.key for entry in store.list(output + "/part-")] == [f"{output}/part-00000"]
    assert store.get(f"{output}/part-00000").split() == [str(row).encode() for row in range(12)]
    assert not [entry.key for entry in store.list(output + "/") if "__magic" in entry.key]
    assert swept(shared_home, output, "--older-than", "0s") == []


@pytest.mark.parametrize("script", ["query", "rdd"], indirect=True)
def test_a_job_whose_executor_is_lost_with_a_file_it_owes_fails_and_leaves_nothing(
    shared_home: Home, lake: Lake, store: ObjectStore, stalling: Stalling, script: Path
) -> None:
    table, name = f"commits/owed-{script.stem}", f"owed-{script.stem}"
    behind = ["--conf", "spark.hadoop.fs.s3a.penstock.write.behind.size=64m"]
    # One row is one file, whose only part is stalled. Its task ends all the same.
    stalling.await_request(1, "PUT", "partNumber")
    code, err = run_and_lose_executors(
        shared_home,
        stalling,
        name,
        [*behind, str(script), "0", "1", "append", f"{lake.root}/{table}"],
        once_logged="executors still upload 1 of 1 files",
    )

    assert code != 0
    assert "was lost before it had uploaded" in err, err
    assert "write.behind.size=0" in err, err
    assert not list(store.list(table + "/part"))
    assert swept(shared_home, table, "--older-than", "0s") == []


def run_and_lose_executors(
    home: Home, stalling: Stalling, name: str, arguments: list[str], *, once_logged: str = ""
) -> tuple[int, str]:
    """Run an application until the gateway stalls, kill its executors, resume; return its exit code and errors.

    Where `once_logged` is given, the executors live until the driver's log has it.
    """
    command = Command(home).start("run", *SMALL, "--lake", "stalling", "--name", name, *arguments)
    assert stalling.stalled.wait(180)
    (application,) = named(Engine(home), name)
    if once_logged:
        within(lambda: once_logged in driver_log(home, application.id), 120)
    assert kill_executors(application.id)
    stalling.resume()
    _, err = command.communicate(timeout=240)
    return command.returncode, err


def kill_executors(application: str) -> list[int]:
    """Kill the application's executors, and return their processes."""
    killed = [process for process in processes_of(application) if b"--executor-id" in command_line(process)]
    for process in killed:
        os.kill(process, signal.SIGKILL)
    return killed


def swept(home: Home, table: str, *options: str) -> list[tuple[str, int, str]]:
    """Sweep the table, and return kind, number of files and action of each leftover."""
    report = json.loads(Command(home).ok("lake", "sweep", table + "/", "--json", *options))
    return [(found["kind"], found["files"], found["action"]) for found in report["found"]]


def driver_log(home: Home, application: str) -> str:
    return Command(home).ok("logs", application, "--stream", "log")


def ids(store: ObjectStore, table: str, directory: Path) -> list[int]:
    """Return the column `id` of all rows, read by another engine than the one that wrote them."""
    for number, listed in enumerate(store.list(table + "/part=")):
        (directory / f"{number}.parquet").write_bytes(store.get(listed.key))
    with duckdb.connect() as connection:
        found = connection.execute("SELECT id FROM read_parquet(?)", [str(directory / "*.parquet")]).fetchall()
    return [row[0] for row in found]


def command_line(process: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""


def test_a_table_of_the_catalog_is_kept_until_the_query_that_replaces_it_has_been_committed(
    shared_home: Home, tmp_path: Path
) -> None:
    script = tmp_path / "replaces.py"
    script.write_text(REPLACES)
    lake = Lakes(shared_home).get()
    printed = Command(shared_home).ok("run", *SMALL, str(script), f"{lake.root}/commits/replaced")
    (outcome,) = [json.loads(line.split(" ", 1)[1]) for line in printed.splitlines() if line.startswith("RESULT ")]
    for table in ("managed", "external"):
        assert outcome[table] == {
            "failed": True,
            "kept": [0, 1, 2, 3],
            # With the same columns and partitions the catalog's entry is reused.
            "alike": [[20, 21, 22], ["part=0", "part=1"], True],
            "other": [[30, 31, 32], ["day=30", "day=31", "day=32"], ["id", "price", "day"]],
            "filtered": 1.5,
        }, table
    entries = {
        name: json.loads(Command(shared_home).ok("tables", "show", f"replaced.{name}", "--json"))
        for name in ("managed", "external")
    }
    assert {name: (entry["kind"], entry["partitions"]) for name, entry in entries.items()} == {
        "managed": ("managed", 3),
        "external": ("external", 3),
    }
    store = open_store(shared_home, lake)
    for entry in entries.values():
        keys = [found.key for found in store.list(entry["location"].removeprefix(lake.root + "/") + "/")]
        data = [key for key in keys if key.endswith(".parquet")]
        assert len(data) == 3 and all("/day=" in key for key in data)
