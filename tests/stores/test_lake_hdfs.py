"""A real HDFS as a lake: a NameNode, two DataNodes, and applications, with and without kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.hdfs import servers
from penstock.lake.hdfs.cluster import HdfsCluster
from penstock.lake.hdfs.layout import NAMENODE, ShapeRequest
from penstock.lake.model import Lake, ObjectStore
from penstock.lake.registry import Lakes
from penstock.lake.s3 import open_store
from penstock.model import ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.processes import listening_ports, wait_until
from tests.support.object_store_contract import ObjectStoreContract
from tests.support.waiting import within

NAME = "test-hdfs"
SIZE = ClusterSize(ProcessSize(1, 512 << 20), ProcessSize(1, 512 << 20), executors=1)

# Writes, kills the DataNode with the given process id, and goes on writing and reading as if nothing had happened.
SURVIVES = """
import os, signal, sys
from pyspark.sql import SparkSession
root, datanode = sys.argv[1], int(sys.argv[2])
spark = SparkSession.builder.getOrCreate()
spark.range(0, 200000, 1, 2).write.parquet(root + "/before")
print("first", spark.read.parquet(root + "/before").count(), flush=True)
os.kill(datanode, signal.SIGKILL)
spark.range(0, 300000, 1, 2).write.mode("overwrite").parquet(root + "/after")
print("then", spark.read.parquet(root + "/before").count(), spark.read.parquet(root + "/after").count(), flush=True)
spark.sql("CREATE DATABASE on_hdfs")
spark.sql("CREATE TABLE on_hdfs.kept AS SELECT id FROM range(10)")
print("table", spark.table("on_hdfs.kept").count(), flush=True)
"""
FIGURES_KEPT_SECONDS = 11.0
READS = """
import sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print("table", spark.table("on_hdfs.kept").count(), spark.read.parquet(sys.argv[1] + "/after").count(), flush=True)
spark.sql("DROP DATABASE on_hdfs CASCADE")
"""


@pytest.fixture(scope="module")
def started(shared_home: Home) -> Iterator[HdfsCluster]:
    """One HDFS for the module."""
    cluster = HdfsCluster(shared_home, NAME)
    cluster.up(ShapeRequest(datanodes=2))
    yield cluster
    cluster.wipe()


@pytest.fixture
def cluster(started: HdfsCluster) -> HdfsCluster:
    """HDFS on this machine: the previous test may have left its DataNodes under other names."""
    shape = started.shape()
    if shape is not None and shape.remote:
        started.down()
        started.up(ShapeRequest(remote=False))
    return started


@pytest.fixture
def lake(shared_home: Home, cluster: HdfsCluster) -> Lake:
    return Lakes(shared_home).get(NAME)


@pytest.fixture
def store(shared_home: Home, lake: Lake) -> ObjectStore:
    store = open_store(shared_home, lake)
    store.delete(*[found.key for found in store.list("")])
    return store


class TestHdfsObjectStore(ObjectStoreContract):
    """The contract, over WebHDFS."""


def run(home: Home, directory: Path, source: str, *arguments: str) -> str:
    """Run the application, which has to succeed, and return its id."""
    script = directory / "application.py"
    script.write_text(source, encoding="utf-8")
    engine = Engine(home)
    spec = ApplicationSpec(str(script), SIZE, "on HDFS", arguments=arguments, lake=NAME)
    ended = engine.supervise(engine.submit(spec).id)
    assert ended.state is State.FINISHED, (ended.reason, engine.artifacts.load(ended.id, "driver.err").decode())
    return ended.id


def printed(home: Home, application_id: str) -> list[str]:
    return Engine(home).artifacts.load(application_id, "driver.out").decode().splitlines()


def short_of_copies(cluster: HdfsCluster) -> int | None:
    health = cluster.status().health
    return health.under_replicated if health else None


def local_reads(cluster: HdfsCluster, *datanodes: str) -> tuple[int, int]:
    """Return the number of blocks that DataNodes handed out as files, and the bytes of blocks that they sent.

    A DataNode repeats its figures for ten seconds, so they count once they have been stable for longer.
    """

    def figures() -> tuple[int, int]:
        found = [servers.local_reads(cluster.ports()[name]) for name in datanodes]
        return sum(one[0] for one in found if one), sum(one[1] for one in found if one)

    last = figures()
    while wait_until(lambda seen=last: figures() != seen, FIGURES_KEPT_SECONDS, pause_seconds=0.5):
        last = figures()
    return last


def test_an_application_outlives_a_datanode_and_its_blocks_are_read_as_files(
    shared_home: Home, cluster: HdfsCluster, lake: Lake, store: ObjectStore, tmp_path: Path
) -> None:
    victim = cluster.daemons()["datanode.1"]
    application_id = run(shared_home, tmp_path, SURVIVES, f"{lake.root}/data", str(victim.pid))
    assert printed(shared_home, application_id) == ["first 200000", "then 200000 300000", "table 10"]
    assert not victim.alive()
    kept = [found.key for found in store.list(f"penstock/applications/{application_id}/")]
    assert any(key.endswith("/driver.log") for key in kept)
    assert list(store.list(f"penstock/events/{application_id}~"))

    assert set(cluster.daemons()) == {NAMENODE, "datanode.2"}
    assert cluster.up() == lake
    within(lambda: short_of_copies(cluster) == 0, 60)

    before = local_reads(cluster, "datanode.1", "datanode.2")
    application_id = run(shared_home, tmp_path, READS, f"{lake.root}/data")
    after = local_reads(cluster, "datanode.1", "datanode.2")
    assert printed(shared_home, application_id) == ["table 10 300000"]
    assert after[0] > before[0]
    assert after[1] == before[1], "bytes went through a DataNode"


def test_what_all_daemons_killed_at_once_had_acknowledged_is_there_when_they_are_back(
    shared_home: Home, cluster: HdfsCluster, lake: Lake, store: ObjectStore
) -> None:
    content = os.urandom(3_000_000)
    store.put("folder/kept", content)
    for process in cluster.daemons().values():
        os.kill(process.pid, signal.SIGKILL)
    within(lambda: not cluster.daemons(), 5)
    assert not cluster.status().ready
    assert cluster.ensure() == lake
    assert store.get("folder/kept") == content
    assert store.get("folder/kept", start=1_000_000, length=7) == content[1_000_000:1_000_007]


def test_nobody_but_this_machine_can_reach_it(cluster: HdfsCluster) -> None:
    for name, process in cluster.daemons().items():
        ports = listening_ports(process)
        assert ports >= set(cluster.ports()[name].all())
        tables = [Path(f"/proc/{process.pid}/net/{table}").read_text(encoding="ascii") for table in ("tcp", "tcp6")]
        listening = [line.split() for table in tables for line in table.splitlines()[1:] if line.split()[3] == "0A"]
        places = [fields[1].rpartition(":") for fields in listening]
        bound = {host for host, _, port in places if int(port, 16) in ports}
        assert bound <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_a_remote_one_is_the_same_data_under_names_that_no_host_has(
    shared_home: Home, cluster: HdfsCluster, store: ObjectStore
) -> None:
    store.put("folder/kept", b"content")
    cluster.down()
    lake = cluster.up(ShapeRequest(remote=True))
    assert lake.hdfs is not None
    assert not lake.hdfs.short_circuit
    assert open_store(shared_home, lake).get("folder/kept") == b"content"
