"""Latency histograms against a sorted list."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.loadgen.statistics import RELATIVE_ERROR, Histogram, bucket_of, upper_bound

VALUES = st.lists(st.integers(0, 1 << 40), min_size=1, max_size=200)
PERCENTS = st.one_of(st.sampled_from([0, 50, 99, 99.9, 99.99, 100]), st.floats(0, 100))


def filled(values: list[int]) -> Histogram:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    return histogram


@given(VALUES, PERCENTS)
def test_a_percentile_is_that_of_the_sorted_values_to_better_than_one_percent(
    values: list[int], percent: float
) -> None:
    rank = max(1, math.ceil(round(percent * 1_000_000) * len(values) / 100_000_000))
    true = sorted(values)[rank - 1]
    assert true <= filled(values).percentile(percent) <= true + true * RELATIVE_ERROR


@given(VALUES, VALUES)
def test_two_merged_are_one_of_all_values(left: list[int], right: list[int]) -> None:
    merged = filled(left)
    merged.merge(filled(right))
    assert merged.pairs() == filled(left + right).pairs()
    assert len(merged) == len(left) + len(right)


@given(VALUES)
def test_what_is_recorded_can_be_read_back(values: list[int]) -> None:
    assert Histogram.of_pairs(filled(values).pairs()).pairs() == filled(values).pairs()


@given(st.integers(0, 1 << 50))
def test_a_value_is_in_its_bucket_and_in_none_before(value: int) -> None:
    bucket = bucket_of(value)
    assert value <= upper_bound(bucket)
    assert bucket == 0 or upper_bound(bucket - 1) < value


def test_the_9999th_of_ten_thousand_is_not_the_largest() -> None:
    assert filled([1] * 9999 + [200]).percentile(99.99) == 1
    assert filled([1] * 9999 + [200]).percentile(100) == 200


def test_nothing_has_no_percentile() -> None:
    with pytest.raises(ValueError, match="no values"):
        Histogram().percentile(50)
