"""The first task of an application: Penstock and plain Spark really start, each as its users start it."""

from __future__ import annotations

import pytest

from penstock.home import Home
from penstock.lab.environment import Environment
from penstock.lab.workloads import overhead
from tests.lab.test_lab_terasort import SIZE, Quiet


def test_every_arm_reaches_its_first_task(shared_home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    # Penstock is started by its command, in another process.
    monkeypatch.setenv("PENSTOCK_HOME", str(shared_home.root))
    runs = overhead.measure_startup(
        Environment.open(shared_home), size=SIZE, repetitions=1, profile="default", listener=Quiet()
    )
    for run in runs:
        assert run.outcome == "ok", run.of_kind("failure")
        (start,) = run.of_kind("start")
        assert start["first_task_ms"] > start["submitted_ms"]
