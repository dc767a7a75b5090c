"""Tasks run where their pages are.

Executors use three addresses of this machine and the names of three nodes, like three Kubernetes pods.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from penstock.clusters import spark_settings
from penstock.clusters.backend import Launch
from penstock.engine.installation import Installation
from penstock.formats import as_properties
from penstock.home import Home
from penstock.lake import settings as lake_settings
from penstock.lake.credentials import resolve
from penstock.lake.s3 import open_store
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize
from penstock.processes import wait_until

# All of 127.0.0.0/8 is this machine.
NODES = {"127.0.0.2": "worker-a", "127.0.0.3": "worker-b", "127.0.0.4": "worker-c"}
FILES = 40

# Spark may list a table before its executors exist; the application waits for them first.
READS_TWICE = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 4:
    time.sleep(0.05)
for _ in range(2):
    assert spark.read.schema("id long").json(sys.argv[1]).count() == int(sys.argv[2])
spark.stop()
"""


@pytest.fixture
def table(shared_home: Home) -> str:
    lake = Installation(shared_home).lake_up()
    store = open_store(shared_home, lake)
    for number in range(FILES):
        store.put(f"test-locality/part-{number:03}.json", b'{"id": %d}\n' % number)
    return f"{lake.root}/test-locality"


def test_tasks_run_on_the_nodes_that_their_files_prefer(shared_home: Home, table: str, tmp_path: Path) -> None:
    reads = [task for task in _tasks(_run(shared_home, table, tmp_path)) if _bytes_read(task)]
    localities = Counter(task["Task Info"]["Locality"] for task in reads)
    local = localities["NODE_LOCAL"] + localities["PROCESS_LOCAL"]
    print(f"{local} of {len(reads)} tasks ran where their file's pages are wanted: {dict(localities)}")
    assert len(reads) == 2 * FILES
    # Chance would give two of three nodes; the rest are tasks that Spark moves rather than let a core wait.
    assert local >= 0.9 * len(reads)
    assert {task["Task Info"]["Host"] for task in reads} == set(NODES.values())


def _bytes_read(task: dict[str, Any]) -> int:
    return int(task["Task Metrics"]["Input Metrics"]["Bytes Read"])


def _run(home: Home, table: str, directory: Path) -> Path:
    lake = Installation(home).lake_up()
    for part in ("cluster", "private", "scratch", "artefacts/events"):
        (directory / part).mkdir(parents=True)
    script = directory / "application.py"
    script.write_text(READS_TWICE)
    size = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), len(NODES))
    launch = Launch(
        application_id="app-test-locality",
        spec=ApplicationSpec(application=str(script), size=size, name="locality", arguments=(table, str(FILES))),
        settings={
            **lake_settings.spark_settings(lake),
            "spark.hadoop.fs.s3a.impl": "io.penstock.fs.PenstockFileSystem",
            "spark.eventLog.compress": "false",
            # One task reads one file.
            "spark.sql.files.openCostInBytes": "128m",
            "spark.storage.replication.topologyMapper": "org.apache.spark.penstock.cluster.NodeTopology",
        },
        environment=lake_settings.ENVIRONMENT,
    )
    credentials = resolve(home, lake.credentials)
    (directory / "private" / lake_settings.CREDENTIALS_FILE).write_text(
        lake_settings.private_credentials_file(credentials)
    )
    settings = spark_settings.settings(directory, launch)
    (directory / "private" / "python").write_text(spark_settings.python_wrapper(directory, launch.settings))
    (directory / "private" / "python").chmod(0o700)
    (directory / "private" / "spark.conf").write_text(as_properties(settings))
    processes = spark_settings.shim_plan(directory, launch, settings, archives=home.cache)
    # An executor in a pod looks for the secret here before it has fetched its settings from the driver.
    environment = {**processes["environment"], "_SPARK_AUTH_SECRET": settings["spark.authenticate.secret"]}
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory))
        return started[-1]

    with (directory / "said.log").open("wb") as log:
        try:
            driver = start(processes["driver"], log)
            assert wait_until(lambda: spark_settings.endpoint(directory / "cluster") is not None, 120)
            for number, (host, node) in enumerate(NODES.items(), 1):
                start(_executor(directory, processes["executor"], number, host, node), log)
            assert driver.wait(timeout=180) == 0, "\n".join(_last_words(directory))
        finally:
            for process in started:
                process.kill()
                process.wait(timeout=30)
    return directory / "artefacts" / "events"


def _executor(directory: Path, command: Sequence[str], number: int, host: str, node: str) -> list[str]:
    """Return the command of an executor as a pod on that node has it."""
    (directory / "cluster" / "nodes").mkdir(exist_ok=True)
    (directory / "cluster" / "nodes" / host).write_text(node)
    found = spark_settings.endpoint(directory / "cluster")
    assert found is not None
    return [
        *command[: command.index("io.penstock.cluster.ExecutorLauncher")],
        "-Dspark.authenticate=true",
        "org.apache.spark.penstock.cluster.NodeExecutor",
        *("--node", node),
        *("--driver-url", found.driver_url),
        *("--executor-id", str(number)),
        *("--bind-address", host),
        *("--hostname", host),
        *("--cores", "1"),
        *("--app-id", found.spark_application_id),
        *("--resourceProfileId", "0"),
    ]


def _last_words(directory: Path) -> Iterator[str]:
    for log in (directory / "said.log", directory / "artefacts" / "driver.log"):
        if log.exists():
            yield log.read_text()[-3000:]


def _tasks(events: Path) -> list[dict[str, Any]]:
    lines = [line for log in events.rglob("events_*") for line in log.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd"]
