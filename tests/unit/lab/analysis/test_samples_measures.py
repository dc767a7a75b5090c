"""Measures and comparisons of any workload use only successful work of counted repetitions."""

from __future__ import annotations

import math
import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.analysis.resources import core_seconds, core_seconds_per_gb, main_measure, roles
from penstock.lab.analysis.samples import (
    all_passed,
    answer_verdicts,
    gb_per_core_hour,
    measures_by_name,
    repetitions,
    validation_counts,
)
from penstock.lab.analysis.verdicts import compare_all
from penstock.lab.records import Run
from tests.unit.lab import lab_runs
from tests.unit.lab.lab_runs import GB, application, check, measure, repetition


def run(*samples: dict[str, Any], **described: Any) -> Run:
    return lab_runs.run("sorting", samples, **described)


def seconds_by_name(found: Run) -> dict[str, list[float]]:
    return {name: measure.seconds for name, measure in measures_by_name(found).items()}


def test_warm_up_and_failed_repetitions_are_counted_in_nothing() -> None:
    found = run(
        *repetition(0, [measure("sort", 9), application("sort", core_seconds=99)]),
        *repetition(1, [measure("sort", 1), application("sort", core_seconds=2)]),
        *repetition(2, [measure("sort", 7), application("sort", core_seconds=99)], error="an executor was lost"),
    )
    assert seconds_by_name(found) == {"sort": [1.0]}
    assert core_seconds(found) == 2
    assert repetitions(found).errors == {2: "an executor was lost"}


def test_a_repetition_that_goes_on_is_not_counted_beside_one_that_ended() -> None:
    found = run(*repetition(1, [measure("sort", 1)]), {**measure("sort", 9), "repetition": 2})
    assert seconds_by_name(found) == {"sort": [1.0]}


def test_preparing_the_data_is_no_part_of_the_work() -> None:
    found = run(measure("generate", 50), application("generate", core_seconds=80), *repetition(1, [measure("sort", 1)]))
    assert list(seconds_by_name(found)) == ["sort"]
    assert roles(found) == []


def test_a_wrong_result_is_wrong_in_a_warm_up_too() -> None:
    assert not all_passed(run(*repetition(0, [check("order", False)]), *repetition(1, [check("order")])))


def test_no_time_is_not_infinitely_fast() -> None:
    assert seconds_by_name(run(measure("list", 0))) == {"list": [0.001]}


def test_gb_per_core_and_hour_is_the_documents_formula() -> None:
    # 10 TB on 320 cores in 3051 s.
    assert gb_per_core_hour(10_000 * GB, 3051, 320) == pytest.approx(10_000 / 320 / 3051 * 3600)


def test_cost_per_gb_is_that_of_the_application_that_did_the_work() -> None:
    found = run(
        *repetition(
            1,
            [
                measure("sort", 10, bytes=2 * GB),
                measure("alone", 5, bytes=2 * GB, core_seconds=4.0),
                application("sort", core_seconds=30),
                application("validate", core_seconds=7),
            ],
        )
    )
    by_name = measures_by_name(found)
    assert core_seconds_per_gb(found, by_name["sort"]) == pytest.approx(15)
    assert core_seconds_per_gb(found, by_name["alone"]) == 2
    assert main_measure(found, list(by_name.values())) == by_name["sort"]


def test_one_application_of_unknown_cost_leaves_the_whole_unknown() -> None:
    found = run(*repetition(1, [application("a", core_seconds=3), application("b", core_seconds=None)]))
    assert core_seconds(found) is None


def test_equal_work_is_compared_in_seconds() -> None:
    arms = [lab_runs.terasort(seconds=seconds, repetitions=5) for seconds in (20, 10)]
    total = compare_all(arms)[0].total
    assert (total.name, total.unit, total.verdict) == ("total", "s", "faster")
    assert total.ratio == pytest.approx(0.5)


def test_twice_the_data_in_twice_the_time_is_no_difference() -> None:
    small = run(*(s for n in range(1, 6) for s in repetition(n, [measure("sort", 10 + n / 10, bytes=GB)])))
    large = run(*(s for n in range(1, 6) for s in repetition(n, [measure("sort", 20 + n / 5, bytes=2 * GB)])))
    total = compare_all((small, large))[0].total
    assert (total.unit, total.verdict) == ("s/GB", "no difference shown")
    assert total.ratio == pytest.approx(1)


def test_work_for_a_set_time_is_compared_by_what_it_did() -> None:
    before = run(
        measure("get", 30, basis="rate", bytes=3 * GB, operations=10), measure("list", 30, basis="rate", operations=100)
    )
    after = run(
        measure("get", 30, basis="rate", bytes=6 * GB, operations=10), measure("list", 30, basis="rate", operations=400)
    )
    found = compare_all((before, after))[0]
    assert {part.name: (part.unit, part.ratio) for part in found.parts} == {
        "get": ("s/GB", 0.5),
        "list": ("s/1000 operations", 0.25),
    }
    assert (found.total.name, found.total.unit) == ("geometric mean", "")
    assert found.total.ratio == pytest.approx(math.sqrt(0.5 * 0.25))


def test_work_at_the_same_time_is_not_added_up() -> None:
    at_once = [measure("sort", 10), measure("sort", 12), measure("sort", 11), measure("validate", 1)]
    total = compare_all((run(*repetition(1, at_once)), run(*repetition(1, at_once))))[0].total
    assert total.baseline.median == 12


def test_users_at_the_same_time_are_one_round() -> None:
    at_once = repetition(1, [measure("sort", seconds) for seconds in (10, 10.1, 10.2, 10.3, 10.4)])
    half = repetition(1, [measure("sort", seconds) for seconds in (5, 5.1, 5.2, 5.3, 5.4)])
    total = compare_all((run(*at_once), run(*half)))[0].total
    assert (total.rounds, total.verdict) == (1, "too few rounds for a verdict")


def test_answers_of_queries_are_checks_too() -> None:
    found = run(check("rows"), {"kind": "answer", "query": "q1", "verdict": "different"})
    assert (validation_counts(found).total, validation_counts(found).passed) == (2, 1)
    assert not all_passed(found)


def test_an_unchecked_answer_is_neither_right_nor_wrong() -> None:
    verdicts = ("equal", "unchecked", "different", "unchecked", "equal")
    found = run(*({"kind": "answer", "query": f"q{i // 2}", "verdict": verdict} for i, verdict in enumerate(verdicts)))
    assert answer_verdicts(found) == {"q0": "unchecked", "q1": "different", "q2": "equal"}
    assert (validation_counts(found).total, validation_counts(found).passed) == (3, 2)


def test_a_reference_and_single_users_are_in_no_total() -> None:
    def arm(seconds: float) -> Run:
        users = [measure("sort", seconds * 0.9, user=user) for user in (1, 2)]
        beside = measure("sort, one process", 50, reference=True)
        return run(*repetition(1, [*users, measure("2 sorts at once", seconds), beside]))

    found = compare_all((arm(10), arm(5)))[0]
    assert (found.total.name, found.total.ratio) == ("2 sorts at once", 0.5)
    assert [part.name for part in found.parts] == ["sort", "2 sorts at once", "sort, one process"]


def test_the_totals_of_many_arms_are_of_what_all_of_them_did_and_their_parts_of_what_each_pair_did() -> None:
    one, two, three = (
        run(*repetition(1, [measure(name, 1, bytes=size) for name in names]))
        for names, size in (("ab", GB), ("abc", GB), ("bc", 2 * GB))
    )
    first, second = compare_all([one, two, three])
    assert [[part.name for part in found.parts] for found in (first, second)] == [["a", "b"], ["b"]]
    assert {first.total.name, second.total.name} == {"b"}
    assert {first.total.unit, second.total.unit} == {"s/GB"}
    assert first.only_in_one == ("a", "c")


@given(st.lists(st.floats(0.1, 100), min_size=2, max_size=6), st.floats(1.5, 10))
def test_a_slower_arm_has_the_reciprocal_ratio_the_other_way_round(seconds: list[float], factor: float) -> None:
    def arm(by: float) -> Run:
        return run(*(s for n, value in enumerate(seconds, start=1) for s in repetition(n, [measure("x", value * by)])))

    there = compare_all((arm(1), arm(factor)))[0].total
    back = compare_all((arm(factor), arm(1)))[0].total
    assert there.ratio * back.ratio == pytest.approx(1, rel=1e-3)
    assert there.baseline.median == pytest.approx(statistics.median(seconds), abs=1e-3)


def test_the_number_of_clients_is_no_part_of_a_series() -> None:
    found = measures_by_name(lab_runs.dfsio(repetitions=1))
    assert {measure.series for measure in found.values()} == {"write", "read"}
    assert found["read, 1 client"].clients == 1
