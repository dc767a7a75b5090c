"""A service lists and shows the runs of the lab that it was started with, and of no other lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.home import Home
from penstock.lab.api import LabReports
from penstock.lab.experiment import MeasurementPlan
from penstock.lab.records import Run
from tests.unit.lab.lab_world import Lab, Noted
from tests.unit.service.fakes import Stage


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Home, list[Run]]:
    lab = Lab(Home(tmp_path / "lab"))
    monkeypatch.setattr(Noted, "lab", lab, raising=False)
    return lab.home, [run for _ in range(2) for run in lab.measure("a", MeasurementPlan())]


def test_runs_are_listed_with_the_newest_first(tmp_path: Path, runs: tuple[Home, list[Run]]) -> None:
    home, recorded = runs
    stage = Stage(tmp_path / "service")
    stage.service.reports = LabReports(home)
    answer = stage.client().get("/v1/lab/reports")
    # An id begins with the time of its run.
    assert [row["id"] for row in answer.json()["items"]] == sorted(
        (run.description.id for run in recorded), reverse=True
    )


def test_a_report_is_a_page_in_a_sandbox(tmp_path: Path, runs: tuple[Home, list[Run]]) -> None:
    home, (run, _) = runs
    stage = Stage(tmp_path / "service")
    stage.service.reports = LabReports(home)
    page = stage.client().get(f"/v1/lab/reports/{run.description.id}")
    assert page.status_code == 200
    assert "sandbox allow-scripts" in page.headers["content-security-policy"]
    assert run.description.id in page.text
    assert stage.client().get("/v1/lab/reports/20200101-000000-none").status_code == 404


def test_a_service_without_a_lab_has_no_runs(tmp_path: Path) -> None:
    client = Stage(tmp_path).client()
    assert client.get("/v1/lab/reports").json() == {"items": []}
    assert client.get("/v1/lab/reports/20200101-000000-none").status_code == 404
