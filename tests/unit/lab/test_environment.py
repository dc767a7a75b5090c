"""The sample of an application measures both launchers alike."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock.lab.environment import application_sample
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State
from tests.unit.lab.lab_fakes import NOW

SUBMITTED_MS = int(NOW.timestamp() * 1000)


@pytest.mark.parametrize(
    ("summary", "elapsed_ms"),
    [
        ({"processes": {"driver": {"ended_ms": SUBMITTED_MS + 9_000}}}, 9_000),
        ({"processes": {"driver": {"exit_code": None}}}, 20_000),
        (None, 20_000),
    ],
    ids=["driver", "driver of unknown end", "no driver"],
)
def test_an_application_takes_from_its_submission_to_the_end_of_its_driver(
    summary: dict[str, Any] | None, elapsed_ms: int
) -> None:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
    spec = ApplicationSpec("x.jar", size, "x")
    ended = Application("app-1", spec, State.FINISHED, NOW, ended_at=NOW + timedelta(seconds=20), summary=summary)
    sample = application_sample(ended, "sort")
    assert (sample["submitted_ms"], sample["elapsed_ms"]) == (SUBMITTED_MS, elapsed_ms)


def test_the_clock_of_another_machine_measures_no_time_of_an_application() -> None:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
    an_hour_behind = {"processes": {"driver": {"ended_ms": SUBMITTED_MS - 3_600_000}}}
    ended = Application("app-1", ApplicationSpec("x.jar", size, "x"), State.FINISHED, NOW, summary=an_hour_behind)
    assert application_sample(ended, "sort", seen_ended_ms=SUBMITTED_MS + 9_000)["elapsed_ms"] == 9_000


def test_an_application_that_has_not_ended_has_no_time() -> None:
    size = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 2 << 30), 1)
    running = Application("app-1", ApplicationSpec("x.jar", size, "x"), State.RUNNING, NOW)
    assert application_sample(running, "sort")["elapsed_ms"] is None
