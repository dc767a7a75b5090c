"""An application on a real Ceph cluster whose daemons are killed: it is slow only briefly, and no task fails."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.engine.engine import Engine
from penstock.home import Home
from penstock.lake.ceph.cluster import Ceph
from penstock.lake.model import Lake
from penstock.lake.registry import Lakes
from penstock.model import State
from tests.support.command import SMALL, Command, named
from tests.support.waiting import within

pytestmark = pytest.mark.root

NAME = "outages"

# Replaces a table of several files and reads it repeatedly until an object requests its end.
WORKS_ON = """
import os, sys
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
target, go = sys.argv[1:]
done = 0
while not os.path.exists(go):
    done += 1
    spark.range(0, 40000, 1, 8).write.mode("overwrite").parquet(target)
    assert spark.read.parquet(target).selectExpr("sum(id)").first()[0] == 799980000
    print("round", done, flush=True)
executors = spark._jsc.sc().statusStore().executorList(False)
print("failed tasks", sum(executors.apply(number).failedTasks() for number in range(executors.size())))
spark.stop()
"""


@pytest.fixture
def lake(ceph: Ceph, shared_home: Home) -> Iterator[Lake]:
    """The erasure-coded lake, in a home that already has a catalog."""
    theirs = Lakes(Home(ceph.directory.parent.parent))
    coded, lakes = theirs.get("ceph-erasure"), Lakes(shared_home)
    yield lakes.add(replace(coded, name=NAME, kind="external"), theirs.credentials_of(coded))
    lakes.remove(NAME)
    ceph.up()


def test_a_gateway_and_an_osd_killed_under_load_fail_no_task(
    ceph: Ceph, lake: Lake, shared_home: Home, tmp_path: Path
) -> None:
    engine, go, script = Engine(shared_home), tmp_path / "go", tmp_path / "works.py"
    script.write_text(WORKS_ON, encoding="utf-8")
    code, _, err = Command(shared_home).run(
        *("run", "--detach", "--lake", NAME, "--name", NAME, *SMALL),
        *(str(script), f"{lake.root}/outages", str(go)),
    )
    assert code == 0, err
    (application,) = [one for one in named(engine, NAME) if not one.state.final]

    def worked(rounds: int) -> None:
        wanted = done() + rounds
        within(lambda: done() >= wanted, 300)

    def done() -> int:
        running = engine.get(application.id)
        assert not running.state.final, running.reason
        return engine.artifacts.read(running, "driver.out", 0).count(b"round ")

    try:
        worked(1)
        assert ceph.kill("osd.0")
        assert ceph.kill("rgw.0")
        worked(2)
        ceph.start("rgw.0")
        ceph.start("osd.0")
        worked(1)
    finally:
        go.touch()
    ended = engine.wait(application.id, timeout_seconds=120)
    assert ended.state is State.FINISHED, ended.reason
    assert engine.artifacts.load(ended.id, "driver.out").decode().splitlines()[-1] == "failed tasks 0"
