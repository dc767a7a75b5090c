"""Queries run as one script of an engine that is not Spark, and its results are the lab's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from penstock.engine.engines.registry import engine_named
from penstock.errors import InvalidInput
from penstock.lab import runner
from penstock.lab.experiment import Arm, MeasurementPlan
from penstock.lab.workloads import tpcds
from penstock.lab.workloads.statements import DIALECTS, QueryScript
from penstock.model import DUCKDB_INTERNAL, ClusterSize, ProcessSize
from tests.unit.lab.lab_fakes import Silent
from tests.unit.lab.tpcds_world import SIZE, World

SCRIPT = QueryScript(
    DIALECTS["duckdb"], "tpcds_sf1", {"q1": "SELECT `a` FROM t;", "q2": "SELECT 2"}, iterations=2, warm_iterations=1
)
SUITE = tpcds.Tpcds(scale=0.1, queries=("q1", "q2"), engine="duckdb")


def result(value: int, **more: Any) -> dict[str, Any]:
    times = {"started_ms": 1000 + value, "elapsed_ms": float(value)}
    return {"statement": "", "columns": [{"name": "a", "type": "int"}], "rows": [[value]], **times, **more}


def results_of(values: Sequence[int]) -> list[dict[str, Any]]:
    return [result(0)] * SCRIPT.before + [result(value) for value in values]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_the_script_is_the_queries_in_duckdb_s_words_for_each_round() -> None:
    statements = [one.query for one in duckdb.extract_statements(SCRIPT.text)]
    assert [text.strip(" ;\n") for text in statements[SCRIPT.before :]] == ['SELECT "a" FROM t', "SELECT 2"] * 3
    assert statements[SCRIPT.before - 1].strip() == 'USE "tpcds_sf1"'


def test_sail_gets_spark_s_words_and_its_answers_are_known_to_be_cut() -> None:
    script = replace(SCRIPT, dialect=DIALECTS["sail"])
    before = ["SET spark.sql.ansi.enabled = false;", "USE `tpcds_sf1`;"]
    assert script.text.splitlines() == [*before, *["SELECT `a` FROM t;", "SELECT 2;"] * 3]
    results = [result(0)] * script.before + [result(value) for value in range(6)]
    assert [line["cut"] for line in script.answers(results)] == [True] * 4
    assert not any("cut" in line for line in SCRIPT.answers(results_of(range(6))))


@pytest.mark.parametrize(
    ("spark", "trino"),
    [
        ("SELECT a / b AS `c d` FROM t", 'SELECT CAST(a AS DOUBLE) / NULLIF(b, 0) AS "c d" FROM t'),
        ("SELECT avg(a) FROM t", "SELECT AVG(CAST(a AS DOUBLE)) FROM t"),
        ("SELECT 1 FROM t ORDER BY a, b DESC", "SELECT 1 FROM t ORDER BY a NULLS FIRST, b DESC"),
        ("SELECT 1 FROM t WHERE d = '2000-01-03'", "SELECT 1 FROM t WHERE d = CAST('2000-01-03' AS DATE)"),
        (
            "SELECT round(a / b, 2) FROM t",
            "SELECT ROUND(CAST(CAST(a AS DOUBLE) / NULLIF(b, 0) AS DECIMAL(38, 12)), 2) FROM t",
        ),
        (
            "SELECT cast((a / 50) AS INT) FROM t",
            "SELECT TRY_CAST(TRUNCATE((CAST(a AS DOUBLE) / NULLIF(50, 0))) AS INTEGER) FROM t",
        ),
    ],
)
def test_trino_is_asked_so_that_it_computes_as_spark_does(spark: str, trino: str) -> None:
    script = QueryScript(DIALECTS["trino"], "sales", {"q": spark})
    assert script.text.splitlines() == ['USE "sales";', f"{trino};"]


def test_progress_names_the_query_that_runs() -> None:
    first = SCRIPT.before + 1
    found = [SCRIPT.position(number) for number in (1, first, first + 1, first + 2)]
    assert found == [None, "q1 (1 of 6)", "q2 (2 of 6)", "q1 (3 of 6)"]


def test_only_counted_rounds_are_samples_and_their_different_answers_are_checked() -> None:
    results = results_of([1, 2, 3, 4, 5, 6])
    found = [(one["query"], one["iteration"], one["elapsed_ms"], one["rows"]) for one in SCRIPT.samples(results)]
    assert found == [("q1", 1, 3.0, 1), ("q2", 1, 4.0, 1), ("q1", 2, 5.0, 1), ("q2", 2, 6.0, 1)]
    assert SCRIPT.answers(results) == [
        {"query": name, "columns": ["a"], "types": ["int"], "rows": [[value]]}
        for name, value in (("q1", 3), ("q2", 4), ("q1", 5), ("q2", 6))
    ]
    repeated = SCRIPT.answers(results_of([1, 2, 3, 4, 3, 6]))
    assert [(one["query"], one["rows"]) for one in repeated] == [("q1", [[3]]), ("q2", [[4]]), ("q2", [[6]])]


def test_a_failed_query_is_a_sample_with_its_error_and_has_no_answer() -> None:
    script = replace(SCRIPT, iterations=1, warm_iterations=0)
    failed = {"statement": "", "error": "out of memory", "started_ms": 1, "elapsed_ms": 2.0}
    results = [*results_of([1]), failed]
    first, second = script.samples(results)
    assert (first["status"], second["status"], second["error"]) == ("ok", "failed", "out of memory")
    assert [answer["query"] for answer in script.answers(results)] == ["q1"]


def test_the_engine_s_application_has_the_executor_s_size_and_none_of_spark_s_settings(world: World) -> None:
    larger = replace(SIZE, executor=ProcessSize(2, 1 << 30))
    (run,) = runner.measure(lambda _: world.bench, [Arm("DuckDB", SUITE, larger)], MeasurementPlan(), Silent())
    assert run.outcome == "ok"
    load, power = world.engine.submitted
    assert load.size == larger
    assert (power.application, power.main_class, power.settings) == (DUCKDB_INTERNAL, None, {})
    assert (power.size.driver, power.size.executors) == (larger.executor, 0)
    assert run.description.profile is None
    assert ClusterSize.from_json(run.description.size).working_cores == 2
    assert [sample["verdict"] for sample in run.of_kind("answer")] == ["equal", "equal"]


def test_a_wrong_answer_of_the_engine_is_found(world: World) -> None:
    world.answers["q2"] = [["2.60"]]
    assert world.measure(SUITE).outcome == "wrong"


def test_a_wrong_answer_of_a_later_iteration_is_found(world: World) -> None:
    suite = replace(SUITE, iterations=3, warm_iterations=1)
    assert world.measure(suite).outcome == "ok"
    world.later_answers["q2"] = [["2.60"]]
    run = world.measure(suite)
    assert run.outcome == "wrong"
    verdicts = [(sample["query"], sample["verdict"]) for sample in run.of_kind("answer")]
    assert verdicts == [("q1", "equal"), ("q2", "equal"), ("q2", "different")]


def test_a_query_that_failed_in_the_engine_fails_the_run_and_the_others_are_checked(world: World) -> None:
    world.failing = {"q1"}
    run = world.measure(SUITE)
    assert run.outcome == "failed"
    assert [(sample["query"], sample["verdict"]) for sample in run.of_kind("answer")] == [("q2", "equal")]


def test_a_script_that_did_not_reach_its_end_is_a_failure_that_says_why(world: World) -> None:
    world.leaves_samples = False
    (repetition,) = world.measure(SUITE).of_kind("repetition")
    assert "ended as" in repetition["error"]


def test_the_queries_before_the_end_of_a_killed_engine_are_recorded_and_the_run_has_failed(world: World) -> None:
    world.dies_after = 1
    run = world.measure(SUITE)
    (repetition,) = run.of_kind("repetition")
    assert "ended as" in repetition["error"]
    assert [(sample["query"], sample["status"]) for sample in run.of_kind("query")] == [("q1", "ok")]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"launcher": "plain"}, "the launcher plain"),
        ({"profile": "sql"}, "the profile sql"),
        ({"gateways": 1}, "the gateways 1"),
    ],
)
def test_choices_for_spark_alone_are_refused(world: World, choice: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        runner.measure(
            lambda _: world.bench, [replace(Arm("DuckDB", SUITE, SIZE), **choice)], MeasurementPlan(), Silent()
        )
    assert not world.engine.submitted


def test_an_engine_that_there_is_not_and_a_place_that_it_cannot_read_are_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="no engine “impala”"):
        world.measure(replace(SUITE, engine="impala"))
    with pytest.raises(InvalidInput, match="duckdb cannot read tables from local"):
        world.measure(replace(SUITE, location="local"))
    assert engine_named("duckdb").title == "DuckDB"
