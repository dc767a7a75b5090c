"""Tasks run where their pages are.

Executors use three names of this machine, like three machines, or their nodes' names, like three Kubernetes pods.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from penstock.clusters import settings as driverpages
from penstock.clusters import settings as plan
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
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
NODES = dict(zip(HOSTS, ("worker-a", "worker-b", "worker-c"), strict=True))
FILES = 40
_TOPOLOGY = "org.apache.spark.penstock.cluster.NodeTopology"

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


@pytest.mark.parametrize(("nodes", "places"), [({}, set(HOSTS)), (NODES, set(NODES.values()))], ids=["hosts", "nodes"])
def test_tasks_run_on_the_hosts_that_their_files_prefer(
    shared_home: Home, table: str, tmp_path: Path, nodes: Mapping[str, str], places: set[str]
) -> None:
    reads = [task for task in _tasks(_run(shared_home, table, tmp_path, nodes)) if _bytes_read(task)]
    localities = Counter(task["Task Info"]["Locality"] for task in reads)
    local = localities["NODE_LOCAL"] + localities["PROCESS_LOCAL"]
    print(f"{local} of {len(reads)} tasks ran where their file's pages are wanted: {dict(localities)}")
    assert len(reads) == 2 * FILES
    # Chance would give two of three hosts; the rest are tasks that Spark moves rather than let a core wait.
    assert local >= 0.9 * len(reads)
    assert {task["Task Info"]["Host"] for task in reads} == places


def _bytes_read(task: dict[str, Any]) -> int:
    return int(task["Task Metrics"]["Input Metrics"]["Bytes Read"])


def _run(home: Home, table: str, directory: Path, nodes: Mapping[str, str]) -> Path:
    lake = Installation(home).lake_up()
    for part in ("cluster", "private", "scratch", "artefacts/events"):
        (directory / part).mkdir(parents=True)
    script = directory / "application.py"
    script.write_text(READS_TWICE)
    size = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), len(HOSTS))
    launch = Launch(
        application_id="app-test-locality",
        spec=ApplicationSpec(application=str(script), size=size, name="locality", arguments=(table, str(FILES))),
        settings={
            **lake_settings.spark_settings(lake),
            "spark.hadoop.fs.s3a.impl": "io.penstock.fs.PenstockFileSystem",
            "spark.eventLog.compress": "false",
            # One task reads one file.
            "spark.sql.files.openCostInBytes": "128m",
            **({"spark.storage.replication.topologyMapper": _TOPOLOGY} if nodes else {}),
        },
        environment=lake_settings.ENVIRONMENT,
    )
    credentials = resolve(home, lake.credentials)
    (directory / "private" / lake_settings.CREDENTIALS_FILE).write_text(
        lake_settings.private_credentials_file(credentials)
    )
    settings = plan.settings(directory, launch)
    (directory / "private" / "python").write_text(plan.python_wrapper(directory, launch.settings))
    (directory / "private" / "python").chmod(0o700)
    (directory / "private" / "spark.conf").write_text(as_properties(settings))
    processes = plan.shim_plan(directory, launch, settings, archives=home.cache)
    # An executor in a pod looks for the secret here before it has fetched its settings from the driver.
    environment = {**processes["environment"], "_SPARK_AUTH_SECRET": settings["spark.authenticate.secret"]}
    started: list[subprocess.Popen[bytes]] = []

    def start(command: list[str], log: BinaryIO) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=directory))
        return started[-1]

    with (directory / "said.log").open("wb") as log:
        try:
            driver = start(processes["driver"], log)
            if nodes:
                assert wait_until(lambda: driverpages.endpoint(directory / "cluster") is not None, 120)
            for number, host in enumerate(HOSTS, 1):
                start(_executor(directory, list(processes["executor"]), number, host, nodes.get(host)), log)
            assert driver.wait(timeout=180) == 0, "\n".join(_last_words(directory))
        finally:
            for process in started:
                process.kill()
                process.wait(timeout=30)
    return directory / "artefacts" / "events"


def _executor(directory: Path, command: list[str], number: int, host: str, node: str | None) -> list[str]:
    """Start an executor as a local cluster does, or as a pod does on that node."""
    if node is None:
        command[command.index("--executor-id") + 1] = str(number)
        return [*command, "--host", host]
    (directory / "cluster" / "nodes").mkdir(exist_ok=True)
    (directory / "cluster" / "nodes" / host).write_text(node)
    found = driverpages.endpoint(directory / "cluster")
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
