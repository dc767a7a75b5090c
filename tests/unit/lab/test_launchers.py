"""Plain Spark is submitted concurrently without interference, and the remains of a killed lab are removed."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.lab import launchers
from penstock.lab.launchers import PlainSpark, SubmissionResult
from penstock.lake.model import Lake
from penstock.model import ClusterSize, ProcessSize
from penstock.processes import ProcessId
from penstock.runtime.jvm import Java

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment", kind="s3")

SUBMIT = """#!/bin/sh
for last in "$@"; do :; done
touch "$PWD/left-$last"
events=$PWD/events
echo '{"Event":"SparkListenerApplicationStart"}' > "$events/app"
echo "{\\"Event\\":\\"SparkListenerTaskStart\\",\\"Task Info\\":{\\"Launch Time\\":$last}}" >> "$events/app"
sleep 0.3
ls "$PWD" | grep left
grep -e only -e interceptors plain.conf
exit "$last"
"""
"""A fake spark-submit: records its last argument, is slow, prints its directory and settings."""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainSpark:
    program = tmp_path / "installed" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(SUBMIT)
    program.chmod(0o700)
    monkeypatch.setattr(launchers, "spark_jars", lambda: tmp_path / "installed" / "jars")
    monkeypatch.setattr(launchers, "find_java", lambda: Java(tmp_path, "17"))
    directory = tmp_path / "plain"
    directory.mkdir()
    return PlainSpark(directory, LAKE)


def submit(spark: PlainSpark, number: int, **settings: str) -> SubmissionResult:
    return spark.submit(
        master="local",
        size=SIZE,
        jar=Path("x.jar"),
        main_class="X",
        arguments=[str(number)],
        settings={"spark.only": f"only-{number}", **settings},
        on_progress=lambda _: None,
    )


def test_submissions_at_once_see_nothing_of_each_other(spark: PlainSpark) -> None:
    with ThreadPoolExecutor(4) as users:
        ended = list(users.map(lambda number: submit(spark, number), range(4)))
    for number, one in enumerate(ended):
        shown = one.output.splitlines()
        assert shown[0] == f"left-{number}"
        assert [line for line in shown if "only" in line] == [f"spark.only=only-{number}"]
        assert (one.exit_code, one.first_task_ms) == (number, number)


def test_s3a_signs_empty_objects_as_ceph_takes_them_beside_what_an_experiment_intercepts(spark: PlainSpark) -> None:
    setting = "spark.hadoop.fs.s3a.audit.execution.interceptors"
    for own, expected in (
        ({}, "io.penstock.fs.EmptyBodies"),
        ({setting: "io.penstock.workloads.RoundTrip"}, "io.penstock.workloads.RoundTrip,io.penstock.fs.EmptyBodies"),
    ):
        assert f"{setting}={expected}" in submit(spark, 0, **own).output.splitlines()


def test_nothing_is_left_of_a_submission(spark: PlainSpark) -> None:
    submit(spark, 0)
    assert list(spark.directory.iterdir()) == []


def left_behind(root: Path, owner: ProcessId) -> Path:
    directory = root / f"plain-{owner.pid}-{owner.started}-x4f_-2" / "submission-1"
    directory.mkdir(parents=True)
    return directory


def test_what_a_killed_lab_left_is_removed_and_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as owner:
        killed = ProcessId.of(owner.pid)
        owner.kill()
    assert killed is not None
    directory = left_behind(tmp_path, killed)
    with subprocess.Popen(["sleep", "60"], cwd=directory) as submitted:
        launchers._sweep(tmp_path)
        assert submitted.wait(10) != 0
    assert list(tmp_path.iterdir()) == []


def test_what_belongs_to_a_living_process_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "plain-notes").mkdir()
    with subprocess.Popen(["sleep", "60"]) as owner:
        living = ProcessId.of(owner.pid)
        assert living is not None
        directory = left_behind(tmp_path, living)
        with subprocess.Popen(["sleep", "60"], cwd=directory) as submitted:
            launchers._sweep(tmp_path)
            assert submitted.poll() is None
            submitted.kill()
        owner.kill()
    assert directory.exists()
    assert (tmp_path / "plain-notes").exists()
