"""The training of class-data archives waits for a busy machine, and a failure names the process it waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import processes
from penstock.errors import ClusterError
from penstock.runtime import cds


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, _: float) -> None:
        self.seconds += 1.0


class Jvm:
    """A JVM that ends with `code` after some core-seconds of work, on a machine that gives it `share` of a core."""

    def __init__(self, clock: Clock, pid: int, *, work: float, share: float, code: int = 0) -> None:
        self.clock, self.pid, self.work, self.share, self.code = clock, pid, work, share, code

    def core_seconds(self) -> float:
        return min(self.work, self.clock.seconds * self.share)

    def poll(self) -> int | None:
        return self.code if self.core_seconds() >= self.work else None


Train = Callable[..., "str | None"]


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Train:
    clock = Clock()
    monkeypatch.setattr(cds, "time", clock)
    monkeypatch.setattr(processes, "time", clock)

    def trained(**jvms: dict[str, float]) -> str | None:
        made = {role: Jvm(clock, pid, **how) for pid, (role, how) in enumerate(jvms.items())}  # type: ignore[arg-type]
        by_pid = {jvm.pid: jvm for jvm in made.values()}
        monkeypatch.setattr(cds, "core_seconds_of", lambda pid: by_pid[pid].core_seconds())
        return cds._await_end(made)  # type: ignore[arg-type]

    return trained


def test_a_machine_on_which_training_takes_a_quarter_of_an_hour_is_waited_for(train: Train) -> None:
    assert train(driver={"work": 40, "share": 0.04}, executor={"work": 20, "share": 0.02}) is None


def test_a_driver_that_waits_in_vain_is_given_up_and_named(train: Train) -> None:
    problem = train(driver={"work": 500, "share": 0.01}, executor={"work": 3, "share": 0.5})
    assert problem == "waited for the training driver, which made no progress for 120 s"


def test_one_that_never_comes_to_an_end_is_given_up_by_the_work_it_took(train: Train) -> None:
    problem = train(driver={"work": 1e9, "share": 1.0}, executor={"work": 1e9, "share": 0.01})
    assert problem is not None
    assert problem.startswith("waited for the training driver and executor, which did not end after 1200 s")


def test_a_failed_training_is_reported_before_the_other_ends(train: Train) -> None:
    problem = train(driver={"work": 1e9, "share": 0.01}, executor={"work": 2, "share": 0.5, "code": 3})
    assert problem == "the training executor ended with exit code 3"


@pytest.mark.parametrize(
    ("script", "why"),
    [
        (
            "echo no such class; exit 1",
            "the training driver ended with exit code 1; the output ends with:\nno such class",
        ),
        ("exit 0", "the training driver ended without an error and left no archive, without any output"),
    ],
)
def test_a_failure_has_a_cause_also_where_java_says_nothing(tmp_path: Path, script: str, why: str) -> None:
    with pytest.raises(ClusterError) as failed:
        cds._run({"driver": ["/bin/sh", "-c", script]}, tmp_path, os.environ)
    assert failed.value.why == why


def test_archives_that_were_made_are_no_failure(tmp_path: Path) -> None:
    cds._run({"driver": ["/bin/sh", "-c", f"touch '{tmp_path}/driver.jsa'"]}, tmp_path, os.environ)
