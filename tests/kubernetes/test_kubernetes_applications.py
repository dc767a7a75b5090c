"""Applications on Kubernetes from submission to end: state and reason are true, and their artifacts are in the lake.

Besides `PENSTOCK_TEST_CLUSTER`, `PENSTOCK_TEST_HOST` names an address of this machine that pods can reach: lake and
catalog listen there for the duration of a test.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from penstock.clusters.kubernetes import layout, resources
from penstock.clusters.kubernetes.backend import KubernetesBackend
from penstock.clusters.kubernetes.target import Target, read_target
from penstock.engine.engine import Engine
from penstock.engine.interactive.sessions import SessionRequest
from penstock.home import Home
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State
from tests.support.programs import PROGRAMS
from tests.support.reachable_services import LAKE, lake_and_database
from tests.support.waiting import within

FILE, HOST = os.environ.get("PENSTOCK_TEST_CLUSTER"), os.environ.get("PENSTOCK_TEST_HOST")

pytestmark = [
    pytest.mark.skipif(FILE is None or HOST is None, reason="PENSTOCK_TEST_CLUSTER or PENSTOCK_TEST_HOST is not set")
]

SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), 1)
FILES = 40
_LONGEST_SECONDS = 300.0
"""The time two pods may take to start on a busy machine, in seconds."""

WRITES = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
spark.range(1000).write.mode("overwrite").saveAsTable("kube_written")
print("sum", spark.table("kube_written").selectExpr("sum(id)").first()[0], flush=True)
"""
GO = "test-go/on"
"""The object in the lake that `WAITS` waits for."""
WAITS = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("counted", spark.sparkContext.parallelize(range(10), 2).count(), flush=True)
go = spark._jvm.org.apache.hadoop.fs.Path(sys.argv[1])
files = go.getFileSystem(spark._jsc.hadoopConfiguration())
while not files.exists(go):
    time.sleep(0.2)
"""


@pytest.fixture
def target() -> Target:
    return read_target(Path(str(FILE)))


@pytest.fixture
def engine(shared_home: Home, target: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    with lake_and_database(shared_home, str(HOST)) as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        engine = Engine(shared_home, KubernetesBackend(shared_home, target))
        engine.store(LAKE).delete(GO)
        yield engine


@pytest.fixture
def run(engine: Engine, tmp_path: Path) -> Callable[..., Application]:
    """Submit the application, supervise it to its end, and run the callback once its log says that it counted."""

    def run(source: str, meanwhile: Callable[[Application], None] | None = None, **more: object) -> Application:
        script = tmp_path / "job.py"
        script.write_text(source, encoding="utf-8")
        go = f"{engine.lake(LAKE).root}/{GO}"
        spec = ApplicationSpec(application=str(script), size=SIZE, name="kube", lake=LAKE, arguments=(go,))
        application = engine.submit(replace(spec, **more))  # type: ignore[arg-type]
        if meanwhile is None:
            return engine.supervise(application.id)
        ended: list[Application] = []
        thread = threading.Thread(target=lambda: ended.append(engine.supervise(application.id)))
        thread.start()
        within(lambda: b"counted" in engine.artifacts.piece(application.id, "driver.out", 0, 100), _LONGEST_SECONDS)
        meanwhile(engine.get(application.id))
        thread.join(timeout=_LONGEST_SECONDS)
        return ended[0]

    return run


READS_TWICE = """
import sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
while spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() < 3:
    time.sleep(0.05)
for _ in range(2):
    assert spark.read.schema("id long").json(sys.argv[1]).count() == int(sys.argv[2])
print("counted")
"""


def delete(engine: Engine, application: Application, role: str, *, grace_seconds: int) -> None:
    backend = engine.backend
    assert isinstance(backend, KubernetesBackend)
    selector = f"{layout.APPLICATION_LABEL}={application.id},{layout.ROLE_LABEL}={role}"
    path = f"/api/v1/namespaces/{backend.target.namespace}/pods"
    backend.api.delete(path, grace_seconds=grace_seconds, labelSelector=selector)


def left_of(engine: Engine, application: Application) -> list[str]:
    """Return the application's objects in the namespace."""
    backend = engine.backend
    assert isinstance(backend, KubernetesBackend)
    found = []
    for kind in ("pods", "secrets", "configmaps", "services"):
        path = f"/api/v1/namespaces/{backend.target.namespace}/{kind}"
        selector = f"{layout.APPLICATION_LABEL}={application.id}"
        items = backend.api.get(path, labelSelector=selector).get("items") or []
        found += [f"{kind}/{item['metadata']['name']}" for item in items]
    return found


def test_tables_are_written_and_what_is_left_is_in_the_lake_and_nothing_on_the_cluster(
    engine: Engine, run: Callable[..., Application]
) -> None:
    ended = run(WRITES)
    assert ended.state is State.FINISHED, ended.reason
    assert engine.artifacts.load(ended.id, "driver.out") == b"sum 499500\n"
    kept = engine.artifacts.sizes(ended.id)
    assert {"driver.log", "driver.out", "driver.err", "executor-1.log", "summary.json"} <= set(kept)
    assert [name for name in kept if name.startswith("events/")]
    assert left_of(engine, ended) == []


def test_an_executor_that_is_killed_costs_no_more_than_itself(engine: Engine, run: Callable[..., Application]) -> None:
    def kill(application: Application) -> None:
        delete(engine, application, layout.EXECUTOR, grace_seconds=0)
        handle = engine.backend.handle(application.id)
        within(lambda: engine.backend.sizes(handle).get("executor-2.log", 0) > 0)
        engine.store(LAKE).put(GO, b"")

    source = WAITS + 'print("again", spark.sparkContext.parallelize(range(20), 2).count(), flush=True)\n'
    ended = run(source, kill)
    assert ended.state is State.FINISHED, ended.reason
    assert b"again 20" in engine.artifacts.load(ended.id, "driver.out")
    assert engine.artifacts.load(ended.id, "executor-1.log")


def test_a_driver_whose_pod_is_deleted_is_said_to_be_and_its_words_are_in_the_lake(
    engine: Engine, run: Callable[..., Application]
) -> None:
    ended = run(WAITS, lambda it: delete(engine, it, layout.DRIVER, grace_seconds=30))
    assert ended.state is State.FAILED
    assert ended.reason is not None
    assert ended.reason.code == "driver_lost"
    assert engine.artifacts.load(ended.id, "driver.out") == b"counted 10\n"
    assert [name for name in engine.artifacts.sizes(ended.id) if name.startswith("events/")]


def test_a_driver_that_is_lost_is_retried_where_that_was_asked_for_and_both_attempts_are_kept(
    engine: Engine, run: Callable[..., Application]
) -> None:
    def lose(application: Application) -> None:
        delete(engine, application, layout.DRIVER, grace_seconds=0)
        within(lambda: len(engine.get(application.id).attempts) == 1, _LONGEST_SECONDS)
        engine.store(LAKE).put(GO, b"")

    ended = run(WAITS, lose, retries=1)
    assert ended.state is State.FINISHED, ended.reason
    assert [(it.number, it.reason.code) for it in ended.attempts] == [(1, "driver_lost")]
    assert engine.artifacts.load(ended.id, "driver.out") == b"counted 10\n"
    assert left_of(engine, ended) == []


def test_tasks_run_on_the_nodes_that_keep_their_files_pages(
    engine: Engine, run: Callable[..., Application], target: Target
) -> None:
    backend = engine.backend
    assert isinstance(backend, KubernetesBackend)
    nodes = {node["metadata"]["name"] for node in resources.list_nodes(backend.api)}
    if len(nodes) < 2 or not target.page_cache:
        pytest.skip("it takes two nodes and a page cache on them")
    store = engine.store(LAKE)
    for number in range(FILES):
        store.put(f"test-node-locality/part-{number:03}.json", b'{"id": %d}\n' % number)
    ended = run(
        READS_TWICE,
        arguments=(f"{engine.lake(LAKE).root}/test-node-locality", str(FILES)),
        size=replace(SIZE, executors=2),
        settings={"spark.eventLog.compress": "false", "spark.sql.files.openCostInBytes": "128m"},
    )
    assert ended.state is State.FINISHED, ended.reason
    reads = [task for task in tasks(engine, ended) if task["Task Metrics"]["Input Metrics"]["Bytes Read"]]
    assert len(reads) == 2 * FILES
    assert {task["Task Info"]["Host"] for task in reads} == nodes
    local = [task for task in reads if task["Task Info"]["Locality"] in ("NODE_LOCAL", "PROCESS_LOCAL")]
    assert len(local) >= 0.9 * len(reads)


def test_a_session_in_pods_is_used_from_here_by_an_ordinary_client(
    engine: Engine, python_with: Callable[..., Path]
) -> None:
    notebook = python_with("pyspark.sql.connect.session", [f"pyspark-client=={pyspark.__version__}"])
    session = engine.submit(SessionRequest(size=SIZE, lake=LAKE).specification())
    thread = threading.Thread(target=engine.supervise, args=[session.id])
    thread.start()
    engine.sessions.wait(session.id, timeout_seconds=120)
    address = engine.sessions.address(session.id)
    script = PROGRAMS / "connect_client.py"
    answered = subprocess.run(
        [notebook, script, address], check=False, capture_output=True, text=True, timeout=_LONGEST_SECONDS
    )
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["sum"] == 499500
    refused = subprocess.run(
        [notebook, script, f"{address}x"], check=False, capture_output=True, text=True, timeout=180
    )
    assert "Invalid authentication token" in refused.stderr
    engine.request_stop(session.id)
    thread.join(timeout=120)
    assert engine.get(session.id).state is State.STOPPED
    assert left_of(engine, session) == []


def tasks(engine: Engine, application: Application) -> list[dict[str, Any]]:
    logs = [name for name in engine.artifacts.sizes(application.id) if name.startswith("events/")]
    lines = [line for log in logs for line in engine.artifacts.load(application.id, log).splitlines()]
    return [event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd"]
