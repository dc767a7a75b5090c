"""The model that judges tables: it accepts exactly the contents that some order of jobs explains."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.chaos.history import CommittedRows, JobReport, Outcome, possible, violations
from benchmarks.chaos.operations import APPEND, DYNAMIC, OVERWRITE, Job

ALL = (0, 1, 2)


def reported(
    name: str, kind: str, *partitions: int, at: tuple[float, float | None] = (0, 100), how: str = "done"
) -> JobReport:
    return JobReport(Job(name, kind, "t", 30, 1, partitions or ALL), Outcome(how), *at)


def all_of(*jobs: JobReport) -> list[CommittedRows]:
    return [
        CommittedRows(one.job.id, partition, one.job.rows_in(partition), one.job.rows_in(partition), 1)
        for one in jobs
        for partition in one.job.partitions
    ]


def test_appends_add_up() -> None:
    a, b = reported("a", APPEND), reported("b", APPEND, 1)
    assert violations("t", [a, b], all_of(a, b)) == []
    assert violations("t", [a, b], all_of(a)) == ["t: partition 1: job b is lost"]


def test_rows_are_there_once_and_whole() -> None:
    a = reported("a", APPEND, 0)
    (found,) = all_of(a)
    assert "60 rows, 30 of them different, instead of 30" in violations("t", [a], [replace(found, rows=60)])[0]
    assert "10 rows" in violations("t", [a], [replace(found, rows=10, distinct=10)])[0]
    assert "rows of 2 attempts" in violations("t", [a], [replace(found, attempts=2)])[0]
    assert "1 rows are not what was written" in violations("t", [a], [replace(found, wrong=1)])[0]
    assert "rows of nobody" in violations("t", [], [found])[0]
    assert "does not write to" in violations("t", [a], [replace(found, partition=2)])[0]


def test_nothing_of_a_failed_job_is_there() -> None:
    a, b = reported("a", APPEND), reported("b", APPEND, how="failed")
    assert violations("t", [a, b], all_of(a)) == []
    assert "of a job that failed are visible" in violations("t", [a, b], all_of(a, b))[0]


def test_a_job_of_which_nobody_knows_is_there_whole_or_not_at_all() -> None:
    a, b = reported("a", APPEND), reported("b", APPEND, how="unknown", at=(5, None))
    assert violations("t", [a, b], all_of(a)) == []
    assert violations("t", [a, b], all_of(a, b)) == []
    assert violations("t", [a, b], all_of(a, b)[:-1]) == ["t: partition 2: job b is lost"]


def test_an_overwrite_that_came_later_replaced_what_was_before() -> None:
    a, b = reported("a", APPEND, at=(0, 1)), reported("b", OVERWRITE, at=(2, 3))
    assert violations("t", [a, b], all_of(b)) == []
    assert "no order of its jobs explains it" in violations("t", [a, b], all_of(a, b))[0]


def test_jobs_at_the_same_time_may_come_in_any_order_but_in_one() -> None:
    a, b = reported("a", APPEND), reported("b", OVERWRITE)
    assert violations("t", [a, b], all_of(a, b)) == []
    assert violations("t", [a, b], all_of(b)) == []
    # In partition 0 the append came first, in the others the overwrite came first.
    mixed = all_of(b) + all_of(a)[1:]
    assert "contradict each other" in violations("t", [a, b], mixed)[0]


def test_of_two_overwrites_one_stays_alone() -> None:
    a, b = reported("a", OVERWRITE), reported("b", OVERWRITE)
    assert violations("t", [a, b], all_of(a)) == []
    assert "both replaced it, and both are there" in violations("t", [a, b], all_of(a, b))[0]
    assert "replaced it, and none is there" in violations("t", [a, b], [])[0]
    halves = all_of(a)[:1] + all_of(b)[1:]
    assert "contradict each other" in violations("t", [a, b], halves)[0]


def test_a_dynamic_overwrite_leaves_other_partitions_alone() -> None:
    a, b = reported("a", APPEND, at=(0, 1)), reported("b", DYNAMIC, 1, at=(2, 3))
    right = [found for found in all_of(a, b) if (found.job, found.partition) != ("a", 1)]
    assert violations("t", [a, b], right) == []
    assert violations("t", [a, b], all_of(b)) == ["t: partition 0: job a is lost", "t: partition 2: job a is lost"]


def test_what_one_writer_can_see_of_its_own_table() -> None:
    a, b = reported("a", OVERWRITE), reported("b", DYNAMIC, 1)
    assert possible([a, b]) == [{("a", 0), ("a", 2), ("b", 1)}]
    unknown = replace(b, outcome=Outcome.UNKNOWN)
    assert possible([a, unknown]) is None
    c = reported("c", APPEND, 0)
    assert len(possible([a, unknown, c]) or []) == 2
    assert possible([a, replace(b, outcome=Outcome.FAILED)]) == [{("a", 0), ("a", 1), ("a", 2)}]
