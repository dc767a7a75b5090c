"""Throughput over time includes the seconds without work."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.analysis.latency import rate_series
from penstock.lab.records import Run
from tests.unit.lab import lab_runs


def point(second: int, amount: int, *, series: str = "write", **more: Any) -> dict[str, Any]:
    return {"kind": "point", "series": series, "second": second, "bytes": amount, "operations": 1, **more}


def run(*samples: dict[str, Any]) -> Run:
    return lab_runs.run("ingest", samples)


def test_a_second_without_work_is_a_second_of_zero() -> None:
    (line,) = rate_series(run(point(3, 10), point(6, 30)))
    assert (line.first, line.bytes) == (3, (10, 0, 0, 30))


def test_a_point_of_several_seconds_is_spread_over_them_and_nothing_of_it_is_lost() -> None:
    (line,) = rate_series(run(point(0, 9, seconds=3), point(3, 10, seconds=3)))
    assert line.bytes == (3, 3, 3, 3, 3, 4)
    assert sum(line.operations) == 2


def test_writers_of_one_series_are_added_up_and_repetitions_are_not() -> None:
    found = rate_series(run(point(0, 1), point(0, 2), point(0, 5, repetition=2)))
    assert [(line.repetition, line.bytes) for line in found] == [(1, (3,)), (2, (5,))]


def test_the_first_and_the_last_second_are_in_no_extreme() -> None:
    (line,) = rate_series(run(*(point(second, amount) for second, amount in enumerate((1, 50, 40, 60, 2)))))
    assert line.extremes is not None
    assert (line.extremes.slowest, line.extremes.median, line.extremes.fastest) == (40, 50, 60)
    (short,) = rate_series(run(point(0, 1), point(1, 1)))
    assert short.extremes is None


def test_what_moves_no_bytes_is_counted_in_operations() -> None:
    (line,) = rate_series(run(point(0, 0), point(0, 0), point(1, 0)))
    assert not line.moves_bytes
    assert line.amounts == (2, 1)


def test_a_failed_repetition_and_the_warm_up_are_in_no_line() -> None:
    samples = [
        *lab_runs.repetition(0, [point(0, 1)]),
        *lab_runs.repetition(1, [point(0, 2)]),
        *lab_runs.repetition(2, [point(0, 3)], error="the store went away"),
    ]
    assert [line.bytes for line in rate_series(run(*samples))] == [(2,)]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 10**9)), min_size=1))
def test_nothing_is_lost(points: list[tuple[int, int]]) -> None:
    (line,) = rate_series(run(*(point(second, amount) for second, amount in points)))
    assert sum(line.bytes) == sum(amount for _, amount in points)
    assert sum(line.operations) == len(points)
    assert len(line.bytes) == max(points)[0] - min(points)[0] + 1
