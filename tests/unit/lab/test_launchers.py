"""Plain Spark is submitted concurrently without interference, and the remains of a killed lab are removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.errors import ClusterError
from penstock.lab import launchers
from penstock.lab.launchers import EngineLauncher, Job, PlainSpark, SubmissionResult
from penstock.lake.model import Lake
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State
from penstock.processes import ProcessId
from penstock.runtime.jvm import Java
from tests.support.waiting import within
from tests.unit.lab.lab_fakes import NOW

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
LAKE = Lake("test", ("http://127.0.0.1:1",), "bucket", "environment", kind="s3")

SUBMIT = """#!/bin/sh
for last in "$@"; do :; done
touch "$PWD/left-$last"
submission=$PWD/../..
events=$submission/events
echo '{"Event":"SparkListenerApplicationStart"}' > "$events/app"
echo "{\\"Event\\":\\"SparkListenerTaskStart\\",\\"Task Info\\":{\\"Launch Time\\":$last}}" >> "$events/app"
sleep 0.3
ls "$PWD" | grep left
grep -e only -e interceptors "$submission/plain.conf"
exit "$last"
"""
"""A fake spark-submit: records its last argument, is slow, prints its directory and settings."""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainSpark:
    return spark_that_runs(SUBMIT, tmp_path, monkeypatch)


def spark_that_runs(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PlainSpark:
    program = tmp_path / "installed" / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    program.write_text(script)
    program.chmod(0o700)
    monkeypatch.setattr(launchers, "spark_jars", lambda: tmp_path / "installed" / "jars")
    monkeypatch.setattr(launchers, "find_java", lambda: Java(tmp_path, "17"))
    directory = tmp_path / "plain"
    directory.mkdir()
    return PlainSpark(directory, LAKE)


def submit(
    spark: PlainSpark, number: int, *, on_progress: Callable[[float], None] = lambda _: None, **settings: str
) -> SubmissionResult:
    return spark.submit(
        master="local",
        size=SIZE,
        jar=Path("x.jar"),
        main_class="X",
        arguments=[str(number)],
        settings={"spark.only": f"only-{number}", **settings},
        on_progress=on_progress,
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
        ({}, "io.penstock.fs.store.EmptyBodies"),
        (
            {setting: "io.penstock.workloads.RoundTrip"},
            "io.penstock.workloads.RoundTrip,io.penstock.fs.store.EmptyBodies",
        ),
    ):
        assert f"{setting}={expected}" in submit(spark, 0, **own).output.splitlines()


def test_nothing_is_left_of_a_submission(spark: PlainSpark) -> None:
    submit(spark, 0)
    assert list(spark.directory.iterdir()) == []


BURN = """
import pathlib, sys, time
while time.process_time() < float(sys.argv[1]):
    pass
for done in sys.argv[2:]:
    pathlib.Path(done).touch()
"""
BRIEF = 0.03
"""Core-seconds of a process too short to be sampled five times a second."""


def test_the_processor_time_of_processes_too_short_to_be_sampled_counts_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten children that the driver waits for, and ten that outlive their parents, in sessions of their own."""
    (tmp_path / "burn.py").write_text(BURN)
    burn, ten = f"{sys.executable} -S {tmp_path / 'burn.py'} {BRIEF}", "for n in 0 1 2 3 4 5 6 7 8 9; do"
    script = f"""#!/bin/sh
        {ten} {burn}; done
        {ten} (setsid {burn} {tmp_path}/done-$n &); done
        {ten} while [ ! -e {tmp_path}/done-$n ]; do sleep 0.01; done; done
        exit 0
    """
    assert submit(spark_that_runs(script, tmp_path, monkeypatch), 0).core_seconds >= 20 * BRIEF


def test_an_application_ends_with_its_driver_and_what_outlives_it_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stubborn, ended = tmp_path / "stubborn", tmp_path / "ended"
    script = f"""#!/bin/sh
        sh -c 'trap "" TERM; echo $$ > {stubborn}; sleep 60' &
        while [ ! -s {stubborn} ]; do sleep 0.01; done
        date +%s%N > {ended}
    """
    found = submit(spark_that_runs(script, tmp_path, monkeypatch), 0)
    assert found.submitted_ms <= int(ended.read_text()) // 1_000_000 <= found.ended_ms
    assert ProcessId.of(int(stubborn.read_text())) is None


def test_the_peak_memory_is_the_sum_of_the_peaks_of_driver_and_executors(tmp_path: Path) -> None:
    hold = f"{sys.executable} -S -c 'import pathlib, sys, time; held = bytearray(64 << 20);"
    hold += "pathlib.Path(sys.argv[1]).touch(); time.sleep(60)'"
    executor = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
    names = {tmp_path / "one": executor, tmp_path / "two": executor, tmp_path / "helper": "ps"}
    script = "\n".join(f"{hold} {held} {name} &" for held, name in names.items()) + "\nwait"
    with subprocess.Popen(["/bin/sh", "-c", script], start_new_session=True) as driver:
        memory = launchers._PeakMemory(driver.pid, tmp_path / "no-status.json")
        within(lambda: all(held.exists() for held in names))
        memory.look()
        os.killpg(driver.pid, signal.SIGKILL)
    memory.look()
    assert 2 * 64 << 20 <= memory.bytes < 3 * 64 << 20, "a helper of the driver is neither driver nor executor"


def test_an_application_that_is_interrupted_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = tmp_path / "pids"
    keep = f"sh -c 'echo $$ >> {pids}; exec sleep 60'"
    script = f"#!/bin/sh\n{keep} &\n(setsid {keep} &)\necho $$ >> {pids}\nwait\n"
    spark = spark_that_runs(script, tmp_path, monkeypatch)

    def started() -> list[int]:
        return [int(pid) for pid in pids.read_text().split()] if pids.exists() else []

    def interrupt(_: float) -> None:
        if len(started()) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        submit(spark, 0, on_progress=interrupt)
    assert [pid for pid in started() if ProcessId.of(pid)] == []


def test_what_a_killed_supervisor_left_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor, pids = tmp_path / "supervisor", tmp_path / "pids"
    script = f"#!/bin/sh\necho $PPID > {supervisor}\nsleep 60 &\necho $! $$ > {pids}\nwait\n"
    spark = spark_that_runs(script, tmp_path, monkeypatch)

    def kill_the_supervisor(_: float) -> None:
        if pids.exists() and pids.read_text().endswith("\n"):
            os.kill(int(supervisor.read_text()), signal.SIGKILL)

    with pytest.raises(ClusterError, match="supervisor of plain Spark was killed"):
        submit(spark, 0, on_progress=kill_the_supervisor)
    within(lambda: not any(ProcessId.of(int(pid)) for pid in pids.read_text().split()))


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


@pytest.mark.parametrize(("backend", "elapsed_ms"), [("local", 9_000), ("kubernetes", 8_000)])
def test_a_driver_elsewhere_is_timed_by_the_clock_of_the_machine_that_submits_it(
    backend: str, elapsed_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitted_ms = int(NOW.timestamp() * 1000)

    def run(spec: ApplicationSpec, on_change: Callable[..., None], *, cores_per_core: float) -> Application:
        application = Application("app-1", spec, State.RUNNING, NOW)
        # The first attempt fails, and the end of the second is seen 8 s after the submission.
        for seconds, state in ((1, State.STOPPING), (2, State.WAITING), (8, State.STOPPING), (12, State.FINISHED)):
            monkeypatch.setattr(time, "time", lambda seconds=seconds: submitted_ms / 1000 + seconds)
            on_change(replace(application, state=state), None)
        summary = {"processes": {"driver": {"ended_ms": submitted_ms + 9_000}}}
        return replace(application, state=State.FINISHED, summary=summary)

    engine = SimpleNamespace(backend=SimpleNamespace(name=backend))
    bench: Any = SimpleNamespace(lake=LAKE, engine=engine, run=run)
    monkeypatch.setattr(launchers, "workloads_jar", lambda: Path("workloads.jar"))
    job = Job("run", "sort", "TeraSort", "Main", (), SIZE, "default", {})
    assert EngineLauncher(bench).run(job, lambda _: None).sample["elapsed_ms"] == elapsed_ms
