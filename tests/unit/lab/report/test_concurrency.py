"""The page of concurrent users has the figures of the samples, and states problems before any time."""

from __future__ import annotations

import pytest

from penstock.lab.analysis.resources import TOGETHER, by_query, executions, slowdowns, timelines
from penstock.lab.analysis.verdicts import compare_all
from penstock.lab.report import report
from tests.unit.lab.crowd_runs import streams


def test_the_slow_down_is_that_of_the_whole_and_of_each_query() -> None:
    run = streams(seconds=(1.0, 2.0))
    assert {part.name: part.ratio for part in slowdowns(run)} == {"q1": 2.0, "q2": 2.0, "q10": 2.0}
    # 3 s to start and 3 queries: 6 s alone, and 9 s each together, started 10 ms apart.
    document = report.document([run])
    assert document.headline.startswith(
        "3 concurrent users took 1.5× the time of one (too few rounds for a verdict): 9.02 s instead of 6.00 s"
    )
    assert document.good


def test_every_execution_of_every_user_is_a_dot() -> None:
    run = streams(count=10, queries=[f"q{n}" for n in range(1, 55)])
    (plot,) = [
        p for s in report.document([run]).sections for p in s.parts if getattr(p, "name", "") == "users-per-query"
    ]
    boxes, marks = plot.figure["data"]  # type: ignore[union-attr]
    assert len(boxes["y"]) == 540
    assert len(marks["y"]) == 54


def test_queries_are_in_the_order_people_count() -> None:
    assert list(by_query(executions(streams(), TOGETHER))) == ["q1", "q2", "q10"]


def test_a_wrong_answer_of_one_user_is_said_first_and_whose_it_is() -> None:
    run = streams(wrong="q2")
    document = report.document([run])
    assert document.headline.startswith("Wrong answer. 3 concurrent users took")
    assert document.doubts[0].sentence.startswith("1 answer is wrong (q2). ")
    assert not document.good
    assert "user 2" in report.as_markdown([run])


def test_users_without_a_time_are_reported_as_such() -> None:
    document = report.document([streams(failing="q10")])
    assert document.headline.startswith("Failed query. 3 concurrent users have no time")
    assert document.doubts[0].sentence.startswith("1 query failed (q10) in 1 round. ")
    assert not document.good


def test_without_the_user_alone_no_slow_down_is_claimed() -> None:
    document = report.document([streams(alone=False)])
    assert document.headline == "3 concurrent users took 9.02 s; all answers of all users are correct."
    assert "Slowdown" not in {figure.label for figure in document.key_figures}


def test_the_timeline_starts_with_the_first_submission_and_holds_every_query() -> None:
    first, second, third = timelines(streams())
    assert (first.submitted, second.submitted) == (0.0, 0.01)
    assert [one.name for one in (first, second, third)] == ["user 1", "user 2", "user 3"]
    assert third.ended == pytest.approx(9.02)
    assert [round(start, 2) for _, start, _ in first.queries] == [3.0, 5.0, 7.0]


def test_two_runs_are_compared_by_their_whole_and_not_by_users_that_share_it() -> None:
    comparison = compare_all((streams(seconds=(1, 4)), streams(seconds=(1, 2))))[0]
    assert [part.name for part in comparison.parts] == ["1 user", "3 users"]
