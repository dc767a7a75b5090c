"""Measures are compared only where both sides have them; verdicts need rounds in turns and Student's t."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from penstock.lab.analysis.samples import (
    SECONDS,
    measured_in_turns,
    measures_by_name,
    natural_key,
    query_seconds,
)
from penstock.lab.analysis.verdicts import LEVEL, compare_all, holm, ratio, spread, student_p, student_quantile
from penstock.lab.records import Description, Run

times = st.lists(st.floats(0.01, 1000), min_size=1, max_size=8)


def run(*samples: dict[str, Any], arm: str = "penstock") -> Run:
    return Run(Description(id=arm, workload="tpcds", arm=arm, created_at="", command="", experiment="one"), samples)


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


def rounds(*costs: float) -> dict[int, float]:
    return dict(enumerate(costs, start=1))


@given(st.floats(-40, 40), st.integers(1, 40))
@example(5.5e-9, 1)
def test_student_s_p_value_is_scipy_s(t: float, degrees: int) -> None:
    # Beside zero, where the density is constant, scipy's tail is wrong by up to 1e-8: it adds the square of `t` to one.
    expected = 2 * stats.t.sf(abs(t), degrees) if abs(t) > 1e-6 else 1 - 2 * abs(t) * stats.t.pdf(0, degrees)
    assert student_p(t, degrees) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 40])
def test_student_s_quantile_is_scipy_s(degrees: int) -> None:
    assert student_quantile(degrees) == pytest.approx(stats.t.ppf((1 + LEVEL) / 2, degrees), rel=1e-9)


BEFORE, AFTER = rounds(10, 10.4, 9.8, 10.1, 9.9), rounds(9.1, 9.5, 9.0, 9.2, 8.8)


def test_a_ratio_is_that_of_the_paired_logarithms_as_scipy_tests_them() -> None:
    found = ratio("x", BEFORE, AFTER)
    logs = [math.log(AFTER[number] / BEFORE[number]) for number in BEFORE]
    tested = stats.ttest_1samp(logs, 0)
    ends = tested.confidence_interval(LEVEL)
    assert found.ratio == pytest.approx(statistics.geometric_mean(AFTER[n] / BEFORE[n] for n in BEFORE))
    assert found.p_value == pytest.approx(tested.pvalue)
    assert found.interval is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((math.exp(ends.low), math.exp(ends.high)))
    assert (found.rounds, found.verdict) == (5, "faster")


def test_drift_that_both_arms_share_is_no_noise() -> None:
    drift = (1.0, 1.5, 0.8, 2.0, 1.2)
    shared = [
        rounds(*(cost * factor for cost, factor in zip(side.values(), drift, strict=True))) for side in (BEFORE, AFTER)
    ]
    assert ratio("x", *shared).p_value == pytest.approx(ratio("x", BEFORE, AFTER).p_value)


@given(times)
def test_an_arm_against_itself_shows_no_difference(seconds: list[float]) -> None:
    assert ratio("x", rounds(*seconds), rounds(*seconds)).verdict in (
        "no difference shown",
        "too few rounds for a verdict",
    )


def test_a_clear_difference_is_called_so_in_both_directions() -> None:
    assert ratio("x", BEFORE, AFTER).verdict == "faster"
    assert ratio("x", AFTER, BEFORE).verdict == "slower"


def test_a_round_that_one_arm_lacks_is_in_no_pair() -> None:
    found = ratio("x", {**BEFORE, 6: 99.0}, {**AFTER, 7: 0.1})
    assert found.ratio == pytest.approx(ratio("x", BEFORE, AFTER).ratio)
    assert found.rounds == 5


@pytest.mark.parametrize(("count", "known"), [(1, False), (2, False), (3, True), (4, True)])
def test_too_few_rounds_have_figures_and_no_verdict(count: int, known: bool) -> None:
    found = ratio("x", rounds(*[10.0] * count), rounds(*[5.0] * 9))
    assert (found.ratio, found.rounds, found.interval is not None) == (pytest.approx(0.5), count, known)
    assert found.verdict == "too few rounds for a verdict"


def test_arms_that_were_not_measured_in_turns_have_figures_and_no_verdict() -> None:
    found = ratio("x", BEFORE, AFTER, in_turns=False)
    assert found.ratio == pytest.approx(ratio("x", BEFORE, AFTER).ratio)
    assert (found.interval, found.verdict) == (None, "not measured in turns: no verdict")


def test_runs_take_turns_in_one_experiment_only() -> None:
    one, other = (Run(Description(id=i, workload="", arm=i, created_at="", command="", experiment=i), ()) for i in "ab")
    assert measured_in_turns([one, one])
    assert not measured_in_turns([one, other])
    assert not measured_in_turns([Run(Description(id="c", workload="", arm="c", created_at="", command=""), ())] * 2)


def test_the_p_values_of_a_family_are_holm_s() -> None:
    found = [ratio(str(n), BEFORE, rounds(*(cost * n for cost in AFTER.values()))) for n in (0.9, 1.0, 1.1)]
    alone = [part.p_value or 0 for part in found]
    corrected = [part.p_value for part in holm(found)]
    first, second, third = sorted(range(3), key=alone.__getitem__)
    assert corrected[first] == pytest.approx(3 * alone[first])
    assert corrected[second] == pytest.approx(max(3 * alone[first], 2 * alone[second]))
    assert corrected[third] == pytest.approx(max(2 * alone[second], alone[third]))


def test_a_query_that_is_quiet_by_luck_is_no_surer_than_the_quiet_quarter_of_its_family() -> None:
    quiet = ratio("quiet", BEFORE, rounds(*(cost * 1.02 for cost in BEFORE.values())))
    others = [ratio(str(n), BEFORE, rounds(9.1, 11.2, 9.5, 10.9, 9.3)) for n in range(8)]
    assert (quiet.p_value, quiet.verdict) == (0, "slower")
    assert holm([*others, quiet])[-1].verdict == "no difference shown"


def test_too_few_rounds_are_no_part_of_a_family() -> None:
    family = [ratio("x", BEFORE, AFTER), *[ratio("y", {1: 1.0}, {1: 2.0})] * 100]
    assert holm(family)[0].p_value == ratio("x", BEFORE, AFTER).p_value


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


def test_iterations_of_one_application_are_one_cost() -> None:
    seconds = ((1.0, 1.2), (3.0, 3.4))
    found = run(
        *(
            query("q1", value, iteration=iteration, repetition=repetition)
            for repetition, values in enumerate(seconds, start=1)
            for iteration, value in enumerate(values, start=1)
        )
    )
    assert measures_by_name(found)["q1"].costs(SECONDS) == {1: pytest.approx(1.1), 2: pytest.approx(3.2)}


def test_more_iterations_are_no_more_evidence() -> None:
    def arm(seconds: Mapping[int, float], iterations: int) -> Run:
        each = [(number, iteration) for number in seconds for iteration in range(1, iterations + 1)]
        return run(*(query("q1", seconds[number], iteration=i, repetition=number) for number, i in each))

    totals = [compare_all((arm(BEFORE, count), arm(AFTER, count)))[0].total for count in (1, 30)]
    assert totals[0] == totals[1]


def test_a_round_that_lacks_a_query_has_no_total() -> None:
    before = run(*(query(name, 1, repetition=1) for name in ("q1", "q2")), query("q1", 50, repetition=2))
    after = run(query("q1", 2, repetition=1), query("q2", 2, repetition=1))
    total = compare_all((before, after))[0].total
    assert (total.baseline.median, total.baseline.count) == (2.0, 1)
    with pytest.raises(ValueError, match="no round"):
        compare_all((before, run(query("q1", 2, repetition=1), query("q2", 2, repetition=2))))[0]


def test_a_query_that_failed_in_one_arm_is_compared_in_the_others_and_is_in_no_total() -> None:
    good = [query("q1", 1), query("q2", 2)]
    broken = run(query("q1", 1), query("q2", 2, status="failed"), arm="broken")
    first, second = compare_all((run(*good, arm="plain"), broken, run(*good)))
    assert [[part.name for part in found.parts] for found in (first, second)] == [["q1"], ["q1", "q2"]]
    assert {first.total.baseline.median, second.total.baseline.median} == {1.0}
    assert first.only_in_one == second.only_in_one == ("q2",)


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
