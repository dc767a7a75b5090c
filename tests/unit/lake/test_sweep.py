"""The cutoff of a sweep."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from penstock.lake.sweep import cutoff
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
DAY = timedelta(hours=24)
SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(1, 1 << 30), 1)


def application(name: str, *, age: timedelta) -> Application:
    return Application(id=name, spec=ApplicationSpec("x.py", SIZE, name), state=State.RUNNING, submitted_at=NOW - age)


def test_without_applications_age_decides() -> None:
    assert cutoff(NOW, DAY, []) == (NOW - DAY, None)


def test_an_application_that_runs_for_longer_may_have_written_anything_since_its_submission() -> None:
    old, older = application("old", age=2 * DAY), application("older", age=3 * DAY)
    assert cutoff(NOW, DAY, [old, older]) == (older.submitted_at, older)


def test_an_application_younger_than_the_limit_changes_nothing() -> None:
    assert cutoff(NOW, DAY, [application("young", age=DAY / 2)]) == (NOW - DAY, None)


def test_with_no_age_at_all_what_runs_is_still_left_alone() -> None:
    running = application("running", age=timedelta(minutes=1))
    assert cutoff(NOW, timedelta(0), [running]) == (running.submitted_at, running)
