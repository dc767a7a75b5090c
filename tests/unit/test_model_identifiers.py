"""Ids sort by time and differ."""

from __future__ import annotations

from datetime import datetime, timezone

from hypothesis import given
from hypothesis import strategies as st

from penstock.model import new_id

moments = st.datetimes(datetime(2026, 1, 1), datetime(2099, 1, 1), timezones=st.just(timezone.utc))


@given(moments, moments)
def test_ids_sort_as_their_times_to_a_tenth_of_a_second(one: datetime, other: datetime) -> None:
    if abs((one - other).total_seconds()) >= 0.2:
        assert (new_id(one) < new_id(other)) == (one < other)


def test_ids_of_one_moment_differ() -> None:
    now = datetime(2026, 11, 21, tzinfo=timezone.utc)
    assert len({new_id(now) for _ in range(200)}) == 200
