"""Impossible sizes are refused with a command to type instead, before anything is measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penstock.cli.lab import app, commands, options, scale
from penstock.cli.lab.scale import cluster_sizes
from penstock.clusters import choice
from penstock.engine.policy import admission
from penstock.errors import ClusterError, InvalidInput
from penstock.home import Home
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.records import Description, Run
from penstock.model import Capacity

GIB = 1 << 30


@pytest.fixture(autouse=True)
def sixteen_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "capacity", lambda _: Capacity(cores=16, memory_bytes=64 * GIB))


def sizes(cores: str, executor_cores: int | None = None, memory: str | None = None) -> list[tuple[int, int]]:
    return [(size.executors, size.executor.cores) for size in cluster_sizes(cores, executor_cores, memory, None)]


def test_a_cluster_that_nobody_sized_fits_where_clusters_are_which_need_not_be_this_machine() -> None:
    assert options.usual_size() == admission.usual_size(choice.capacity(Home.default()))
    assert options.usual_size().executor.cores == 16


def test_executors_are_as_large_as_divides_every_size() -> None:
    assert sizes("1,2,4") == [(1, 1), (2, 1), (4, 1)]
    assert sizes("4,8,16") == [(1, 4), (2, 4), (4, 4)]
    assert sizes("16, 8") == [(1, 8), (2, 8)]
    assert sizes("16,8", 2) == [(4, 2), (8, 2)]


def test_every_executor_core_has_the_same_memory() -> None:
    heaps = {size.executor.memory_bytes // size.executor.cores for size in cluster_sizes("4,8,16", None, None, None)}
    assert heaps == {8 * GIB // 16}


@pytest.mark.parametrize("cores", ["", "1,,2", "two", "1,0", "-1,2", "1.5,2", "²,3"])
def test_what_is_no_list_of_sizes_is_refused(cores: str) -> None:
    with pytest.raises(InvalidInput, match="is not a list of numbers of cores"):
        sizes(cores)


def test_one_size_is_no_curve() -> None:
    with pytest.raises(InvalidInput, match="A curve needs several sizes"):
        sizes("4,4")


def test_sizes_that_are_not_whole_executors_are_refused() -> None:
    with pytest.raises(InvalidInput, match="6 cores are not a whole number of executors with 4 cores") as raised:
        sizes("4,6", 4)
    assert "--executor-cores" in raised.value.fix


def test_a_size_that_could_never_start_is_refused_before_the_others_are_measured() -> None:
    with pytest.raises(ClusterError, match="64 executor cores does not fit here") as raised:
        sizes("1,2,64")
    assert "--cores" in raised.value.fix


def test_the_template_is_a_price_file(tmp_path: Path) -> None:
    printed = CliRunner().invoke(app, ["price", "--template"])
    assert printed.exit_code == 0
    mine = tmp_path / "prices.yaml"
    mine.write_text(printed.stdout, encoding="utf-8")
    page = tmp_path / "page.html"
    made = CliRunner().invoke(app, ["price", "--capacity", "5000t", "--prices", str(mine), "-o", str(page)])
    assert made.exit_code == 0, made.output
    assert "cost least on hard disks with 4+2" in " ".join(made.output.split())
    assert 'id="ownership"' in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "nothing to price"),
        (["--capacity", "100t", "--protection", "4:2"], "--protection is invalid"),
        (["--capacity", "lots"], "--capacity lots is not a size"),
    ],
)
def test_what_cannot_be_priced_is_said(arguments: list[str], says: str) -> None:
    found = CliRunner().invoke(app, ["price", *arguments])
    assert isinstance(found.exception, InvalidInput)
    assert says in str(found.exception)


def measured(arms: Sequence[Arm], plan: MeasurementPlan) -> list[Run]:
    """Runs of these arms that took 40, 25, … seconds, as a runner would have recorded them."""
    found = []
    for arm, seconds in zip(arms, (40, 25, 18), strict=True):
        description = Description(
            id=arm.name.replace(" ", "-"),
            workload=arm.suite.workload,
            arm=arm.name,
            created_at="",
            command="penstock lab scale",
            size=asdict(arm.size),
        )
        samples: list[dict[str, Any]] = [
            {"kind": "measure", "name": "sort", "elapsed_ms": 1000 * seconds, "bytes": 10**9, "repetition": number}
            for number in range(1, plan.repetitions + 1)
        ]
        samples.append({"kind": "end", "outcome": "failed" if seconds == 18 else "ok"})
        found.append(Run(description, tuple({"at_ms": 0, **sample} for sample in samples)))
    return found


def test_every_size_is_an_arm_and_the_curve_is_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[list[Arm], MeasurementPlan]] = []

    def run_arms(arms: Sequence[Arm], plan: MeasurementPlan) -> list[Run]:
        asked.append((list(arms), plan))
        return measured(arms, plan)

    monkeypatch.setattr(scale, "run_arms", run_arms)
    mine, page = tmp_path / "mine.yaml", tmp_path / "curve.md"
    mine.write_text("currency: EUR\n", encoding="utf-8")
    told = CliRunner().invoke(
        app,
        [
            *("scale", "tpcds", "--scale", "0.01", "--cores", "1,2,4", "--repetitions", "2"),
            "--prices",
            str(mine),
            "-o",
            str(page),
        ],
    )
    ((arms, plan),) = asked
    assert [(arm.name, arm.size.executor_cores) for arm in arms] == [("1 core", 1), ("2 cores", 2), ("4 cores", 4)]
    assert {(arm.suite.workload, arm.suite.options()["scale"]) for arm in arms} == {("tpcds", 0.01)}
    assert plan.repetitions == 2
    said = " ".join(told.output.split())
    assert "is fastest on 4 cores" in said
    assert f"penstock lab price --prices {mine} 1-core 2-cores 4-cores" in said
    assert "EUR per run" in page.read_text(encoding="utf-8")
    assert told.exit_code == 1  # as the outcome of an arm calls for, though there is a curve


@pytest.mark.parametrize(
    ("arguments", "plain", "ours"),
    [
        (["--conf", "spark.a=1"], {"spark.a": "1"}, {"spark.a": "1"}),
        (
            ["--conf", "spark.a=1", "--conf-plain", "spark.a=2", "--conf-penstock", "spark.penstock.b=3"],
            {"spark.a": "2"},
            {"spark.a": "1", "spark.penstock.b": "3"},
        ),
    ],
)
def test_settings_are_every_arms_or_those_of_one(
    arguments: list[str], plain: dict[str, str], ours: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Arm] = []

    def run_arms(arms: Sequence[Arm], _: MeasurementPlan) -> list[Run]:
        asked.extend(arms)
        raise InvalidInput("nothing is measured here")

    monkeypatch.setattr(commands, "run_arms", run_arms)
    CliRunner().invoke(app, ["tpcds", "--against-plain", *arguments])
    assert [(arm.launcher, arm.settings) for arm in asked] == [("plain", plain), ("penstock", ours)]
    assert {arm.size.executor.cores for arm in asked} == {16}, "as large as the backend's machines, not as this one"


def test_a_setting_for_plain_spark_alone_needs_its_arm() -> None:
    found = CliRunner().invoke(app, ["tpcds", "--conf-plain", "spark.a=1"])
    assert isinstance(found.exception, InvalidInput)
    assert found.exception.fix == "add --against-plain"


def test_every_workload_on_a_cluster_can_be_scaled() -> None:
    listed = CliRunner().invoke(app, ["scale", "--help"]).output
    assert "tpcds" in listed
    assert "blocks" not in listed
