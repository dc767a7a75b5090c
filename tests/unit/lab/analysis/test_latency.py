"""Percentiles have the error of their histogram, and are left out where the samples are too few."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.analysis.latency import PERCENTILES, latencies, merge, percentiles
from penstock.lab.records import Run
from tests.unit.lab import lab_runs

times = st.lists(st.floats(1, 1e8), min_size=1, max_size=300)


def as_histogram(microseconds: list[float]) -> dict[float, int]:
    return {bound: int(count) for bound, count in lab_runs.histogram(microseconds)}


def sample(histogram: list[list[float]], *, name: str = "get", repetition: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "kind": "latency",
        "name": name,
        "phase": "total",
        "unit": "us",
        "histogram": histogram,
        "repetition": repetition,
        **more,
    }


def run(*samples: dict[str, Any]) -> Run:
    return lab_runs.run("objects", samples)


@given(times)
def test_the_sample_at_the_rank_lies_within_the_stated_bounds(microseconds: list[float]) -> None:
    ordered = sorted(microseconds)
    for found in percentiles(as_histogram(microseconds)):
        exact = ordered[max(1, math.ceil(found.percent / 100 * len(ordered) - 1e-9)) - 1] / 1e6
        assert found.above < exact * (1 + 1e-12)
        assert exact <= found.value * (1 + 1e-12)


@given(times)
def test_a_scale_that_states_its_error_narrows_the_bounds_and_still_holds_the_sample(microseconds: list[float]) -> None:
    growth = 1.05
    ordered = sorted(microseconds)
    for found in percentiles(as_histogram(microseconds), relative_error=1 - 1 / growth):
        exact = ordered[max(1, math.ceil(found.percent / 100 * len(ordered) - 1e-9)) - 1] / 1e6
        assert found.above <= exact * (1 + 1e-9)
        assert found.value / found.above <= growth * (1 + 1e-9)


@given(times)
def test_percentiles_never_fall(microseconds: list[float]) -> None:
    values = [found.value for found in percentiles(as_histogram(microseconds))]
    assert values == sorted(values)


@given(times, times)
def test_merged_histograms_are_the_histogram_of_all(one: list[float], other: list[float]) -> None:
    assert merge([as_histogram(one), as_histogram(other)]) == as_histogram([*one, *other])


@pytest.mark.parametrize(
    ("count", "known"),
    [
        (1, (50,)),
        (9, (50,)),
        (10, (50, 90)),
        (99, (50, 90, 95)),
        (9_999, PERCENTILES[:-1]),
        (10_000, PERCENTILES),
    ],
)
def test_a_percentile_that_would_only_be_the_maximum_is_left_out(count: int, known: tuple[float, ...]) -> None:
    every = {float(value): 1 for value in range(1, count + 1)}
    assert tuple(found.percent for found in percentiles(every)) == known


def test_no_samples_have_no_percentile() -> None:
    assert percentiles({10.0: 0}) == ()
    assert latencies(run(sample([[10, 0]]))) == []


def test_repetitions_are_merged_and_operations_are_not() -> None:
    found = latencies(
        run(
            sample([[1000, 5]]),
            sample([[1000, 4], [2000, 1]], repetition=2),
            sample([[9000, 1]], name="put"),
            sample([[99000, 1]], warmup=True, repetition=0),
        )
    )
    assert [(line.name, line.count, line.maximum) for line in found] == [("get", 10, 0.002), ("put", 1, 0.009)]
