"""The build of class-data archives in the background: its status in words, and its clock on a busy machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.cli.lab import measure
from penstock.engine import class_archives
from penstock.engine.class_archives import BuildStatus, ClassArchives
from penstock.errors import ClusterError
from penstock.home import Home, write_json
from penstock.processes import IdleDeadline, ProcessId, SpareTime
from penstock.runtime import cds

AT = datetime(2026, 11, 26, 14, 3).astimezone()
RECORD = {"process": {"pid": 1, "started": 1}, "started_at": AT.isoformat()}
FAILED = {**RECORD, "problem": "The archives could not be built", "why": "the driver ended\nwith a trace"}


@pytest.mark.parametrize(
    ("record", "made", "running", "sentence"),
    [
        (None, False, False, "not made: penstock up builds them"),
        (None, True, False, "made"),
        (RECORD, False, True, "being made since 14:03, 0 of 2"),
        ({**RECORD, "written": 1}, False, True, "being made since 14:03, 1 of 2"),
        (
            {**RECORD, "waiting": True},
            False,
            True,
            "being made since 14:03, waiting for a less busy machine",
        ),
        (FAILED, False, False, "failed: the driver ended; penstock up builds them again"),
        ({**FAILED, "why": ""}, False, False, "failed: The archives could not be built; penstock up builds them again"),
        (RECORD, False, False, "not made: their build was interrupted; penstock up builds them again"),
        # A command built them after the failure.
        (FAILED, True, False, "made"),
        # The process has published the archives and is about to end.
        ({**RECORD, "written": 2}, True, True, "being made since 14:03, 2 of 2"),
    ],
)
def test_the_status_says_how_far_the_archives_are(
    record: dict[str, Any] | None, made: bool, running: bool, sentence: str
) -> None:
    assert BuildStatus.of(record, made=made, running=running).sentence() == sentence


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(cds, "archives_exist", lambda _: False)
    found = Home(tmp_path / "home")
    found.create()
    return found


def test_a_failed_build_is_raised_with_its_cause_and_its_log(home: Home) -> None:
    write_json(home.root / "class-archives.json", FAILED)
    with pytest.raises(ClusterError) as failed:
        ClassArchives(home).require_made()
    assert failed.value.problem == "The archives could not be built"
    assert failed.value.why == "the driver ended\nwith a trace"
    assert str(home.root / "class-archives.log") in failed.value.fix


def test_a_process_is_started_once_and_again_after_its_end(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[ProcessId] = []
    alive: set[ProcessId] = set()

    def start(*_: object, **__: object) -> ProcessId:
        process = ProcessId(1000 + len(started), 1)
        started.append(process)
        alive.add(process)
        return process

    monkeypatch.setattr(class_archives, "start_daemon", start)
    monkeypatch.setattr(ProcessId, "alive", lambda process: process in alive)
    archives = ClassArchives(home)
    assert [archives.start(), archives.start()] == [True, False]
    assert archives.status().running
    alive.clear()
    assert archives.status().interrupted
    assert archives.start()
    assert len(started) == 2


def test_nothing_is_started_where_the_archives_exist(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cds, "archives_exist", lambda _: True)
    monkeypatch.setattr(class_archives, "start_daemon", lambda *_, **__: pytest.fail("a process was started"))
    assert not ClassArchives(home).start()


class Said:
    """A listener of a measurement."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def step(self, title: str) -> None:
        self.lines.append(title)

    def now(self, text: str) -> None:
        self.lines.append(text)

    note = now

    def elapsed(self) -> float:
        return 0.0


def test_a_measurement_waits_for_the_build_and_says_so(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [BuildStatus(False, running=True, started_at=AT, written=n) for n in (0, 0, 1)] + [BuildStatus(True)]
    monkeypatch.setattr(ClassArchives, "status", lambda _: found.pop(0))
    monkeypatch.setattr(class_archives, "time", Machine())
    listener = Said()
    status = measure.await_archives(home, listener)
    assert status == BuildStatus(True)
    assert found == []
    assert listener.lines == [
        "Waiting for the build of class-data archives, since a measurement beside it would be wrong",
        "class-data archives: being made since 14:03, 0 of 2",
        "class-data archives: being made since 14:03, 1 of 2",
    ]


def test_a_measurement_without_a_build_says_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ClassArchives, "status", lambda _: BuildStatus(True))
    listener = Said()
    measure.await_archives(home, listener)
    assert listener.lines == []


class Machine:
    """A machine with two processors, `spare` of which are idle."""

    def __init__(self) -> None:
        self.seconds = self.idle = 0.0

    def run(self, seconds: int, *, spare: float) -> None:
        self.seconds += seconds
        self.idle += seconds * spare

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.run(int(seconds), spare=1.0)


def test_a_process_at_idle_priority_is_not_given_up_while_the_machine_is_busy() -> None:
    machine, work = Machine(), 0.0
    spare_time = SpareTime(lambda: machine.idle, lambda: machine.seconds)
    deadline = IdleDeadline(lambda: work, seconds=120, least_core_seconds=3, clock=spare_time)
    for _ in range(100):
        machine.run(60, spare=0.01)
        assert not deadline.expired()
    machine.run(59, spare=2.0)  # the clock is never faster than the machine's
    assert not deadline.expired()
    work = 5.0
    machine.run(59, spare=1.0)
    assert not deadline.expired()
    for _ in range(2):
        machine.run(60, spare=1.0)
        assert not deadline.expired()
    machine.run(2, spare=1.0)
    assert deadline.expired()


@dataclass
class Training:
    """A training that fails `failures` times, on a machine that is idle for `spare` of each second meanwhile."""

    machine: Machine
    failures: int
    spare: float
    seconds: int = 300
    attempts: int = 0

    def __call__(self, **_: object) -> None:
        self.attempts += 1
        self.machine.run(self.seconds, spare=self.spare)
        if self.attempts <= self.failures:
            raise ClusterError("no driver appeared")


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Training, list[Mapping[str, Any]]]]:
    machine = Machine()
    monkeypatch.setattr(class_archives, "SpareTime", lambda: SpareTime(lambda: machine.idle, lambda: machine.seconds))
    monkeypatch.setattr(class_archives, "time", machine)

    def trained(failures: int, spare: float, seconds: int = 300) -> tuple[Training, list[Mapping[str, Any]]]:
        training, records = Training(machine, failures, spare, seconds), list[Mapping[str, Any]]()
        with contextlib.suppress(ClusterError):
            class_archives._train_patiently(training, records.append)
        return training, records

    return trained


def test_a_failure_on_a_busy_machine_is_tried_again_once_it_is_idle(train: Callable[..., Any]) -> None:
    training, records = train(failures=2, spare=0.01)
    assert training.attempts == 3
    assert records == [{}, {"waiting": True}, {}, {"waiting": True}, {}]
    assert training.machine.seconds == 3 * 300 + 2 * 10


def test_a_failure_on_an_idle_machine_is_final(train: Callable[..., Any]) -> None:
    assert train(failures=1, spare=1.0)[0].attempts == 1


def test_a_failure_before_any_timeout_is_final_on_a_busy_machine_too(train: Callable[..., Any]) -> None:
    assert train(failures=1, spare=0.0, seconds=10)[0].attempts == 1


def test_a_machine_that_is_always_busy_is_given_up(train: Callable[..., Any]) -> None:
    assert train(failures=9, spare=0.0)[0].attempts == 5


def test_an_archive_from_another_file_system_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built, target = tmp_path / "driver.jsa", tmp_path / "classes" / "driver.jsa"
    built.write_bytes(b"archive")
    move = cds.shutil.move

    def watched(source: Path, destination: Path) -> None:
        assert destination != target, "a copy would be visible before it is complete"
        move(source, destination)
        assert not target.exists()

    monkeypatch.setattr(cds.shutil, "move", watched)
    cds._publish(built, target)
    assert target.read_bytes() == b"archive"
    assert [path.name for path in target.parent.iterdir()] == ["driver.jsa"]
