"""Tasks run where their pages are: executors under three names of this machine, as if they were three machines."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.clusters import plan
from penstock.clusters.base import Launch
from penstock.clusters.properties import as_properties
from penstock.engine.application import ApplicationSpec, ClusterSize, ProcessSize
from penstock.engine.installation import Installation
from penstock.home import Home
from penstock.lake import settings as lake_settings
from penstock.lake.credentials import resolve
from penstock.lake.objects import open_store

pytestmark = pytest.mark.integration

# All of 127.0.0.0/8 is this machine.
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
FILES = 40

# Spark may list a table before its executors are there; the application waits for them first.
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


def test_tasks_run_on_the_hosts_that_their_files_prefer(shared_home: Home, table: str, tmp_path: Path) -> None:
    reads = [task for task in _tasks(_run(shared_home, table, tmp_path)) if _bytes_read(task)]
    localities = Counter(task["Task Info"]["Locality"] for task in reads)
    local = localities["NODE_LOCAL"] + localities["PROCESS_LOCAL"]
    print(f"{local} of {len(reads)} tasks ran where their file's pages are wanted: {dict(localities)}")
    assert len(reads) == 2 * FILES
    # By chance it would be two of three; the rest is what Spark moves rather than let a core wait.
    assert local >= 0.9 * len(reads)
    assert {task["Task Info"]["Host"] for task in reads} == set(HOSTS)


def _bytes_read(task: dict[str, Any]) -> int:
    return int(task["Task Metrics"]["Input Metrics"]["Bytes Read"])


def _run(home: Home, table: str, directory: Path) -> Path:
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
            # A file is a task.
            "spark.sql.files.openCostInBytes": "128m",
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
    processes = plan.processes(directory, launch, settings, archives=home.cache)
    environment = processes["environment"]
    with (directory / "executors.log").open("wb") as log:
        executors = []
        for number, host in enumerate(HOSTS, 1):
            command = list(processes["executor"])
            command[command.index("--executor-id") + 1] = str(number)
            executors.append(
                subprocess.Popen([*command, "--host", host], env=environment, stdout=log, stderr=log, cwd=directory)
            )
        try:
            driver = subprocess.run(
                processes["driver"],
                check=False,
                env=environment,
                capture_output=True,
                text=True,
                timeout=180,
                cwd=directory,
            )
        finally:
            for executor in executors:
                executor.terminate()
                executor.wait(timeout=30)
    driver_log = directory / "artefacts" / "driver.log"
    assert driver.returncode == 0, driver.stderr[-3000:] + (
        driver_log.read_text()[-3000:] if driver_log.exists() else ""
    )
    return directory / "artefacts" / "events"


def _tasks(events: Path) -> list[dict[str, Any]]:
    lines = [line for log in events.rglob("events_*") for line in log.read_text().splitlines()]
    return [event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd"]
