"""`penstock lab run|resume|runs`: files are read as the commands read their options, and nothing starts by mistake."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock import formats
from penstock.cli import main
from penstock.cli.lab import commands, measure, options
from penstock.clusters import choice, machine
from penstock.engine.engine import Engine
from penstock.engine.policy import admission
from penstock.errors import InvalidInput, StateError
from penstock.home import Home
from penstock.lab import labfile
from penstock.lab.experiment import Arm
from penstock.lab.records import Description, Recorder
from penstock.lab.workloads import blocks
from penstock.lab.workloads.registry import FileWorkloads, restore_suite
from penstock.lab.workloads.tpcds import Tpcds
from penstock.model import Capacity, Node

EXAMPLES = Path(__file__).parents[4] / "examples"


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main.main(["lab", *arguments])
    return ended.value.code  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


@pytest.fixture(autouse=True)
def with_fio(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine that can measure everything: a file that asks for fio is refused where there is none."""
    monkeypatch.setattr(blocks, "fio_path", lambda: "fio")


def test_the_example_is_a_file_that_can_be_measured(
    tmp_path: Path, home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    run("run", "--example")
    file = tmp_path / "lab.yaml"
    file.write_text(capsys.readouterr().out)
    assert run("run", str(file), "--dry-run") == 0
    told = capsys.readouterr().out
    assert "4 arms, 3 repetitions after 1 for warm-up, caches: keep" in told
    assert "order: warm-up: 1 2 3 4; round 1: 2 3 4 1; round 2: 3 4 1 2; round 3: 4 1 2 3" in told
    assert "16 repetitions in total. Nothing was started." in told
    assert not home.root.exists(), "nothing was started indeed"


def test_what_the_example_shows_as_comments_is_right_too() -> None:
    """Each block of commented lines, in the place of what it is an alternative to."""
    example = resources.files("penstock.lab").joinpath("example.yaml").read_text(encoding="utf-8")
    blocks = re.findall(r"(?:^# (?:[a-z]\w*:|  ).*\n)+", example, flags=re.MULTILINE)
    assert len(blocks) == 4
    arms, each, choices, several = (re.sub("^# ", "", block, flags=re.MULTILINE) for block in blocks)
    usual = admission.usual_size(machine.capacity())
    for text in (f"workload: tpcds\n{arms}", f"workload: tpcds\n{each}{choices}", several):
        assert labfile.parse_experiments(formats.parse(text, "example"), FileWorkloads(), lambda _: usual)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.yaml")), ids=lambda file: str(file.name))
def test_every_example_beside_the_sources_can_be_measured(file: Path) -> None:
    entry = formats.read(file, fix="")
    assert labfile.parse_experiments(entry, FileWorkloads(), lambda _: admission.usual_size(machine.capacity()))


def test_sessions_and_the_labs_clusters_are_sized_for_the_backend_which_need_not_be_this_machine(
    tmp_path: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = Capacity(cores=40, memory_bytes=200 << 30, node=Node(cores=20, memory_bytes=100 << 30))
    backend = SimpleNamespace(capacity=lambda: pods, name="kubernetes")
    monkeypatch.setattr(choice, "backend_of", lambda _: backend)
    file = tmp_path / "lab.yaml"
    file.write_text("workload: tpcds")
    (arm,) = measure._read(file)[0].arms
    usual = Engine(home, choice.backend_of(home)).usual_size()
    assert usual.executor.cores == 18, "nine tenths of a node"
    assert arm.size == options.usual_size() == options.usual_size(Tpcds()) == usual


def test_each_installed_engine_is_an_arm_with_the_same_queries_and_cluster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PENSTOCK_TRINO_HOME", str(tmp_path / "nowhere"))
    measured: list[Arm] = []
    monkeypatch.setattr(commands, "run_arms", lambda arms, plan: measured.extend(arms) or [])
    monkeypatch.setattr(commands, "show", lambda *_: None)
    monkeypatch.setattr(commands, "end_as", lambda _: None)
    run("engines", "--queries", "q3,q7", "--executor-memory", "3g")
    suites = [Tpcds(queries=("q3", "q7"), engine=name) for name in ("spark", "duckdb", "sail")]
    assert [(arm.name, arm.suite) for arm in measured] == list(zip(("Spark", "DuckDB", "Sail"), suites, strict=True))
    assert "Without Trino, which is not installed" in capsys.readouterr().err
    assert {arm.size.executor.memory_bytes for arm in measured} == {3 << 30}
    measured.clear()
    run("engines", "--engines", "duckdb")
    assert [arm.name for arm in measured] == ["DuckDB"]


@pytest.mark.parametrize(("engine", "name"), [("spark", "Penstock"), ("duckdb", "DuckDB")])
def test_an_arm_without_a_name_has_its_engines(monkeypatch: pytest.MonkeyPatch, engine: str, name: str) -> None:
    measured: list[Arm] = []
    monkeypatch.setattr(commands, "run_arms", lambda arms, plan: measured.extend(arms) or [])
    monkeypatch.setattr(commands, "show", lambda *_: None)
    monkeypatch.setattr(commands, "end_as", lambda _: None)
    run("tpcds", "--engine", engine)
    file = formats.parse(f"{{workload: tpcds, options: {{engine: {engine}}}}}", "lab.yaml")
    (experiment,) = labfile.parse_experiments(file, FileWorkloads(), options.usual_size)
    assert [arm.name for arm in (*measured, *experiment.arms)] == [name, name]


def test_an_engine_that_there_is_not_is_named_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("engines", "--engines", "spark,impala") == InvalidInput.exit_code
    assert "There is no engine “impala”" in (said := capsys.readouterr().err)
    assert "--engine spark or duckdb or sail or trino" in said


def test_options_in_a_file_mean_what_they_mean_on_the_command_line() -> None:
    options = {"scale": 0.5, "object_size": "128m", "queries": ["q3", "q7"], "validate": False}
    made = FileWorkloads().suite("tpcds", options)
    assert made == Tpcds(scale=0.5, object_size_bytes=128 << 20, queries=("q3", "q7"), validate=False)
    assert FileWorkloads().suite("tpcds", {"set": "nine"}).options()["queries"][0] == "q19"
    assert FileWorkloads().suite("tpcds", {}) == Tpcds()


@pytest.mark.parametrize("workload", FileWorkloads().names())
def test_every_workload_can_be_described_by_a_file_and_gone_on_with_from_its_records(workload: str) -> None:
    made = FileWorkloads().suite(workload, {})
    assert made.workload == workload
    assert restore_suite(workload, json.loads(json.dumps(made.options()))) == made


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"scale": 0}, "Invalid value for '--scale'"),
        ({"scale": "large"}, "Invalid value for '--scale'"),
        ({"scale": [1, 2]}, "Invalid value for '--scale'"),
        ({"scale": None}, "scale cannot be None"),
        ({"scale": True}, "scale cannot be True"),
        ({"scale": {"a": 1}}, "scale cannot be"),
        ({"validate": "maybe"}, "validate must be true or false, not 'maybe'"),
        ({"queries": "q3,q14"}, "TPC-DS has no query q14"),
        ({"object_size": 32}, "--object-size"),
    ],
)
def test_a_value_that_cannot_be_is_refused(options: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        FileWorkloads().suite("tpcds", options)
    assert problem in raised.value.problem


def test_a_malformed_file_is_refused_with_its_line_and_without_a_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "lab.yaml"
    file.write_text("workload: tpcds\noptions:\n  scael: 1\n")
    assert run("run", str(file)) == InvalidInput.exit_code
    said = capsys.readouterr().err
    assert f"{file}, line 3: options.scael is not known" in said
    assert "did you mean scale?" in said


def recorded(home: Home, name: str, *, repetitions: int, done: int, outcome: str | None = None) -> Recorder:
    plan = {"repetitions": repetitions, "warmup": 1, "caches": "keep"}
    description = Description(name, "tpcds", "Penstock", "2026-11-21 10:00:00 UTC", "penstock lab tpcds", plan=plan)
    recorder = Recorder.begin(home, description)
    for repetition in range(done):
        recorder.add("repetition", repetition=repetition, attempt=1, status="ok", elapsed_ms=1)
    if outcome:
        recorder.add("end", outcome=outcome)
    return recorder


def test_runs_tells_the_interrupted_from_the_running(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    recorded(home, "20260101-a", repetitions=1, done=2, outcome="ok")
    recorded(home, "20260102-b", repetitions=3, done=2)
    with recorded(home, "20260103-c", repetitions=1, done=0).claimed(home):
        run("runs")
        table = capsys.readouterr().out
        run("runs", "--json")
        listed = json.loads(capsys.readouterr().out)
    assert "interrupted, 2 of 4 done" in table
    assert "running, 0 of 2 done" in table
    assert "penstock lab resume 20260102-b" in table
    assert [one["outcome"] for one in listed] == ["ok", "interrupted", "running"]
    assert (listed[1]["repetitions"], listed[1]["repetitions_done"]) == (4, 2)


def test_runs_names_a_damaged_record_and_lists_the_others(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = recorded(home, "20260101-a", repetitions=1, done=2, outcome="ok")
    recorded(home, "20260102-b", repetitions=1, done=2, outcome="wrong")
    (damaged.directory / "run.json").write_text("{")
    run("runs")
    listed = capsys.readouterr().out
    assert "wrong" in listed
    assert (
        "The run.json of 20260101-a is damaged: restore it from the lake (penstock/lab/20260101-a/run.json)" in listed
    )
    assert run("report", "20260101-a") == StateError.exit_code


def test_where_nothing_was_interrupted_there_is_nothing_to_resume(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(home, "20260101-a", repetitions=1, done=2, outcome="ok")
    assert run("resume") == StateError.exit_code
    assert "No run on this machine was interrupted" in capsys.readouterr().err
