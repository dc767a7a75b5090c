"""`penstock lab stores`: one run stands for all its command measured, and what cannot be priced is refused."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from penstock.cli import main
from penstock.home import Home
from penstock.lab.records import Run
from tests.unit.lab.store_runs import eight, timed


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["lab", "stores", *arguments])
    return ended.value.code  # type: ignore[return-value]


def record(home: Home, measured: Run, **described: object) -> str:
    """As if it had been measured here."""
    description = replace(measured.description, **described)  # type: ignore[arg-type]
    directory = home.root / "lab" / description.id
    directory.mkdir(parents=True)
    (directory / "run.json").write_text(json.dumps(asdict(description)))
    (directory / "samples.jsonl").write_text("".join(f"{json.dumps(sample)}\n" for sample in measured.samples))
    return description.id


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def test_the_last_run_stands_for_all_that_its_command_measured(
    home: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record(home, timed("etl", "HDFS"), id="20250101-000000-etl-hdfs-0000", batch="another")
    for place, one in enumerate(eight()):
        arm = one.description.arm.replace(" ", "-")
        name = f"20260101-101500-{one.description.workload}-{arm}"
        record(home, one, id=name, batch="b", experiment=one.description.workload, place=place)
    assert run("-o", str(tmp_path / "page.json")) == 0
    told = json.loads((tmp_path / "page.json").read_text())
    assert list(told["stores"]) == ["HDFS", "Ceph 3x", "Ceph 4+2", "embedded"]
    assert len(told["workloads"]) == 8
    assert len(told["runs"]) == 28, "the run of another command is not among them"
    assert "Over 8 workloads, against HDFS" in capsys.readouterr().out


def test_another_home_s_runs_are_named_by_their_directories(home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    names = [
        record(other, timed("etl", store), id=f"etl-{number}") for number, store in enumerate(("HDFS", "embedded"))
    ]
    assert run(*(str(other.root / "lab" / name) for name in names), "--baseline", "embedded") == 0


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (("--baseline", "S3"), 2, "there is no arm S3"),
        (("--protection", "HDFS=thrice"), 2, "--protection HDFS=thrice is invalid"),
        (("--medium", "tape"), 2, "no medium tape"),
    ],
)
def test_what_nobody_can_price_is_refused(
    home: Home, arguments: tuple[str, ...], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [record(home, timed("etl", store), id=f"etl-{number}") for number, store in enumerate(("HDFS", "embedded"))]
    assert run(*names, *arguments) == code
    assert told in capsys.readouterr().err
