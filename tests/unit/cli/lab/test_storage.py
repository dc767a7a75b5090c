"""`penstock lab objects`: what cannot be meant is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.lab import app, commands
from penstock.errors import InvalidInput
from penstock.lab.experiment import Arm
from penstock.lab.workloads.base import Suite
from penstock.lab.workloads.objects import Objects


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Suite]:
    """The suites that would have been measured, after their own check."""
    found: list[Suite] = []

    def run(arms: list[Arm], plan: object) -> list[object]:
        for arm in arms:
            arm.suite.check_options()
            found.append(arm.suite)
        return []

    monkeypatch.setattr(commands, "run_arms", run)
    monkeypatch.setattr(commands, "show", lambda *_: None)
    return found


def call(*arguments: str) -> None:
    result = CliRunner().invoke(app, ["objects", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output


def test_options_become_the_suite(asked: list[Suite]) -> None:
    call("--stage", "put", "--stage", "get=9,list=1", "--size", "4k-1m", "--workers", "1, 4", "--duration", "2m")
    assert asked == [Objects(mixes=("put", "get=9,list=1"), size="4k-1m", workers=(1, 4), seconds=120.0)]


def test_without_options_objects_are_read(asked: list[Suite]) -> None:
    call()
    assert asked == [Objects()]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--operation", "get", "--mix", "get=1"), "exclude each other"),
        (("--cosbench", "x.xml", "--stage", "put"), "exclude each other"),
        (("--operation", "post"), "post"),
        (("--size", "big"), "big"),
        (("--size", "6g"), "one PUT carries at most"),
        (("--workers", "many"), "--workers many"),
        (("--workers", "0"), "nothing to measure"),
        (("--workers", "9999"), "9999 workers"),
        (("--duration", "soon"), "--duration"),
        (("--duration", "0s"), "above zero"),
    ],
)
def test_what_cannot_be_is_refused(asked: list[Suite], arguments: tuple[str, ...], said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call(*arguments)
    assert said in str(caught.value)
    assert not asked


def test_a_malformed_workload_file_is_refused_with_its_line(asked: list[Suite], tmp_path: Path) -> None:
    file = tmp_path / "load.xml"
    file.write_text('<workload name="w">\n<workflow>\n<workstage name="main"/>\n</workflow>\n</workload>', "utf-8")
    with pytest.raises(InvalidInput, match=r"load\.xml, line 3: a workstage needs at least one work"):
        call("--cosbench", str(file))
    assert not asked
