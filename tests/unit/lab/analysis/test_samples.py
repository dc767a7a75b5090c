"""Measures are compared only where both sides have them, and differences within the noise are reported as noise."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.lab.analysis.samples import natural_key, query_seconds
from penstock.lab.analysis.verdicts import compare_all, ratio, ratio_interval, spread
from penstock.lab.records import Description, Run

few = settings(max_examples=20, deadline=None)  # each example resamples thousands of times
times = st.lists(st.floats(0.01, 1000), min_size=1, max_size=8)


def run(*samples: dict[str, Any], arm: str = "penstock") -> Run:
    return Run(Description(id=arm, workload="tpcds", arm=arm, created_at="", command=""), samples)


def query(name: str, seconds: float, *, iteration: int = 1, status: str = "ok", **more: Any) -> dict[str, Any]:
    elapsed = round(seconds * 1000)
    return {"kind": "query", "query": name, "iteration": iteration, "elapsed_ms": elapsed, "status": status, **more}


@given(times)
def test_the_median_lies_within_the_spread(seconds: list[float]) -> None:
    found = spread(seconds)
    assert found.low <= found.quartile_low <= found.median <= found.quartile_high <= found.high
    assert found.median == statistics.median(seconds)


def test_no_samples_have_no_median() -> None:
    with pytest.raises(ValueError, match="no samples"):
        spread([])


@few
@given(times, times)
def test_the_same_samples_always_give_the_same_interval(baseline: list[float], candidate: list[float]) -> None:
    assert ratio_interval(baseline, candidate) == ratio_interval(baseline, candidate)


@few
@given(times.filter(lambda seconds: len(seconds) > 2))
def test_an_arm_against_itself_is_inside_the_noise(seconds: list[float]) -> None:
    assert ratio("x", seconds, seconds).verdict == "inside the noise"


def test_a_clear_difference_is_called_so() -> None:
    assert ratio("x", [10.0, 10.1, 9.9], [5.0, 5.1, 4.9]).verdict == "faster"
    assert ratio("x", [5.0, 5.1, 4.9], [10.0, 10.1, 9.9]).verdict == "slower"


@pytest.mark.parametrize("samples", [1, 2])
def test_two_samples_say_nothing_about_noise(samples: int) -> None:
    assert ratio("x", [10.0] * samples, [5.0] * 9).verdict == "noise unknown"


def test_a_failed_repetition_is_never_averaged_in() -> None:
    seconds = query_seconds(run(query("q1", 1), query("q1", 99, iteration=2, status="failed")))
    assert seconds == {"q1": [1.0]}


def test_warm_up_is_not_counted() -> None:
    assert query_seconds(run(query("q1", 9, warmup=True), query("q1", 1))) == {"q1": [1.0]}


def test_totals_cover_the_same_queries_on_both_sides() -> None:
    baseline = run(query("q1", 2), query("q2", 50), query("q3", 4), arm="plain")
    candidate = run(query("q1", 1), query("q2", 1, status="failed"), query("q3", 2))
    found = compare_all((baseline, candidate))[0]
    assert found.total.baseline.median == 6
    assert found.total.candidate.median == 3
    assert found.only_in_one == ("q2",)


def test_a_round_that_lacks_a_query_has_no_total() -> None:
    before = run(query("q1", 1), query("q2", 1), query("q1", 50, iteration=2))
    after = run(query("q1", 2), query("q2", 2))
    total = compare_all((before, after))[0].total
    assert (total.baseline.median, total.baseline.count) == (2.0, 1)
    with pytest.raises(ValueError, match="no round"):
        compare_all((before, run(query("q1", 2), query("q2", 2, iteration=2))))[0]


def test_nothing_in_common_is_said_so() -> None:
    with pytest.raises(ValueError, match="in both"):
        compare_all((run(query("q1", 1)), run(query("q2", 1))))[0]


def test_queries_sort_as_people_count() -> None:
    assert sorted(["q14b", "q10", "ss_max", "q2", "q14a"], key=natural_key) == [
        "q2",
        "q10",
        "q14a",
        "q14b",
        "ss_max",
    ]
