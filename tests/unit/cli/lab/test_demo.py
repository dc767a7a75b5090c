"""`penstock demo`: a report that cannot be written is refused before the measurement, and reported after it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.cli import main
from penstock.cli.lab import demo
from penstock.cli.output import plain_console
from penstock.errors import InvalidInput
from penstock.home import Home


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The reports of the demos that were started."""
    started: list[Path] = []

    def run_demo(_home: Home, _suite: object, _size: object, report: Path, _console: object) -> None:
        started.append(report)
        raise InvalidInput("This demo ends here")

    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(demo, "run_demo", run_demo)
    return started


def run(report: Path) -> None:
    with pytest.raises(SystemExit):
        main.main(["demo", "--report", str(report)])


@pytest.mark.parametrize("name", ["missing/x.html", "directory", "x" * 300])
def test_a_report_that_cannot_be_written_is_refused_before_the_measurement(
    measured: list[Path], tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "directory").mkdir()
    run(tmp_path / name)
    assert measured == []
    said = capsys.readouterr().err
    assert "The report cannot be written" in said
    assert "--report" in said


def test_a_demo_that_fails_leaves_no_empty_report_and_keeps_the_last_one(measured: list[Path], tmp_path: Path) -> None:
    last = tmp_path / "last.html"
    last.write_text("kept")
    for report in (tmp_path / "new.html", last):
        run(report)
    assert measured == [tmp_path / "new.html", last]
    assert not (tmp_path / "new.html").exists()
    assert last.read_text() == "kept"


def test_a_directory_that_is_gone_after_the_measurement_is_no_defect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "await_archives", lambda *_: None)
    monkeypatch.setattr(demo, "_servers", lambda *_: contextlib.nullcontext())
    monkeypatch.setattr(demo.runner, "measure", lambda *_: ["run"])
    monkeypatch.setattr(demo, "Arm", lambda *_: None)
    monkeypatch.setattr(demo, "as_html", lambda _: "<html>")
    suite: Any = SimpleNamespace(scale=1, queries=())
    size: Any = None
    with pytest.raises(InvalidInput, match="The report cannot be written"):
        demo.run_demo(Home(tmp_path / "home"), suite, size, tmp_path / "gone" / "x.html", plain_console())
