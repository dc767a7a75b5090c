"""A report names one command that repeats its measurement, and says in sentences how it was measured."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest

from penstock import formats
from penstock.lab import labfile
from penstock.lab.experiment import Arm, Experiment, MeasurementPlan
from penstock.lab.records import Description, Run
from penstock.lab.report import report
from penstock.lab.report.elements import reproduction
from penstock.lab.workloads import blocks
from penstock.lab.workloads.options import options_given, suite_of
from penstock.lab.workloads.registry import NAMES, WORKLOADS, FileWorkloads, suite_class
from penstock.model import ClusterSize, ProcessSize
from tests.unit.lab import lab_runs

SIZE = ClusterSize(ProcessSize(1, 1 << 30), ProcessSize(2, 1536 << 20), 3)
OTHER_MACHINE = ClusterSize(ProcessSize(1, 4 << 30), ProcessSize(64, 8 << 30), 1)
PLAN = MeasurementPlan(5, 1, "drop")
OPTIONS: dict[str, dict[str, Any]] = {
    "tpcds": {"queries": "q3,q14a", "scale": 0.01, "validate": False, "layout": "by-day", "object_size": "100000b"},
    "streams": {"set": "nine", "users": 3, "alone": False},
    "mixed": {"users_set": "all", "queries": "q7"},
    "etl": {"size": "1m", "formats": "orc", "bad_share": 0.00001},
    "enrichment": {"scale": 2},
    "kmeans": {"points": "1234", "seed": 9},
    "merge": {"rows": "2m", "mode": "merge-on-read", "seed": 3},
    "terasort": {"size": "10g", "skew": True, "partitions": 7},
    "ingest": {"duration": "30m", "rate": "100m", "keep": True},
    "blocks": {"directory": "/usr", "depth": 4},
    "dfsio": {"clients": "1,16", "read": False},
    "gateways": {"gateways": 3, "kill": True, "rate": "3m"},
    "objects": {"stage": ["get=80,put=20", "list"], "duration": "1500ms", "workers": "1,2", "size": "u(1,64)KB"},
    "reads": {"threads": "1,2,4", "small_size": "3k"},
}


def described(arms: Sequence[Arm], plan: MeasurementPlan = PLAN, *, batch: str = "") -> list[Description]:
    """Describe the arms as the runner does, as read back from a record."""
    written = [
        Description(
            id=f"run-{batch}-{place}",
            workload=arm.suite.workload,
            arm=arm.name,
            created_at="2026-01-01 10:00:00 UTC",
            command=f"penstock lab {arm.suite.workload} --against-plain",
            experiment=f"experiment-{batch}",
            place=place,
            lake={"name": arm.lake, "gateways": arm.gateways},
            profile=arm.profile,
            size=asdict(arm.size),
            settings={**arm.suite.meaning, **arm.settings},
            options=arm.suite.options(),
            launcher=arm.launcher,
            plan=asdict(plan),
        )
        for place, arm in enumerate(arms)
    ]
    return [Description.from_json(json.loads(json.dumps(asdict(one)))) for one in written]


def experiments_of(command: str) -> list[Experiment]:
    """Read the command's lab file on a machine where every default is another."""
    first, *file, last = command.splitlines()
    assert (first, last) == ("penstock lab run /dev/stdin <<'END'", "END")
    return labfile.parse_experiments(formats.parse("\n".join(file), "stdin"), FileWorkloads(), lambda _: OTHER_MACHINE)


def recorded(arm: Arm) -> Arm:
    """The arm with what its record states beyond its choices."""
    if not WORKLOADS[arm.suite.workload].spark:
        return replace(arm, size=OTHER_MACHINE, settings={}, profile=None)
    return replace(arm, settings={**arm.suite.meaning, **arm.settings})


@pytest.fixture(autouse=True)
def with_fio(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine with fio, without which block devices are not measured."""
    monkeypatch.setattr(blocks, "fio_path", lambda: "fio")


@pytest.mark.parametrize("workload", NAMES)
def test_a_suite_is_made_again_from_the_options_that_it_was_given(workload: str) -> None:
    kind = suite_class(workload)
    for given in ({}, OPTIONS[workload]):
        suite = suite_of(kind, given)
        assert suite_of(kind, options_given(suite)) == suite
    assert options_given(suite_of(kind, {})) == {}, "defaults are not repeated"


@pytest.mark.parametrize("workload", NAMES)
def test_the_command_repeats_the_experiment_on_any_machine(workload: str) -> None:
    suite = FileWorkloads().suite(workload, OPTIONS[workload])
    arms = [
        Arm("plain Spark", suite, SIZE, "embedded", launcher="plain"),
        Arm("Penstock: 'it'", suite, SIZE, "embedded", "sql+no-skipping", {"spark.x": "true", "spark.y": "1"}),
        Arm("small\nEND", replace(suite), replace(SIZE, executors=1), "ceph", "sql", {"spark.y": "2"}, gateways=1),
    ]
    if not WORKLOADS[workload].spark:
        arms = [replace(arm, launcher="penstock") for arm in arms]
    (experiment,) = experiments_of(reproduction.command(described(arms)))
    assert experiment == Experiment([recorded(arm) for arm in arms], PLAN)


def test_an_engine_without_executors_has_the_same_size_again() -> None:
    suite = FileWorkloads().suite("tpcds", {"engine": "duckdb", "set": "nine"})
    arm = Arm("DuckDB", suite, SIZE, "embedded")
    recorded_arm = replace(arm, size=arm.applied_size)
    command = reproduction.command(described([recorded_arm]))
    ((again,),) = (experiment.arms for experiment in experiments_of(command))
    assert "executors" not in command
    assert (again.suite, again.applied_size) == (suite, arm.applied_size)


def test_arms_that_differ_in_an_option_keep_their_own() -> None:
    arms = [
        Arm(f"{rows} rows", FileWorkloads().suite("etl", {"rows": rows, "seed": 2}), SIZE, "embedded", "etl")
        for rows in ("1m", "2m")
    ]
    command = reproduction.command(described(arms))
    assert experiments_of(command) == [Experiment([recorded(arm) for arm in arms], PLAN)]
    assert command.count("seed") == 1


def test_several_experiments_are_one_command() -> None:
    first = [Arm(name, FileWorkloads().suite("etl", {}), SIZE, name, "etl") for name in ("ceph", "hdfs")]
    second = [replace(arm, suite=FileWorkloads().suite("tpcds", {}), profile="tpcds") for arm in first]
    descriptions = [*described(first, batch="1"), *described(second, batch="2")]
    assert experiments_of(reproduction.command(descriptions)) == [
        Experiment([recorded(arm) for arm in arms], PLAN) for arms in (first, second)
    ]


def test_the_command_line_takes_the_command() -> None:
    arms = [Arm("Penstock", FileWorkloads().suite("etl", {}), SIZE, "embedded", "etl")]
    command = reproduction.command(described(arms)).replace("/dev/stdin", "/dev/stdin --dry-run", 1)
    python = f"{shlex.quote(sys.executable)} -m penstock.cli.main"
    done = subprocess.run(
        ["bash", "-c", command.replace("penstock", python, 1)], capture_output=True, text=True, check=False
    )
    assert "1 arm, 5 repetitions after 1 for warm-up, caches: drop" in done.stdout, done.stderr
    assert "3 executors of 2 cores, 1.5 GiB" in done.stdout


@pytest.mark.parametrize(
    "changes",
    [
        {"workload": "startup"},
        {"plan": {}},
        {"options": {"of_an_older_release": 1}},
        {"lake": {}},
    ],
)
def test_the_recorded_commands_stand_where_a_lab_file_cannot_describe_a_run(changes: dict[str, Any]) -> None:
    (one,) = described([Arm("Penstock", FileWorkloads().suite("etl", {}), SIZE, "embedded", "etl")])
    assert reproduction.command([replace(one, **changes)] * 2) == "penstock lab etl --against-plain"


def test_what_a_newer_release_added_to_a_plan_is_ignored() -> None:
    (one,) = described([Arm("Penstock", FileWorkloads().suite("etl", {}), SIZE, "embedded", "etl")])
    newer = replace(one, plan={**one.plan, "of_tomorrow": 1})
    assert reproduction.command([newer]) == reproduction.command([one])


def rounds(*orders: int, warmup: int = 0, load: float | None = 0.5, other: float = 0.5) -> list[dict[str, Any]]:
    samples: list[dict[str, Any]] = []
    for repetition, order in enumerate(orders, start=1 - warmup):
        begin = {"kind": "begin", "order": order, **({} if load is None else {"load_1m": load + repetition / 10})}
        usage = {"kind": "usage", "elapsed_ms": 2000, "other_core_seconds": other, "disturbed": other > 1}
        samples += lab_runs.repetition(repetition, [begin, lab_runs.measure("work", 1), usage])
    return samples


MACHINE = {"processor": "Xeon", "cores": 2, "memory_bytes": 8 << 30, "system": "Debian"}
DESCRIBED = {
    "plan": {"repetitions": 2, "warmup": 1, "caches": "keep"},
    "machine": MACHINE,
    "versions": {"spark": "4.1.0", "penstock": "1.0"},
    "commit": "abc",
    "backend": "local",
}


def arms(**changes: Any) -> list[Run]:
    return [
        lab_runs.run("etl", rounds(*orders, warmup=1), arm=arm, experiment="one", **{**DESCRIBED, **changes})
        for arm, orders in (("plain", (1, 4, 5)), ("Penstock", (2, 3, 6)))
    ]


def text(*runs: Run) -> str:
    return reproduction.sentences(runs, [run.description.arm for run in runs])


def test_order_plan_caches_machine_versions_commit_and_load_are_stated() -> None:
    assert text(*arms()) == (
        "The arms were measured in turns: warm-up plain, Penstock; round 1 Penstock, plain; round 2 plain, Penstock. "
        "The plan has 2 rounds after 1 for warm-up, which no figure includes. "
        "Penstock's and the operating system's caches were left as they were before each. "
        "The machine was Xeon, 2 cores, 8.0 GiB, Debian. "
        "The versions were penstock 1.0, spark 4.1.0. "
        "The source was at commit abc. "
        "The load average before a repetition, which includes the previous one, was 0.50 to 0.70. "
        "During a repetition other programs used 0.25 cores."
    )


def test_dropped_caches_and_a_measurement_without_warm_up_are_stated() -> None:
    said = text(*arms(plan={"repetitions": 1, "warmup": 0, "caches": "drop"}))
    assert "The plan has 1 round without warm-up." in said
    assert "caches were dropped before each" in said


def test_runs_that_were_not_measured_in_turns_are_said_to_be_so() -> None:
    first, second = arms()
    later = replace(second, description=replace(second.description, experiment="another", commit="def"))
    said = text(first, later)
    assert "The runs were not measured in turns" in said
    assert "Plain: The source was at commit abc. Penstock: The source was at commit def." in said


def test_several_experiments_are_said_to_have_had_turns_of_their_own() -> None:
    others = [replace(run, description=replace(run.description, experiment="two")) for run in arms()]
    assert text(*arms(), *others).startswith("Each of 2 experiments measured its arms in turns")


def test_one_arm_alone_is_said_to_have_had_others_beside_it() -> None:
    assert "its repetitions were turns 1, 4, 5." in text(arms()[0])


def test_a_resumption_a_disturbance_and_damaged_lines_are_stated() -> None:
    resumed = [
        {"kind": "resumed", "commit": "def", "machine": MACHINE, "versions": {"spark": "4.1.0"}},
        {"kind": "resumed", "commit": "abc"},
    ]
    run = lab_runs.run("etl", [*rounds(1, other=3.0), *resumed], **DESCRIBED)
    said = text(replace(run, damaged_lines=2))
    assert "Penstock was interrupted and resumed with another commit and versions." in said
    assert "Penstock was interrupted and resumed with the same commit, machine and versions." in said
    assert "Other programs disturbed 1 repetition of Penstock." in said
    assert "2 lines of Penstock's samples could not be read." in said


def test_what_is_unknown_is_said_to_be() -> None:
    older = lab_runs.run("etl", lab_runs.repetition(1, [lab_runs.measure("work", 1)]))
    for unknown in ("no plan", "does not describe the machine", "commit is unknown", "load of the machine was not"):
        assert unknown in text(older)
    nodes = lab_runs.run("etl", rounds(1, load=None), **{**DESCRIBED, "backend": "kubernetes"})
    assert "processors and load of its nodes are unknown. The lab ran on Xeon" in text(nodes)
    assert "load of the machine" not in text(nodes)


def test_every_form_of_a_report_has_the_command_and_the_paragraph() -> None:
    runs = arms()
    for form in (report.as_html(runs), report.as_markdown(runs)):
        assert "How it was measured" in form
        assert "The arms were measured in turns" in form
        assert "penstock lab etl" in form, "these handmade runs name no lake"
